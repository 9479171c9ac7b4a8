#include "graph/frontend/vmap.h"

#include <array>
#include <numeric>

#include "graph/autodiff/batch.h"
#include "graph/frontend/eager.h"
#include "graph/frontend/model_axis.h"
#include "graph/frontend/replay.h"
#include "graph/frontend/trace.h"
#include "graph/ops/ops.h"

namespace lamina {
namespace {

std::string described(const VmapArgument& a) { return cat(a.name.empty() ? "" : a.name + ", ", a.tensor.type()); }

int64_t axis_in(const char* what, int64_t axis, size_t rank, const std::string& of, const std::string& where) {
  const int64_t r = int64_t(rank);
  if (axis >= -r && axis < r) return axis < 0 ? axis + r : axis;
  throw Error(ErrorKind::invalid_argument,
              {.what = cat("vmap: ", what, " axis ", axis, " is out of range for ", of),
               .where = where,
               .why = r == 0 ? "it has no axes" : cat("it has ", r, r == 1 ? " axis" : " axes"),
               .fix = r == 0 ? cat("pass ", what, "_axes=None for what all models share") : cat("pass an axis from ", -r, " to ", r - 1)});
}

Tensor moved(const Tensor& t, int64_t from, int64_t to, CallSite at) {
  if (from == to) return t;
  Axes axes;
  for (int64_t i = 0; i < t.rank(); ++i)
    if (i != from) axes.push_back(i);
  axes.insert(axes.begin() + to, from);
  return apply_one(ops::def::transpose, ir::make_attrs(ops::TransposeAttrs{std::move(axes)}), std::array{t}, at);
}

// The common length of all mapped axes; empty when no argument is mapped and no length was given.
std::optional<Dim> common_size(std::span<const VmapArgument> arguments, std::optional<int64_t> axis_size, const std::string& where) {
  if (axis_size && *axis_size < 0)
    throw Error(ErrorKind::invalid_argument, {.what = cat("vmap: axis_size ", *axis_size),
                                              .where = where,
                                              .why = "it is how many models there are",
                                              .fix = "pass 0 or more, or no axis_size"});
  std::optional<Dim> size;
  if (axis_size) size = Dim(*axis_size);
  const VmapArgument* first = nullptr;
  for (const VmapArgument& a : arguments) {
    if (!a.axis) continue;
    const int64_t axis = axis_in("in", *a.axis, size_t(a.tensor.rank()), described(a), where);
    const Dim length = a.tensor.shape()[size_t(axis)];
    if (size && !(*size == length))
      throw Error(ErrorKind::invalid_argument, {.what = cat("vmap: axis ", *a.axis, " of ", described(a), " has length ", length,
                                                            first ? cat(", axis ", *first->axis, " of ", described(*first), " has ", *size)
                                                                  : cat(", axis_size is ", *size)),
                                                .where = where,
                                                .why = "all mapped axes are one: entry i of each belongs to model i",
                                                .fix = "pass inputs of one length, or in_axes=None for those that all models share"});
    size = length;
    if (!first) first = &a;
  }
  return size;
}

}  // namespace

MapAxis typed::axis_for(const std::vector<MapAxis>& axes, size_t i, size_t count, const char* what, const std::string& name) {
  if (axes.size() == 1) return axes[0];
  if (axes.size() == count) return axes[i];
  throw Error(ErrorKind::invalid_argument, {.what = cat(name, ": ", what, " has ", axes.size(), " entries for ", count),
                                            .where = "",
                                            .why = "there is one for all, or one for each",
                                            .fix = "pass one per argument or result"});
}

std::vector<Tensor> vmap_call(const std::string& name, std::span<const VmapArgument> arguments, std::optional<int64_t> axis_size,
                              CallSite at, const std::function<VmapResults(std::span<const Tensor>)>& body) {
  const std::string where = text(at.line());
  Trace* outer = Trace::current();
  auto trace = std::make_shared<Trace>(name, outer ? outer->device : arguments.empty() ? default_device() : arguments[0].tensor.device());

  std::vector<Tensor> one_model, inputs;  // arguments of the body; inputs of the graph
  std::vector<uint8_t> batched_inputs, stacked, batched_outputs;
  std::vector<Tensor> results;
  VmapResults given;
  autodiff::BatchedGraph batched;
  {
    ModelAxis models(common_size(arguments, axis_size, where));
    for (const VmapArgument& a : arguments) {
      if (!a.axis) {
        one_model.push_back(a.tensor);
        continue;
      }
      const int64_t axis = *a.axis < 0 ? *a.axis + a.tensor.rank() : *a.axis;
      inputs.push_back(moved(a.tensor, axis, 0, at));
      batched_inputs.push_back(true);
      TensorType type = a.tensor.type();
      type.shape.erase(type.shape.begin() + axis);
      one_model.push_back(trace->add_input(type, a.name));
    }
    {
      TraceScope scope(trace);
      given = body(one_model);
      trace->add_outputs(given.tensors, at);
      for (const auto& axis : given.axes) batched_outputs.push_back(axis.has_value());
      given.tensors.clear();
      for (const Variable& v : trace->variables) stacked.push_back(ModelAxis::of(*v.handle()) == &models);
    }
    if (!models.size)
      throw Error(ErrorKind::invalid_argument, {.what = cat("vmap: nothing of ", name, " is mapped"),
                                                .where = where,
                                                .why = "in_axes is None for every argument, and the function uses no stacked variable",
                                                .fix = "map an argument, use Variables of lm.nn.stack or lm.per_model, or pass axis_size"});
    if (outer) outer->created.insert(outer->created.end(), trace->created.begin(), trace->created.end());
    inputs.insert(inputs.end(), trace->captures.begin(), trace->captures.end());
    batched_inputs.resize(inputs.size());
    batched =
        autodiff::batch(trace->graph, {.size = *models.size, .inputs = batched_inputs, .resources = stacked, .outputs = batched_outputs});
  }
  for (size_t i = 0; i < given.axes.size(); ++i)
    if (!given.axes[i] && batched.outputs[i])
      throw Error(ErrorKind::invalid_argument,
                  {.what = cat("vmap: result ", i, " of ", name, " differs from model to model, its out_axes is None"),
                   .where = where,
                   .why = "None is for results that all models share",
                   .fix = "pass the axis along which the models' results are stacked: out_axes=0"});
  results = outer ? outer->inline_graph(batched.graph, inputs, trace->variables, at) : replay(batched.graph, inputs, trace->variables);
  for (size_t i = 0; i < results.size(); ++i)
    if (given.axes[i])
      results[i] = moved(results[i], 0,
                         axis_in("out", *given.axes[i], size_t(results[i].rank()), cat("result ", i, ", ", results[i].type()), where), at);
  return results;
}

}  // namespace lamina
