#include "graph/compile/schedule.h"

#include <algorithm>

#include "graph/ops/ops.h"

namespace lamina::compile {
namespace {

using ir::Effect;
using ir::Node;
using ir::Value;

constexpr int64_t kSoonElements = 16;               // so cheap that it runs as soon as possible
constexpr int64_t kMoveBytes = int64_t{64} << 10;   // of operands and results, which live longer when the node moves
constexpr int64_t kUpdateBytes = int64_t{1} << 20;  // of an update that waits for its assignment: more take longer than a launch

bool tiny(const Node& node) {
  for (const TensorType& t : node.types)
    if (size_of(t.shape).number() > kSoonElements) return false;
  return !node.types.empty();
}

int64_t bytes_of(const ir::Graph& g, const Node& node) {
  int64_t bytes = 0;
  for (Value v : node.inputs) bytes += byte_size(g.type(v));
  for (const TensorType& t : node.types) bytes += byte_size(t);
  return bytes;
}
// What a weight's gradient comes from.
bool is_gradient(const Node& node) {
  static const std::vector<const ir::OpDef*>& ops =
      *new std::vector<const ir::OpDef*>{&ops::def::dense_grad_weights, &ops::def::matmul, &ops::def::conv2d_grad_filter, &ops::def::sum};
  return std::find(ops.begin(), ops.end(), node.op) != ops.end();
}
// Whether it makes a rank's part of a gradient, which ranks exchange before the update.
bool adds_leaves(const Node& node) {
  return node.op == &ops::def::dense_update && ir::attrs_of<ops::DenseUpdateAttrs>(*node.attrs).leaves > 1;
}
bool is_elementwise(const Node& node) { return node.op->scalar_op >= 0 || node.op == &ops::def::fused_elementwise; }

// A small node that cannot fail: an error must leave the assignments before it, and no other.
bool moves(const ir::Graph& g, const Node& node) {
  static const std::vector<const ir::OpDef*>& reductions = *new std::vector<const ir::OpDef*>{
      &ops::def::sum, &ops::def::mean, &ops::def::max, &ops::def::min, &ops::def::prod, &ops::def::argmax};
  if (!is_elementwise(node) && node.op != &ops::def::reshape &&
      std::find(reductions.begin(), reductions.end(), node.op) == reductions.end())
    return false;
  return bytes_of(g, node) <= kMoveBytes;
}

}  // namespace

std::vector<int> schedule(const Selection& selection, int threads, bool gathers_updates) {
  const ir::Graph& g = selection.graph;
  size_t count = size_t(g.size());

  // Readers of each resource's old value, found in one sweep: old_of[v] is the resource whose old value v is.
  std::vector<int> old_of(count, -1);
  std::vector<std::vector<int>> readers(g.resources.size());
  std::vector<std::vector<int>> assigns(g.resources.size());
  for (int i = 0; i < g.size(); ++i) {
    const Node& n = g[i];
    int resource = ir::resource_of(n);
    if (n.op->effect == Effect::read) old_of[size_t(i)] = resource;
    if (n.op->effect == Effect::write) assigns[size_t(resource)].push_back(i);
    for (Value v : n.inputs)
      if (int r = old_of[size_t(v.node)]; r >= 0) {
        readers[size_t(r)].push_back(i);
        if (n.op->alias && v == n.inputs[0]) old_of[size_t(i)] = r;
      }
  }
  // The resources that each node's results are assigned to.
  std::vector<std::vector<int>> assigned_to(count);
  for (size_t r = 0; r < assigns.size(); ++r)
    for (int a : assigns[r]) assigned_to[size_t(g[a].inputs[0].node)].push_back(int(r));

  // On a GPU, blocks that share the steps wait for a step that one block runs. So what depends on inputs alone runs first, and what only
  // outputs need runs last: in a training step the cast of the labels, and the mean of the losses.
  std::vector<char> first(count), last(count), needed(count);
  for (int i = 0; i < g.size(); ++i)
    first[size_t(i)] = moves(g, g[i]) && std::all_of(g[i].inputs.begin(), g[i].inputs.end(), [&](Value v) {
                         return first[size_t(v.node)] || g[v].op == &ops::def::input || g[v].op == &ops::def::constant;
                       });
  bool before_a_loop = false;  // or a branch: behind it, a step would need one more barrier
  for (int i = g.size() - 1; i >= 0; --i) {
    before_a_loop |= ops::owns_programs(g[i]);
    last[size_t(i)] = !needed[size_t(i)] && !first[size_t(i)] && !before_a_loop && moves(g, g[i]);
    if (!last[size_t(i)])
      for (Value v : g[i].inputs) needed[size_t(v.node)] = true;
  }

  // On a GPU, updates are computed right before their assignments, and the gradients that only they need as soon as possible. So the
  // updates of all weights are one section, instead of one behind the gradients of each layer.
  std::vector<int> first_user(count, g.size());
  std::vector<char> late(count, true), soon(count);
  for (int i = g.size() - 1; i >= 0; --i) {
    const Node& n = g[i];
    const bool by_updates =
        gathers_updates && late[size_t(i)] && first_user[size_t(i)] < g.size() && selection.nodes[size_t(i)].device.kind != DeviceKind::cpu;
    late[size_t(i)] = by_updates && is_elementwise(n) && !tiny(n) && bytes_of(g, n) <= kUpdateBytes;
    soon[size_t(i)] = by_updates && is_gradient(n);
    for (Value v : n.inputs) {
      first_user[size_t(v.node)] = i;
      late[size_t(v.node)] = late[size_t(v.node)] && (n.op->effect == Effect::write || late[size_t(i)]);
    }
  }

  std::vector<int> key(count);  // sort key: a node runs in the gap after the node with this number
  std::vector<int> last_assign(g.resources.size(), -1), last_effect_read(g.resources.size(), -1);
  int last_host = -1, last_collective = -1;
  for (int i = 0; i < g.size(); ++i) {
    const Node& n = g[i];
    int earliest = -1;
    bool waits = false;  // for an exchange of ranks, beside which other work goes on
    for (Value v : n.inputs) earliest = std::max(earliest, key[size_t(v.node)]), waits = waits || g[v].op->effect == Effect::ranks;
    int resource = ir::resource_of(n);
    if (n.op->effect == Effect::read) earliest = std::max(earliest, last_assign[size_t(resource)]);
    if (n.op->effect == Effect::write) earliest = std::max({earliest, last_assign[size_t(resource)], last_effect_read[size_t(resource)]});
    const bool host = ir::has_host_effect(n);
    if (host) earliest = std::max(earliest, last_host);
    const bool collective = ir::has_collective(n);
    if (collective) earliest = std::max(earliest, last_collective);

    bool early = first[size_t(i)] || n.op->effect == Effect::read ||
                 (n.op->effect == Effect::none && !host && !collective && (runs_nothing(n) || tiny(n)));
    const bool computes_update = n.op->partition == section::Partition::tiles ||
                                 (is_elementwise(n) && !tiny(n) && selection.nodes[size_t(i)].device.kind == DeviceKind::cpu);
    bool update = threads == 1 && computes_update && !assigned_to[size_t(i)].empty();
    early = early || (adds_leaves(n) && assigned_to[size_t(i)].empty());
    if (waits) early = update = false;
    if (update) {
      early = true;
      earliest = std::max(earliest, last_host);  // a failing check must leave the variable unchanged
      for (int r : assigned_to[size_t(i)])
        for (int reader : readers[size_t(r)]) {
          if (reader > i) early = false;  // the old value is still needed: moving up would only cost a copy
          if (reader < i) earliest = std::max(earliest, key[size_t(reader)]);
        }
    }
    early = early || (soon[size_t(i)] && !waits);
    const int own = late[size_t(i)] && !first[size_t(i)] ? first_user[size_t(i)] - 1 : early ? earliest : i;
    key[size_t(i)] = last[size_t(i)] ? int(count) : std::max(own, earliest);
    if (n.op->effect == Effect::write) last_assign[size_t(resource)] = key[size_t(i)];
    if (n.op->effect == Effect::read) last_effect_read[size_t(resource)] = std::max(last_effect_read[size_t(resource)], key[size_t(i)]);
    if (host) last_host = key[size_t(i)];
    if (collective) last_collective = key[size_t(i)];
  }
  // Equal keys keep program order; a node in its own place precedes those moved behind it.
  std::vector<int> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = int(i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if (key[size_t(a)] != key[size_t(b)]) return key[size_t(a)] < key[size_t(b)];
    bool own_a = key[size_t(a)] == a, own_b = key[size_t(b)] == b;
    return own_a != own_b ? own_a : a < b;
  });
  return order;
}

}  // namespace lamina::compile
