// What the fuzz targets share; each includes it once. An input ends well with or without an Error. Anything else is a finding, and ends the
// process.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include "runtime/core/config.h"
#include "runtime/core/error.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  lamina::config::set_threads(1);
  return 0;
}
// Without what takes a third of the time: fake stacks, and long traces of where memory was allocated.
extern "C" const char* __asan_default_options() { return "detect_stack_use_after_return=0:malloc_context_size=6:quarantine_size_mb=32"; }

namespace lamina::fuzz {

// Says why and aborts, so that libFuzzer keeps the input.
[[noreturn]] inline void finding(const std::string& why) {
  std::fprintf(stderr, "finding: %s\n", why.c_str());
  std::abort();
}

// Whether f ended without an Error. An internal one is a finding.
template <class F>
bool succeeds(F&& f) {
  try {
    f();
    return true;
  } catch (const Error& error) {
    if (error.kind == ErrorKind::internal) finding(error.what());
    return false;
  }
}

// A path in a folder that is removed at the end.
inline std::string scratch(const std::string& name) {
  static const struct Folder {
    std::string path;
    Folder() {
      std::string pattern = std::filesystem::temp_directory_path() / "lamina-fuzz-XXXXXX";
      path = mkdtemp(pattern.data());
    }
    ~Folder() { std::filesystem::remove_all(path); }
  } folder;
  return folder.path + "/" + name;
}
inline void write(const std::string& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }
inline std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// At its end the process prints how often this was called with each text.
inline void count(const char* what) {
  static struct Counts {
    std::map<std::string, long long> of;
    ~Counts() {
      for (const auto& [name, n] : of) std::fprintf(stderr, "%s: %lld\n", name.c_str(), n);
    }
  } counts;
  ++counts.of[what];
}

}  // namespace lamina::fuzz
