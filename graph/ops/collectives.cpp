// all_reduce(leaves...), all_gather(x), reduce_scatter(leaves), broadcast_from(x) and send_receive(x): between the ranks of a job.
#include "graph/ops/collectives.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/ops.h"
#include "runtime/dist/collectives.h"
#include "runtime/dist/world.h"

namespace lamina::ops {
namespace {

using distributed::Communicator;
using distributed::Place;

const CollectiveAttrs& of(const ir::AttrsBase& attrs) { return ir::attrs_of<CollectiveAttrs>(attrs); }

Error bad_call(const char* op, const std::string& what, const std::string& why, const std::string& fix) {
  return Error(ErrorKind::invalid_argument, {.what = cat(op, ": ", what), .where = "", .why = why, .fix = fix});
}

// --- shapes ---
void require_counts(const char* op, const CollectiveAttrs& a) {
  const bool fits = a.ranks >= 1 && a.ranks <= distributed::kMostShards && a.shards >= 1 && a.shards <= distributed::kMostShards &&
                    a.root >= 0 && a.root < a.ranks && a.rank >= 0 && a.rank < a.ranks;
  if (!fits)
    throw bad_call(op, cat("rank ", a.rank, " and root ", a.root, " of ", a.ranks, " ranks, ", a.shards, " shards"),
                   cat("there are 1 to ", distributed::kMostShards, " ranks and shards, and ranks are counted from 0"),
                   "pass the number of a rank of this job");
}
// A leaf's shape, of leaves that are stacked along the first axis.
Shape leaf_of(const char* op, const CollectiveAttrs& a, const TensorType& leaves) {
  require_counts(op, a);
  require_numeric(op, leaves);
  if (leaves.rank() == 0)
    throw bad_call(op, cat(leaves, " has no leaves"), "they are stacked along the first axis", "add that axis, also for one leaf");
  if (a.shards < a.ranks)
    throw bad_call(op, cat(a.ranks, " ranks share ", a.shards, " shards"), "each rank has at least one",
                   cat("use ", a.ranks, " shards or more, or start fewer ranks"));
  return {leaves.shape.begin() + 1, leaves.shape.end()};
}

std::vector<TensorType> infer_all_reduce(const ir::InferCall& call) {
  std::vector<TensorType> out;
  for (const TensorType& t : call.in) {
    out.push_back({t.dtype, leaf_of("all_reduce", of(call.attrs), t)});
    require_same_dtype("all_reduce", call.in[0], t);
    if (t.shape[0] != call.in[0].shape[0])
      throw bad_call("all_reduce", cat(t, " and ", call.in[0], " have different numbers of leaves"), "a rank has as many of each value",
                     "stack the same shards");
  }
  return out;
}
std::vector<TensorType> infer_all_gather(const ir::InferCall& call) {
  require_counts("all_gather", of(call.attrs));
  TensorType out{call.in[0].dtype, with_model_axis(of(call.attrs).ranks, call.in[0].shape)};
  require_rank("all_gather", out.shape);
  return {out};
}
std::vector<TensorType> infer_reduce_scatter(const ir::InferCall& call) {
  const CollectiveAttrs& a = of(call.attrs);
  Shape shape = leaf_of("reduce_scatter", a, call.in[0]);
  if (shape.empty() || !shape[0].known() || shape[0].number() % a.ranks != 0)
    throw bad_call("reduce_scatter",
                   cat("the first axis of ", TensorType{call.in[0].dtype, shape}, " cannot be cut for ", a.ranks, " ranks"),
                   "each rank gets an equal part of it", "pad it to a multiple of the number of ranks");
  shape[0] = shape[0].number() / a.ranks;
  return {{call.in[0].dtype, shape}};
}
std::vector<TensorType> infer_broadcast(const ir::InferCall& call) {
  require_counts("broadcast", of(call.attrs));
  return {call.in[0]};
}
std::vector<TensorType> infer_send_receive(const ir::InferCall& call) {
  const CollectiveAttrs& a = of(call.attrs);
  require_counts("send_receive", a);
  std::set<int64_t> from, to;
  bool fits = a.routes.size() % 2 == 0;
  for (size_t i = 0; fits && i < a.routes.size(); i += 2) {
    fits = a.routes[i] >= 0 && a.routes[i] < a.ranks && a.routes[i + 1] >= 0 && a.routes[i + 1] < a.ranks;
    fits = fits && from.insert(a.routes[i]).second && to.insert(a.routes[i + 1]).second;
  }
  if (!fits)
    throw bad_call("send_receive", cat("the routes ", ir::attr_text(a.routes), " are not pairs of ranks"),
                   cat("ranks are 0 to ", a.ranks - 1, ", and each sends at most once and receives at most once"),
                   "pass pairs (from, to); call it again for a second value");
  return {call.in[0]};
}

// --- gradients: of the sum of all ranks' targets ---
void require_differentiable(const char* op, const ir::AttrsBase& attrs) {
  if (of(attrs).of_rows)
    throw bad_call(op, "a tape outside of data_parallel cannot see into it", "its gradients are those of one rank's results there",
                   "take the gradient inside of the function that data_parallel gets");
}
// The sum of all ranks' values.
Value summed(Graph& g, const CollectiveAttrs& a, Value x) {
  return all_reduce(g, {reshape(g, x, with_model_axis(1, g.type(x).shape))}, {.ranks = a.ranks, .shards = a.ranks, .name = a.name})[0];
}
std::vector<Value> vjp_all_reduce(const ir::VjpCall& call) {
  require_differentiable("all_reduce", call.attrs);
  Graph& g = call.graph;
  const CollectiveAttrs& a = of(call.attrs);
  std::vector<Value> out(call.inputs.size());
  for (size_t i = 0; i < out.size(); ++i)
    if (call.cotangents[i].valid()) out[i] = broadcast_to(g, summed(g, a, call.cotangents[i]), g.type(call.inputs[i]).shape);
  return out;
}
std::vector<Value> vjp_all_gather(const ir::VjpCall& call) {
  require_differentiable("all_gather", call.attrs);
  Graph& g = call.graph;
  const CollectiveAttrs& a = of(call.attrs);
  const Value dy = call.cotangents[0];
  const Value own =
      reduce_scatter(g, reshape(g, dy, with_model_axis(1, g.type(dy).shape)), {.ranks = a.ranks, .shards = a.ranks, .name = a.name});
  return {reshape(g, own, g.type(call.inputs[0]).shape)};
}
std::vector<Value> vjp_reduce_scatter(const ir::VjpCall& call) {
  Graph& g = call.graph;
  const CollectiveAttrs& a = of(call.attrs);
  const TensorType leaves = g.type(call.inputs[0]);
  const Value all = all_gather(g, call.cotangents[0], {.ranks = a.ranks, .name = a.name});
  return {broadcast_to(g, reshape(g, all, {leaves.shape.begin() + 1, leaves.shape.end()}), leaves.shape)};
}
std::vector<Value> vjp_broadcast(const ir::VjpCall& call) {
  const CollectiveAttrs& a = of(call.attrs);
  Graph& g = call.graph;
  const Value sum = summed(g, a, call.cotangents[0]);  // needed on every rank: all of them call it
  return {a.rank == a.root ? sum : where(g, scalar(g, DType::boolean, 0), sum, scalar(g, g.type(sum).dtype, 0))};
}
std::vector<Value> vjp_send_receive(const ir::VjpCall& call) {
  CollectiveAttrs back = of(call.attrs);
  for (size_t i = 0; i + 1 < back.routes.size(); i += 2) std::swap(back.routes[i], back.routes[i + 1]);
  return {send_receive(call.graph, call.cotangents[0], std::move(back))};
}

// --- vmap: all models travel together ---
std::vector<ir::Batched> batch_all_reduce(const ir::BatchCall& call) {
  std::vector<Value> in;
  for (const ir::Batched& b : call.inputs) in.push_back(b.batched ? move_axis(call.graph, b.value, 0, 1) : b.value);
  const std::vector<Value> sums = all_reduce(call.graph, std::move(in), of(call.attrs));
  std::vector<ir::Batched> out;
  for (size_t i = 0; i < sums.size(); ++i) out.push_back({sums[i], call.inputs[i].batched});
  return out;
}
std::vector<ir::Batched> batch_all_gather(const ir::BatchCall& call) {
  return {{move_axis(call.graph, all_gather(call.graph, call.inputs[0].value, of(call.attrs)), 1, 0), true}};
}
std::vector<ir::Batched> batch_reduce_scatter(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const Value x = call.inputs[0].value;
  const int last = int(g.type(x).rank()) - 1;
  return {{move_axis(g, reduce_scatter(g, move_axis(g, x, 0, last), of(call.attrs)), last - 1, 0), true}};
}
template <const ir::OpDef& op>
std::vector<ir::Batched> batch_alike(const ir::BatchCall& call) {
  return {{call.graph.add(op, ir::make_attrs(of(call.attrs)), {call.inputs[0].value}), true}};
}

// Small sums of f32 over few ranks may be a step of a section. The answer is the same on all ranks.
bool step_all_reduce(const ir::KernelRequest& request, ir::SectionStep& step) {
  constexpr int64_t most_bytes = 16 << 20;  // that a rank reads of the others: an estimate
  const CollectiveAttrs& a = of(request.attrs);
  if (!a.in_launch || !a.of_rows || !a.reproducible || a.ranks < 2 || a.ranks > section::kMostSumRoots) return false;
  section::RankSum sum{.name = a.name, .shards = a.shards, .roots = {}, .joins = {}, .counts = {}};
  int64_t bytes = 0;
  for (const TensorType& t : request.out) {
    if (t.dtype != DType::f32) return false;
    sum.counts.push_back(size_of(t.shape).number());
    bytes += byte_size(t) * ((a.leaves ? a.shards : a.ranks) - 1);
  }
  std::vector<distributed::Range> roots;
  for (int64_t r = 0; r < a.ranks; ++r) {
    const distributed::Range leaves = distributed::part_of(a.shards, a.ranks, r);
    std::vector<distributed::Range> own;
    if (a.leaves)
      for (int64_t leaf = leaves.begin; leaf < leaves.end; ++leaf) own.push_back({leaf, leaf + 1});
    else
      own = distributed::roots_of(leaves, a.shards);
    sum.roots.push_back(int32_t(own.size()));
    roots.insert(roots.end(), own.begin(), own.end());
  }
  if (bytes > most_bytes || roots.size() > size_t(section::kMostSumRoots)) return false;
  sum.joins = distributed::joins_of(roots, a.shards);
  step.step.kind = section::StepKind::all_reduce;
  step.step.ins = step.step.outs = step.step.first_out = int32_t(request.out.size());
  for (int32_t i = 0; i < 2 * step.step.ins; ++i) step.operands.push_back({.buffer = i});
  step.sum = std::move(sum);
  return true;
}

// --- kernels ---
Communicator& communicator_for(const char* op, const CollectiveAttrs& a) {
  Communicator& c = distributed::current();
  if (c.size() != a.ranks)
    throw Error(ErrorKind::state,
                {.what = cat(op, ": the graph is for ", a.ranks, a.ranks == 1 ? " rank" : " ranks", ", the job has ", c.size()),
                 .where = "",
                 .why = "its shapes follow from the number of ranks",
                 .fix = "trace the function in the job that runs it"});
  return c;
}

void run_all_reduce(const KernelCall& call, const CollectiveAttrs& a) {
  Communicator& c = communicator_for("all_reduce", a);
  const Place place = Place::of(c, call.stream);
  const std::string line = text(call.line);
  const distributed::Range leaves_here = distributed::leaves_of(c, a.shards);
  const bool of_roots = a.of_rows && !a.leaves;
  const int64_t own = of_roots ? int64_t(distributed::roots_of(leaves_here, a.shards).size()) : leaves_here.size();
  if (call.in.empty()) return;
  if (call.in[0]->shape[0] != own)
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("all_reduce: rank ", c.rank(), " has ", call.in[0]->shape[0], of_roots ? " roots" : " leaves"),
                 .where = line,
                 .why = cat("of ", a.shards, " shards it has ", own),
                 .fix = "stack this rank's shards along the first axis"});
  distributed::SumOf sum{.dtype = call.in[0]->dtype, .count = 0, .shards = a.shards, .of_roots = of_roots, .reproducible = a.reproducible};
  const distributed::Subject subject{.tensor = a.name, .line = line};
  if (call.in.size() == 1 || c.size() == 1) {  // nothing travels
    for (size_t i = 0; i < call.in.size(); ++i) {
      sum.count = call.out[i]->size();
      distributed::all_reduce(place, sum, call.in[i]->data, call.out[i]->data, subject);
    }
    return;
  }
  for (const View* v : call.out) sum.count += v->size();
  const size_t unit = size_of(sum.dtype), leaf = size_t(sum.count) * unit;
  Place::Room leaves(place, leaf * size_t(own)), result(place, leaf);
  std::vector<Piece> pieces;
  size_t at = 0;
  for (const View* v : call.in) {
    const size_t bytes = size_t(v->size()) * unit / size_t(own);
    for (int64_t i = 0; i < own; ++i)
      pieces.push_back({static_cast<const char*>(v->data) + size_t(i) * bytes, leaves.data() + size_t(i) * leaf + at, bytes});
    at += bytes;
  }
  place.copy(pieces);
  distributed::all_reduce(place, sum, leaves.data(), result.data(), subject);
  pieces.clear();
  at = 0;
  for (const View* v : call.out) {
    const size_t bytes = size_t(v->size()) * unit;
    pieces.push_back({result.data() + at, v->data, bytes});
    at += bytes;
  }
  place.copy(pieces);
}
void run_all_gather(const KernelCall& call, const CollectiveAttrs& a) {
  const std::string line = text(call.line);
  distributed::all_gather(Place::of(communicator_for("all_gather", a), call.stream), call.in[0]->dtype, call.in[0]->data, call.out[0]->data,
                          call.in[0]->size(), {.tensor = a.name, .line = line});
}
void run_reduce_scatter(const KernelCall& call, const CollectiveAttrs& a) {
  Communicator& c = communicator_for("reduce_scatter", a);
  const std::string line = text(call.line);
  const distributed::SumOf sum{.dtype = call.in[0]->dtype, .count = call.out[0]->size() * c.size(), .shards = a.shards};
  distributed::reduce_scatter(Place::of(c, call.stream), sum, call.in[0]->data, call.out[0]->data, {.tensor = a.name, .line = line});
}
void run_broadcast(const KernelCall& call, const CollectiveAttrs& a) {
  const std::string line = text(call.line);
  const Place place = Place::of(communicator_for("broadcast", a), call.stream);
  place.copy(std::vector<Piece>{{call.in[0]->data, call.out[0]->data, size_t(call.in[0]->size()) * size_of(call.in[0]->dtype)}});
  distributed::broadcast(place, call.in[0]->dtype, call.out[0]->data, call.in[0]->size(), int(a.root), {.tensor = a.name, .line = line});
}
void run_send_receive(const KernelCall& call, const CollectiveAttrs& a) {
  Communicator& c = communicator_for("send_receive", a);
  const Place place = Place::of(c, call.stream);
  const std::string line = text(call.line);
  const size_t bytes = size_t(call.in[0]->size()) * size_of(call.in[0]->dtype);
  std::vector<distributed::Transfer> transfers;
  bool receives = false;
  for (size_t i = 0; i < a.routes.size(); i += 2) {
    const int from = int(a.routes[i]), to = int(a.routes[i + 1]);
    receives = receives || to == c.rank();
    if (from == c.rank() && to == c.rank()) place.copy(std::vector<Piece>{{call.in[0]->data, call.out[0]->data, bytes}});
    if (from == to) continue;
    if (from == c.rank()) transfers.push_back(distributed::to_rank(to, call.in[0]->data, bytes));
    if (to == c.rank()) transfers.push_back(distributed::from_rank(from, call.out[0]->data, bytes));
  }
  if (!receives) place.clear(call.out[0]->data, bytes);
  distributed::send_receive(place, transfers, {.tensor = a.name, .line = line});
}

