#include <algorithm>
#include <map>
#include <optional>

#include "graph/passes/clusters.h"
#include "graph/passes/fused_group.h"
#include "graph/passes/passes.h"

namespace lamina::passes {
namespace {

// Two matrices, or a pair for each model of an ensemble; the first may be shared.
bool is_product(const Graph& g, const Node& node, bool transpose_a, bool transpose_b, bool may_share) {
  if (!is(node, ops::def::matmul) || node.types[0].dtype != DType::f32) return false;
  const TensorType &a = g.type(node.inputs[0]), &b = g.type(node.inputs[1]);
  if (b.rank() != node.types[0].rank() || b.rank() > 3 || (a.rank() != b.rank() && !(may_share && a.rank() == 2))) return false;
  if (b.rank() == 3 && (b.shape[0] != node.types[0].shape[0] || (a.rank() == 3 && a.shape[0] != b.shape[0]))) return false;
  const auto& attrs = ir::attrs_of<ops::MatmulAttrs>(*node.attrs);
  return attrs.transpose_a == transpose_a && attrs.transpose_b == transpose_b;
}
bool is_input_gradient(const Graph& g, const Node& node) { return is_product(g, node, false, true, false); }  // dz w^T
bool is_weight_gradient(const Graph& g, const Node& node) { return is_product(g, node, true, false, true); }  // x^T dz

// The sum of a matrix's rows, [n]; of each model's matrix, [models,n].
bool is_bias_gradient(const Graph& g, const Node& node) {
  if (!is(node, ops::def::sum) || node.types[0].dtype != DType::f32) return false;
  const int64_t rank = int64_t(g.type(node.inputs[0]).rank());
  if ((rank != 2 && rank != 3) || int64_t(node.types[0].rank()) != rank - 1) return false;
  const Axes& axes = ir::attrs_of<ops::ReduceAttrs>(*node.attrs).axes.named();
  return axes.size() == 1 && (axes[0] == rank - 2 || axes[0] == -2);
}

// dz w^T, with the activation's mask if nothing else uses the product.
Graph fuse_input_gradients(const Graph& g) {
  const Uses uses(g);
  auto masks_product = [&](const Node& node) {
    if (!activation_of(g, node, true)) return false;
    const Value product = node.inputs[0];
    return is_input_gradient(g, g[product]) && uses.of(product) == 1 && g.type(product) == node.types[0] &&
           g.type(node.inputs[1]) == node.types[0] && g[product].device == node.device && node.inputs[1] != product;
  };
  std::vector<char> masked(size_t(g.size()));
  for (int i = 0; i < g.size(); ++i)
    if (uses.live(i) && masks_product(g[i])) masked[size_t(g[i].inputs[0].node)] = true;
  Rewriter rewriter(g);
  for (int i = 0; i < g.size(); ++i) {
    const Node& node = g[i];
    if (!uses.live(i) || masked[size_t(i)]) continue;
    const bool mask = masks_product(node);
    if (!mask && !is_input_gradient(g, node)) {
      rewriter.copy(i);
      continue;
    }
    const int number = mask ? node.inputs[0].node : i;
    const Node& product = g[number];
    rewriter.stand_at(number);
    const ops::ActivationAttrs activation = mask ? *activation_of(g, node, true) : ops::ActivationAttrs{};
    rewriter.map({i, 0}, ops::dense_grad_input(rewriter.to, rewriter[product.inputs[0]], rewriter[product.inputs[1]],
                                               mask ? rewriter[node.inputs[1]] : Value{}, activation.activation, activation.alpha,
                                               ir::attrs_of<ops::MatmulAttrs>(*product.attrs).precision));
  }
  return rewriter.finish();
}

// A group is a weight's gradient, optionally the bias's, and the elementwise nodes of their shapes around them. Elementwise nodes without a
// gradient form groups too, which are dissolved at the end.
class UpdateRules final : public GroupRules {
 public:
  UpdateRules(const Graph& g, const Uses& uses)
      : g_(g),
        weight_(size_t(g.size()), -1),
        bias_(size_t(g.size()), -1),
        partner_(size_t(g.size()), -1),
        members_(size_t(g.size()), 1),
        columns_(size_t(g.size())) {
    std::map<Value, std::vector<int>> by_dz;    // weight gradients without a bias gradient so far
    std::map<Value, std::vector<int>> waiting;  // bias gradients without a weight gradient so far
    for (int i = 0; i < g.size(); ++i) {
      if (!uses.live(i)) continue;
      const bool weight = is_weight_gradient(g, g[i]), bias = is_bias_gradient(g, g[i]);
      if (!weight && !bias) continue;
      const Value dz = g[i].inputs[weight ? 1 : 0];
      auto& others = (weight ? waiting : by_dz)[dz];
      if (others.empty()) {
        (weight ? by_dz : waiting)[dz].push_back(i);
      } else {
        partner_[size_t(i)] = others.back();
        partner_[size_t(others.back())] = i;
        others.pop_back();
      }
    }
  }

