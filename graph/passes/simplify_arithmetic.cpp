// Identities of real numbers that floating point satisfies only up to rounding or the sign of zero.
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "graph/passes/passes.h"
#include "graph/passes/rules.h"

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
Value drop_zero(const Site& s) {
  if (!is(s.node, add) && !is(s.node, sub)) return {};
  for (size_t i : {1, 0}) {
    if (i == 0 && is(s.node, sub)) break;
    const ir::Literal* c = s.number(i);
    if (c && c->first() == 0 && s.has_type(1 - i)) return s.in(1 - i);
  }
  return {};
}

// The summands of a tree of additions, of these two, if all are pad_slices of this type; empty: they are not. Few: each addition of a long
// sum is looked at.
std::vector<const Node*> padded_slices(const Graph& g, std::vector<Value> rest, const TensorType& type) {
  constexpr size_t most = 64;
  std::vector<const Node*> out;
  for (size_t looked = 0; !rest.empty(); ++looked) {
    const Value v = rest.back();
    const Node& node = g[v];
    rest.pop_back();
    if (looked == 2 * most || !(g.type(v) == type)) return {};
    if (is(node, pad_slice))
      out.push_back(&node);
    else if (is(node, add))
      rest.insert(rest.end(), node.inputs.begin(), node.inputs.end());
    else
      return {};
  }
  return out;
}

// Gradients of slices along one axis that together are all of x, each element once: their sum joins them. x + 0 is x, except that -0
// becomes +0.
Value join_padded_slices(const Site& s) {
  if (!is(s.node, add)) return {};
  const std::vector<const Node*> summands = padded_slices(s.to, s.inputs, s.type);
  if (summands.empty()) return {};
  const Shape& whole = s.type.shape;
  std::map<int64_t, Value> parts;  // by where they begin
  std::optional<size_t> axis;
  for (const Node* summand : summands) {
    const auto& attrs = ir::attrs_of<ops::PadSliceAttrs>(*summand->attrs);
    const Shape& part = s.to.type(summand->inputs[0]).shape;
    if (!attrs.offset.empty()) return {};
    for (size_t a = 0; a < whole.size(); ++a) {
      if (attrs.step[a] != 1) return {};
      if (part[a] == whole[a]) continue;
      if (axis.value_or(a) != a || !part[a].known() || !whole[a].known() || part[a] == Dim(0)) return {};
      axis = a;
    }
    if (!axis) return {};
    const int64_t begin = attrs.begin[*axis];
    if (!parts.emplace(begin < 0 ? begin + whole[*axis].number() : begin, summand->inputs[0]).second) return {};
  }
  std::vector<Value> joined;
  int64_t end = 0;
  for (const auto& [begin, part] : parts) {
    if (begin != end) return {};
    end += s.to.type(part).shape[*axis].number();
    joined.push_back(part);
  }
  return end == whole[*axis].number() ? ops::concat(s.to, std::move(joined), int(*axis)) : Value{};
}

// (x * a) * b = x * (a * b) for numbers a and b, unless their product overflows or underflows.
Value merge_factors(const Site& s) {
  const DType dtype = s.type.dtype;
  if (!is(s.node, mul) || !is_floating(dtype)) return {};
  for (size_t i : {1, 0}) {
    const ir::Literal* outer = s.number(i);
    const Node& before = s.maker(1 - i);
    if (!outer || !is(before, mul)) continue;
    for (size_t j : {1, 0}) {
      const ir::Literal* inner = uniform_constant(s.to, before.inputs[j]);
      const Value x = before.inputs[1 - j];
      if (!inner || !(s.to.type(x) == s.type)) continue;
      const double a = inner->first(), b = outer->first(), product = a * b;
      if (!(std::abs(product) >= smallest_normal(dtype) && std::abs(product) <= largest(dtype)) || !std::isfinite(a) || !std::isfinite(b))
        continue;
      // Factors that could not be merged one by one.
      return apply_rules(s.to, ops::mul(s.to, x, ops::scalar(s.to, dtype, product)), {merge_factors});
    }
  }
  return {};
}

Value square_instead_of_pow(const Site& s) {
  if (!is(s.node, pow) || !is_floating(s.type.dtype) || !s.has_type(0)) return {};
  const ir::Literal* exponent = s.number(1);
  return exponent && exponent->first() == 2 ? ops::square(s.to, s.in(0)) : Value{};
}

// Sums and means over axes of length 1.
Value drop_single_sum(const Site& s) {
  const bool moves = (is(s.node, sum) || is(s.node, mean)) && s.to.type(s.in(0)).dtype == s.type.dtype && reduces_nothing(s);
  return moves ? ops::reshape(s.to, s.in(0), s.type.shape) : Value{};
}

}  // namespace

Graph simplify_arithmetic(const Graph& g) {
  return simplified(g, {drop_zero, join_padded_slices, merge_factors, square_instead_of_pow, drop_single_sum});
}

}  // namespace lamina::passes