// Made at the first launch, one after the other, so that ranks may have them in different sections.
class Windows final : public section::RankMemory {
 public:
  explicit Windows(std::vector<section::RankSum> sums) : sums_(std::move(sums)) {}
  int rank() const override { return distributed::current().rank(); }
  const std::vector<char*>& begin(Stream& stream, const std::vector<int64_t>& bytes) override {
    std::vector<char*> made;
    for (size_t i = 0; i < sums_.size(); ++i) {
      const section::RankSum& sum = sums_[i];
      const distributed::Subject subject{.tensor = sum.name, .line = ""};
      Communicator& c = communicator_for("all_reduce", {.ranks = int64_t(sum.roots.size())});
      const int64_t count = std::accumulate(sum.counts.begin(), sum.counts.end(), int64_t{0});
      distributed::compare_sum(c, {.count = count, .shards = sum.shards, .of_roots = true}, subject);
      if (!addresses_.empty()) continue;
      const std::vector<char*> of_sum = distributed::window(Place::of(c, stream), bytes[i], subject);
      if (of_sum.empty())
        throw Error(ErrorKind::device, {.what = cat("all_reduce: a rank of ", c.size(), " does not reach the memory of another one"),
                                        .where = "",
                                        .why = "when the step was traced it did",
                                        .fix = "start the job again"});
      made.insert(made.end(), of_sum.begin(), of_sum.end());
    }
    if (addresses_.empty()) addresses_ = std::move(made);
    return addresses_;
  }
  void started(Stream& stream) override {
    Place::of(distributed::current(), stream).watch(cat("a step that sums over ranks, ", sums_[0].name));
  }