  bool may_start(int node) const override {
    return is_anchor(node) || (is_elementwise(g_[node]) && rank(node) >= 1 && rank(node) <= 3 && g_[node].types[0].dtype == DType::f32 &&
                               fits_update(g_[node]));
  }
  bool may_join(int node, int group, std::span<const Value> operands) const override {
    if (is_anchor(node) || g_[node].device != g_[group].device || members_[size_t(group)] >= kMostMembers) return false;
    const Shape& shape = g_[node].types[0].shape;
    const int start = anchored(group) ? anchor(group, shape) : group;
    if (start < 0 || g_[start].types[0].shape != shape || (has_column(g_[node]) && is_matrix_of_weights(start))) return false;
    // A region sees only its own gradient: results of the bias's region are no operands of the weight's.
    for (Value v : operands)
      if (g_.type(v).shape != shape) return false;
    return true;
  }
  bool may_merge(int a, int b) const override {
    if (g_[a].device != g_[b].device || members_[size_t(a)] + members_[size_t(b)] > kMostMembers) return false;
    if (anchored(a) && anchored(b)) return are_partners(a, b);
    if (!anchored(a) && !anchored(b)) return g_[a].types[0].shape == g_[b].types[0].shape;
    const int other = anchored(a) ? b : a;
    const int start = anchor(anchored(a) ? a : b, g_[other].types[0].shape);
    return start >= 0 && !(columns_[size_t(other)] && is_matrix_of_weights(start));
  }
  int partner(int node) const override {
    return partner_[size_t(node)] >= 0 && partner_[size_t(node)] < node ? partner_[size_t(node)] : -1;
  }
  void started(int node) override {
    columns_[size_t(node)] = has_column(g_[node]);
    if (is_weight_gradient(g_, g_[node]))
      weight_[size_t(node)] = node;
    else if (is_anchor(node))
      bias_[size_t(node)] = node;
  }
  void merged(int from, int into) override {
    weight_[size_t(into)] = std::max(weight_[size_t(into)], weight_[size_t(from)]);
    bias_[size_t(into)] = std::max(bias_[size_t(into)], bias_[size_t(from)]);
    members_[size_t(into)] += members_[size_t(from)];
    columns_[size_t(into)] = columns_[size_t(into)] || columns_[size_t(from)];
  }
  int weight_gradient(int group) const { return weight_[size_t(group)]; }
  int bias_gradient(int group) const { return bias_[size_t(group)]; }

