// data_parallel: a function of a whole batch, of which each rank has some rows. It means what the function means on the whole batch, with
// the same bits for any number of ranks up to `shards`. The function is traced for the whole batch, and its graph cut by rows
// (passes/cut_rows.h).
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "graph/frontend/typed_function.h"
#include "graph/frontend/vmap.h"
#include "graph/passes/cut_rows.h"

namespace lamina::cost {
struct Ranks;
}
namespace lamina::distributed {

struct DataParallelOptions {
  int64_t shards = 8;                  // of a batch; at least as many as ranks
  std::vector<MapAxis> in_axes = {0};  // of the rows, in all arguments or in each; none: the argument is the same on every rank
  int64_t buckets = 0;       // into which gradients are put, each exchanged while the backward pass goes on; 0: the cost model chooses
  bool reproducible = true;  // false: MPI_Allreduce or ncclAllReduce adds, and the bits depend on the number of ranks
  std::vector<Device> devices = {};    // of this process: a replica on each in place of ranks, and arguments and results are whole batches
  std::string name = "data_parallel";  // for errors
};

// Whether this thread traces a function of a whole batch. There data_parallel(f) is f.
LAMINA_API bool in_whole_batch();
// data_parallel(f) is f on this thread, for plans of ranks that are not there. Returns what held before.
LAMINA_API bool take_all_as_whole(bool whole);
// How many rows all ranks have together. Every rank calls it, before the same call. Throws collective, on all ranks, when a rank does not
// have its part of the batch or calls something else.
LAMINA_API int64_t rows_of_batch(const DataParallelOptions& options, std::span<const VmapArgument> arguments, CallSite at);
// Calls `body` on arguments of the whole batch of `rows` rows, traced; then runs this rank's part of it, or adds it to the trace around it.
// Results with rows are this rank's rows, along the axis that `axes` then says. The function must be the same on all ranks: throws
// collective if not.
LAMINA_API std::vector<Tensor> call_by_rows(const DataParallelOptions& options, std::span<const VmapArgument> arguments, int64_t rows,
                                            CallSite at, const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body,
                                            std::vector<passes::GatheredRows>* gathered = nullptr);

// The first of these ranks' part of a step, which was traced for a whole batch of `rows` rows: planned for devices that need not be there.
// axes: of the rows, in each argument; for those beyond it, tensors with so many rows are cut.
LAMINA_API Explanation explain_rank(const ConcreteFunction& whole, int64_t rows, std::span<const MapAxis> axes, const cost::Ranks& ranks);

template <class F>
class DataParallel {
 public:
  DataParallel(F f, DataParallelOptions options)
      : options_(options),
        f_(std::make_shared<const F>(std::move(f))),
        function_(WholeBatch{f_, options}, {.name = options.name, .advice = kAdvice}) {}

  template <class... Args>
  auto operator()(const Args&... args) const {
    using Result = typename typed::Outside<std::invoke_result_t<const F&, const Args&...>>::type;
    if (in_whole_batch()) return static_cast<Result>((*f_)(args...));
    const std::vector<VmapArgument> arguments = arguments_of(options_, args...);
    return function_(rows_of_batch(options_, arguments, {}), args...);
  }
  template <class... Args>
  std::string explain(const Args&... args) const {
    const std::vector<VmapArgument> arguments = arguments_of(options_, args...);
    return function_.explain(rows_of_batch(options_, arguments, {}), args...);
  }
  int trace_count() const { return function_.trace_count(); }

 private:
  template <class... Args>
  static std::vector<VmapArgument> arguments_of(const DataParallelOptions& options, const Args&... args) {
    std::vector<VmapArgument> out;
    size_t i = 0;
    const auto add = [&](const auto& value) {
      typed::Flat flat;
      typed::flatten(flat, value);
      const MapAxis axis = typed::axis_for(options.in_axes, i, sizeof...(Args), "in_axes", options.name);
      for (Tensor& t : flat.tensors) out.push_back({t, t.rank() > 0 ? axis : MapAxis(), cat("argument ", i)});
      ++i;
    };
    (add(args), ...);
    return out;
  }
  struct WholeBatch {
    std::shared_ptr<const F> f;
    DataParallelOptions options;
    template <class... Args>
    auto operator()(int64_t rows, const Args&... args) const {
      using Result = typename typed::Outside<std::invoke_result_t<const F&, const Args&...>>::type;
      std::vector<Variable> variables;
      const auto add = [&](const auto& value) {
        typed::Flat flat;
        typed::flatten(flat, value);
        variables.insert(variables.end(), flat.variables.begin(), flat.variables.end());
      };
      (add(args), ...);
      std::vector<size_t> sizes;
      std::vector<Tensor> out = call_by_rows(options, arguments_of(options, args...), rows, {}, [&](std::span<const Tensor> tensors) {
        typed::Reader in{tensors, variables};
        std::tuple<Args...> whole{typed::rebuild(in, args)...};  // braces evaluate from left to right
        std::vector<Tensor> results;
        if constexpr (std::is_void_v<Result>)
          std::apply(*f, whole);
        else
          typed::flatten_result(results, sizes, std::apply(*f, whole));
        return results;
      });
      if constexpr (!std::is_void_v<Result>) {
        std::span<const Tensor> in(out);
        size_t size = 0;
        return typed::rebuild_result<Result>(in, sizes, size);
      }
    }
  };
  static constexpr const char* kAdvice =
      "pass batches of one length: a number of rows is a graph of its own, because the ranks' rows follow from it";
  DataParallelOptions options_;
  std::shared_ptr<const F> f_;
  TypedFunction<WholeBatch> function_;
};

// f takes and returns what lm::function's may. Each rank passes its rows of the tensors with axes (shard() gives them); what f computes
// from all rows, such as a mean loss or a gradient, is the same on every rank. Results with rows are this rank's rows.
template <class F>
DataParallel<F> data_parallel(F f, DataParallelOptions options = {}) {
  return DataParallel<F>(std::move(f), std::move(options));
}

}  // namespace lamina::distributed