 private:
  const std::vector<section::RankSum> sums_;
  std::vector<char*> addresses_;
};

template <void (*run)(const KernelCall&, const CollectiveAttrs&)>
Kernel kernel(const ir::KernelRequest& request) {
  return {[](const KernelCall& call) { run(call, *static_cast<const CollectiveAttrs*>(call.args)); },
          std::make_shared<const CollectiveAttrs>(of(request.attrs))};
}

}  // namespace

#define LAMINA_COLLECTIVE(op, count, run, step, what)   \
  constinit const ir::OpDef def::op{                    \
      .name = #op,                                      \
      .inputs = count,                                  \
      .parse_attrs = ir::Attrs<CollectiveAttrs>::parse, \
      .infer = infer_##run,                             \
      .vjp = vjp_##run,                                 \
      .batch = batch_##run,                             \
      .cpu = kernel<run_##run>,                         \
      .cuda = kernel<run_##run>,                        \
      .section = step,                                  \
      .effect = ir::Effect::ranks,                      \
      .doc = what,                                      \
  };
namespace {
constexpr auto batch_broadcast = batch_alike<def::broadcast_from>;
constexpr auto batch_send_receive = batch_alike<def::send_receive>;
}  // namespace
LAMINA_COLLECTIVE(all_gather, 1, all_gather, nullptr, "the values of all ranks, stacked along a new first axis")
LAMINA_COLLECTIVE(all_reduce, -1, all_reduce, step_all_reduce, "the sum of all ranks' leaves, in a fixed tree")
LAMINA_COLLECTIVE(broadcast_from, 1, broadcast, nullptr, "the value of one rank, on all of them")
LAMINA_COLLECTIVE(reduce_scatter, 1, reduce_scatter, nullptr, "this rank's part of the sum of all ranks' leaves, in a fixed tree")
LAMINA_COLLECTIVE(send_receive, 1, send_receive, nullptr, "what another rank sends to this one")
#undef LAMINA_COLLECTIVE

