// What GradientTapes record: hooks called by apply, Variable and Function. Internal to this folder.
#pragma once
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/frontend/tensor.h"
#include "graph/frontend/trace.h"
#include "graph/frontend/variable.h"

namespace lamina {

// The record of one tape. Eager: a graph of the recorded ops, with their tensors. Traced: marks on the nodes of the trace's graph. A node
// is recorded when it runs while the tape listens and one of its inputs is tracked (watched, or computed from a watched value).
class TapeRecord {
 public:
  TapeRecord(bool persistent, bool watch_variables) : persistent(persistent), watch_variables(watch_variables) {}

  bool listens() const { return active && paused == 0; }
  // Whether the tape was started in this trace (null: eagerly). A finished trace's address may be reused, so its lifetime is checked too.
  bool belongs_to(const Trace* t) const { return trace == t && (!t || !trace_alive.expired()); }
  bool tracks(const Tensor& t) const;
  bool wants(const Variable& v) const { return (watch_variables && v.trainable()) || watched_.contains(v.handle().get()); }
  void watch(const Tensor& t);
  void watch(const Variable& v) { watched_.insert(v.handle().get()), kept_.push_back(v); }
  void reset();

  // An op ran eagerly, or nodes from `first` on were added to the trace.
  void add_op(const ir::OpDef& op, const ir::AttrsRef& attrs, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
              std::span<const ir::GraphRef> regions, CallSite at);
  void add_nodes(int first);
  void add_read(const Variable& v, const Tensor& value);

  std::vector<Tensor> gradient(std::span<const Tensor> targets, std::span<const Tensor> tensors, std::span<const Variable* const> variables,
                               std::span<const Tensor> cotangents, CallSite at);
  // The gradients of one target along each of `directions`, which are stacked along a first axis, as the results are.
  std::vector<Tensor> gradients_along(const Tensor& directions, const Tensor& target, std::span<const Tensor> tensors,
                                      std::span<const Variable* const> variables, CallSite at);

  const bool persistent, watch_variables;
  bool active = false, used = false;
  int paused = 0;
  Trace* trace = nullptr;  // null: eager
  std::weak_ptr<Trace> trace_alive;

 private:
  ir::Graph& graph() { return trace ? trace->graph : own_; }
  ir::Value own_value(const Tensor& t);
  ir::Value tracked_value(const Tensor& t) const;
  // The values of sources, each once, and which of them belong to each source: a tensor is one value, a Variable all its reads.
  struct Parts {
    std::vector<ir::Value> values;
    std::vector<std::vector<size_t>> of;
  };
  Parts parts_of(std::span<const Tensor> tensors, std::span<const Variable* const> variables) const;
  std::vector<ir::Value> append_gradient(ir::Graph& g, std::span<const ir::Value> targets, const Parts& sources,
                                         std::span<const ir::Value> cotangents, CallSite at) const;
  void replay(int first, std::span<const ir::Value> wanted);

  ir::Graph own_;
  std::vector<std::vector<Tensor>> values_;                    // of own_'s nodes
  std::unordered_map<const TensorData*, ir::Value> value_of_;  // into own_
  std::vector<char> recorded_;                                 // per node: gradients may flow through it
  std::vector<char> tracked_;                                  // per node: its results are tracked
  std::unordered_map<const VariableData*, std::vector<ir::Value>> reads_;
  std::unordered_set<const VariableData*> watched_;
  std::vector<Variable> kept_;  // keeps the addresses above from being reused
};

// The tapes started by this thread, in order.
std::vector<std::shared_ptr<TapeRecord>>& thread_tapes();
extern thread_local int listening;
inline bool recording() { return listening > 0; }  // whether any tape is active

void record_op(const ir::OpDef& op, const ir::AttrsRef& attrs, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
               std::span<const ir::GraphRef> regions, CallSite at);
void record_nodes(Trace* trace, int first);
void record_read(const Variable& v, const Tensor& value);

}  // namespace lamina
