#include <algorithm>
#include <map>
#include <optional>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "kernels/leaves.h"

namespace lamina::passes {
namespace {

struct Rows {
  int64_t begin = 0, end = 0;
};
// Rows of a matrix that the graph has.
struct Part {
  Value matrix;
  Rows rows;
};
// The gradient of one leaf.
struct Leaf {
  int update = -1;  // the dense_update that computes it, for itself or as one of a stack
  bool of_bias = false;
  Part x, dz;
};

bool is_concrete(const TensorType& t) {
  return std::all_of(t.shape.begin(), t.shape.end(), [](Dim d) { return d.known(); });
}

class Joins {
 public:
  Joins(const Graph& g, int64_t most_bytes) : g_(g), most_bytes_(most_bytes), uses_(g), joined_(size_t(g.size())) {
    for (int i = 0; i < g.size(); ++i)
      if (uses_.live(i)) find(i);
    drop_shared();
  }

  Graph apply() const {
    Rewriter rewriter(g_);
    for (int i = 0; i < g_.size(); ++i) {
      if (joined_[size_t(i)])
        join(rewriter, i);
      else
        rewriter.copy(i);
    }
    return remove_dead_nodes(rewriter.finish());
  }
  bool any() const {
    return std::any_of(joined_.begin(), joined_.end(), [](const auto& join) { return join.has_value(); });
  }

 private:
  struct Join {
    std::vector<size_t> leaves, extras;  // inputs of the node
    std::vector<Leaf> of_leaves;
  };

  // [begin, end) of axis 0, if the slice has all of the other axes.
  std::optional<Rows> rows_of_slice(Value v) const {
    const Node& node = g_[v];
    if (!is(node, ops::def::slice) || !is_concrete(g_.type(node.inputs[0])) || !is_concrete(g_.type(v))) return {};
    const auto& attrs = ir::attrs_of<ops::SliceAttrs>(*node.attrs);
    const Shape &from = g_.type(node.inputs[0]).shape, &to = g_.type(v).shape;
    if (!attrs.offset.empty() || std::any_of(attrs.step.begin(), attrs.step.end(), [](int64_t step) { return step != 1; }) || to.empty() ||
        !std::equal(from.begin() + 1, from.end(), to.begin() + 1, to.end()))
      return {};
    return Rows{attrs.begin[0], attrs.begin[0] + to[0].number()};
  }
  Value without_reshape(Value v) const { return is(g_[v], ops::def::reshape) ? g_[v].inputs[0] : v; }

  // What an input of dense_update is: rows of a matrix, as they are or as a stack.
  std::optional<Part> part_of(Value v) const {
    const TensorType& type = g_.type(v);
    if (!is_concrete(type)) return {};
    const int64_t columns = type.shape.back().number(), rows = type.shape[0].number() * (type.rank() == 3 ? type.shape[1].number() : 1);
    const Value matrix = without_reshape(v);
    if (g_.type(matrix).shape != Shape{rows, columns}) return {};
    if (const auto sliced = rows_of_slice(matrix)) return Part{g_[matrix].inputs[0], *sliced};
    return Part{matrix, {0, rows}};
  }

  std::optional<Leaf> leaf_of(Value v) const {
    const Value stack = without_reshape(v);
    const auto sliced = rows_of_slice(stack);
    const Value gradient = sliced ? g_[stack].inputs[0] : stack;
    const Node& update = g_[gradient];
    if (!is(update, ops::def::dense_update) || update.inputs.size() != 2 || ir::attrs_of<ops::DenseUpdateAttrs>(*update.attrs).leaves != 1)
      return {};
    for (const ir::GraphRef& region : update.regions)
      if (region->outputs.size() > 1 || (region->outputs.size() == 1 && region->outputs[0] != region->inputs[0])) return {};
    const TensorType& dz = g_.type(update.inputs[1]);
    const int64_t models = dz.rank() == 3 ? dz.shape[0].number() : 1, number = sliced ? sliced->begin : 0;
    if (sliced ? dz.rank() != 3 || sliced->end != sliced->begin + 1 : models != 1) return {};
    const bool of_bias = update.regions[0]->outputs.empty() || gradient.result == 1;
    const Dim k = g_.type(update.inputs[0]).shape.back(), n = dz.shape.back();
    if (g_.type(v).dtype != DType::f32 || g_.type(v).shape != (of_bias ? Shape{n} : Shape{k, n})) return {};
    const auto x = part_of(update.inputs[0]), all_dz = part_of(update.inputs[1]);
    if (!x || !all_dz) return {};
    const int64_t each = (x->rows.end - x->rows.begin) / models;
    const auto own = [&](const Part& part) {
      return Part{part.matrix, {part.rows.begin + number * each, part.rows.begin + (number + 1) * each}};
    };
    return Leaf{gradient.node, of_bias, own(*x), own(*all_dz)};
  }

