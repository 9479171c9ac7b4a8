#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace lamina::passes {
namespace {

constexpr int kDeepest = 1000;  // longest chain of nodes recomputed for one value

class Recomputation {
 public:
  explicit Recomputation(const Graph& g) : g_(g), last_use_(size_t(g.size()), -1), now_(g), again_(size_t(g.size()), -1) {
    for (Value v : g.outputs) last_use_[size_t(v.node)] = g.size();
    for (int n = g.size() - 1; n >= 0; --n) {
      // Uses through a view count as uses of the viewed value.
      for (size_t i = 0; i < g[n].inputs.size(); ++i) {
        int& last = last_use_[size_t(g[n].inputs[i].node)];
        last = std::max(last, i == 0 && g[n].op->alias ? std::max(n, last_use_[size_t(n)]) : n);
      }
    }
    find_fullest();
  }

  Graph run(int stride) {
    choose(stride);
    for (int n = 0; n < g_.size(); ++n) {
      if (n <= fullest_)
        now_.copy(n);
      else
        now_.map_results(n, copy(n, 0));
    }
    return now_.finish();
  }

 private:
  // Whether it takes memory of its own in the arena.
  bool takes_memory(int n) const {
    const Node& node = g_[n];
    return node.op->effect == ir::Effect::none && !node.op->alias && node.op != &ops::def::input && node.op != &ops::def::constant;
  }
  bool may_run_twice(int n) const {
    return g_[n].op->effect == ir::Effect::none && node_is_plain(g_[n]) && last_use_[size_t(n)] < g_.size();
  }
  static bool node_is_plain(const Node& node) {
    return node.op != &ops::def::input && !ops::owns_programs(node) && node.op != &ops::def::checkpoint;
  }
  int64_t bytes(int n) const {
    int64_t sum = 0;
    for (const TensorType& t : g_[n].types) sum += byte_size(t);
    return takes_memory(n) ? sum : 0;
  }

  void find_fullest() {
    std::vector<int64_t> freed(size_t(g_.size()) + 1);
    int64_t now = 0, most = -1;
    for (int n = 0; n < g_.size(); ++n) {
      now += bytes(n);
      if (now > most) most = now, fullest_ = n;
      freed[size_t(std::max(n, last_use_[size_t(n)]))] += bytes(n);
      now -= freed[size_t(n)];
    }
    most_ = most;
  }

  void choose(int stride) {
    dropped_.assign(size_t(g_.size()), false);
    int count = 0;
    for (int n = 0; n < fullest_; ++n) {
      if (last_use_[size_t(n)] <= fullest_) continue;
      if (!may_run_twice(n) || bytes(n) * 256 < most_) continue;  // small values are not worth it
      dropped_[size_t(n)] = count++ % stride != 0;
    }
  }

  // After the memory peak: the source of a value made before it.
  Value late(Value v, int depth) {
    const int n = v.node;
    if (n > fullest_) return now_[v];
    if (again_[size_t(n)] >= 0) return {again_[size_t(n)], v.result};
    const bool waits = last_use_[size_t(n)] > fullest_ && !dropped_[size_t(n)] && !g_[n].op->alias;
    if (waits || depth == kDeepest || !may_run_twice(n) || g_[n].op == &ops::def::constant) return now_[v];
    again_[size_t(n)] = copy(n, depth + 1).node;
    return {again_[size_t(n)], v.result};
  }

  Value copy(int n, int depth) {
    std::vector<Value> in;
    for (Value v : g_[n].inputs) in.push_back(late(v, depth));
    return now_.to.copy(g_[n], std::move(in));
  }

  const Graph& g_;
  std::vector<int> last_use_;  // per node
  int fullest_ = 0;
  int64_t most_ = 0;
  std::vector<char> dropped_;
  Rewriter now_;
  std::vector<int> again_;  // per node of g_: its recomputed copy
};

}  // namespace

Graph recompute_values(const Graph& g, int stride) { return stride > 0 ? Recomputation(g).run(stride) : g; }

}  // namespace lamina::passes
