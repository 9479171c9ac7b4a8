// Shared by fake libraries: counting calls, failing on request, collecting complaints, and reading and writing elements.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "runtime/core/half.h"
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

  // Elements of the types that cuBLASLt and cuDNN give the same numbers: 0 float32, 1 float64, 2 float16. Others are bfloat16.
  static double read(int type, const void* data, int64_t i) {
    switch (type) {
      case 0: return static_cast<const float*>(data)[i];
      case 1: return static_cast<const double*>(data)[i];
      case 2: return float(static_cast<const f16*>(data)[i]);
      default: return float(static_cast<const bf16*>(data)[i]);
    }
  }
  static void write(int type, void* data, int64_t i, double v) {
    switch (type) {
      case 0: static_cast<float*>(data)[i] = float(v); break;
      case 1: static_cast<double*>(data)[i] = v; break;
      case 2: static_cast<f16*>(data)[i] = f16(float(v)); break;
      default: static_cast<bf16*>(data)[i] = bf16(float(v)); break;
    }
  }
};

}  // namespace lamina::cuda
