#include "graph/nn/attention.h"

#include <cmath>

#include "graph/functions/op_functions.h"
#include "graph/functions/random.h"

namespace lamina::nn {
namespace {

enum Part : size_t { kQuery, kKey, kValue, kOutput };
constexpr std::array kPartNames{"query", "key", "value", "output"};

}  // namespace

MultiHeadAttention::MultiHeadAttention(int64_t heads, int64_t key_dim, AttentionOptions options)
    : Layer(options.name, options.dtype),
      heads_(heads),
      key_dim_(key_dim),
      value_dim_(options.value_dim == 0 ? key_dim : options.value_dim),
      options_(std::move(options)) {
  compute_in_policy();
  if (heads > 0 && key_dim > 0 && value_dim_ > 0 && options_.output_size >= 0 && options_.dropout >= 0 && options_.dropout < 1) return;
  throw Error(ErrorKind::invalid_argument, {.what = cat(name(), ": ", heads, " heads, key_dim ", key_dim, ", value_dim ", value_dim_,
                                                        ", output_size ", options_.output_size, ", dropout ", options_.dropout),
                                            .where = "",
                                            .why = "sizes are positive, and dropout is at least 0 and below 1",
                                            .fix = "pass heads and key_dim of 1 or more, and leave out what has a default"});
}

void MultiHeadAttention::build_for_both(const TensorType& query, const TensorType& value, const TensorType& key) {
  const AttentionOptions& o = options_;
  for (const TensorType* input : {&query, &value, &key}) {
    const bool shape = input->rank() == 3 && input->shape.back().known();
    if (shape && (input->dtype == o.dtype || computes_in(input->dtype))) continue;
    throw Error(shape ? ErrorKind::type : ErrorKind::invalid_argument,
                {.what = cat(name(), ": cannot take ", *input),
                 .where = text(call_site().line()),
                 .why = shape ? cat("its weights are ", o.dtype)
                              : "sequences are [n, length, channels], and the channels decide the weights' shapes",
                 .fix = shape ? take_dtype_of(o.dtype) : "reshape the input"});
  }
  const Dim width = o.output_size == 0 ? query.shape.back() : Dim(o.output_size);
  const std::array<Shape, 4> kernels{Shape{query.shape.back(), heads_, key_dim_}, Shape{key.shape.back(), heads_, key_dim_},
                                     Shape{value.shape.back(), heads_, value_dim_}, Shape{heads_, value_dim_, width}};
  for (size_t part = 0; part < 4; ++part) {
    kernels_[part] = add_weight(cat(kPartNames[part], "_kernel"), kernels[part], o.kernel_initializer, o.dtype);
    const Shape bias = part == kOutput ? Shape{width} : Shape(kernels[part].begin() + 1, kernels[part].end());
    if (o.use_bias) biases_[part] = add_weight(cat(kPartNames[part], "_bias"), bias, o.bias_initializer, o.dtype);
  }
}

// x [n, l, d] -> [n, heads, l, size].
Tensor MultiHeadAttention::heads_of(const Tensor& x, size_t part, int64_t size) const {
  const CallSite at = call_site();
  const Tensor kernel = read(*kernels_[part]);
  if (x.rank() != 3 || x.shape()[2] != kernel.shape()[0]) {
    throw Error(ErrorKind::invalid_argument, {.what = cat(name(), ": the ", kPartNames[part], " is ", x.type()),
                                              .where = text(at.line()),
                                              .why = cat("its weight is ", kernel.type()),
                                              .fix = cat("pass [n, length, ", kernel.shape()[0], "]")});
  }
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  Tensor y = matmul(o(x), o(reshape_to(o(kernel), {kernel.shape()[0], heads_ * size})));
  if (options_.use_bias) y = lamina::add(o(y), o(reshape(o(read(*biases_[part])), {heads_ * size})));
  y = reshape_to(o(y), {x.shape()[0], x.shape()[1], heads_, size});
  return transpose(o(y), Axes{0, 2, 1, 3});
}

MultiHeadAttention::Attended MultiHeadAttention::attend(const Tensor& query, const Tensor& value, const Tensor& key, const Tensor& mask,
                                                        bool causal, bool training) const {
  const CallSite at = call_site();
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  const Tensor keys = key.defined() ? key : value;
  for (const Tensor* other : {&value, &keys})
    if (query.rank() == 3 && other->rank() == 3 && query.shape()[0].known() && other->shape()[0].known() &&
        query.shape()[0] != other->shape()[0])
      throw Error(ErrorKind::invalid_argument,
                  {.what = cat(name(), ": the query is ", query.type(), " and the ", other == &value ? "value " : "key ", other->type()),
                   .where = text(call_site().line()),
                   .why = "each sequence of the batch attends to its own",
                   .fix = "pass batches of one size; lm.repeat gives one sequence to all"});
  const Tensor q = mul(o(heads_of(query, kQuery, key_dim_)), Operand(1 / std::sqrt(double(key_dim_)), at));
  const Tensor k = heads_of(keys, kKey, key_dim_), v = heads_of(value, kValue, value_dim_);
  Tensor scores = matmul(o(q), o(k), false, true);
  const double never = scores.dtype() == DType::f16 ? -3e4 : -1e30;  // its weight is 0, and a query that may look nowhere gets a mean
  const auto allow = [&](const Tensor& allowed) { scores = where(o(allowed), o(scores), Operand(never, at)); };
  if (mask.defined()) {
    if (mask.dtype() != DType::boolean || mask.rank() > 4) {
      throw Error(ErrorKind::invalid_argument, {.what = cat(name(), ": the mask is ", mask.type()),
                                                .where = text(at.line()),
                                                .why = "it says for each query and key whether the query may look there",
                                                .fix = "pass bool [n, queries, keys]"});
    }
    allow(mask.rank() == 3 ? expand_dims(o(mask), 1) : mask);
  }
  if (causal) {
    const auto places = [&](Dim length, int axis) {  // also of a length that only a call knows
      return expand_dims(o(cumsum(o(broadcast_to(o(scalar_i(1)), {length})), 0)), axis);
    };
    allow(greater_equal(o(places(q.shape()[2], 1)), o(places(k.shape()[2], 0))));
  }
  const Tensor weights = softmax(o(scores), -1);
  const Tensor used = training && options_.dropout > 0 ? dropout(o(weights), options_.dropout) : weights;
  Tensor y = transpose(o(matmul(o(used), o(v))), Axes{0, 2, 1, 3});
  y = reshape_to(o(y), {y.shape()[0], y.shape()[1], heads_ * value_dim_});
  const Tensor out = read(*kernels_[kOutput]);
  y = matmul(o(y), o(reshape_to(o(out), {heads_ * value_dim_, out.shape()[2]})));
  if (options_.use_bias) y = lamina::add(o(y), o(read(*biases_[kOutput])));
  return {y, weights};
}

Tensor MultiHeadAttention::call(const Tensor& x, bool training) { return attend(x, x, {}, {}, false, training).output; }

}  // namespace lamina::nn
