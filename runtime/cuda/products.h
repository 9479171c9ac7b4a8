// Large matrix products by cuBLASLt.
//
// Its matrices lie by columns, ours by rows. A matrix by rows is its own transpose by columns, so c = a b is asked for as c^T = b^T a^T:
// our b is its first operand and our rows are its columns. A bias, one number for each of our columns, is then one for each of its rows,
// which is what its epilogue adds.
//
// Sums: floats and halves are summed in float, doubles in double; the order is the library's, and the same for the same shapes, types,
// alignment, card and version. Operands of type float are rounded to tf32 or bf16 where the caller's precision says so: the library's
// documentation says that it may do it, and for bf16 that it may take tf32. It has no 3xtf32: that is float32 here.
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

// Products of fewer multiply-adds than LAMINA_CUBLASLT says (library_use.h) are left to our own kernel.

// What follows the product. relu is max(x, 0); what the library makes of NaN there is not documented. bias_gradient: the sums of b's
// columns, along the product's depth, are written to where a bias would be read: of dw = x^T dz they are the bias's gradient.
enum class Epilogue : uint8_t { none, relu, bias_gradient };

class Products {
 public:
  // load: called once, by the first product that is large enough.
  Products(std::function<CublasLtApi()> load, double least);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // c = epilogue(op(a) op(b) + bias) on the stream, whose device is current. Matrices are the last two axes of a, b and c, op transposes,
  // and leading axes broadcast; a bias has c's columns as its last axis; for its gradient there are no leading axes. c is contiguous. f16,
  // bf16, f32 and f64. False, with nothing done, when our own kernel is to serve: the product is small, the library is missing or has no
  // algorithm for it, or the strides are none that it can take. precision: of f32. Throws device, naming the call, the instruction and the
  // shapes, when a call fails.
  bool multiply(Stream& stream, const View& a, const View& b, const View& c, bool transpose_a, bool transpose_b, const View* bias = nullptr,
                Epilogue epilogue = Epilogue::none, Precision precision = Precision::float32);

  std::string why_missing() { return api_.why_missing(); }  // "" when the library is there, or nothing has asked for it
  size_t plan_count();                                      // of all devices; kMostPlans on each

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
