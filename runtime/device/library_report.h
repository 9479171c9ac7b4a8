// A library that a backend loads at run time, and what was found: for `python -m lamina doctor`.
#pragma once
#include <string>
#include <vector>

namespace lamina {

struct LibraryReport {
  std::string name;       // "cuBLASLt"
  std::string wanted;     // "libcublasLt.so.13"
  std::string found;      // its path; "" when it is missing
  std::string version;    // as it reports itself
  std::string why;        // if missing: what was tried, and the loader's message
  std::string fix;        // if missing: the command that installs it
  bool required = false;  // without it there is no GPU; the others only make it faster
};

}  // namespace lamina
