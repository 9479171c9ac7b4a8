#include <algorithm>
#include <optional>

#include "graph/passes/evaluate.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace lamina::passes {
namespace {

constexpr int64_t kMostResultBytes = 1 << 20;
constexpr int64_t kMostInputBytes = 16 << 20;

class Folding {
 public:
  explicit Folding(const Graph& g) : g_(g), rewriter_(g), foldable_(size_t(g.size())), values_(size_t(g.size())) {}

  Graph run() {
    for (int i = 0; i < g_.size(); ++i) {
      const Node& node = g_[i];
      foldable_[size_t(i)] =
          is_pure(node) && std::all_of(node.inputs.begin(), node.inputs.end(), [&](Value v) { return foldable_[size_t(v.node)]; });
      if (!foldable_[size_t(i)] || is_compact(node) || !compute(i))
        rewriter_.copy(i);
      else
        emit(i);
    }
    return rewriter_.finish();
  }

 private:
  // Constants, and ops that describe a megabyte in one line: they stay as they are.
  static bool is_compact(const Node& node) {
    return is(node, ops::def::constant) || is(node, ops::def::broadcast_to) || is(node, ops::def::iota);
  }

  // Fills values_[i]; false (and not tried again) if it cannot be computed.
  bool compute(int i) {
    if (!foldable_[size_t(i)]) return false;
    auto& values = values_[size_t(i)];
    if (!values.empty()) return true;
    const Node& node = g_[i];
    if (const ir::Literal* value = ir::constant_value(g_, {i, 0})) {
      if (known(value->type.shape) && byte_size(value->type) <= kMostInputBytes) values.push_back(*value);
    } else {
      std::vector<ir::Literal> inputs;
      for (Value v : node.inputs) {
        if (!compute(v.node)) break;
        inputs.push_back(values_[size_t(v.node)][size_t(v.result)]);
      }
      if (inputs.size() == node.inputs.size())
        if (auto results = evaluate(node, inputs, kMostResultBytes)) values = std::move(*results);
    }
    foldable_[size_t(i)] = !values.empty();
    return foldable_[size_t(i)];
  }

  // A uniform value stays one number, broadcast.
  void emit(int i) {
    rewriter_.stand_at(i);
    for (size_t r = 0; r < g_[i].types.size(); ++r) {
      const ir::Literal& value = values_[size_t(i)][r];
      const auto element = value.type.shape.empty() ? std::nullopt : uniform_element(value);
      Value now = rewriter_.to.add_constant(element ? *element : value);
      if (element) now = ops::broadcast_to(rewriter_.to, now, value.type.shape);
      rewriter_.map({i, int(r)}, now);
    }
  }

  const Graph& g_;
  Rewriter rewriter_;
  std::vector<char> foldable_;
  std::vector<std::vector<ir::Literal>> values_;
};

}  // namespace

Graph fold_constants(const Graph& g) { return Folding(g).run(); }

}  // namespace lamina::passes
