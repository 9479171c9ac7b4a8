// NVIDIA's libraries. None is linked: each is opened on first use and stays open.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/device/library_report.h"

namespace lamina::cuda {

// dlopen and related functions; tests replace them.
struct Loader {
  std::function<void*(const std::string& path)> open;
  std::function<void*(void* library, const char* name)> symbol;
  std::function<std::string()> error;                 // why the last call failed
  std::function<std::vector<std::string>()> folders;  // searched after the system's own paths
};
const Loader& system_loader();

struct LibraryName {
  const char* name;     // "cuBLASLt"
  const char* file;     // "libcublasLt.so.13"
  const char* package;  // the pip package; "" if there is none
  const char* fix;      // "": pip install package
  bool required;
  const char* symbol;                                           // a function that the library must have
  std::string (*version)(const Loader& loader, void* library);  // the version that it reports
};
const LibraryName& cublaslt_name();
const LibraryName& cudnn_name();
const LibraryName& nccl_name();
const std::vector<LibraryName>& library_names();  // these and the driver

struct OpenLibrary {
  void* handle = nullptr;
  std::string path;
  std::string tried;  // if not found: every path and the loader's message
};
// Searches the system's own paths, then the loader's folders.
OpenLibrary open_library(const LibraryName& library, const Loader& loader);
std::string fix_for(const LibraryName& library);
std::vector<LibraryReport> library_reports(const Loader& loader);

// Opens the library and fills a table of functions. Throws device with the paths tried if it is missing, or with the function that it
// lacks.
void* require_library(const LibraryName& library, const Loader& loader);
void* require_symbol(const LibraryName& library, const Loader& loader, void* handle, const char* symbol);
template <class F>
void require_symbol(const LibraryName& library, const Loader& loader, void* handle, const char* symbol, F*& function) {
  function = reinterpret_cast<F*>(require_symbol(library, loader, handle, symbol));
}

}  // namespace lamina::cuda
