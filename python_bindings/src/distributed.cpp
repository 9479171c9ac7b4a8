// Ranks of a job, and collectives of arrays on the host.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/frontend/factories.h"
#include "python_bindings/src/convert.h"
#include "runtime/dist/collectives.h"
#include "runtime/dist/world.h"

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
        return nb::make_tuple(dist::part_of(rows, shards, own.begin).begin, dist::part_of(rows, shards, own.end - 1).end);
      },
      nb::arg("rows"), nb::arg("shards"), "The first row of a batch that is this rank's, and the row after its last one.");
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
