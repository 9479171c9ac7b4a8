// Shared by fake libraries: counting calls, failing on request, and collecting complaints.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "runtime/core/mutex.h"

namespace lamina::cuda {

struct FakeLibrary {
  Mutex mutex;
  std::map<std::string, int> fail;  // the call of this name fails with this status
  std::vector<std::string> calls;
  std::vector<std::string> complaints;  // calls that the real library would reject or misread

  int count(const std::string& name) const { return int(std::count(calls.begin(), calls.end(), name)); }
  int call(const char* name) {
    calls.push_back(name);
    const auto found = fail.find(name);
    return found == fail.end() ? 0 : found->second;
  }
  void expect(bool holds, const std::string& what) {
    if (!holds) complaints.push_back(what);
  }
};

}  // namespace lamina::cuda