 private:
  static constexpr int kMostMembers = 64;
  size_t rank(int node) const { return g_[node].types[0].rank(); }
  bool is_anchor(int node) const { return partner_[size_t(node)] >= 0 || is_weight_gradient(g_, g_[node]); }
  // Operands that an update accepts: f32, and not a column [k,1] of each model's matrix, which no update kernel reads.
  bool fits_update(const Node& node) const {
    const Shape& shape = node.types[0].shape;
    for (Value v : node.inputs) {
      const TensorType& t = g_.type(v);
      if (t.dtype != DType::f32) return false;
      if (shape.size() == 3 && t.rank() >= 2 && t.shape.back() != shape.back() && t.shape[t.rank() - 2] != Dim(1)) return false;
    }
    return true;
  }
  // For a matrix [k,n], an operand [k,1]: allowed for an ensemble's bias [models,n], but not for weights.
  bool has_column(const Node& node) const {
    const Shape& shape = node.types[0].shape;
    return shape.size() == 2 && std::any_of(node.inputs.begin(), node.inputs.end(), [&](Value v) {
             const TensorType& t = g_.type(v);
             return t.rank() == 2 && t.shape[1] != shape[1] && t.shape[0] != Dim(1);
           });
  }
  bool is_matrix_of_weights(int start) const { return rank(start) == 2 && is_weight_gradient(g_, g_[start]); }
  // The gradient of that shape in the group, or -1.
  int anchor(int group, const Shape& shape) const {
    for (int start : {weight_[size_t(group)], bias_[size_t(group)]})
      if (start >= 0 && g_[start].types[0].shape == shape) return start;
    return -1;
  }
  bool anchored(int group) const { return weight_[size_t(group)] >= 0 || bias_[size_t(group)] >= 0; }
  bool are_partners(int a, int b) const {
    const int weight = std::max(weight_[size_t(a)], weight_[size_t(b)]), bias = std::max(bias_[size_t(a)], bias_[size_t(b)]);
    const bool two_of_a_kind = (weight_[size_t(a)] >= 0 && weight_[size_t(b)] >= 0) || (bias_[size_t(a)] >= 0 && bias_[size_t(b)] >= 0);
    return !two_of_a_kind && weight >= 0 && bias >= 0 && partner_[size_t(weight)] == bias;
  }

  const Graph& g_;
  std::vector<int> weight_, bias_, partner_, members_;
  std::vector<char> columns_;  // whether a node of the group has_column()
};

Graph fuse_updates(const Graph& g) {
  const Uses uses(g);
  UpdateRules rules(g, uses);
  const Clusters clusters(g, uses, rules);
  std::vector<int> unit_of(size_t(g.size()), -1), uses_inside(size_t(g.size()));
  for (int i = 0; i < g.size(); ++i) {
    if (!uses.live(i)) continue;
    const int group = clusters.of(i);
    unit_of[size_t(i)] = rules.weight_gradient(group) >= 0 ? group : i;
    for (Value v : g[i].inputs)
      if (unit_of[size_t(v.node)] == unit_of[size_t(i)]) ++uses_inside[size_t(v.node)];
  }
  auto wanted = [&](Value v) { return uses.of(v) > uses_inside[size_t(v.node)]; };
  Rewriter rewriter(g);
  for (const auto& members : order_units(g, unit_of)) {
    const int group = unit_of[size_t(members[0])], weight = rules.weight_gradient(group);
    if (weight < 0) {
      rewriter.copy(members[0]);
      continue;
    }
    const int bias = rules.bias_gradient(group);
    std::vector<int> of_weight, of_bias;
    for (int i : members)
      if (i != weight && i != bias) (g[i].types[0].shape == g[weight].types[0].shape ? of_weight : of_bias).push_back(i);
    const Value dw{weight, 0}, db{bias, 0};
    const FusedGroup weight_group = make_group(g, {&dw, 1}, of_weight, wanted);
    FusedGroup bias_group;
    if (bias >= 0) {
      bias_group = make_group(g, {&db, 1}, of_bias, wanted);
    } else {
      Graph unused;
      Shape shape = g[weight].types[0].shape;
      shape.erase(shape.end() - 2);
      unused.add_input({DType::f32, std::move(shape)});
      bias_group.graph = std::make_shared<const Graph>(std::move(unused));
    }
    rewriter.stand_at(weight);
    const Node& product = g[weight];
    const Value fused = ops::dense_update(rewriter.to, rewriter[product.inputs[0]], rewriter[product.inputs[1]],
                                          rewriter[weight_group.inputs], rewriter[bias_group.inputs], weight_group.graph, bias_group.graph,
                                          ir::attrs_of<ops::MatmulAttrs>(*product.attrs).precision);
    int result = 0;
    for (Value v : weight_group.outputs) rewriter.map(v, {fused.node, result++});
    for (Value v : bias_group.outputs) rewriter.map(v, {fused.node, result++});
  }
  return rewriter.finish();
}

}  // namespace

Graph fuse_dense_backward(const Graph& g) { return remove_dead_nodes(fuse_updates(fuse_input_gradients(g))); }

}  // namespace lamina::passes
