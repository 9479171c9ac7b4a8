#include "graph/nn/shape_layers.h"

#include <utility>

#include "graph/functions/op_functions.h"
#include "graph/functions/random.h"
#include "graph/ir/attrs.h"

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

Tensor Reshape::call(const Tensor& x, bool) {
  const CallSite at = call_site();
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::invalid_argument, {.what = cat(name(), ": cannot make ", x.type(), " into rows of ", ir::attr_text(shape_)),
                                              .where = text(at.line()),
                                              .why = why,
                                              .fix = "pass a shape of as many elements, without the batch"});
  };
  if (x.rank() == 0) refuse("it keeps the first dimension, and there is none");
  int64_t all = 1, given = 1;
  bool known = true;
  for (size_t i = 1; i < x.shape().size(); ++i) known = known && x.shape()[i].known();
  for (size_t i = 1; known && i < x.shape().size(); ++i) all *= x.shape()[i].number();
  size_t open = 0;
  for (const int64_t length : shape_) {
    if (length < -1) refuse(cat("a length is ", length));
    if (length == -1)
      ++open;
    else if (__builtin_mul_overflow(given, length, &given))
      refuse("it has too many elements");
  }
  if (open > 1) refuse("more than one length is -1");
  if (!known && open > 0) refuse("an open length is inferred from lengths that are known");
  if (known && (open > 0 ? given == 0 || all % given != 0 : given != all)) refuse(cat("a row has ", all, " elements"));
  Shape shape{x.shape()[0]};
  for (const int64_t length : shape_) shape.push_back(length == -1 ? all / given : length);
  return reshape_to(Operand(x, at), shape);
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
