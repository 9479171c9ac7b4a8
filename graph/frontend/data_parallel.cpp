#include "graph/frontend/data_parallel.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>

#include "graph/compile/compile.h"
#include "graph/cost/costs.h"
#include "graph/cost/ranks.h"
#include "graph/cost/simulate.h"
#include "graph/frontend/eager.h"
#include "graph/frontend/replay.h"
#include "graph/frontend/trace.h"
#include "graph/ops/ops.h"
#include "graph/passes/pipeline.h"
#include "runtime/core/config.h"
#include "runtime/core/cores.h"
#include "runtime/device/backend.h"
#include "runtime/dist/checked_call.h"
#include "runtime/dist/processes.h"
#include "runtime/dist/world.h"
#include "runtime/io/checksum.h"

namespace lamina::distributed {
namespace {

constexpr int64_t kMostBuckets = 4096;
thread_local int whole_batches = 0;  // functions of one that this thread traces
struct WholeBatchScope {
  WholeBatchScope() { ++whole_batches; }
  ~WholeBatchScope() { --whole_batches; }
};
thread_local bool all_whole = false;

int64_t axis_of(const VmapArgument& a) { return *a.axis < 0 ? *a.axis + a.tensor.rank() : *a.axis; }

void require_shards(const DataParallelOptions& options, const Communicator& c, const std::string& where) {
  const std::string& name = options.name;
  if (options.shards < 1 || options.shards > kMostShards)
    throw Error(ErrorKind::invalid_argument, {.what = cat(name, ": shards ", options.shards, " is not a number of shards"),
                                              .where = where,
                                              .why = cat("a batch is cut into 1 to ", kMostShards),
                                              .fix = "pass such a number, at least that of ranks"});
  if (!options.devices.empty() && c.size() > 1)
    throw Error(ErrorKind::invalid_argument, {.what = cat(name, ": devices are given on one of ", c.size(), " ranks"),
                                              .where = where,
                                              .why = "there is a replica on each rank, or on each device of one process",
                                              .fix = "leave out devices, or run the program without a launcher"});
  const int64_t replicas = std::max<int64_t>(c.size(), int64_t(options.devices.size()));
  const char* of = options.devices.empty() ? " ranks" : " devices";
  if (replicas > options.shards)
    throw Error(ErrorKind::invalid_argument, {.what = cat(name, ": ", replicas, of, " are more than ", options.shards, " shards"),
                                              .where = where,
                                              .why = cat("each has at least one shard of a batch"),
                                              .fix = cat("use at most ", options.shards, of, ", or more shards")});
  if (options.buckets < 0 || options.buckets > kMostBuckets)
    throw Error(ErrorKind::invalid_argument, {.what = cat(name, ": buckets ", options.buckets, " is not a number of buckets"),
                                              .where = where,
                                              .why = cat("gradients travel in 1 to ", kMostBuckets),
                                              .fix = "leave it out: the model of costs then chooses"});
  for (Device device : options.devices) require_device(device);
}

// "f32[*,64], i64[*]": what must be equal on all ranks; * is the axis of the rows.
std::string signature(std::span<const VmapArgument> arguments) {
  std::string out;
  for (const VmapArgument& a : arguments) {
    out += cat(out.empty() ? "" : ", ", lamina::name(a.tensor.dtype()), '[');
    for (int i = 0; i < a.tensor.rank(); ++i)
      out += cat(i ? "," : "", a.axis && axis_of(a) == i ? std::string("*") : cat(a.tensor.shape()[size_t(i)]));
    out += ']';
  }
  return out;
}

// A line of a graph's text, with the user's line of its node.
std::string described(const ir::Graph& g, const std::vector<std::string>& lines, size_t at) {
  if (at >= lines.size()) return "nothing more";
  size_t of = at;  // the node that it belongs to, whose regions are indented
  while (of > 0 && lines[of][0] == ' ') --of;
  std::string out = cat("'", lines[at].substr(lines[at].find_first_not_of(' ')), "'");
  if (out.size() > 160) out = cat(out.substr(0, 156), "...'");
  if (lines[of][0] != '%') return out;
  const int node = std::atoi(lines[of].c_str() + 1);
  const std::string line = node < g.size() ? text(g[node].line) : "";
  return line.empty() ? out : cat(out, " (", line, ")");
}

// All ranks have traced one graph, or are told where theirs differ first.
void require_same_graph(const std::string& name, const std::string& subject, Communicator& c, const ir::Graph& g,
                        const std::string& where) {
  const std::string whole = ir::print(g);
  const auto gathered = [&](const std::vector<int64_t>& own) {
    std::vector<int64_t> all(own.size() * size_t(c.size()));
    all_gather(c, DType::i64, own.data(), all.data(), int64_t(own.size()), {.tensor = subject, .line = where});
    return all;
  };
  std::vector<std::string> lines;
  std::istringstream in(whole);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.push_back(line);
  const std::vector<int64_t> graphs = gathered({int64_t(hash_of_text(whole)), int64_t(lines.size())});
  int other = 1;
  while (other < c.size() && graphs[size_t(other) * 2] == graphs[0]) ++other;
  if (other >= c.size()) return;

  int64_t common = int64_t(lines.size());
  for (size_t r = 0; r < size_t(c.size()); ++r) common = std::min(common, graphs[r * 2 + 1]);
  std::vector<int64_t> own;
  for (size_t i = 0; i < size_t(common); ++i) own.push_back(int64_t(hash_of_text(lines[i])));
  const std::vector<int64_t> each = gathered(own);
  size_t first = 0;
  while (first < own.size() && each[size_t(other) * own.size() + first] == each[first]) ++first;

  constexpr size_t kRoom = 512;
  std::string mine = described(g, lines, first);
  mine.resize(kRoom);
  std::string texts(kRoom * size_t(c.size()), '\0');
  all_gather(c, DType::u8, mine.data(), texts.data(), int64_t(kRoom), {.tensor = subject, .line = where});
  const auto of_rank = [&](int r) { return std::string(texts.c_str() + size_t(r) * kRoom); };
  throw Error(ErrorKind::collective,
              {.what = cat("ranks disagree about the graph of ", name, ": rank ", other, " has traced another than rank 0"),
               .where = where,
               .why = cat("they differ first where rank 0 has ", of_rank(0), ", rank ", other, " has ", of_rank(other)),
               .fix = "let nothing change the function that differs between ranks, such as rank(), a host's files or its settings"});
}

// Variables and other values from outside of the function begin alike on all ranks.
void require_same_values(const std::string& name, Communicator& c, const Trace& trace, const std::string& where) {
  if (c.size() == 1) return;
  const EagerScope outside;
  std::vector<std::string> names;
  std::vector<int64_t> own;
  const auto add = [&](const std::string& described, const Tensor& value) {
    const Tensor t = value.to(Device{});
    names.push_back(described);
    own.push_back(io::crc32({static_cast<const std::byte*>(t.data()), size_t(t.size()) * size_of(t.dtype())}));
  };
  for (const Variable& v : trace.variables)
    if (!v.handle()->stand_in && v.state().buffer) add(cat("the Variable '", v.name(), "'"), Tensor(v.state().buffer, v.handle()->type));
  for (const Tensor& t : trace.captures)
    if (!t.is_symbolic()) add(cat("a value from outside, ", t.type()), t);
  std::vector<int64_t> all(own.size() * size_t(c.size()));
  all_gather(c, DType::i64, own.data(), all.data(), int64_t(own.size()), {.tensor = cat("values that ", name, " uses"), .line = where});
  for (size_t i = 0; i < own.size(); ++i)
    for (int r = 1; r < c.size(); ++r)
      if (all[size_t(r) * own.size() + i] != all[i])
        throw Error(ErrorKind::collective,
                    {.what = cat("ranks disagree about ", names[i], ": rank ", r, " has other values than rank 0"),
                     .where = where,
                     .why = cat(name, " is one step of all ranks, which all begin with the same state"),
                     .fix = "call lm.random.set_seed with the same seed on every rank before the model is made, or load "
                            "a checkpoint on all of them"});
}

// A call's microseconds by the model of graph/cost, without exchanges.
double modelled(const ir::Graph& g, Device device) {
  const ir::Graph optimized = passes::optimize(g).graph;
  return cost::simulate(*compile::compile(optimized, {.device = device}), cost::Costs::here()).microseconds;
}

bool between_processes(const Communicator& c) { return c.size() > 1 && &c == &world(); }

// Of sums between the processes of this job; all ranks come here together.
const cost::HostSums& sums_of_job() {
  static const cost::HostSums sums = cost::measured_sums(world());
  return sums;
}

// What the graph adds up over the ranks, in order: bytes of a leaf of each.
std::vector<double> summed_bytes(const ir::Graph& g) {
  std::vector<double> out;
  for (const ir::Node& node : g.nodes())
    if (node.op == &ops::def::all_reduce)
      for (const TensorType& t : node.types) out.push_back(double(byte_size(t)));
  return out;
}

// A step of this graph on all ranks, with the number of buckets that the simulator finds best. Empty for devices without figures.
std::optional<cost::StepTime> modelled_step(Communicator& c, const ir::Graph& own, Device device, bool in_launch) try {
  if (in_launch) return cost::StepTime{cost::Exchange::in_launch, int(summed_bytes(own).size()), modelled(own, device), 0};
  const cost::Step step{modelled(own, device), summed_bytes(own)};
  std::map<std::string, int> ranks_of;  // a host
  for (const RankStatus& s : c.ranks()) ++ranks_of[s.host];
  const int beside = std::max(1, ranks_of[this_process(c.rank()).host]);
  if (device.kind == DeviceKind::cpu)
    return cost::step_time(step, cost::HostRank{sums_of_job(), double(cores().usable()) / beside, double(config::threads())});
  const int hosts = int(ranks_of.size()), each = (c.size() + hosts - 1) / hosts;
  const cost::Ranks ranks{device, each * hosts, hosts};
  const cost::StepTime one = cost::step_time(step, ranks, cost::Exchange::after),
                       several = cost::step_time(step, ranks, cost::Exchange::beside);
  return several.microseconds < one.microseconds ? several : one;
} catch (const Error&) {
  return std::nullopt;
}

// Whether the ranks' GPUs sum by reading each other's memory. All ranks ask together.
bool sum_in_launch(const DataParallelOptions& options, Communicator& c, Device device) {
  if (c.size() == 1 || !options.reproducible) return false;
  return device.kind == DeviceKind::gpu && reach_memory(c, device);
}

// Bytes of a bucket's sums. `step` is rank 0's, which chooses for all.
int64_t bytes_of_bucket(const DataParallelOptions& options, Communicator& c, const ir::Graph& own,
                        const std::optional<cost::StepTime>& step) {
  int64_t buckets = options.buckets;
  if (buckets == 0 && between_processes(c)) {
    buckets = step ? step->sums : 1;
    broadcast(c, DType::i64, &buckets, 1, 0, {.tensor = cat("buckets of ", options.name)});
  }
  const std::vector<double> summed = summed_bytes(own);
  const double all = std::accumulate(summed.begin(), summed.end(), 0.0);
  return buckets < 2 ? passes::kBucketBytes : std::clamp<int64_t>(int64_t(all) / buckets + 1, 1, passes::kBucketBytes);
}

// Says on rank 0, once in a process, if one rank would be faster than all of them.
void compare_with_one_rank(const std::string& name, int64_t ranks, const ir::Graph& whole, double all, passes::RowsRequest request,
                           Device device) {
  static std::atomic<bool> compared{false};
  if (compared.exchange(true)) return;
  try {
    request.ranks = 1, request.rank = 0;
    const double one = modelled(passes::cut_rows(whole, request).graph, device);
    if (one < all)
      say(cat("lamina: one rank would be faster: by the model a call of ", name, " takes ", int64_t(one), " us on one and ", int64_t(all),
              " us on ", ranks, " ranks, which exchange sums. Larger batches or fewer ranks help"));
  } catch (const Error&) {
    // What cannot be planned on one rank cannot be compared.
  }
}

// Says on rank 0, at a process's first call, if all ranks have passed the same rows: whole batches, whose lengths happen to fit, say.
void look_for_equal_rows(const std::string& name, Communicator& c, std::span<const VmapArgument> arguments, const std::string& where) {
  static std::atomic<bool> looked{false};
  if (!between_processes(c) || Trace::current() || looked.exchange(true)) return;
  int64_t own = 0;
  for (const VmapArgument& a : arguments) {
    if (!a.axis) continue;
    const Tensor t = a.tensor.to(Device{});
    own = own * 31 + io::crc32({static_cast<const std::byte*>(t.data()), size_t(t.size()) * size_of(t.dtype())});
  }
  std::vector<int64_t> all(size_t(c.size()));
  all_gather(c, DType::i64, &own, all.data(), 1, {.tensor = cat("first rows of ", name), .line = where});
  if (c.rank() == 0 && std::all_of(all.begin(), all.end(), [&](int64_t one) { return one == own; }))
    say(cat("lamina: all ranks have passed the same rows to ", name, where.empty() ? "" : " at ", where,
            "; lm.distributed.shard gives each rank its own rows of a batch"));
}

}  // namespace

bool in_whole_batch() {
  Trace* around = Trace::current();
  if (!all_whole && (!around || whole_batches == 0)) return false;
  if (around) around->by_rows = true;  // it means something else on a rank's rows
  return true;
}

bool take_all_as_whole(bool whole) { return std::exchange(all_whole, whole); }

int64_t rows_of_batch(const DataParallelOptions& options, std::span<const VmapArgument> arguments, CallSite at) {
  const std::string& name = options.name;
  const int64_t shards = options.shards;
  const std::string where = text(at.line());
  Communicator& c = current();
  require_shards(options, c, where);
  if (Trace* around = Trace::current()) around->by_rows = true;
  const VmapArgument* first = nullptr;
  int64_t own = 0;
  for (const VmapArgument& a : arguments) {
    if (!a.axis) continue;
    const std::string described = cat(a.name.empty() ? "" : a.name + ", ", a.tensor.type());
    if (axis_of(a) < 0 || axis_of(a) >= a.tensor.rank())
      throw Error(ErrorKind::invalid_argument, {.what = cat(name, ": axis ", *a.axis, " is out of range for ", described),
                                                .where = where,
                                                .why = "in_axes names the axis of the rows",
                                                .fix = "pass an axis that the argument has, or None for what is the same on every rank"});
    const Dim length = a.tensor.shape()[size_t(axis_of(a))];
    if (!length.known())
      throw Error(
          ErrorKind::invalid_argument,
          {.what = cat(name, ": how many rows ", described, " has is not known"),
           .where = where,
           .why = "which rows and sums a rank has follows from the number, so that each number of rows is a graph of its own",
           .fix = "call data_parallel(step) on arrays, outside of functions, or give the rows a length in the input_signature around it, "
                  "such as lm.TensorSpec([64, 4])"});
    if (first && length != Dim(own))
      throw Error(ErrorKind::invalid_argument,
                  {.what = cat(name, ": ", described, " has ", length, " rows, ", first->name, ", ", first->tensor.type(), " has ", own),
                   .where = where,
                   .why = "row i of each argument belongs to example i",
                   .fix = "pass arguments with equally many rows, or in_axes=None for what is the same on every rank"});
    own = length.number();
    first = &a;
  }
  if (!first)
    throw Error(ErrorKind::invalid_argument, {.what = cat(name, ": no argument has rows"),
                                              .where = where,
                                              .why = "a batch is cut along an axis of its tensors",
                                              .fix = "pass this rank's rows of each batch"});
  std::vector<int64_t> all(size_t(c.size()));
  const std::string subject = cat("rows of ", name, "(", signature(arguments), ")");
  all_gather(c, DType::i64, &own, all.data(), 1, {.tensor = subject, .line = where});
  int64_t rows = 0;
  for (int64_t n : all) rows += n;
  for (int r = 0; r < c.size(); ++r)
    if (const int64_t part = rows_of_rank(rows, shards, c.size(), r).size(); all[size_t(r)] != part)
      throw Error(ErrorKind::collective,
                  {.what = cat("ranks disagree about the rows of ", name, ": rank ", r, " has ", all[size_t(r)], " of ", rows,
                               " rows, its part is ", part),
                   .where = where,
                   .why = cat("a batch is cut into ", shards, " shards, as even as possible, and ranks have neighbouring ones"),
                   .fix = "pass the rows that lm.distributed.shard gives each rank, with the same number of shards"});
  if (rows == 0)
    throw Error(ErrorKind::invalid_argument, {.what = cat(name, ": the batch has no rows"),
                                              .where = where,
                                              .why = "there is nothing to compute",
                                              .fix = "leave out empty batches"});
  look_for_equal_rows(name, c, arguments, where);
  return rows;
}

std::vector<Tensor> call_by_rows(const DataParallelOptions& options, std::span<const VmapArgument> arguments, int64_t rows, CallSite at,
                                 const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body,
                                 std::vector<passes::GatheredRows>* gathered) {
  const std::string& name = options.name;
  const int64_t shards = options.shards;
  const std::string where = text(at.line());
  Communicator& c = current();
  require_shards(options, c, where);
  Trace* outer = Trace::current();
  auto trace = std::make_shared<Trace>(name, outer ? outer->device : arguments.empty() ? default_device() : arguments[0].tensor.device());
  std::vector<Tensor> whole, inputs;  // arguments of the body; inputs of the graph
  std::vector<ir::Cut> cuts;
  for (const VmapArgument& a : arguments) {
    if (!a.axis) {
      whole.push_back(a.tensor);
      continue;
    }
    inputs.push_back(a.tensor);
    cuts.push_back({int(axis_of(a)), 1});
    TensorType type = a.tensor.type();
    type.shape[size_t(axis_of(a))] = rows;
    whole.push_back(trace->add_input(type, a.name));
  }
  {
    TraceScope scope(trace);
    const WholeBatchScope whole_batch;
    trace->add_outputs(body(whole), at);
  }
  if (outer) outer->created.insert(outer->created.end(), trace->created.begin(), trace->created.end());
  inputs.insert(inputs.end(), trace->captures.begin(), trace->captures.end());
  cuts.resize(inputs.size());
  std::string graph = cat("graph of ", name, options.reproducible ? "" : " with sums by the library", " for ", rows, " rows");
  if (options.buckets) graph += cat(", in ", options.buckets, " buckets");
  require_same_graph(name, graph, c, trace->graph, where);
  require_same_values(name, c, *trace, where);
  passes::RowsRequest request{.rows = rows,
                              .shards = shards,
                              .ranks = c.size(),
                              .rank = c.rank(),
                              .devices = options.devices,
                              .reproducible = options.reproducible,
                              .in_launch = sum_in_launch(options, c, trace->device),
                              .inputs = cuts};
  passes::RowsGraph own = passes::cut_rows(trace->graph, request);
  std::optional<cost::StepTime> step;
  if (between_processes(c)) {
    sums_of_job();
    if (c.rank() == 0) step = modelled_step(c, own.graph, trace->device, request.in_launch);
  }
  // In a launch, each value is announced by itself.
  if (const int64_t bytes = bytes_of_bucket(options, c, own.graph, step); bytes < request.bucket_bytes && !request.in_launch) {
    request.bucket_bytes = bytes;
    own = passes::cut_rows(trace->graph, request);
  }
  if (step) compare_with_one_rank(name, c.size(), trace->graph, step->microseconds, request, trace->device);
  if (gathered) *gathered = std::move(own.gathered);
  if (outer) return outer->inline_graph(own.graph, inputs, trace->variables, at);
  return in_graph_call(c, [&] { return replay(own.graph, inputs, trace->variables); });
}

Explanation explain_rank(const ConcreteFunction& whole, int64_t rows, std::span<const MapAxis> axes, const cost::Ranks& ranks) {
  const ir::Graph& g = whole.graph();
  const size_t arguments = whole.inputs().size();
  std::vector<ir::Cut> cuts(g.inputs.size());
  for (size_t i = 0; i < arguments; ++i) {
    const Shape& shape = g.type(g.inputs[i]).shape;
    const MapAxis axis = i < axes.size() ? axes[i] : !shape.empty() && shape[0] == Dim(rows) ? MapAxis(0) : MapAxis();
    if (axis) cuts[i] = {int(*axis < 0 ? *axis + int64_t(shape.size()) : *axis), 1};
  }
  auto trace = std::make_shared<Trace>(whole.name(), ranks.device);
  trace->graph = passes::cut_rows(g, {.rows = rows,
                                      .shards = std::max<int64_t>(kDefaultShards, ranks.count),
                                      .ranks = ranks.count,
                                      .in_launch = ranks.count > 1 && cost::reach_memory(ranks),
                                      .inputs = cuts})
                     .graph;
  trace->variables = whole.variables(), trace->captures = whole.captures();
  return ConcreteFunction(trace, whole.name(), arguments, {}, nullptr, 0).explanation(ranks.device);
}

}  // namespace lamina::distributed
