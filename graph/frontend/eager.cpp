#include "graph/frontend/eager.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <unordered_map>

#include "graph/compile/compile.h"
#include "graph/frontend/copied_to.h"
#include "graph/frontend/device.h"
#include "graph/frontend/rare_dtypes.h"
#include "graph/frontend/tape_record.h"
#include "graph/frontend/trace.h"
#include "graph/ops/ops.h"
#include "runtime/core/mutex.h"
#include "runtime/core/per_thread.h"
#include "runtime/exec/executor.h"

namespace lamina {
namespace {

// The key of a planned op, and its program.
struct EagerOp {
  const ir::OpDef* op;
  ir::AttrsRef attrs;
  std::vector<TypeRef> inputs;
  std::vector<ir::GraphRef> regions;
  Device device;
  std::vector<TypeRef> outputs;
  std::unique_ptr<exec::Executor> executor;
};
using EagerOpRef = std::shared_ptr<EagerOp>;

struct Key {
  const ir::OpDef& op;
  const ir::AttrsRef& attrs;
  std::span<const Tensor> inputs;
  std::span<const ir::GraphRef> regions;
  Device device;

  uint64_t hash() const {
    uint64_t h = reinterpret_cast<uintptr_t>(&op);
    auto mix = [&](uint64_t word) { h = (h ^ word) * 0x9e3779b97f4a7c15u, h ^= h >> 29; };
    if (attrs) mix(attrs->hash());
    for (const Tensor& t : inputs) {
      const TensorType& type = t.type();
      mix(uint64_t(type.dtype) << 8 | type.shape.size());
      for (Dim d : type.shape) mix(uint64_t(d.code()));
    }
    for (const ir::GraphRef& region : regions) mix(reinterpret_cast<uintptr_t>(region.get()));
    mix(uint64_t(device.kind) << 24 | uint64_t(device.model) << 16 | uint16_t(device.index));
    return h;
  }
  bool matches(const EagerOp& e) const {
    if (e.op != &op || e.device != device || e.inputs.size() != inputs.size() || e.regions.size() != regions.size()) return false;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (e.inputs[i] != inputs[i].type_ref() && !(*e.inputs[i] == inputs[i].type())) return false;
    for (size_t i = 0; i < regions.size(); ++i)
      if (e.regions[i] != regions[i]) return false;
    return e.attrs == attrs || (e.attrs && attrs && e.attrs->equals(*attrs));
  }
};

// All planned ops; each thread also has a small table in front of it, which needs no lock.
constexpr size_t kMostOps = 8192, kFront = 1024;
struct Cache {
  Mutex mutex;
  std::unordered_multimap<uint64_t, EagerOpRef> ops;
  std::atomic<uint64_t> epoch{0};  // incremented when everything is forgotten
};
Cache& cache() {
  static Cache* c = new Cache;  // outlives threads that still run at exit
  return *c;
}
struct Front {
  struct Place {
    uint64_t hash = 0;
    EagerOpRef op;
  };
  std::vector<Place> places = std::vector<Place>(kFront);
  uint64_t epoch = 0;
};

EagerOpRef plan(const Key& key) {
  auto e = std::make_shared<EagerOp>();
  e->op = &key.op;
  e->attrs = key.attrs;
  e->device = key.device;
  e->regions.assign(key.regions.begin(), key.regions.end());
  ir::Graph g;
  std::vector<ir::Value> in;
  for (const Tensor& t : key.inputs) {
    e->inputs.push_back(t.type_ref());
    in.push_back(g.add_input(t.type()));
  }
  ir::Value first = g.add(key.op, key.attrs, std::move(in), e->regions);
  for (int i = 0; i < int(g[first].types.size()); ++i) {
    g.outputs.push_back({first.node, i});
    e->outputs.push_back(std::make_shared<const TensorType>(g[first].types[size_t(i)]));
  }
  e->executor = std::make_unique<exec::Executor>(
      compile::compile(g, {.device = key.device, .input_devices = {}, .variable_devices = {}, .sections = false, .threads = 0}));
  return e;
}

EagerOp& lookup(const Key& key) {
  Front& front = PerThread<Front>::get();
  Cache& c = cache();
  const uint64_t hash = key.hash();
  if (uint64_t epoch = c.epoch.load(std::memory_order_relaxed); front.epoch != epoch) {
    front.epoch = epoch;
    for (Front::Place& place : front.places) place.op.reset();
  }
  Front::Place& place = front.places[hash % kFront];
  if (place.hash == hash && place.op && key.matches(*place.op)) return *place.op;
  auto find = [&]() -> EagerOpRef {
    auto [begin, end] = c.ops.equal_range(hash);
    for (auto at = begin; at != end; ++at)
      if (key.matches(*at->second)) return at->second;
    return nullptr;
  };
  EagerOpRef found;
  {
    std::lock_guard lock(c.mutex);
    found = find();
  }
  if (!found) {
    EagerOpRef made = plan(key);  // not under the lock: if two threads plan the same op, one result is kept
    std::lock_guard lock(c.mutex);
    found = find();
    if (!found) {
      if (c.ops.size() >= kMostOps) c.ops.clear();
      c.ops.emplace(hash, made);
      found = std::move(made);
    }
  }
  place = {hash, std::move(found)};
  return *place.op;
}

// The device of an op: of an explicit DeviceScope, else of its inputs.
Device device_for(const ir::OpDef& op, std::span<const Tensor> inputs, bool& move) {
  move = false;
  if (inputs.empty()) return default_device();
  Device device = in_device_scope() ? default_device() : inputs[0].device();
  bool same = true;
  for (const Tensor& t : inputs) same &= t.device() == device;
  if (same) return device;
  move = true;
  if (in_device_scope()) return device;
  const Tensor* first = nullptr;  // the first input with axes decides
  for (const Tensor& t : inputs) {
    if (t.rank() == 0) continue;
    if (!first)
      first = &t;
    else if (t.device() != first->device())
      throw Error(ErrorKind::device, {.what = cat(op.name, ": its inputs lie on ", first->device(), " and ", t.device()),
                                      .where = "",
                                      .why = "tensors are not copied between devices silently",
                                      .fix = cat("move one: x.to(\"", first->device(), "\")")});
  }
  return first ? first->device() : device;
}

std::vector<BufferRef> run(const ir::OpDef& op, const ir::AttrsRef& attrs, std::span<const Tensor> inputs,
                           std::span<const ir::GraphRef> regions, EagerOp*& found) {
  bool move;
  const Device device = device_for(op, inputs, move);
  std::vector<Tensor> moved;
  if (move) {
    for (const Tensor& t : inputs) moved.push_back(copied_to(t, device));
    inputs = moved;
  }
  found = &lookup({op, attrs, inputs, regions, device});
  std::array<BufferRef, 4> few;
  std::vector<BufferRef> many;
  std::span<BufferRef> buffers(few.data(), std::min(inputs.size(), few.size()));
  if (inputs.size() > few.size()) {
    many.resize(inputs.size());
    buffers = many;
  }
  for (size_t i = 0; i < inputs.size(); ++i) buffers[i] = inputs[i].buffer();
  return found->executor->run(buffers, {});
}

}  // namespace

std::vector<Tensor> apply(const ir::OpDef& op, ir::AttrsRef attrs, std::span<const Tensor> inputs, CallSite at,
                          std::span<const ir::GraphRef> regions) {
  check_stack(at);
  if (concerns_rare_dtypes(op, attrs, inputs)) {
    std::vector<Tensor> out;
    if (apply_rare(op, attrs, inputs, at, out)) return out;
  }
  if (Trace* trace = Trace::current()) return trace->add_node(op, std::move(attrs), inputs, at, regions);
  try {
    EagerOp* planned;
    std::vector<BufferRef> buffers = run(op, attrs, inputs, regions, planned);
    std::vector<Tensor> out;
    out.reserve(buffers.size());
    for (size_t i = 0; i < buffers.size(); ++i) out.emplace_back(std::move(buffers[i]), planned->outputs[i]);
    if (recording()) record_op(op, attrs, inputs, out, regions, at);
    return out;
  } catch (const Error& e) {
    std::string line = text(at.line());
    if (line.empty() || e.parts.where.find(line) != std::string::npos) throw;
    throw e.at(line);
  }
}

Tensor apply_one(const ir::OpDef& op, ir::AttrsRef attrs, std::span<const Tensor> inputs, CallSite at) {
  return std::move(apply(op, std::move(attrs), inputs, at)[0]);
}

size_t eager_cache_size() {
  std::lock_guard lock(cache().mutex);
  return cache().ops.size();
}
void clear_eager_cache() {
  std::lock_guard lock(cache().mutex);
  cache().ops.clear();
  ++cache().epoch;
}

}  // namespace lamina
