// print(values...): writes text at run time, in program order.
#include "graph/ops/batching.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "kernels/report.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_print(const ir::InferCall& call) {
  const auto& a = ir::attrs_of<PrintAttrs>(call.attrs);
  for (const TensorType& t : call.in)
    if (a.models < 0 || a.models > int64_t(t.rank()))
      throw Error(
          ErrorKind::invalid_argument,
          {.what = cat("print: ", t, " has no ", a.models, " model axes"), .where = "", .why = "each value has them in front", .fix = ""});
  return {};
}

std::vector<ir::Batched> batch_print(const ir::BatchCall& call) {
  PrintAttrs attrs = ir::attrs_of<PrintAttrs>(call.attrs);
  ++attrs.models;
  print(call.graph, with_model_axes(call.graph, call.inputs, call.size), std::move(attrs));
  return {};
}

Kernel kernel_print(const ir::KernelRequest& request) {
  const auto& a = ir::attrs_of<PrintAttrs>(request.attrs);
  return bind<kernels::cpu::print>(kernels::PrintText{a.format, a.summarize, a.models, a.stream, a.target});
}

}  // namespace

constinit const ir::OpDef def::print{
    .name = "print",
    .inputs = -1,
    .parse_attrs = ir::Attrs<PrintAttrs>::parse,
    .infer = infer_print,
    .batch = batch_print,
    .cpu = kernel_print,
    .effect = ir::Effect::host,
    .strided = true,
    .no_vjp = "it has no result",
    .no_cuda = "it runs on the CPU: values are copied there",
    .doc = "writes a text with values in it, whenever it runs",
};

}  // namespace lamina::ops
