// Normalisation and table look-up, built from ops: after fusion they are reductions and one elementwise kernel. Half types are computed in
// f32 and rounded once; scales, offsets and statistics have x's dtype or f32.
#pragma once
#include <vector>

#include "graph/frontend/tensor.h"

namespace lamina {

struct Moments {
  Tensor mean, variance;
};
// Mean and variance (mean square deviation, divided by n) over these axes, by default all; keepdims keeps them with length 1.
LAMINA_API Moments moments(const Operand& x, const AxesOrAll& axes = {}, bool keepdims = false);

// (x - mean) / sqrt(variance + epsilon) * scale + offset; all broadcast to x. scale and offset may be undefined Tensors. Ioffe and Szegedy
// 2015.
LAMINA_API Tensor batch_norm(const Operand& x, const Operand& mean, const Operand& variance, const Tensor& offset = {},
                             const Tensor& scale = {}, double epsilon = 1e-3);
struct BatchNormalized {
  Tensor y;
  Moments moments;
};
// batch_norm of x [..., channels] with its moments over all axes but the last, and these (f32 for half types, whose range a variance may
// exceed), as in training.
LAMINA_API BatchNormalized batch_norm_train(const Operand& x, const Tensor& offset = {}, const Tensor& scale = {}, double epsilon = 1e-3);
// Normalises each sample to mean 0 and variance 1 over these axes, then scales and offsets it. scale and offset have those axes' shape and
// may be undefined. Ba, Kiros and Hinton 2016.
LAMINA_API Tensor layer_norm(const Operand& x, const Tensor& scale = {}, const Tensor& offset = {}, const std::vector<int64_t>& axes = {-1},
                             double epsilon = 1e-5);
// x / sqrt(mean of squares over these axes + epsilon) * scale, which has those axes' shape and may be undefined. Zhang and Sennrich 2019.
LAMINA_API Tensor rms_norm(const Operand& x, const Tensor& scale = {}, const std::vector<int64_t>& axes = {-1}, double epsilon = 1e-6);
// x [n, ..., c]: normalises each sample and group of channels to mean 0 and variance 1, then scales and offsets each channel; scale and
// offset are [c] and may be undefined. The groups divide the channels. Wu and He 2018.
LAMINA_API Tensor group_norm(const Operand& x, int64_t groups, const Tensor& scale = {}, const Tensor& offset = {}, double epsilon = 1e-3);
// Rows of the table [classes, ...] by integer ids; result: ids' shape, then a row's. Out of range: an error of kind index at run time.
LAMINA_API Tensor embedding_lookup(const Operand& table, const Operand& ids);

}  // namespace lamina
