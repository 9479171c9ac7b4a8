// check(condition, values...) and check_numerics(x): errors that depend on values.
#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"
#include "kernels/report.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_check(const ir::InferCall& call) {
  const auto& a = ir::attrs_of<CheckAttrs>(call.attrs);
  if (call.in.empty() || call.in[0].dtype != DType::boolean)
    throw Error(ErrorKind::type, {.what = cat("check: the condition is ", call.in.empty() ? "missing" : cat(call.in[0])),
                                  .where = "",
                                  .why = "a condition is bool",
                                  .fix = "compare it: x != 0"});
  for (const TensorType& t : call.in)
    if (a.models < 0 || a.models > int64_t(t.rank()))
      throw Error(
          ErrorKind::invalid_argument,
          {.what = cat("check: ", t, " has no ", a.models, " model axes"), .where = "", .why = "each value has them in front", .fix = ""});
  return {};
}

std::vector<ir::Batched> batch_check(const ir::BatchCall& call) {
  CheckAttrs attrs = ir::attrs_of<CheckAttrs>(call.attrs);
  ++attrs.models;
  call.graph.add(def::check, ir::make_attrs(std::move(attrs)), with_model_axes(call.graph, call.inputs, call.size));
  return {};
}

Kernel cpu_check(const ir::KernelRequest& request) {
  const auto& a = ir::attrs_of<CheckAttrs>(request.attrs);
  return bind<kernels::cpu::check>(kernels::CheckText{a.message, a.why, a.models});
}

std::vector<TensorType> infer_numerics(const ir::InferCall& call) {
  require_floating("check_numerics", call.in[0]);
  return {call.in[0]};
}

std::vector<Value> vjp_numerics(const ir::VjpCall& call) {
  const std::string& message = ir::attrs_of<NumericsAttrs>(call.attrs).message;
  return {check_numerics(call.graph, call.cotangents[0], cat("the gradient of ", message.empty() ? "a check" : message))};
}

std::vector<ir::Batched> batch_numerics(const ir::BatchCall& call) {
  return {{check_numerics(call.graph, call.inputs[0].value, ir::attrs_of<NumericsAttrs>(call.attrs).message), true}};
}

template <On on>
Kernel kernel_numerics(const ir::KernelRequest& request) {
  const std::string& message = ir::attrs_of<NumericsAttrs>(request.attrs).message;
  return for_floating(request.in[0].dtype, [&]<class T>() { return bind<LAMINA_ON(on, check_numerics<T>)>(message); });
}

}  // namespace

constinit const ir::OpDef def::check{
    .name = "check",
    .inputs = -1,
    .parse_attrs = ir::Attrs<CheckAttrs>::parse,
    .infer = infer_check,
    .batch = batch_check,
    .cpu = cpu_check,
    .effect = ir::Effect::host,
    .strided = true,
    .no_vjp = "it has no result",
    .no_cuda = "it runs on the CPU: values are copied there",
    .doc = "an error with values in it when a condition does not hold",
};

constinit const ir::OpDef def::check_numerics{
    .name = "check_numerics",
    .inputs = 1,
    .parse_attrs = ir::Attrs<NumericsAttrs>::parse,
    .infer = infer_numerics,
    .vjp = vjp_numerics,
    .batch = batch_numerics,
    .rows = rows_elementwise,
    .cpu = kernel_numerics<On::cpu>,
    .cuda = kernel_numerics<On::gpu>,
    .can_fail = true,
    .doc =
        "x; raises InvalidArgument with the message when an element is NaN or infinite, and says how many are and where the "
        "first is.\n\n"
        "While a function is traced this becomes part of the graph, and runs whenever its result is needed. The gradient is "
        "checked too.",
};

}  // namespace lamina::ops
