#include <map>
#include <optional>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace lamina::passes {
namespace {

Shape leading(const Shape& shape) { return {shape.begin(), shape.end() - 1}; }
bool all_one(const Shape& shape) { return shape == Shape(shape.size(), Dim(1)); }

// x [..., m, k] times one matrix, which multiplies each of x's rows alike.
bool multiplies_rows(const Graph& g, const Node& node) {
  if (!is(node, ops::def::matmul) || node.types[0].dtype != DType::f32 || node.types[0].rank() < 3) return false;
  return g.type(node.inputs[1]).rank() == 2 && !ir::attrs_of<ops::MatmulAttrs>(*node.attrs).transpose_a;
}

// How an operand of an elementwise node of this shape is seen when the node computes rows [r, n].
enum class Operand { as_it_is, rows, row, column };
std::optional<Operand> operand(const Shape& own, const Shape& shape) {
  if (own == shape) return Operand::rows;
  if (own.empty() || all_one(leading(own))) return own.size() <= 2 ? Operand::as_it_is : Operand::row;
  if (own.size() == shape.size() && own.back() == Dim(1) && leading(own) == leading(shape)) return Operand::column;
  return {};
}

class Flattening {
 public:
  explicit Flattening(const Graph& g) : g_(g), uses_(g), flat_(size_t(g.size())), rewriter_(g) {}

  Graph run() {
    find();
    for (int i = 0; i < g_.size(); ++i) {
      if (!uses_.live(i)) continue;
      const Node& node = g_[i];
      if (flat_[size_t(i)])
        emit(i);
      else if (const Value whole = rows_of_sum(node); whole.valid())
        emit_sum(i, whole);
      else if (is(node, ops::def::reshape) && rows_.count(node.inputs[0]))
        emit_reshape(i);
      else
        rewriter_.copy(i);
    }
    return rewriter_.finish();
  }

 private:
  // The products, and the elementwise nodes that are connected with them by values of one shape.
  void find() {
    const auto may_be_flat = [&](const Node& node) {
      if (!is_elementwise(node) || node.types[0].rank() < 3) return false;
      for (Value v : node.inputs)
        if (!operand(g_.type(v).shape, node.types[0].shape)) return false;
      return true;
    };
    std::vector<char> candidate(size_t(g_.size()));
    for (int i = 0; i < g_.size(); ++i) {
      candidate[size_t(i)] = uses_.live(i) && may_be_flat(g_[i]);
      flat_[size_t(i)] = uses_.live(i) && multiplies_rows(g_, g_[i]);
    }
    const auto joins = [&](int i, Value v) {
      char &a = flat_[size_t(i)], &b = flat_[size_t(v.node)];
      if (a == b || g_.type(v).shape != g_[i].types[0].shape || !(a ? candidate[size_t(v.node)] : candidate[size_t(i)])) return false;
      a = b = true;
      return true;
    };
    for (bool more = true; more;) {
      more = false;
      for (int i = 0; i < g_.size(); ++i)
        if (is_elementwise(g_[i]))
          for (Value v : g_[i].inputs) more |= joins(i, v);
      for (int i = g_.size() - 1; i >= 0; --i)
        if (is_elementwise(g_[i]) || multiplies_rows(g_, g_[i]))
          for (Value v : g_[i].inputs) more |= joins(i, v);
    }
  }

  // The old value as rows [r, n] in the new graph.
  Value rows(Value v) {
    auto [at, is_new] = rows_.try_emplace(v);
    if (is_new) {
      const Shape& shape = g_.type(v).shape;
      at->second = ops::reshape(rewriter_.to, rewriter_[v], {size_of(leading(shape)), shape.back()});
    }
    return at->second;
  }

  void emit(int i) {
    const Node& node = g_[i];
    const Shape& shape = node.types[0].shape;
    rewriter_.stand_at(i);
    Value flat;
    if (is(node, ops::def::matmul)) {
      const auto& attrs = ir::attrs_of<ops::MatmulAttrs>(*node.attrs);
      const Value x = g_.type(node.inputs[0]).rank() == 2 ? rewriter_[node.inputs[0]] : rows(node.inputs[0]);
      flat = ops::matmul(rewriter_.to, x, rewriter_[node.inputs[1]], false, attrs.transpose_b, attrs.precision);
    } else {
      std::vector<Value> operands;
      for (Value v : node.inputs) {
        const Shape& own = g_.type(v).shape;
        switch (*operand(own, shape)) {
          case Operand::as_it_is: operands.push_back(rewriter_[v]); break;
          case Operand::rows: operands.push_back(rows(v)); break;
          case Operand::row: operands.push_back(ops::reshape(rewriter_.to, rewriter_[v], {own.back()})); break;
          case Operand::column: operands.push_back(ops::reshape(rewriter_.to, rewriter_[v], {size_of(leading(own)), 1})); break;
        }
      }
      flat = rewriter_.to.add(*node.op, node.attrs, std::move(operands));
    }
    rows_[{i, 0}] = flat;
    rewriter_.map({i, 0}, ops::reshape(rewriter_.to, flat, shape));
  }

  // The operand of a sum over all axes but the last, if it is there as rows.
  Value rows_of_sum(const Node& node) const {
    if (!is(node, ops::def::sum) || node.types[0].rank() != 1 || !rows_.count(node.inputs[0])) return {};
    const auto& axes = ir::attrs_of<ops::ReduceAttrs>(*node.attrs).axes;
    const size_t rank = g_.type(node.inputs[0]).rank();
    return !axes.all() && !axes.contains(rank - 1, rank) ? node.inputs[0] : Value{};
  }
  void emit_reshape(int i) {
    const Value flat = rows_[g_[i].inputs[0]];
    rewriter_.stand_at(i);
    const Shape& shape = g_[i].types[0].shape;
    rewriter_.map({i, 0}, rewriter_.to.type(flat).shape == shape ? flat : ops::reshape(rewriter_.to, flat, shape));
  }
  void emit_sum(int i, Value whole) {
    rewriter_.stand_at(i);
    rewriter_.map({i, 0}, ops::sum(rewriter_.to, rows_[whole], Axes{0}));
  }

  const Graph& g_;
  Uses uses_;
  std::vector<char> flat_;
  std::map<Value, Value> rows_;  // of old values
  Rewriter rewriter_;
};

}  // namespace

Graph flatten_products(const Graph& g) {
  bool any = false;
  for (int i = 0; i < g.size() && !any; ++i) any = multiplies_rows(g, g[i]);
  return any ? remove_dead_nodes(Flattening(g).run()) : g;
}

}  // namespace lamina::passes
