#include <optional>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace lamina::passes {
namespace {

// x w for two plain f32 matrices, or with a w for each model of an ensemble.
bool is_plain_product(const Graph& g, const Node& node) {
  if (!is(node, ops::def::matmul) || node.types[0].dtype != DType::f32) return false;
  const TensorType &a = g.type(node.inputs[0]), &b = g.type(node.inputs[1]);
  if (b.rank() > 3 || node.types[0].rank() != b.rank()) return false;
  if (b.rank() == 3 && (b.shape[0] != node.types[0].shape[0] || (a.rank() == 3 && a.shape[0] != b.shape[0]))) return false;
  const auto& attrs = ir::attrs_of<ops::MatmulAttrs>(*node.attrs);
  return !attrs.transpose_a && !attrs.transpose_b;
}

// The parts of a dense node; node numbers of the old graph.
struct Match {
  int product = -1, with_bias = -1;
  Value bias;
};

class DenseFusion {
 public:
  explicit DenseFusion(const Graph& g) : g_(g), uses_(g), rewriter_(g) {}

  Graph run() {
    // From the last node of each layer backwards, so that the longest match wins.
    std::vector<Match> match(size_t(g_.size()));
    std::vector<char> inside(size_t(g_.size()));
    for (int i = g_.size() - 1; i >= 0; --i) {
      if (inside[size_t(i)] || !uses_.live(i)) continue;
      match[size_t(i)] = ending_at(i);
      if (int n = match[size_t(i)].product; n >= 0) inside[size_t(n)] = n != i;
      if (int n = match[size_t(i)].with_bias; n >= 0) inside[size_t(n)] = n != i;
    }
    for (int i = 0; i < g_.size(); ++i) {
      if (inside[size_t(i)] || !uses_.live(i)) continue;
      if (match[size_t(i)].product >= 0)
        emit(i, match[size_t(i)]);
      else
        rewriter_.copy(i);
    }
    return rewriter_.finish();
  }

 private:
  Match ending_at(int i) const {
    const Node& node = g_[i];
    if (activation_of(g_, node)) {
      const Value z = node.inputs[0];
      if (uses_.of(z) != 1 || g_[z].device != node.device) return {};
      if (is_plain_product(g_, g_[z])) return {z.node, -1, {}};
      return biased(z.node);
    }
    return biased(i);
  }

  // product + bias or bias + product; the sum must be as large as the product.
  Match biased(int i) const {
    const Node& node = g_[i];
    if (!is(node, ops::def::add)) return {};
    for (size_t p : {0, 1}) {
      const Value product = node.inputs[p];
      if (!is_plain_product(g_, g_[product]) || uses_.of(product) != 1 || !(g_.type(product) == node.types[0]) ||
          g_[product].device != node.device)
        continue;
      const Value bias = row(node.inputs[1 - p], node.types[0].shape);
      if (bias.valid()) return {product.node, i, bias};
    }
    return {};
  }

  // v as a row [n] added to every row, seen through broadcast_to and reshape to [1,n]; otherwise invalid. For an ensemble, a row per model
  // [models,n], through reshape to [models,1,n].
  Value row(Value v, const Shape& shape) const {
    const Dim n = shape.back();
    if (shape.size() == 3 && g_.type(v).shape == Shape{shape[0], 1, n}) {
      const Value before = is(g_[v], ops::def::reshape) ? g_[v].inputs[0] : v;
      return g_.type(before).shape == Shape{shape[0], n} ? before : v;
    }
    auto is_row = [&](Value u) { return g_.type(u).shape == Shape{n}; };
    auto is_matrix_of_rows = [&](Value u) { return g_.type(u).shape == Shape{1, n}; };
    if (is(g_[v], ops::def::broadcast_to)) v = g_[v].inputs[0];
    if (is_row(v)) return v;
    if (is_matrix_of_rows(v) && (is(g_[v], ops::def::reshape) || is(g_[v], ops::def::broadcast_to)) && is_row(g_[v].inputs[0]))
      return g_[v].inputs[0];
    return is_matrix_of_rows(v) ? v : Value{};  // emit() reshapes it
  }

  void emit(int i, const Match& match) {
    const auto activation = activation_of(g_, g_[i]).value_or(ops::ActivationAttrs{});
    const Node& product = g_[match.product];
    rewriter_.stand_at(match.product);
    Value bias = match.bias.valid() ? rewriter_[match.bias] : Value{};
    if (bias.valid()) {
      const Dim n = product.types[0].shape.back();
      const bool per_model = rewriter_.to.type(bias).rank() > 1 && rewriter_.to.type(bias).shape[0] == product.types[0].shape[0] &&
                             product.types[0].rank() == 3;
      bias = ops::reshape(rewriter_.to, bias, per_model ? Shape{product.types[0].shape[0], n} : Shape{n});
    }
    rewriter_.map({i, 0}, ops::dense(rewriter_.to, rewriter_[product.inputs[0]], rewriter_[product.inputs[1]], bias, activation.activation,
                                     activation.alpha, ir::attrs_of<ops::MatmulAttrs>(*product.attrs).precision));
  }

  const Graph& g_;
  Uses uses_;
  Rewriter rewriter_;
};

}  // namespace

Graph fuse_dense(const Graph& g) { return remove_dead_nodes(DenseFusion(g).run()); }

}  // namespace lamina::passes
