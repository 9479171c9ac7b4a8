// What a backend needs besides the code that is linked, and what it found of it: for `python -m lamina doctor`.
#pragma once
#include <string>
#include <vector>

namespace lamina {

struct LibraryReport {
  std::string name;       // "cuBLASLt"
  std::string wanted;     // "libcublasLt.so.13"
  std::string found;      // its path; "" when it is missing
  std::string version;    // as it says itself
  std::string why;        // when it is missing: what was tried, and what the loader said
  std::string fix;        // when it is missing: the command that brings it
  bool required = false;  // without it there is no GPU; the others make it faster
};

}  // namespace lamina
