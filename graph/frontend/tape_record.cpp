#include "graph/frontend/tape_record.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "graph/autodiff/batch.h"
#include "graph/autodiff/gradient.h"
#include "graph/frontend/device.h"
#include "graph/frontend/eager.h"
#include "graph/frontend/replay.h"
#include "graph/ir/rewriter.h"
#include "graph/ops/ops.h"
#include "runtime/core/per_thread.h"

namespace lamina {

thread_local int listening = 0;
std::vector<std::shared_ptr<TapeRecord>>& thread_tapes() { return PerThread<std::vector<std::shared_ptr<TapeRecord>>>::get(); }

void record_op(const ir::OpDef& op, const ir::AttrsRef& attrs, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
               std::span<const ir::GraphRef> regions, CallSite at) {
  for (auto& tape : thread_tapes())
    if (tape->listens() && tape->belongs_to(nullptr)) tape->add_op(op, attrs, inputs, outputs, regions, at);
}
void record_nodes(Trace* trace, int first) {
  for (auto& tape : thread_tapes())
    if (tape->listens() && tape->belongs_to(trace)) tape->add_nodes(first);
}
void record_read(const Variable& v, const Tensor& value) {
  Trace* trace = Trace::current();
  for (auto& tape : thread_tapes())
    if (tape->listens() && tape->belongs_to(trace) && tape->wants(v)) tape->add_read(v, value);
}

void TapeRecord::reset() {
  own_ = {};
  values_.clear();
  value_of_.clear();
  recorded_.clear();
  tracked_.clear();
  reads_.clear();
  watched_.clear();
  kept_.clear();
  used = false || (used && !persistent);
}

ir::Value TapeRecord::tracked_value(const Tensor& t) const {
  if (!t.defined()) return {};
  ir::Value v;
  if (trace) {
    if (t.is_symbolic() && t.handle()->trace.lock().get() == trace)
      v = t.handle()->value;
    else
      v = trace->captured_value(t);  // an outside tensor: concrete, or of an enclosing trace
  } else {
    auto at = value_of_.find(t.handle().get());
    if (at != value_of_.end()) v = at->second;
  }
  return v.valid() && size_t(v.node) < tracked_.size() && tracked_[size_t(v.node)] ? v : ir::Value{};
}
bool TapeRecord::tracks(const Tensor& t) const { return tracked_value(t).valid(); }

// The value of a tensor in own_; a new input if it has none.
ir::Value TapeRecord::own_value(const Tensor& t) {
  auto [at, inserted] = value_of_.try_emplace(t.handle().get());
  if (inserted) try {
      values_.emplace_back(1, t);
      own_.place = {{}, "", t.device()};
      at->second = own_.add_input(t.type());
    } catch (...) {
      value_of_.erase(at);
      values_.resize(size_t(own_.size()));
      throw;
    }
  return at->second;
}

void TapeRecord::watch(const Tensor& t) {
  ir::Value v = trace ? trace->value_of(t) : own_value(t);
  tracked_.resize(std::max(tracked_.size(), size_t(v.node) + 1));
  tracked_[size_t(v.node)] = true;
}

void TapeRecord::add_op(const ir::OpDef& op, const ir::AttrsRef& attrs, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                        std::span<const ir::GraphRef> regions, CallSite at) {
  if (std::none_of(inputs.begin(), inputs.end(), [&](const Tensor& t) { return tracks(t); })) return;
  std::vector<ir::Value> in;
  for (const Tensor& t : inputs) in.push_back(own_value(t));
  own_.place = {at.line(), "", outputs.empty() ? std::nullopt : std::optional(outputs[0].device())};
  const int node = own_.size();
  try {
    own_.add(op, attrs, std::move(in), {regions.begin(), regions.end()});
    values_.emplace_back(outputs.begin(), outputs.end());
    for (size_t i = 0; i < outputs.size(); ++i) value_of_[outputs[i].handle().get()] = {node, int(i)};
    tracked_.resize(size_t(own_.size()));
    recorded_.resize(size_t(own_.size()));
  } catch (...) {  // out of memory: the tape stays unchanged
    for (const Tensor& t : outputs) value_of_.erase(t.handle().get());
    values_.resize(size_t(node));
    own_.truncate(node);
    throw;
  }
  tracked_[size_t(node)] = recorded_[size_t(node)] = true;
}

void TapeRecord::add_nodes(int first) {
  const ir::Graph& g = trace->graph;
  tracked_.resize(size_t(g.size()));
  recorded_.resize(size_t(g.size()));
  for (int n = first; n < g.size(); ++n)
    for (ir::Value in : g[n].inputs)
      if (tracked_[size_t(in.node)]) tracked_[size_t(n)] = recorded_[size_t(n)] = true;
}

void TapeRecord::add_read(const Variable& v, const Tensor& value) {
  kept_.push_back(v);
  if (trace) {
    watch(value);
    reads_[v.handle().get()].push_back(value.handle()->value);
  } else {
    watch(value);
    reads_[v.handle().get()].push_back(own_value(value));
  }
}

TapeRecord::Parts TapeRecord::parts_of(std::span<const Tensor> tensors, std::span<const Variable* const> variables) const {
  Parts out;
  out.of.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto add = [&](ir::Value v) {
      auto known = std::find(out.values.begin(), out.values.end(), v);
      out.of[i].push_back(size_t(known - out.values.begin()));
      if (known == out.values.end()) out.values.push_back(v);
    };
    if (variables[i]) {
      auto reads = reads_.find(variables[i]->handle().get());
      if (reads != reads_.end())
        for (ir::Value v : reads->second) add(v);
    } else if (ir::Value v = tracked_value(tensors[i]); v.valid()) {
      add(v);
    }
  }
  return out;
}

