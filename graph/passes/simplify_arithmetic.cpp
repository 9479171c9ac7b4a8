// Identities of real numbers that floating point keeps only up to rounding or the sign of zero.
#include <cmath>
#include <limits>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace lamina::passes {
namespace {

using namespace ops::def;

double smallest_normal(DType d) {
  switch (d) {
    case DType::f16: return 6.103515625e-05;
    case DType::bf16:
    case DType::f32: return std::numeric_limits<float>::min();
    default: return std::numeric_limits<double>::min();
  }
}

double largest(DType d) {
  switch (d) {
    case DType::f16: return 65504;
    case DType::bf16:
    case DType::f32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

// x + 0 is x, except that -0 becomes +0.
Value drop_zero(Graph& to, const Node& node, const std::vector<Value>& in) {
  if (!is(node, add) && !is(node, sub)) return {};
  for (size_t i : {1, 0}) {
    if (i == 0 && is(node, sub)) break;
    const ir::Literal* c = uniform_constant(to, in[i]);
    if (c && c->first() == 0 && to.type(in[1 - i]) == node.types[0]) return in[1 - i];
  }
  return {};
}

// (x * a) * b = x * (a * b) for numbers a and b whose product neither overflows nor vanishes.
Value merge_factors(Graph& to, const Node& node, const std::vector<Value>& in) {
  const DType dtype = node.types[0].dtype;
  if (!is(node, mul) || !is_floating(dtype)) return {};
  for (size_t i : {1, 0}) {
    const ir::Literal* outer = uniform_constant(to, in[i]);
    const Node& before = to[in[1 - i]];
    if (!outer || !is(before, mul)) continue;
    for (size_t j : {1, 0}) {
      const ir::Literal* inner = uniform_constant(to, before.inputs[j]);
      const Value x = before.inputs[1 - j];
      if (!inner || !(to.type(x) == node.types[0])) continue;
      const double a = inner->first(), b = outer->first(), product = a * b;
      if (!(std::abs(product) >= smallest_normal(dtype) && std::abs(product) <= largest(dtype)) || !std::isfinite(a) || !std::isfinite(b))
        continue;
      const Value merged = ops::mul(to, x, ops::scalar(to, dtype, product));
      const Node again = to[merged];
      const Value more = merge_factors(to, again, again.inputs);  // factors that could not be merged one by one
      return more.valid() ? more : merged;
    }
  }
  return {};
}

Value square_instead_of_pow(Graph& to, const Node& node, const std::vector<Value>& in) {
  if (!is(node, pow) || !is_floating(node.types[0].dtype) || !(to.type(in[0]) == node.types[0])) return {};
  const ir::Literal* exponent = uniform_constant(to, in[1]);
  return exponent && exponent->first() == 2 ? ops::square(to, in[0]) : Value{};
}

// Sums and means over axes of length 1.
Value drop_single_sum(Graph& to, const Node& node, const std::vector<Value>& in) {
  if (!is(node, sum) && !is(node, mean)) return {};
  const TensorType& type = to.type(in[0]);
  if (type.dtype != node.types[0].dtype) return {};
  const AxesOrAll& axes = ir::attrs_of<ops::ReduceAttrs>(*node.attrs).axes;
  for (size_t i = 0; i < type.rank(); ++i)
    if (axes.contains(i, type.rank()) && !(type.shape[i] == Dim(1))) return {};
  return ops::reshape(to, in[0], node.types[0].shape);
}

}  // namespace

Graph simplify_arithmetic(const Graph& g) {
  Rewriter rewriter(g);
  bool changed = false;
  for (int i = 0; i < g.size(); ++i) {
    const Node& node = g[i];
    Value now;
    if (node.types.size() == 1 && !node.inputs.empty() && !has_effects(node)) {
      rewriter.stand_at(i);
      const std::vector<Value> inputs = rewriter[node.inputs];
      for (auto rule : {drop_zero, merge_factors, square_instead_of_pow, drop_single_sum}) {
        now = rule(rewriter.to, node, inputs);
        if (now.valid()) break;
      }
    }
    if (now.valid())
      rewriter.map({i, 0}, now);
    else
      rewriter.copy(i);
    changed |= now.valid();
  }
  // What a rule has replaced would be simplified again, for nobody.
  return changed ? without_dead_nodes(rewriter.finish()) : rewriter.finish();
}

}  // namespace lamina::passes
