// A CublasLtApi controlled by a test. It checks handles, attribute sizes, leading dimensions, batch strides and alignments, and computes
// the product on the host from the descriptors alone. It counts objects created and destroyed, and fails on request.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/core/error.h"
#include "runtime/cuda/cublaslt.h"
#include "tests/cuda/fake_library.h"

namespace lamina::cuda {

struct FakeCublasLt : FakeLibrary {
  struct Operation {
    int compute = 0, scale = 0;
    int32_t transpose[2] = {0, 0};
    uint32_t epilogue = 1;
    const char* bias = nullptr;
    int64_t bias_stride = 0;
  };
  struct Layout {
    int type = 0;
    uint64_t rows = 0, columns = 0;
    int64_t leading = 0, stride = 0;
    int32_t batches = 1;
    auto operator<=>(const Layout&) const = default;
  };
  struct Preference {
    uint64_t workspace = 0;
    uint32_t reductions = 7, alignment[4] = {256, 256, 256, 256};
  };
  // The problem that an algorithm was chosen for.
  struct Chosen {
    Layout a, b, c, d;
    Preference preference;
    uintptr_t bias_alignment = 0;
    size_t workspace = 0;
  };

  size_t workspace = 0;  // requested by the heuristic
  int algorithms = 1;    // found by the heuristic
  int products = 0;
  int64_t handles = 0;
  std::set<void*> live;  // handles of the library
  std::map<void*, Operation> operations;
  std::map<void*, Layout> layouts;
  std::map<void*, Preference> preferences;
  std::vector<Chosen> chosen;
  std::vector<int> computes;  // of each product
  std::vector<void*> streams;

  static FakeCublasLt& now() {
    static auto* fake = new FakeCublasLt;
    return *fake;
  }
  void reset() {
    fail.clear(), calls.clear(), complaints.clear(), chosen.clear(), computes.clear(), streams.clear();
    live.clear(), operations.clear(), layouts.clear(), preferences.clear();
    workspace = 0, algorithms = 1, products = 0;
  }
  size_t alive() const { return live.size() + operations.size() + layouts.size() + preferences.size(); }
  void* next() { return reinterpret_cast<void*>(0x1000 + 16 * ++handles); }

  template <class T>
  static int create(const char* name, std::map<void*, T> FakeCublasLt::* kind, void** out, T made) {
    FakeCublasLt& f = now();
    std::lock_guard lock(f.mutex);
    if (const int status = f.call(name)) return status;
    *out = f.next();
    (f.*kind)[*out] = made;
    return 0;
  }
  template <class T>
  static int destroy(const char* name, std::map<void*, T> FakeCublasLt::* kind, void* handle) {
    FakeCublasLt& f = now();
    std::lock_guard lock(f.mutex);
    f.calls.push_back(name);
    f.expect((f.*kind).erase(handle) == 1, cat(name, " of what is not there"));
    return 0;
  }
  // Sets the field of an attribute after checking its size.
  template <class F>
  static void put(FakeCublasLt& f, const char* name, int attribute, F& field, const void* value, size_t bytes) {
    f.expect(bytes == sizeof(F), cat(name, " ", attribute, " with ", bytes, " bytes instead of ", sizeof(F)));
    std::memcpy(&field, value, std::min(bytes, sizeof(F)));
  }