// Appends gradient nodes to g, which begins with this tape's graph; one value per source, invalid where nothing connects.
std::vector<ir::Value> TapeRecord::append_gradient(ir::Graph& g, std::span<const ir::Value> targets, const Parts& sources,
                                                   std::span<const ir::Value> cotangents, CallSite at) const {
  const size_t recorded_until = recorded_.size();
  const std::vector<ir::Value> gradients = autodiff::gradient(
      g, {.targets = targets, .cotangents = cotangents, .sources = sources.values, .first_node = 0, .blocks = [&](int n) {
            return size_t(n) >= recorded_until || !recorded_[size_t(n)];
          }});
  std::vector<ir::Value> sums(sources.of.size());
  const ir::Graph::Place place = std::exchange(g.place, {at.line(), "grad/", {}});
  for (size_t i = 0; i < sums.size(); ++i)
    for (size_t part : sources.of[i])
      if (gradients[part].valid()) sums[i] = sums[i].valid() ? ops::add(g, sums[i], gradients[part]) : gradients[part];
  g.place = place;
  return sums;
}

// The gradient's nodes become a graph of their own, whose inputs are the direction and the recorded values. It is mapped over directions.
std::vector<Tensor> TapeRecord::gradients_along(const Tensor& directions, const Tensor& target, std::span<const Tensor> tensors,
                                                std::span<const Variable* const> variables, CallSite at) {
  const Parts sources = parts_of(tensors, variables);
  const ir::Value wanted = tracked_value(target);
  std::vector<Tensor> out(tensors.size());
  if (!wanted.valid() || sources.values.empty()) return out;
  ir::Graph all = graph();
  const ir::Value direction = all.add_input(target.type());
  const std::vector<ir::Value> sums = append_gradient(all, std::span(&wanted, 1), sources, std::span(&direction, 1), at);

  ir::Graph own;
  ir::Rewriter to(all, own);
  std::vector<Tensor> inputs = {directions};
  to.map(direction, own.add_input(target.type()));
  const auto take = [&](ir::Value v) {
    if (to.mapped(v)) return;
    to.map(v, own.add_input(all.type(v)));
    inputs.push_back(trace ? trace->symbol(v) : values_[size_t(v.node)][size_t(v.result)]);
  };
  std::vector<ir::Value> results;
  std::copy_if(sums.begin(), sums.end(), std::back_inserter(results), [](ir::Value v) { return v.valid(); });
  const std::vector<char> needed = ir::needed_nodes(all, results);
  for (int n = direction.node + 1; n < all.size(); ++n) {
    if (!needed[size_t(n)]) continue;
    for (ir::Value v : all[n].inputs) take(v);
    to.copy(n);
  }
  for (ir::Value v : results) take(v), own.outputs.push_back(to[v]);
  std::vector<uint8_t> batched_inputs(inputs.size()), batched_outputs(results.size(), true);
  batched_inputs[0] = true;
  const autodiff::BatchedGraph batched = autodiff::batch(
      own, {.size = directions.shape()[0], .inputs = batched_inputs, .resources = {}, .outputs = batched_outputs, .same_draws = true});
  const std::vector<Tensor> rows = trace ? trace->inline_graph(batched.graph, inputs, {}, at) : lamina::replay(batched.graph, inputs, {});
  for (size_t i = 0, next = 0; i < out.size(); ++i)
    if (sums[i].valid()) out[i] = rows[next++];
  return out;
}