  // How an operand that is no leaf goes with a gradient.
  static bool fits(const Shape& operand, const Shape& gradient) {
    if (std::all_of(operand.begin(), operand.end(), [](Dim d) { return d == Dim(1); })) return operand.size() <= gradient.size();
    if (operand == gradient) return true;
    return gradient.size() == 2 && !operand.empty() && operand.back() == gradient[1] &&
           (operand.size() == 1 || (operand.size() == 2 && operand[0] == Dim(1)));
  }

  void find(int i) {
    const Node& node = g_[i];
    if ((!is(node, ops::def::fused_elementwise) && node.op->scalar_op < 0) || (node.device && node.device->kind != DeviceKind::cpu) ||
        node.inputs.size() + 2 > kernels::kMostWithLeaves)  // and x and dz
      return;
    Join join;
    std::vector<std::pair<int64_t, size_t>> order;  // first row and input
    std::vector<Leaf> found(node.inputs.size());
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const auto leaf = leaf_of(node.inputs[k]);
      if (leaf)
        found[k] = *leaf, order.emplace_back(leaf->x.rows.begin, k);
      else
        join.extras.push_back(k);
    }
    if (order.size() < 2 || int64_t(order.size()) > kernels::kMostLeaves) return;
    std::sort(order.begin(), order.end());
    for (const auto& [row, k] : order) join.leaves.push_back(k), join.of_leaves.push_back(found[k]);
    const Leaf &first = join.of_leaves.front(), &last = join.of_leaves.back();
    const int64_t rows = last.x.rows.end - first.x.rows.begin, leaves = int64_t(order.size());
    for (int64_t l = 0; l < leaves; ++l) {
      const Leaf& leaf = join.of_leaves[size_t(l)];
      const int64_t begin = kernels::first_row_of_leaf(rows, leaves, l), end = kernels::first_row_of_leaf(rows, leaves, l + 1);
      const auto is_part = [&](const Part& part, const Part& of_first) {
        return part.matrix == of_first.matrix && part.rows.begin == of_first.rows.begin + begin &&
               part.rows.end == of_first.rows.begin + end;
      };
      if (begin == end || leaf.of_bias != first.of_bias || !is_part(leaf.x, first.x) || !is_part(leaf.dz, first.dz) ||
          precision_of(leaf) != precision_of(first))
        return;
    }
    const int64_t columns = g_.type(first.x.matrix).shape[1].number() + g_.type(first.dz.matrix).shape[1].number();
    if (rows * columns * int64_t(sizeof(float)) > most_bytes_) return;
    const Shape& gradient = g_.type(node.inputs[join.leaves[0]]).shape;
    for (size_t k : join.extras)
      if (!fits(g_.type(node.inputs[k]).shape, gradient)) return;
    for (const TensorType& type : node.types)
      if (type.shape != gradient) return;
    joined_[size_t(i)] = std::move(join);
  }
  Precision precision_of(const Leaf& leaf) const { return ir::attrs_of<ops::DenseUpdateAttrs>(*g_[leaf.update].attrs).precision; }