  static int set_operation(void* handle, int attribute, const void* value, size_t bytes) {
    FakeCublasLt& f = now();
    std::lock_guard lock(f.mutex);
    const char* name = "cublasLtMatmulDescSetAttribute";
    if (const int status = f.call(name)) return status;
    const auto found = f.operations.find(handle);
    if (found == f.operations.end()) return f.expect(false, cat(name, " of what is not there")), 7;
    Operation& o = found->second;
    switch (attribute) {
      case 3: put(f, name, attribute, o.transpose[0], value, bytes); break;
      case 4: put(f, name, attribute, o.transpose[1], value, bytes); break;
      case 7: put(f, name, attribute, o.epilogue, value, bytes); break;
      case 8: put(f, name, attribute, o.bias, value, bytes); break;
      case 10: put(f, name, attribute, o.bias_stride, value, bytes); break;
      default: f.expect(false, cat(name, " ", attribute));
    }
    return 0;
  }
  static int set_layout(void* handle, int attribute, const void* value, size_t bytes) {
    FakeCublasLt& f = now();
    std::lock_guard lock(f.mutex);
    const char* name = "cublasLtMatrixLayoutSetAttribute";
    if (const int status = f.call(name)) return status;
    const auto found = f.layouts.find(handle);
    if (found == f.layouts.end()) return f.expect(false, cat(name, " of what is not there")), 7;
    switch (attribute) {
      case 5: put(f, name, attribute, found->second.batches, value, bytes); break;
      case 6: put(f, name, attribute, found->second.stride, value, bytes); break;
      default: f.expect(false, cat(name, " ", attribute));
    }
    return 0;
  }
  static int set_preference(void* handle, int attribute, const void* value, size_t bytes) {
    FakeCublasLt& f = now();
    std::lock_guard lock(f.mutex);
    const char* name = "cublasLtMatmulPreferenceSetAttribute";
    if (const int status = f.call(name)) return status;
    const auto found = f.preferences.find(handle);
    if (found == f.preferences.end()) return f.expect(false, cat(name, " of what is not there")), 7;
    Preference& p = found->second;
    switch (attribute) {
      case 1: put(f, name, attribute, p.workspace, value, bytes); break;
      case 3: put(f, name, attribute, p.reductions, value, bytes); break;
      case 5:
      case 6:
      case 7:
      case 8: put(f, name, attribute, p.alignment[attribute - 5], value, bytes); break;
      default: f.expect(false, cat(name, " ", attribute));
    }
    return 0;
  }

  // Checks that descriptors fit together, for the heuristic and the product.
  void check(const Operation& o, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
    const bool rounds = o.compute == 75 || o.compute == 77;  // operands to bf16 or tf32
    expect(((o.compute == 68 || rounds) && o.scale == 0) || (o.compute == 70 && o.scale == 1), "a compute type that is not meant");
    expect(!rounds || d.type == 0, "operands that are no floats are to be rounded");
    expect(a.type == d.type && b.type == d.type && c.type == d.type, "types differ");
    expect(o.compute == 70 ? d.type == 1 : d.type == 0 || d.type == 2 || d.type == 14,
           "the element type does not go with the compute type");
    expect(c == d, "c and d are one matrix in memory and differ in their layouts");
    expect(o.epilogue == 1 || o.epilogue == 2 || o.epilogue == 4 || o.epilogue == 6 || (o.epilogue == 256 && d.batches == 1),
           cat("epilogue ", o.epilogue));
    expect(o.transpose[0] == 0 || o.transpose[0] == 1, "transposition of the first operand");
    expect(o.transpose[1] == 0 || o.transpose[1] == 1, "transposition of the second operand");
    for (const Layout* l : {&a, &b, &c, &d}) {
      expect(l->rows > 0 && l->columns > 0 && l->leading >= int64_t(l->rows),
             cat("a leading dimension of ", l->leading, " for ", l->rows, " rows"));
      expect(l->batches == d.batches, "batch counts differ");
    }
    expect(d.batches == 1 || d.stride >= d.leading * int64_t(d.columns), "batches of the result overlap");
    const bool ta = o.transpose[0] == 1, tb = o.transpose[1] == 1;
    expect((ta ? a.columns : a.rows) == d.rows, "rows of the first operand");
    expect((tb ? b.rows : b.columns) == d.columns, "columns of the second operand");
    expect((ta ? a.rows : a.columns) == (tb ? b.columns : b.rows), "inner dimensions differ");
    if (o.epilogue & (4 | 256)) expect(o.bias != nullptr, "no bias");
  }
  static uintptr_t alignment(const void* p) { return std::min<uintptr_t>(256, uintptr_t(p) & (~uintptr_t(p) + 1)); }