std::vector<Value> all_reduce(Graph& g, std::vector<Value> leaves, CollectiveAttrs attrs) {
  const size_t count = leaves.size();
  const Value first = g.add(def::all_reduce, ir::make_attrs(std::move(attrs)), std::move(leaves));
  std::vector<Value> out;
  for (size_t i = 0; i < count; ++i) out.push_back({first.node, int(i)});
  return out;
}
std::shared_ptr<section::RankMemory> memory_of(const std::vector<section::RankSum>& sums) { return std::make_shared<Windows>(sums); }

Value all_gather(Graph& g, Value x, CollectiveAttrs attrs) { return g.add(def::all_gather, ir::make_attrs(std::move(attrs)), {x}); }
Value reduce_scatter(Graph& g, Value leaves, CollectiveAttrs attrs) {
  return g.add(def::reduce_scatter, ir::make_attrs(std::move(attrs)), {leaves});
}
Value broadcast_from(Graph& g, Value x, CollectiveAttrs attrs) { return g.add(def::broadcast_from, ir::make_attrs(std::move(attrs)), {x}); }
Value send_receive(Graph& g, Value x, CollectiveAttrs attrs) { return g.add(def::send_receive, ir::make_attrs(std::move(attrs)), {x}); }

}  // namespace lamina::ops