  // A gradient that something else uses, too, would be computed twice: its nodes stay as they are.
  void drop_shared() {
    for (bool changed = true; changed;) {
      changed = false;
      std::map<Value, int> taken;  // uses of dense_updates' results and of what lies between
      const auto take = [&](Value v) {
        for (;;) {
          if (++taken[v] > 1 || !(is(g_[v], ops::def::reshape) || is(g_[v], ops::def::slice))) return;
          v = g_[v].inputs[0];
        }
      };
      for (int i = 0; i < g_.size(); ++i)
        if (joined_[size_t(i)])
          for (size_t k : joined_[size_t(i)]->leaves) take(g_[i].inputs[k]);
      const auto is_shared = [&](const Leaf& leaf) {
        for (int r = 0; r < int(g_[leaf.update].types.size()); ++r) {
          const Value v{leaf.update, r};
          if (uses_.of(v) != (taken.contains(v) ? taken.at(v) : 0)) return true;
        }
        return false;
      };
      const auto is_used_elsewhere = [&](Value v) {
        for (; is(g_[v], ops::def::reshape) || is(g_[v], ops::def::slice); v = g_[v].inputs[0])
          if (uses_.of(v) != taken.at(v)) return true;
        return false;
      };
      for (int i = 0; i < g_.size(); ++i) {
        std::optional<Join>& join = joined_[size_t(i)];
        if (!join) continue;
        const bool shared =
            std::any_of(join->of_leaves.begin(), join->of_leaves.end(), is_shared) ||
            std::any_of(join->leaves.begin(), join->leaves.end(), [&](size_t k) { return is_used_elsewhere(g_[i].inputs[k]); });
        if (shared) join.reset(), changed = true;
      }
    }
  }

  void join(Rewriter& rewriter, int i) const {
    const Join& join = *joined_[size_t(i)];
    const Node& node = g_[i];
    rewriter.stand_at(i);
    // The node as a region: leaves, then the other operands.
    Graph region, none;
    const TensorType gradient = g_.type(node.inputs[join.leaves[0]]);
    std::vector<Value> inputs(node.inputs.size()), extras;
    for (size_t k : join.leaves) inputs[k] = region.add_input(gradient);
    for (size_t k : join.extras) inputs[k] = region.add_input(g_.type(node.inputs[k])), extras.push_back(rewriter[node.inputs[k]]);
    if (node.op->scalar_op >= 0) {
      region.outputs = {region.copy(node, inputs)};
    } else {
      const Graph& inside = *node.regions[0];
      std::map<Value, Value> now;
      for (size_t k = 0; k < inputs.size(); ++k) now[inside.inputs[k]] = inputs[k];
      for (int n = 0; n < inside.size(); ++n) {
        if (is(inside[n], ops::def::input)) continue;
        std::vector<Value> in;
        for (Value v : inside[n].inputs) in.push_back(now.at(v));
        now[{n, 0}] = region.copy(inside[n], std::move(in));
      }
      for (Value v : inside.outputs) region.outputs.push_back(now.at(v));
    }
    const Leaf& first = join.of_leaves[0];
    const Dim k = g_.type(first.x.matrix).shape[1], n = g_.type(first.dz.matrix).shape[1];
    for (size_t l = 0; l < join.leaves.size(); ++l) none.add_input({DType::f32, first.of_bias ? Shape{k, n} : Shape{n}});
    const int64_t rows = join.of_leaves.back().x.rows.end - first.x.rows.begin;
    const auto all_rows = [&](const Part& part) {
      const Value matrix = rewriter[part.matrix];
      const Shape& shape = g_.type(part.matrix).shape;
      return shape[0] == Dim(rows)
                 ? matrix
                 : ops::slice(rewriter.to, matrix, {part.rows.begin, 0}, {part.rows.begin + rows, shape[1].number()}, {1, 1});
    };
    std::vector<Value> in{all_rows(first.x), all_rows(first.dz)};
    in.insert(in.end(), extras.begin(), extras.end());
    const ops::DenseUpdateAttrs attrs{first.of_bias ? 0 : int64_t(extras.size()), precision_of(first), int64_t(join.leaves.size())};
    const auto own = std::make_shared<const Graph>(std::move(region)), other = std::make_shared<const Graph>(std::move(none));
    rewriter.map_results(i, rewriter.to.add(ops::def::dense_update, ir::make_attrs(attrs), std::move(in),
                                            first.of_bias ? std::vector<ir::GraphRef>{other, own} : std::vector<ir::GraphRef>{own, other}));
  }

  const Graph& g_;
  const int64_t most_bytes_;
  const Uses uses_;
  std::vector<std::optional<Join>> joined_;
};

}  // namespace

Graph join_leaves(const Graph& g, int64_t most_bytes) {
  const Joins joins(g, most_bytes);
  return joins.any() ? joins.apply() : g;
}

}  // namespace lamina::passes