  static int heuristic(void* handle, void* operation, void* a, void* b, void* c, void* d, void* preference, int wanted,
                       cublaslt::Heuristic* results, int* found) {
    FakeCublasLt& f = now();
    std::lock_guard lock(f.mutex);
    if (const int status = f.call("cublasLtMatmulAlgoGetHeuristic")) return status;
    f.expect(f.live.count(handle) == 1, "no handle");
    f.expect(f.operations.count(operation) && f.preferences.count(preference), "no descriptor");
    for (void* l : {a, b, c, d}) f.expect(f.layouts.count(l) == 1, "no layout");
    if (!f.complaints.empty()) return 7;
    f.check(f.operations[operation], f.layouts[a], f.layouts[b], f.layouts[c], f.layouts[d]);
    const Preference& p = f.preferences[preference];
    f.expect(p.reductions == ((f.layouts[d].type == 2 || f.layouts[d].type == 14) ? 2u : 7u), "parts of sums may be rounded to halves");
    f.expect(wanted == 1, "more than one result asked for");
    *found = std::min(wanted, f.algorithms);
    if (*found == 0) return 0;
    f.chosen.push_back({f.layouts[a], f.layouts[b], f.layouts[c], f.layouts[d], p, alignment(f.operations[operation].bias), f.workspace});
    f.expect(f.workspace <= p.workspace, "the test asks for more workspace than is allowed");
    *results = {};
    results[0].algorithm.data[0] = f.chosen.size();
    results[0].workspace_bytes = f.workspace;
    return 0;
  }

  // Rounded as the compute type allows: to 8 or 11 significant bits.
  static double operand(int compute, double v) {
    if (compute == 75) return float(bf16(float(v)));
    if (compute != 77) return v;
    int exponent = 0;
    const double fraction = std::frexp(v, &exponent);
    return std::ldexp(std::round(std::ldexp(fraction, 11)), exponent - 11);
  }

  static int matmul(void* handle, void* operation, const void* alpha, const void* a, void* layout_a, const void* b, void* layout_b,
                    const void* beta, const void* c, void* layout_c, void* d, void* layout_d, const cublaslt::Algorithm* algorithm,
                    void* workspace, size_t workspace_bytes, void* stream) {
    FakeCublasLt& f = now();
    std::lock_guard lock(f.mutex);
    if (const int status = f.call("cublasLtMatmul")) return status;
    f.streams.push_back(stream);
    f.computes.push_back(f.operations[operation].compute);
    f.expect(f.live.count(handle) && f.operations.count(operation), "no handle or descriptor");
    for (void* l : {layout_a, layout_b, layout_c, layout_d}) f.expect(f.layouts.count(l) == 1, "no layout");
    f.expect(algorithm && algorithm->data[0] >= 1 && algorithm->data[0] <= f.chosen.size(), "no algorithm");
    if (!f.complaints.empty()) return 7;
    const Operation& o = f.operations[operation];
    const Layout &la = f.layouts[layout_a], &lb = f.layouts[layout_b], &lc = f.layouts[layout_c], &ld = f.layouts[layout_d];
    const Chosen& chosen = f.chosen[algorithm->data[0] - 1];
    f.check(o, la, lb, lc, ld);
    f.expect(chosen.a == la && chosen.b == lb && chosen.c == lc && chosen.d == ld, "the algorithm was chosen for other layouts");
    f.expect(uintptr_t(a) % chosen.preference.alignment[0] == 0, "the first operand is less aligned than was promised");
    f.expect(uintptr_t(b) % chosen.preference.alignment[1] == 0, "the second operand is less aligned than was promised");
    f.expect(uintptr_t(c) % chosen.preference.alignment[2] == 0 && uintptr_t(d) % chosen.preference.alignment[3] == 0,
             "the result is less aligned than was promised");
    if (o.epilogue & (4 | 256))
      f.expect(uintptr_t(o.bias) % chosen.bias_alignment == 0 && uintptr_t(o.bias) >= 0x1000,
               "the bias is not there, or less aligned than was promised");
    f.expect(workspace_bytes >= chosen.workspace && (workspace || !workspace_bytes), "too little workspace");
    const bool wide = o.scale == 1;
    f.expect((wide ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha)) == 1, "alpha is not 1");
    f.expect((wide ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta)) == 0, "beta is not 0");
    if (!f.complaints.empty()) return 7;

