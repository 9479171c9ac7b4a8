// Normalisation and table look-up, made of the ops: after fusion they are reductions and one elementwise kernel. Half types are computed in
// f32 and rounded once; what they are normalised with has their dtype or is f32.
#pragma once
#include <vector>

#include "graph/frontend/tensor.h"

namespace lamina {

struct Moments {
  Tensor mean, variance;
};
// Mean and variance (of the mean square deviation, divided by n) over these axes, all when not given; keepdims keeps them with length 1.
LAMINA_API Moments moments(const Operand& x, const AxesOrAll& axes = {}, bool keepdims = false);

// (x - mean) / sqrt(variance + epsilon) * scale + offset; all broadcast to x. scale and offset may be undefined Tensors. Ioffe and Szegedy
// 2015.
LAMINA_API Tensor batch_norm(const Operand& x, const Operand& mean, const Operand& variance, const Tensor& offset = {},
                             const Tensor& scale = {}, double epsilon = 1e-3);
struct BatchNormalized {
  Tensor y;
  Moments moments;
};
// batch_norm of x [..., channels] with its own moments over all axes but the last, and these (of half types in f32, since a variance may
// not fit): what a layer does in training. The same numbers; where a GPU's library can make it, it is one op (graph/ops/batch_norm.h).
LAMINA_API BatchNormalized batch_norm_train(const Operand& x, const Tensor& offset = {}, const Tensor& scale = {}, double epsilon = 1e-3);
// Each sample brought to mean 0 and variance 1 over these axes, then times scale plus offset, which have those axes' shape and may be
// undefined. Ba, Kiros and Hinton 2016.
LAMINA_API Tensor layer_norm(const Operand& x, const Tensor& scale = {}, const Tensor& offset = {}, const std::vector<int64_t>& axes = {-1},
                             double epsilon = 1e-5);
// Rows of the table [classes, ...] by integer ids: ids' shape, then a row's. Out of range: an error of kind index when it runs.
LAMINA_API Tensor embedding_lookup(const Operand& table, const Operand& ids);

}  // namespace lamina
