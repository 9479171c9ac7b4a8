// Ranks of a job, and collectives of arrays on the host.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/cost/ranks.h"
#include "graph/frontend/data_parallel.h"
#include "graph/frontend/factories.h"
#include "graph/functions/collectives.h"
#include "python_bindings/src/containers.h"
#include "python_bindings/src/convert.h"
#include "python_bindings/src/function.h"
#include "runtime/dist/collectives.h"
#include "runtime/dist/stop.h"
#include "runtime/dist/world.h"
#include "runtime/io/checksum.h"

namespace lamina::python {
namespace {

namespace dist = lamina::distributed;

// A tensor's elements on the host, and its type.
struct Host {
  explicit Host(nb::handle value) {
    const Tensor given = to_tensor(value);
    given.concrete("a collective of arrays");
    tensor = given.to(parse_device("cpu:0"));
  }
  const void* data() const { return tensor.data(); }
  Tensor tensor;
};

Tensor made(const std::vector<char>& bytes, DType dtype, const Shape& shape) { return constant(bytes.data(), {dtype, shape}); }

template <class F>
void call(F&& f, const std::string& name) {
  const std::string line = text(CallSite().line());
  const ReleasedGil release;
  f(dist::world(), dist::Subject{.tensor = name, .line = line});
}

// The elements of one of this rank's leaves, which are stacked along the first axis.
int64_t count_of_leaf(const dist::Communicator& c, int64_t shards, const Tensor& leaves, dist::Subject subject) {
  const int64_t own = shards < 1 || c.size() > shards ? 0 : dist::leaves_of(c, shards).size();
  if (own == 0 || leaves.rank() == 0 || leaves.shape()[0] != Dim(own))
    throw Error(
        ErrorKind::invalid_argument,
        {.what = cat("all_reduce: ", leaves.type(), " is not what rank ", c.rank(), " of ", c.size(), " has of ", shards, " shards"),
         .where = std::string(subject.line),
         .why = own ? cat("its shards are stacked along the first axis: ", own) : std::string("there are fewer shards than ranks"),
         .fix = "pass this rank's shards, or leave out `shards` for one array of each rank"});
  return leaves.size() / own;
}

std::vector<VmapArgument> arguments_of(nb::list tensors, const std::vector<std::optional<int64_t>>& axes,
                                       const std::vector<std::string>& names) {
  std::vector<VmapArgument> out;
  for (size_t i = 0; i < tensors.size(); ++i) out.push_back({to_tensor(tensors[i]), axes.at(i), names.at(i)});
  return out;
}

dist::DataParallelOptions options_of(const std::string& name, int64_t shards, int64_t buckets, const std::vector<std::string>& devices,
                                     bool reproducible = true) {
  dist::DataParallelOptions options{.shards = shards, .buckets = buckets, .reproducible = reproducible, .name = name};
  for (const std::string& device : devices) options.devices.push_back(parse_device(device));
  return options;
}

// body([tensor, ...]) -> [tensor, ...]. Also the nodes that mix rows: (op, type, line).
nb::object call_by_rows(const std::string& name, nb::list tensors, const std::vector<std::optional<int64_t>>& axes,
                        const std::vector<std::string>& names, int64_t rows, int64_t shards, int64_t buckets,
                        const std::vector<std::string>& devices, bool reproducible, nb::handle body) {
  const std::vector<VmapArgument> arguments = arguments_of(tensors, axes, names);
  const SourceLine line = CallSite().line();
  std::vector<passes::GatheredRows> gathered;
  std::vector<Tensor> results;
  {
    const ReleasedGil release;
    const auto run = [&](std::span<const Tensor> whole) {
      const HeldGil gil;
      nb::list given;
      for (const Tensor& t : whole) given.append(to_python(t));
      std::vector<Tensor> out;
      for (const nb::object& r : elements_of(nb::cast<nb::list>(body(given))))
        out.push_back(is_variable(r.ptr()) ? as_variable(r.ptr()).read(CallSite()) : to_tensor(r));
      return out;
    };
    results = dist::call_by_rows(options_of(name, shards, buckets, devices, reproducible), arguments, rows, line, run, &gathered);
  }
  nb::list out, notes;
  for (Tensor& t : results) out.append(to_python(std::move(t)));
  for (const passes::GatheredRows& g : gathered) notes.append(nb::make_tuple(g.op, g.value, text(g.line)));
  return nb::make_tuple(out, notes);
}

void bind_collectives(nb::module_& m) {
  m.def(
      "graph_all_reduce",
      [](nb::handle x, std::optional<int64_t> shards, const std::string& name) {
        const Operand operand = to_operand(x);
        return unlocked({&operand}, [&] { return dist::all_reduce(operand, shards, name); });
      },
      nb::arg("x"), nb::arg("shards").none(), nb::arg("name"));
  m.def(
      "graph_all_gather",
      [](nb::handle x, const std::string& name) {
        const Operand operand = to_operand(x);
        return unlocked({&operand}, [&] { return dist::all_gather(operand, name); });
      },
      nb::arg("x"), nb::arg("name"));
  m.def(
      "graph_reduce_scatter",
      [](nb::handle x, std::optional<int64_t> shards, const std::string& name) {
        const Operand operand = to_operand(x);
        return unlocked({&operand}, [&] { return dist::reduce_scatter(operand, shards, name); });
      },
      nb::arg("x"), nb::arg("shards").none(), nb::arg("name"));
  m.def(
      "graph_broadcast",
      [](nb::handle x, int64_t root, const std::string& name) {
        const Operand operand = to_operand(x);
        return unlocked({&operand}, [&] { return dist::broadcast(operand, root, name); });
      },
      nb::arg("x"), nb::arg("root"), nb::arg("name"));
  m.def(
      "graph_send_receive",
      [](nb::handle x, const std::vector<std::pair<int64_t, int64_t>>& routes, const std::string& name) {
        const Operand operand = to_operand(x);
        return unlocked({&operand}, [&] { return dist::send_receive(operand, routes, name); });
      },
      nb::arg("x"), nb::arg("routes"), nb::arg("name"));
  m.def("in_whole_batch", [] { return dist::in_whole_batch(); }, "Whether a function of a whole batch is being traced.");
  m.def("take_all_as_whole", &dist::take_all_as_whole, nb::arg("whole"),
        "data_parallel(f) is f from now on, or no longer. Returns what held before.");
  m.def(
      "rows_of_batch",
      [](const std::string& name, nb::list tensors, const std::vector<std::optional<int64_t>>& axes, const std::vector<std::string>& names,
         int64_t shards, int64_t buckets, const std::vector<std::string>& devices) {
        const std::vector<VmapArgument> arguments = arguments_of(tensors, axes, names);
        const SourceLine line = CallSite().line();
        const ReleasedGil release;
        return dist::rows_of_batch(options_of(name, shards, buckets, devices), arguments, line);
      },
      nb::arg("name"), nb::arg("tensors"), nb::arg("axes"), nb::arg("names"), nb::arg("shards"), nb::arg("buckets"), nb::arg("devices"));
  m.def("call_by_rows", call_by_rows, nb::arg("name"), nb::arg("tensors"), nb::arg("axes"), nb::arg("names"), nb::arg("rows"),
        nb::arg("shards"), nb::arg("buckets"), nb::arg("devices"), nb::arg("reproducible"), nb::arg("body"));
}

}  // namespace

void bind_distributed(nb::module_& root) {
  nb::module_ m = root.def_submodule("distributed");
  m.def("rank", [] { return dist::rank(); }, nb::call_guard<ReleasedGil>());
  m.def("size", [] { return dist::size(); }, nb::call_guard<ReleasedGil>());
  m.def("set_step", [](int64_t step) { dist::set_step(step); }, nb::arg("step"), nb::call_guard<ReleasedGil>());
  m.def("fail", [](const std::string& why) { dist::fail(why); }, nb::arg("why"), nb::call_guard<ReleasedGil>());
  m.def(
      "barrier", [](const std::string& name) { call([](dist::Communicator& c, dist::Subject s) { dist::barrier(c, s); }, name); },
      nb::arg("name"));
  m.def(
      "all_reduce",
      [](nb::handle x, const std::string& name, std::optional<int64_t> shards) {
        const Host host(x);
        const DType dtype = host.tensor.dtype();
        Shape shape = host.tensor.shape();
        std::vector<char> out;
        call(
            [&](dist::Communicator& c, dist::Subject s) {
              dist::SumOf sum{.dtype = dtype, .count = host.tensor.size(), .shards = shards.value_or(c.size())};
              if (shards) sum.count = count_of_leaf(c, *shards, host.tensor, s), shape.erase(shape.begin());
              out.resize(size_t(sum.count) * size_of(dtype));
              dist::all_reduce(c, sum, host.data(), out.data(), s);
            },
            name);
        return to_python(made(out, dtype, shape));
      },
      nb::arg("x"), nb::arg("name"), nb::arg("shards").none());
  m.def(
      "all_gather",
      [](nb::handle x, const std::string& name) {
        const Host host(x);
        const DType dtype = host.tensor.dtype();
        const int64_t count = host.tensor.size();
        std::vector<char> out;
        Shape shape = host.tensor.shape();
        call(
            [&](dist::Communicator& c, dist::Subject s) {
              out.resize(size_t(count) * size_of(dtype) * size_t(c.size()));
              shape.insert(shape.begin(), c.size());
              dist::all_gather(c, dtype, host.data(), out.data(), count, s);
            },
            name);
        return to_python(made(out, dtype, shape));
      },
      nb::arg("x"), nb::arg("name"));
  m.def(
      "broadcast",
      [](nb::handle x, int root_rank, const std::string& name) {
        const Host host(x);
        const DType dtype = host.tensor.dtype();
        const int64_t count = host.tensor.size();
        std::vector<char> out(size_t(count) * size_of(dtype));
        if (!out.empty()) std::memcpy(out.data(), host.data(), out.size());
        call([&](dist::Communicator& c, dist::Subject s) { dist::broadcast(c, dtype, out.data(), count, root_rank, s); }, name);
        return to_python(made(out, dtype, host.tensor.shape()));
      },
      nb::arg("x"), nb::arg("root"), nb::arg("name"));
  m.def(
      "rows_of_rank",
      [](int64_t rows, int64_t shards) {
        const dist::Range own = dist::part_of(shards, dist::size(), dist::rank());
        if (own.size() < 1)
          throw Error(ErrorKind::invalid_argument, {.what = cat("shard: ", dist::size(), " ranks are more than ", shards, " shards"),
                                                    .where = text(CallSite().line()),
                                                    .why = "each rank has at least one shard of a batch",
                                                    .fix = cat("start at most ", shards, " ranks, or use more shards")});
        const dist::Range mine = dist::rows_of_rank(rows, shards, dist::size(), dist::rank());
        return nb::make_tuple(mine.begin, mine.end);
      },
      nb::arg("rows"), nb::arg("shards"), "The first row of a batch that is this rank's, and the row after its last one.");
  m.def(
      "end_of_step",
      [](const std::string& name) {
        int signal = 0;
        call([&](dist::Communicator& c, dist::Subject s) { signal = dist::end_of_step(c, s); }, name);
        return signal;
      },
      nb::arg("name"), "The signal that asked any rank to stop, the same on all; 0: none. All ranks call it, with the same name.");
  m.def(
      "expect_stops", [](bool expected) { dist::expect_stops(expected, dist::rank() == 0); }, nb::arg("expected"),
      nb::call_guard<ReleasedGil>(), "Whether SIGTERM and SIGUSR1 wait for end_of_step. Calls are counted.");
  m.def(
      "checksum",
      [](nb::handle x) {
        const Host host(x);
        const auto* bytes = static_cast<const std::byte*>(host.data());
        const ReleasedGil release;
        return io::crc32({bytes, size_t(host.tensor.size()) * size_of(host.tensor.dtype())});
      },
      nb::arg("x"));
  m.def(
      "modelled_steps",
      [](const std::string& device, int count, int hosts, double microseconds, std::vector<double> gradients, bool in_launch) {
        const cost::Ranks ranks{parse_device(device), count, hosts};
        const cost::Step step{microseconds, std::move(gradients)};
        nb::list out;
        for (const cost::Exchange e : {cost::Exchange::in_launch, cost::Exchange::beside, cost::Exchange::after}) {
          if (e == cost::Exchange::in_launch && !in_launch) continue;
          const cost::StepTime t = cost::step_time(step, ranks, e);
          out.append(nb::make_tuple(cost::name(e), t.sums, t.microseconds, t.exposed));
        }
        return nb::make_tuple(cost::text(ranks), out);
      },
      nb::arg("device"), nb::arg("count"), nb::arg("hosts"), nb::arg("microseconds"), nb::arg("gradients"), nb::arg("in_launch"),
      "What joins the ranks, and (how gradients are summed, in how many sums, microseconds of a step, of which exposed) for each way, "
      "modelled. in_launch: whether a step's launch sums by itself.");
  m.def(
      "explain_rank",
      [](nb::handle function, int64_t rows, const std::vector<std::optional<int64_t>>& axes, const std::string& device, int count,
         int hosts) {
        const cost::Ranks ranks{parse_device(device), count, hosts};
        return to_python(dist::explain_rank(*instance<Concrete>(function).function, rows, axes, ranks));
      },
      nb::arg("function"), nb::arg("rows"), nb::arg("axes"), nb::arg("device"), nb::arg("count"), nb::arg("hosts"),
      "The Explanation of the first rank's part of a step that was traced for a whole batch.");
  m.def(
      "measured_sums",
      [] {
        const ReleasedGil release;
        const cost::HostSums sums = cost::measured_sums(dist::world());
        return std::make_pair(sums.latency, sums.bytes);
      },
      "(latency in microseconds, bytes per microsecond) of sums of arrays over the ranks on this machine. All ranks call it.");
  bind_collectives(m);
  m.def("end", [] { dist::end_world(); }, nb::call_guard<ReleasedGil>());
  m.def("mpi_report", [] { return dist::mpi_report(); });
  m.def(
      "launch_report",
      [] {
        const dist::Launch& l = dist::launch();
        nb::dict out;
        out["launcher"] = l.launcher, out["mpi"] = l.mpi, out["rank"] = l.rank, out["size"] = l.size, out["hint"] = l.hint;
        out["variables"] = l.variables;
        return out;
      },
      "What has started this process, by its variables.");
}

}  // namespace lamina::python