    // Column-major: element (row, column) is at row + column * leading.
    const uint64_t m = ld.rows, n = ld.columns, k = o.transpose[0] ? la.rows : la.columns;
    for (int64_t batch = 0; batch < ld.batches; ++batch)
      for (uint64_t j = 0; j < n; ++j)
        for (uint64_t i = 0; i < m; ++i) {
          double sum = 0, of_first = 0;
          for (uint64_t l = 0; l < k; ++l) {
            const int64_t at = batch * la.stride + int64_t(o.transpose[0] ? l + i * uint64_t(la.leading) : i + l * uint64_t(la.leading));
            const int64_t bt = batch * lb.stride + int64_t(o.transpose[1] ? j + l * uint64_t(lb.leading) : l + j * uint64_t(lb.leading));
            sum += operand(o.compute, read(la.type, a, at)) * operand(o.compute, read(lb.type, b, bt));
            of_first += read(la.type, a, at);
          }
          if (o.epilogue == 256 && j == 0) write(ld.type, const_cast<char*>(o.bias), int64_t(i), of_first);
          if (o.epilogue & 4) sum += read(ld.type, o.bias, batch * o.bias_stride + int64_t(i));
          if (o.epilogue & 2) sum = std::max(sum, 0.0);
          write(ld.type, d, batch * ld.stride + int64_t(i + j * uint64_t(ld.leading)), sum);
        }
    ++f.products;
    return 0;
  }
};

inline CublasLtApi fake_cublaslt() {
  using F = FakeCublasLt;
  return {
      .create =
          [](void** handle) {
            std::lock_guard lock(F::now().mutex);
            if (const int status = F::now().call("cublasLtCreate")) return status;
            F::now().live.insert(*handle = F::now().next());
            return 0;
          },
      .destroy =
          [](void* handle) {
            std::lock_guard lock(F::now().mutex);
            F::now().expect(F::now().live.erase(handle) == 1, "cublasLtDestroy of what is not there");
            return 0;
          },
      .operation_create =
          [](void** out, int compute, int scale) {
            return F::create("cublasLtMatmulDescCreate", &F::operations, out, F::Operation{compute, scale});
          },
      .operation_destroy = [](void* h) { return F::destroy("cublasLtMatmulDescDestroy", &F::operations, h); },
      .operation_set = F::set_operation,
      .layout_create =
          [](void** out, int type, uint64_t rows, uint64_t columns, int64_t leading) {
            return F::create("cublasLtMatrixLayoutCreate", &F::layouts, out, F::Layout{type, rows, columns, leading});
          },
      .layout_destroy = [](void* h) { return F::destroy("cublasLtMatrixLayoutDestroy", &F::layouts, h); },
      .layout_set = F::set_layout,
      .preference_create = [](void** out) { return F::create("cublasLtMatmulPreferenceCreate", &F::preferences, out, F::Preference{}); },
      .preference_destroy = [](void* h) { return F::destroy("cublasLtMatmulPreferenceDestroy", &F::preferences, h); },
      .preference_set = F::set_preference,
      .heuristic = F::heuristic,
      .matmul = F::matmul,
      .status_name = [](int status) { return status == 14 ? "CUBLAS_STATUS_INTERNAL_ERROR" : "CUBLAS_STATUS_OTHER"; },
  };
}

}  // namespace lamina::cuda
