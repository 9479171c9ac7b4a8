// NVIDIA's libraries, none of which is linked: each is looked for and opened when something first needs it, and stays open.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/device/library_report.h"

namespace lamina::cuda {

// dlopen and its like; a test has its own.
struct Loader {
  std::function<void*(const std::string& path)> open;
  std::function<void*(void* library, const char* name)> symbol;
  std::function<std::string()> error;                 // why the last one failed
  std::function<std::vector<std::string>()> folders;  // looked into after the system's own places
};
const Loader& system_loader();

struct LibraryName {
  const char* name;     // "cuBLASLt"
  const char* file;     // "libcublasLt.so.13"
  const char* package;  // what pip brings it with; "" where pip does not
  const char* fix;      // "" for pip install package
  bool required;
  const char* symbol;                                           // a function that it surely has
  std::string (*version)(const Loader& loader, void* library);  // as it says itself
};
const LibraryName& cublaslt_name();
const LibraryName& cudnn_name();
const LibraryName& nccl_name();
const std::vector<LibraryName>& library_names();  // those and the driver

struct OpenLibrary {
  void* handle = nullptr;
  std::string path;
  std::string tried;  // every path and what the loader said, when there is none
};
// Looks in the system's own places, then in the loader's folders.
OpenLibrary open_library(const LibraryName& library, const Loader& loader);
std::string fix_for(const LibraryName& library);
std::vector<LibraryReport> library_reports(const Loader& loader);

// Fills a table of functions: Error device that lists what was tried when the library is missing, or which function it lacks.
void* require_library(const LibraryName& library, const Loader& loader);
void* require_symbol(const LibraryName& library, const Loader& loader, void* handle, const char* symbol);
template <class F>
void require_symbol(const LibraryName& library, const Loader& loader, void* handle, const char* symbol, F*& function) {
  function = reinterpret_cast<F*>(require_symbol(library, loader, handle, symbol));
}

}  // namespace lamina::cuda
