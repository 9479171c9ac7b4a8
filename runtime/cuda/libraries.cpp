#include "runtime/cuda/libraries.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "runtime/core/error.h"
#include "runtime/core/settings.h"
#include "runtime/cuda/nccl.h"
#include "runtime/device/package_folders.h"

namespace lamina::cuda {
namespace {

namespace fs = std::filesystem;

#if CUDART_VERSION >= 13000
#define LAMINA_CUDA_MAJOR "13"
#elif CUDART_VERSION >= 12000
#define LAMINA_CUDA_MAJOR "12"
#else
#error "Lamina is built with CUDA 12 or later"
#endif

// Relative folders are left out: an empty variable, or a foreign working directory, must not choose whose code runs.
void add_if_there(std::vector<std::string>& to, const fs::path& folder) {
  if (!folder.is_absolute()) return;
  std::error_code ignored;
  if (fs::is_directory(folder, ignored) && std::find(to.begin(), to.end(), folder.string()) == to.end()) to.push_back(folder.string());
}

// The folders of NVIDIA's wheels below a site-packages: nvidia/*/lib.
void add_wheels(std::vector<std::string>& to, const fs::path& site_packages) {
  if (!site_packages.is_absolute()) return;
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(site_packages / "nvidia", ignored)) found.push_back(entry.path() / "lib");
  std::sort(found.begin(), found.end());
  for (const fs::path& folder : found) add_if_there(to, folder);
}

std::vector<std::string> folders() {
  std::vector<std::string> out;
  std::istringstream own(config::text(Setting::cuda_libraries));
  for (std::string folder; std::getline(own, folder, ':');) add_if_there(out, folder);
  for (const std::string& folder : package_folders()) add_wheels(out, folder);
  // In an installed wheel, liblamina.so lies in site-packages/lamina.
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&folders), &info) && info.dli_fname) {
    std::error_code ignored;
    add_wheels(out, fs::weakly_canonical(info.dli_fname, ignored).parent_path().parent_path());
  }
  if (const char* environment = std::getenv("VIRTUAL_ENV")) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(fs::path(environment) / "lib", ignored))
      add_wheels(out, entry.path() / "site-packages");
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = std::getenv(variable)) add_if_there(out, fs::path(root) / "lib64");
  add_if_there(out, "/usr/local/cuda/lib64");
  return out;
}

template <class F>
F* symbol(const Loader& loader, void* library, const char* name) {
  return reinterpret_cast<F*>(loader.symbol(library, name));
}
// 130100 as 13.1.0, by the divisors of the first two parts.
std::string dotted(size_t v, size_t major, size_t minor) { return cat(v / major, ".", v % major / minor, ".", v % minor); }

std::string driver_version(const Loader& loader, void* library) {
  int v = 0;
  auto* ask = symbol<int(int*)>(loader, library, "cuDriverGetVersion");
  return ask && ask(&v) == 0 ? cat("CUDA ", v / 1000, ".", v % 1000 / 10) : "";
}
std::string cublaslt_version(const Loader& loader, void* library) {
  auto* ask = symbol<size_t()>(loader, library, "cublasLtGetVersion");
  return ask ? dotted(ask(), 10000, 100) : "";
}
std::string cudnn_version(const Loader& loader, void* library) {
  auto* ask = symbol<size_t()>(loader, library, "cudnnGetVersion");
  return ask ? dotted(ask(), 10000, 100) : "";
}
std::string nccl_version(const Loader& loader, void* library) {
  int v = 0;
  auto* ask = symbol<int(int*)>(loader, library, "ncclGetVersion");
  if (!ask || ask(&v) != 0) return "";
  return nccl::version_text(v);
}

constexpr const char* kDriverFix = "install NVIDIA's driver; in a container, pass the GPUs on: docker run --gpus all";

}  // namespace

const LibraryName& cublaslt_name() {
  static const LibraryName name{"cuBLASLt",      "libcublasLt.so." LAMINA_CUDA_MAJOR, "nvidia-cublas", "", false, "cublasLtGetVersion",
                                cublaslt_version};
  return name;
}
const LibraryName& cudnn_name() {
  static const LibraryName name{"cuDNN", "libcudnn.so.9", "nvidia-cudnn-cu" LAMINA_CUDA_MAJOR, "", false, "cudnnGetVersion", cudnn_version};
  return name;
}
const LibraryName& nccl_name() {
  static const LibraryName name{"NCCL", "libnccl.so.2", "nvidia-nccl-cu" LAMINA_CUDA_MAJOR, "", false, "ncclGetVersion", nccl_version};
  return name;
}
const std::vector<LibraryName>& library_names() {
  static const std::vector<LibraryName> names{{"NVIDIA driver", "libcuda.so.1", "", kDriverFix, true, "cuDriverGetVersion", driver_version},
                                              cublaslt_name(),
                                              cudnn_name(),
                                              nccl_name()};
  return names;
}

const Loader& system_loader() {
  static const Loader loader{.open = [](const std::string& path) { return dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL); },
                             .symbol = [](void* library, const char* name) { return dlsym(library, name); },
                             .error =
                                 [] {
                                   const char* text = dlerror();
                                   return std::string(text ? text : "it does not load");
                                 },
                             .folders = folders};
  return loader;
}

OpenLibrary open_library(const LibraryName& library, const Loader& loader) {
  OpenLibrary out;
  std::vector<std::string> paths{library.file};
  for (const std::string& folder : loader.folders()) paths.push_back(folder + "/" + library.file);
  for (const std::string& path : paths) {
    out.handle = loader.open(path);
    if (out.handle) {
      out.path = path;
      Dl_info info{};  // a bare name was found by the system, which knows where
      if (void* known = loader.symbol(out.handle, library.symbol); known && dladdr(known, &info) && info.dli_fname)
        out.path = info.dli_fname;
      out.tried.clear();
      return out;
    }
    const std::string said = loader.error();
    out.tried += cat(out.tried.empty() ? "" : "; ", said.find(path) == std::string::npos ? path + ": " : "", said);
  }
  return out;
}

std::string fix_for(const LibraryName& library) { return *library.fix ? library.fix : cat("pip install ", library.package); }

std::vector<LibraryReport> library_reports(const Loader& loader) {
  std::vector<LibraryReport> out;
  for (const LibraryName& library : library_names()) {
    LibraryReport report{.name = library.name, .wanted = library.file, .required = library.required};
    const OpenLibrary open = open_library(library, loader);
    if (open.handle) {
      report.found = open.path;
      report.version = library.version(loader, open.handle);
    } else {
      report.why = open.tried;
      report.fix = fix_for(library);
    }
    out.push_back(std::move(report));
  }
  return out;
}

void* require_library(const LibraryName& library, const Loader& loader) {
  const OpenLibrary open = open_library(library, loader);
  if (open.handle) return open.handle;
  throw Error(ErrorKind::device, {.what = cat("cuda: ", library.name, " is missing"),
                                  .where = library.file,
                                  .why = cat("tried ", open.tried),
                                  .fix = cat(fix_for(library), ", or name its folder in LAMINA_CUDA_LIBRARIES")});
}

void* require_symbol(const LibraryName& library, const Loader& loader, void* handle, const char* name) {
  if (void* found = loader.symbol(handle, name)) return found;
  throw Error(ErrorKind::device, {.what = cat("cuda: ", library.name, " has no function ", name),
                                  .where = library.file,
                                  .why = "it is too old, or is something else of that name",
                                  .fix = fix_for(library)});
}

}  // namespace lamina::cuda
