#include "kernels/cpu/section_update.h"

#include <algorithm>

#include "kernels/leaves.h"
#include "runtime/core/error.h"

namespace lamina::kernels::cpu {

using section::Broadcast;

std::optional<Descent> descent_of(const ElementwiseCode& code, const CodeOperand* extras) {
  if (code.instructions.size() != 2 || code.outputs.size() != 1) return {};
  const auto &product = code.instructions[0], &difference = code.instructions[1];
  if (product.op != ScalarOp::mul || difference.op != ScalarOp::sub || product.type != DType::f32 || difference.type != DType::f32)
    return {};
  const int inputs = int(code.inputs.size()), first = inputs + int(code.constants.size());
  const int rate = product.a == 0 ? product.b : product.b == 0 ? product.a : -1, w = difference.a;
  if (rate <= 0 || rate >= first || difference.b != first || code.outputs[0] != first + 1 || w <= 0 || w >= inputs) return {};
  if (extras[w - 1].broadcast != Broadcast::full && extras[w - 1].broadcast != Broadcast::row) return {};
  if (rate >= inputs) return Descent{w - 1, float(code.constants[size_t(rate - inputs)].second)};
  if (extras[rate - 1].broadcast != Broadcast::scalar) return {};
  return Descent{w - 1, *reinterpret_cast<const float*>(extras[rate - 1].data)};
}

// Whether the program's result is the gradient itself.
static bool is_gradient(const ElementwiseCode& code) {
  return code.instructions.empty() && code.outputs.size() == 1 && code.outputs[0] == 0;
}

bool is_flat(const CodeOperand* in, int count) {
  return std::all_of(in, in + count,
                     [](const CodeOperand& o) { return o.broadcast == Broadcast::full || o.broadcast == Broadcast::scalar; });
}

void run_code(const ElementwiseCode& code, const CodeOperand* in, const CodeOperand* out, Range elements, int64_t n) {
  if (elements.size() <= 0) return;
  const int ins = int(code.inputs.size()), outs = int(code.outputs.size());
  if (ins >= kMostOperands || outs >= kMostOperands) internal_error("an elementwise code with too many operands for a section");
  const void* from[kMostOperands];
  void* to[kMostOperands];
  MatrixSteps steps[kMostOperands];
  for (int i = 0; i < ins; ++i) {
    const Broadcast b = in[i].broadcast;
    from[i] = in[i].data;
    steps[i] = {b == Broadcast::full || b == Broadcast::column, b == Broadcast::full || b == Broadcast::row};
    if (n == 1) steps[i].column = steps[i].row;
    if (elements.end <= n) steps[i].row = steps[i].column;
  }
  for (int i = 0; i < outs; ++i) to[i] = out[i].data;
  elementwise_matrix(code, from, steps, to, n, elements.begin, elements.end);
}

// Runs the program on the gradients of all leaves, which gradient(leaf, first row, rows, to) computes for these elements.
template <class Gradient>
static void update_by_leaves(const UpdateOperands& u, const ElementwiseCode& code, const CodeOperand* extras, const CodeOperand* out,
                             Range elements, float* gradients, Gradient gradient) {
  CodeOperand in[kMostOperands];
  if (code.inputs.size() >= size_t(kMostOperands)) internal_error("an elementwise code with too many operands for a section");
  for (int64_t leaf = 0; leaf < u.leaves; ++leaf, gradients += elements.size()) {
    const int64_t first = first_row_of_leaf(u.rows, u.leaves, leaf);
    gradient(first, first_row_of_leaf(u.rows, u.leaves, leaf + 1) - first, gradients);
    in[leaf] = {reinterpret_cast<char*>(gradients - elements.begin), Broadcast::full};
  }
  std::copy(extras, extras + code.inputs.size() - size_t(u.leaves), in + u.leaves);
  run_code(code, in, out, elements, u.n);
}

void update_weights(const Tiles& tiles, const UpdateOperands& u, const ElementwiseCode& code, const CodeOperand* extras,
                    const CodeOperand* out, Range weight_rows) {
  if (weight_rows.size() <= 0 || u.n == 0 || code.outputs.empty()) return;
  if (u.leaves > 1) {
    constexpr int64_t most = 32768;  // floats of a strip's gradients: they stay in the second level of the cache
    const int64_t strip = std::min(weight_rows.size(), std::max<int64_t>(6, most / (u.n * u.leaves) / 6 * 6));
    float* gradients = thread_scratch(Scratch::strip, strip * u.n * u.leaves);
    for (int64_t i = weight_rows.begin; i < weight_rows.end; i += strip) {
      const Range part{i, std::min(weight_rows.end, i + strip)};
      update_by_leaves(u, code, extras, out, {part.begin * u.n, part.end * u.n}, gradients, [&](int64_t first, int64_t rows, float* to) {
        dense_grad_weight(tiles, u.x + first * u.k, u.dz + first * u.n, to, part, rows, u.k, u.n, nullptr, 0);
      });
    }
    return;
  }
  if (auto descent = descent_of(code, extras); descent && extras[descent->w].broadcast == Broadcast::full) {
    const int64_t at = weight_rows.begin * u.n;
    const float* w = reinterpret_cast<const float*>(extras[descent->w].data);
    dense_grad_weight(tiles, u.x, u.dz, reinterpret_cast<float*>(out[0].data) + at, weight_rows, u.rows, u.k, u.n, w + at, descent->rate);
    return;
  }
  if (is_gradient(code)) {
    float* to = reinterpret_cast<float*>(out[0].data) + weight_rows.begin * u.n;
    return dense_grad_weight(tiles, u.x, u.dz, to, weight_rows, u.rows, u.k, u.n, nullptr, 0);
  }
  constexpr int64_t most = 4096;  // floats of a strip: half of the smallest L1
  const int64_t strip = std::max<int64_t>(6, most / u.n / 6 * 6);
  float* dw = thread_scratch(Scratch::strip, std::min(strip, weight_rows.size()) * u.n);
  for (int64_t i = weight_rows.begin; i < weight_rows.end; i += strip) {
    const Range part{i, std::min(weight_rows.end, i + strip)};
    dense_grad_weight(tiles, u.x, u.dz, dw, part, u.rows, u.k, u.n, nullptr, 0);
    update_by(tiles, dw, code, extras, out, {part.begin * u.n, part.end * u.n}, u.n);
  }
}

void update_by(const Tiles& tiles, const float* gradient, const ElementwiseCode& code, const CodeOperand* extras, const CodeOperand* out,
               Range elements, int64_t n) {
  if (elements.size() <= 0 || code.outputs.empty()) return;
  if (auto descent = descent_of(code, extras); descent && (extras[descent->w].broadcast == Broadcast::full || elements.end <= n)) {
    const float* w = reinterpret_cast<const float*>(extras[descent->w].data) + elements.begin;
    return tiles.descend(w, gradient, descent->rate, reinterpret_cast<float*>(out[0].data) + elements.begin, elements.size());
  }
  CodeOperand in[kMostOperands];
  std::copy(extras, extras + code.inputs.size() - 1, in + 1);
  in[0] = {reinterpret_cast<char*>(const_cast<float*>(gradient - elements.begin)), Broadcast::full};
  run_code(code, in, out, elements, n);
}

void update_bias(const Tiles& tiles, const UpdateOperands& u, const ElementwiseCode& code, const CodeOperand* extras,
                 const CodeOperand* out) {
  if (u.n == 0 || code.outputs.empty()) return;
  if (u.leaves > 1)
    return update_by_leaves(u, code, extras, out, {0, u.n}, thread_scratch(Scratch::strip, u.n * u.leaves),
                            [&](int64_t first, int64_t rows, float* to) { dense_grad_bias(tiles, u.dz + first * u.n, to, rows, u.n); });
  if (is_gradient(code)) return dense_grad_bias(tiles, u.dz, reinterpret_cast<float*>(out[0].data), u.rows, u.n);
  float* db = thread_scratch(Scratch::strip, u.n);
  dense_grad_bias(tiles, u.dz, db, u.rows, u.n);
  update_by(tiles, db, code, extras, out, {0, u.n}, u.n);
}

}  // namespace lamina::kernels::cpu
