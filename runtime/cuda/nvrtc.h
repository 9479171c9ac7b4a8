// Compiling CUDA source while the program runs, with no driver needed. What was compiled once is kept on disk, by a hash of the source, the
// architecture and the compiler's version; the source lies beside it.
#pragma once
#include <string>
#include <vector>

#include "runtime/cuda/libraries.h"

namespace lamina::cuda {

// The functions of NVRTC that Lamina calls; results are nvrtcResult, of which 0 is success.
struct NvrtcApi {
  int (*version)(int* major, int* minor);
  int (*create)(void** program, const char* source, const char* name, int headers, const char* const* header_sources,
                const char* const* header_names);
  int (*destroy)(void** program);
  int (*compile)(void* program, int options, const char* const* option_texts);
  int (*log_size)(void* program, size_t* bytes);
  int (*log)(void* program, char* text);
  int (*cubin_size)(void* program, size_t* bytes);
  int (*cubin)(void* program, char* code);
  const char* (*error_text)(int result);
};
// Opens the library on the first call. Throws device, with every path that was tried, when it is missing.
const NvrtcApi& nvrtc_api();
NvrtcApi load_nvrtc(const Loader& loader);

struct Header {
  std::string name, text;
};
struct Source {
  std::string name;  // of the kernel, which is extern "C"
  std::string text;
  std::vector<Header> headers;  // what the text includes
};

// Machine code for compute capability `architecture` (90 for sm_90), with the line numbers of `file`, for profilers ("": the name and
// ".cu"). Throws device with the compiler's log.
std::string compile_cubin(const NvrtcApi& api, const Source& source, int architecture, const std::string& file = "");

// The same through the cache in `folder`, whose copy of the source the line numbers are of; an unreadable or damaged entry is made anew,
// and a folder that cannot be written is done without.
std::string cached_cubin(const NvrtcApi& api, const Source& source, int architecture, const std::string& folder);
// LAMINA_CACHE, else lamina in XDG_CACHE_HOME or ~/.cache; "" when there is no such place.
std::string cache_folder();

}  // namespace lamina::cuda