std::vector<Tensor> TapeRecord::gradient(std::span<const Tensor> targets, std::span<const Tensor> tensors,
                                         std::span<const Variable* const> variables, std::span<const Tensor> cotangents, CallSite at) {
  ir::Graph& g = graph();
  const Parts sources = parts_of(tensors, variables);
  std::vector<ir::Value> wanted, seeds;
  for (size_t i = 0; i < targets.size(); ++i) {
    ir::Value v = tracked_value(targets[i]);
    if (!v.valid()) continue;  // no watched value leads to it
    wanted.push_back(v);
    if (!cotangents.empty())
      seeds.push_back(cotangents[i].defined() ? (trace ? trace->value_of(cotangents[i]) : own_value(cotangents[i])) : ir::Value{});
  }
  std::vector<Tensor> out(tensors.size());
  if (wanted.empty() || sources.values.empty()) return out;

  const int first = g.size();
  struct Remove {  // restores an eager tape even on failure, so that it may be retried
    TapeRecord& tape;
    int first;
    ~Remove() {
      if (tape.trace) return;
      tape.values_.resize(size_t(first));
      tape.own_.truncate(first);
    }
  } remove{*this, first};
  const std::vector<ir::Value> sums = append_gradient(g, wanted, sources, seeds, at);

  if (trace) {
    record_nodes(trace, first);  // for paused tapes around this one
    for (size_t i = 0; i < out.size(); ++i)
      if (sums[i].valid()) out[i] = trace->symbol(sums[i]);
    return out;
  }
  replay(first, sums);
  for (size_t i = 0; i < out.size(); ++i)
    if (sums[i].valid()) out[i] = values_[size_t(sums[i].node)][size_t(sums[i].result)];
  return out;
}

// Runs the nodes from `first` on that are needed, op by op, so that enclosing tapes record them.
void TapeRecord::replay(int first, std::span<const ir::Value> wanted) {
  std::vector<char> needed(size_t(own_.size()));
  for (ir::Value v : wanted)
    if (v.valid()) needed[size_t(v.node)] = true;
  for (int n = own_.size() - 1; n >= first; --n)
    if (needed[size_t(n)])
      for (ir::Value in : own_[n].inputs) needed[size_t(in.node)] = true;
  values_.resize(size_t(own_.size()));
  std::vector<Tensor> in;
  for (int n = first; n < own_.size(); ++n) {
    if (!needed[size_t(n)]) continue;
    const ir::Node& node = own_[n];
    if (const ir::Literal* literal = ir::constant_value(own_, {n, 0})) {
      values_[size_t(n)] = {tensor_of(*literal)};
      continue;
    }
    in.clear();
    for (ir::Value v : node.inputs) in.push_back(values_[size_t(v.node)][size_t(v.result)]);
    // On the device of the differentiated op; nodes without inputs, such as ones, may be elsewhere.
    std::optional<DeviceScope> there;
    if (node.device && std::any_of(in.begin(), in.end(), [&](const Tensor& t) { return t.device() != *node.device; }))
      there.emplace(*node.device);
    values_[size_t(n)] = apply(*node.op, node.attrs, in, node.line, node.regions);
  }
}

}  // namespace lamina
