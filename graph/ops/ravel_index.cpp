// ravel_index(places..., lengths): indices along several axes as indices into the flattened axes. Gather and scatter along several axes use
// it, then work along one axis.
#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "kernels/scatter.h"

namespace lamina::ops {
namespace {

const Shape& lengths_of(const ir::AttrsBase& attrs) { return ir::attrs_of<RavelIndexAttrs>(attrs).lengths; }

std::vector<TensorType> infer_ravel_index(const ir::InferCall& call) {
  const Shape& lengths = lengths_of(call.attrs);
  if (call.in.empty() || call.in.size() != lengths.size())
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("ravel_index: ", call.in.size(), " tensors of places for ", lengths.size(), " axes"),
                 .where = "",
                 .why = "each axis has its places",
                 .fix = "pass one integer tensor per axis"});
  Shape shape;
  for (const TensorType& in : call.in) {
    require_integer("ravel_index", "indices", in);
    try {
      shape = broadcast(shape, in.shape);
    } catch (const Error& e) {
      throw does_not_fit("index", call.in[0], in, e.parts.why,
                         "indices of several axes are taken together: give them shapes that broadcast");
    }
  }
  size_of(lengths);  // must fit 63 bits
  require_rank("ravel_index", shape);
  return {{DType::i64, shape}};
}

std::vector<ir::Batched> batch_ravel_index(const ir::BatchCall& call) {
  size_t rank = 0;
  for (const ir::Batched& in : call.inputs) rank = std::max(rank, call.graph.type(in.value).rank() - in.batched);
  std::vector<Value> in;
  for (const ir::Batched& b : call.inputs) in.push_back(lift(call.graph, b, rank));
  return {{ravel_index(call.graph, std::move(in), lengths_of(call.attrs)), true}};
}

template <On on>
Kernel kernel_ravel_index(const ir::KernelRequest& request) {
  return bind<LAMINA_ON(on, ravel_index)>(numbers(lengths_of(request.attrs)));
}

}  // namespace

constinit const ir::OpDef def::ravel_index{
    .name = "ravel_index",
    .inputs = -1,
    .parse_attrs = ir::Attrs<RavelIndexAttrs>::parse,
    .infer = infer_ravel_index,
    .batch = batch_ravel_index,
    .cpu = kernel_ravel_index<On::cpu>,
    .cuda = kernel_ravel_index<On::gpu>,
    .can_fail = true,
    .strided = true,
    .no_vjp = "an index does not change smoothly",
    .doc = "integer places along axes of some lengths as places (i64) in the flattened axes",
};

}  // namespace lamina::ops
