// Large matrix products by cuBLASLt.
//
// Its matrices lie by columns, ours by rows. A matrix by rows is its own transpose by columns, so c = a b is asked for as c^T = b^T a^T:
// our b is its first operand and our rows are its columns. A bias, one number for each of our columns, is then one for each of its rows,
// which is what its epilogue adds.
//
// Sums: floats and halves are summed in float, doubles in double; the order is the library's, and the same for the same shapes, types,
// alignment, card and version. tf32 is not used.
#pragma once
#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/core/view.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/device/backend.h"

namespace lamina::cuda {

// Products of fewer multiply-adds are left to our own kernel, whose launch needs no plan. Not measured: there was no card to measure on.
// LAMINA_CUBLASLT sets another number, or "always" or "never".
inline constexpr double kLeastMultiplyAdds = 4 << 20;
double least_multiply_adds(const std::string& setting);  // "" for the above; throws invalid_argument for what is none of these

// What follows the product. relu is max(x, 0); what the library makes of NaN there is not documented.
enum class Epilogue : uint8_t { none, relu };

class Products {
 public:
  // load: called once, by the first product that is large enough.
  Products(std::function<CublasLtApi()> load, double least);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // c = epilogue(op(a) op(b) + bias) on the stream, whose device is current. Matrices are the last two axes of a, b and c, op transposes,
  // and leading axes broadcast; a bias has c's columns as its last axis. c is contiguous. f16, bf16, f32 and f64. False, with nothing done,
  // when our own kernel is to serve: the product is small, the library is missing or has no algorithm for it, or the strides are none that
  // it can take. Throws device, naming the call, the instruction and the shapes, when a call fails.
  bool multiply(Stream& stream, const View& a, const View& b, const View& c, bool transpose_a, bool transpose_b, const View* bias = nullptr,
                Epilogue epilogue = Epilogue::none);

  std::string why_missing();                 // "" when the library is there, or nothing has asked for it
  size_t plan_count();                       // of all devices
  static constexpr size_t kMostPlans = 512;  // per device; the one that was used longest ago goes first

 private:
  struct Problem;
  struct Key;
  struct Plan;
  struct Gpu;
  const CublasLtApi* api();
  Gpu& gpu(Device device);
  Plan* plan(Gpu& gpu, const Problem& problem);
  void make(Gpu& gpu, const Problem& problem, Plan& plan);
  void run(Gpu& gpu, Stream& stream, const Problem& problem, Plan& plan);

  const std::function<CublasLtApi()> load_;
  const double least_;
  std::mutex mutex_;
  bool asked_ = false;
  std::string missing_;
  std::unique_ptr<const CublasLtApi> api_;
  std::map<int, std::unique_ptr<Gpu>> gpus_;
};

}  // namespace lamina::cuda
