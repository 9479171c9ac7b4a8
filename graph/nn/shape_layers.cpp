#include "graph/nn/shape_layers.h"

#include <utility>

#include "graph/functions/op_functions.h"
#include "graph/functions/random.h"

namespace lamina::nn {

Tensor Flatten::call(const Tensor& x, bool) {
  if (x.rank() == 0) {
    throw Error(ErrorKind::invalid_argument, {.what = cat(name(), ": cannot flatten ", x.type()),
                                              .where = text(call_site().line()),
                                              .why = "it keeps the first dimension, and there is none",
                                              .fix = "pass a batch [n, ...]"});
  }
  if (x.rank() == 2) return x;
  Dim rest = 1;
  for (size_t i = 1; i < x.shape().size(); ++i) rest = rest * x.shape()[i];
  return reshape_to(Operand(x, call_site()), {x.shape()[0], rest});
}

Dropout::Dropout(double rate, std::string name) : Layer(std::move(name)), rate_(rate) {
  if (rate >= 0 && rate < 1) return;
  throw Error(ErrorKind::invalid_argument, {.what = cat("dropout: rate ", rate),
                                            .where = "",
                                            .why = "it is the share of elements that become 0: at least 0, below 1",
                                            .fix = "pass a rate from 0 to below 1"});
}
Tensor Dropout::call(const Tensor& x, bool training) { return training && rate_ > 0 ? dropout(Operand(x, call_site()), rate_) : x; }

Input::Input(Shape shape, DType dtype, std::string name) : Layer(std::move(name)), shape_(std::move(shape)), dtype_(dtype) {}
Tensor Input::call(const Tensor& x, bool) {
  bool fits = x.dtype() == dtype_ && x.shape().size() == shape_.size() + 1;
  for (size_t i = 0; fits && i < shape_.size(); ++i) fits = !shape_[i].known() || shape_[i] == x.shape()[i + 1];
  if (fits) return x;
  throw Error(ErrorKind::invalid_argument, {.what = cat(name(), ": got ", x.type()),
                                            .where = text(call_site().line()),
                                            .why = cat("the model was declared for ", batch_type()),
                                            .fix = "pass a batch of that shape and dtype"});
}
TensorType Input::batch_type() const {
  TensorType type{dtype_, {Dim::fresh("batch")}};
  type.shape.insert(type.shape.end(), shape_.begin(), shape_.end());
  return type;
}

}  // namespace lamina::nn
