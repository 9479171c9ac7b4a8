#include "graph/nn/dense.h"

#include <utility>

#include "graph/functions/op_functions.h"

namespace lamina::nn {
namespace {

struct Refusal {
  const std::string& layer;
  const TensorType& input;
  CallSite at;
  [[noreturn]] void operator()(ErrorKind kind, const std::string& why, const std::string& fix) const {
    throw Error(kind, {.what = cat(layer, ": cannot take ", input), .where = text(at.line()), .why = why, .fix = fix});
  }
};

}  // namespace

Dense::Dense(int64_t units, DenseOptions options) : Layer(options.name, options.dtype), units_(units), options_(std::move(options)) {
  compute_in_policy();
  if (units > 0) return;
  throw Error(
      ErrorKind::invalid_argument,
      {.what = cat("dense: ", units, " units"), .where = "", .why = "a dense layer has at least one unit", .fix = "pass 1 or more"});
}

void Dense::build(const TensorType& input) {
  const Refusal refuse{name(), input, call_site()};
  if (input.rank() < 2) {
    refuse(ErrorKind::invalid_argument, "a dense layer takes rows [..., inputs], at least two dimensions",
           "pass [rows, inputs]: x[None] is one row, and a Dataset has them behind batch(n)");
  }
  if (!input.shape.back().known()) {
    refuse(ErrorKind::invalid_argument, "the number of inputs decides the weight's shape, and it is unknown",
           "give the last dimension a number");
  }
  if (input.dtype != options_.dtype && !computes_in(input.dtype)) {
    refuse(ErrorKind::type, cat("its weights are ", options_.dtype), take_dtype_of(options_.dtype));
  }
  kernel_ = add_weight("kernel", {input.shape.back(), units_}, options_.kernel_initializer, options_.dtype);
  if (options_.use_bias) bias_ = add_weight("bias", {units_}, options_.bias_initializer, options_.dtype);
}

Tensor Dense::call(const Tensor& x, bool) {
  const CallSite at = call_site();
  if (x.rank() < 2 || x.shape().back() != kernel_->shape()[0]) {
    Refusal{name(), x.type(), at}(ErrorKind::invalid_argument, cat("its weight is ", kernel_->type()),
                                  cat("pass [..., ", kernel_->shape()[0], "]"));
  }
  if (!is_floating(x.dtype()) && x.dtype() != kernel_->type().dtype) {
    Refusal{name(), x.type(), at}(ErrorKind::type,
                                  cat("its weights are ", kernel_->type().dtype, "; only floating inputs are converted to that"),
                                  cat("use lm.astype(x, lm.", numpy_name(kernel_->type().dtype), ")"));
  }
  Tensor z = matmul(Operand(x, at), Operand(read(*kernel_), at));
  if (options_.use_bias) z = lamina::add(Operand(z, at), Operand(read(*bias_), at));
  return options_.activation(Operand(z, at));
}

const Variable& Dense::kernel() const {
  if (kernel_) return *kernel_;
  throw Error(ErrorKind::state, {.what = cat(name(), ": the kernel does not exist yet"),
                                 .where = "",
                                 .why = "weights are made at the first call",
                                 .fix = "call the layer once first"});
}

}  // namespace lamina::nn
