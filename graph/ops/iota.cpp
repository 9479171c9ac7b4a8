// iota(type, axis): each element is its own index along an axis.
#include "kernels/one_hot.h"

#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_iota(const ir::InferCall& call) {
  const auto& a = ir::attrs_of<IotaAttrs>(call.attrs);
  require_numeric("iota", a.type);
  require_rank("iota", a.type.shape);
  axis_of("iota", a.axis, a.type);
  return {a.type};
}

template <On on>
Kernel kernel_iota(const ir::KernelRequest& request) {
  int axis = axis_of("iota", ir::attrs_of<IotaAttrs>(request.attrs).axis, request.out[0]);
  return for_numeric(request.out[0].dtype, [=]<class T>() { return bind<LAMINA_ON(on, iota<T>)>(axis); });
}

}  // namespace

constinit const ir::OpDef def::iota{
    .name = "iota",
    .inputs = 0,
    .parse_attrs = ir::Attrs<IotaAttrs>::parse,
    .infer = infer_iota,
    .vjp = [](const ir::VjpCall&) { return std::vector<Value>{}; },
    .cpu = kernel_iota<On::cpu>,
    .cuda = kernel_iota<On::gpu>,
    .no_batch = "it has no inputs, so it is the same for every model",
    .doc = "each element is its own index along an axis",
};

}  // namespace lamina::ops
