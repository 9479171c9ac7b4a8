// nonzero(condition): the indices along the last axis where it is true, padded with the axis's length, and their number.
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "kernels/scatter.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_nonzero(const ir::InferCall& call) {
  const TensorType& in = call.in[0];
  if (in.dtype != DType::boolean || in.rank() == 0)
    throw Error(ErrorKind::type, {.what = cat("nonzero: ", in, " is not a row of conditions"),
                                  .where = "",
                                  .why = "it takes a bool tensor of at least one dimension",
                                  .fix = "compare first: x != 0"});
  return {{DType::i64, in.shape}, {DType::i64, Shape(in.shape.begin(), in.shape.end() - 1)}};
}

std::vector<ir::Batched> batch_nonzero(const ir::BatchCall& call) {
  const Value places = nonzero(call.graph, call.inputs[0].value);
  return {{places, true}, {{places.node, 1}, true}};
}

}  // namespace

constinit const ir::OpDef def::nonzero{
    .name = "nonzero",
    .inputs = 1,
    .infer = infer_nonzero,
    .batch = batch_nonzero,
    .cpu = [](const ir::KernelRequest&) { return bind<kernels::cpu::nonzero>(); },
    .cuda = [](const ir::KernelRequest&) { return bind<kernels::cuda::nonzero, On::gpu>(); },
    .no_vjp = "an index does not change smoothly",
    .doc = "the places (i64) along the last axis where a condition holds, then the axis's length; and how many there are",
};

}  // namespace lamina::ops
