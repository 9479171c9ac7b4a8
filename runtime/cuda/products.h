// Large matrix products by cuBLASLt.
//
// cuBLASLt's matrices are column-major, ours row-major. A row-major matrix is its own transpose in column-major order, so c = a b is
// computed as c^T = b^T a^T: our b is its first operand, and our columns are its rows. A bias per column of ours is one per row of its
// result, which its epilogue adds.
//
// Floats and halves are summed in float, doubles in double. The order of sums is the library's; it is the same for the same shapes, types,
// alignment, card and version. The caller's precision may allow rounding float operands to tf32 or bf16: the library documents that it may
// do so, and that for bf16 it may use tf32. It has no 3xtf32; float32 is used instead.
#pragma once
#include <compare>
#include <functional>
#include <string>

#include "runtime/core/precision.h"
#include "runtime/core/view.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/library_use.h"
#include "runtime/device/backend.h"

namespace lamina::cuda {

// Products with fewer multiply-adds than LAMINA_CUBLASLT (library_use.h) are left to our own kernel.

// The epilogue of a product. relu: max(x, 0); NaN handling is not documented. bias_gradient: writes the sums of b's columns along the
// product's depth to the bias pointer; for dw = x^T dz these are the bias's gradient.
enum class Epilogue : uint8_t { none, relu, bias_gradient };

class Products {
 public:
  // load: called once, at the first product that is large enough.
  Products(std::function<CublasLtApi()> load, double least);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // c = epilogue(op(a) op(b) + bias) on the stream, whose device must be current. Matrices are the last two axes of a, b and c; op
  // transposes; leading axes broadcast. A bias has c's columns as its last axis; bias_gradient allows no leading axes. c is contiguous.
  // f16, bf16, f32, f64; precision applies to f32. Returns false, with nothing done, when our own kernel should run: the product is small,
  // the strides are unsupported, or the library is missing or has no algorithm. Throws device with call, instruction and shapes when a call
  // fails.
  bool multiply(Stream& stream, const View& a, const View& b, const View& c, bool transpose_a, bool transpose_b, const View* bias = nullptr,
                Epilogue epilogue = Epilogue::none, Precision precision = Precision::float32);

  std::string why_missing() { return api_.why_missing(); }  // "" if the library is there or was never needed
  size_t plan_count();                                      // of all devices; at most kMostPlans each

 private:
  struct Problem;
  struct Key;
  struct Plan;
  struct Gpu;
  void make(const CublasLtApi& api, Gpu& gpu, const Problem& problem, Plan& plan);
  void run(const CublasLtApi& api, Gpu& gpu, Stream& stream, const Problem& problem, Plan& plan);

  LazyApi<CublasLtApi> api_;
  const double least_;
  PerDevice<Gpu> gpus_;
};

}  // namespace lamina::cuda
