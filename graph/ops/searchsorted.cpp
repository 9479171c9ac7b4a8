// searchsorted(sorted, values, right): insertion points of values among sorted ones. unique(x): the distinct elements of rows.
#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "kernels/sort.h"

namespace lamina::ops {
namespace {

bool right_of(const ir::AttrsBase& attrs) { return ir::attrs_of<SearchAttrs>(attrs).right; }

std::vector<TensorType> infer_search(const ir::InferCall& call) {
  const TensorType &sorted = call.in[0], &values = call.in[1];
  require_same_dtype("searchsorted", sorted, values);
  axis_of("searchsorted", -1, sorted);
  const size_t shared = sorted.rank() - 1;
  if (values.rank() < shared || !std::equal(sorted.shape.begin(), sorted.shape.end() - 1, values.shape.begin()))
    throw does_not_fit("searchsorted", sorted, values,
                       "each row of sorted elements has its own values: all its dimensions but the last come first in values", "");
  return {{DType::i64, values.shape}};
}

// Only values batched: more values for the same elements. Otherwise each model has its row.
std::vector<ir::Batched> batch_search(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const bool one_row = !call.inputs[0].batched && g.type(call.inputs[0].value).rank() == 1;
  if (one_row) return {{searchsorted(g, call.inputs[0].value, call.inputs[1].value, right_of(call.attrs)), true}};
  std::vector<Value> in = with_model_axes(g, call.inputs, call.size);
  return {{searchsorted(g, in[0], in[1], right_of(call.attrs)), true}};
}

template <On on>
Kernel kernel_search(const ir::KernelRequest& request) {
  auto make = [&]<class T>() { return bind<LAMINA_ON(on, searchsorted<T>)>(right_of(request.attrs)); };
  return request.in[0].dtype == DType::boolean ? make.template operator()<uint8_t>() : for_numeric(request.in[0].dtype, make);
}

std::vector<TensorType> infer_unique(const ir::InferCall& call) {
  axis_of("unique", -1, call.in[0]);
  const Shape& shape = call.in[0].shape;
  return {{DType::i64, shape}, {DType::i64, shape}, {DType::i64, shape}, {DType::i64, Shape(shape.begin(), shape.end() - 1)}};
}

std::vector<ir::Batched> batch_unique(const ir::BatchCall& call) {
  const int node = unique(call.graph, call.inputs[0].value).node;
  return {{{node, 0}, true}, {{node, 1}, true}, {{node, 2}, true}, {{node, 3}, true}};
}

template <On on>
Kernel kernel_unique(const ir::KernelRequest& request) {
  auto make = []<class T>() { return bind<LAMINA_ON(on, unique<T>)>(); };
  return request.in[0].dtype == DType::boolean ? make.template operator()<uint8_t>() : for_numeric(request.in[0].dtype, make);
}

}  // namespace

constinit const ir::OpDef def::searchsorted{
    .name = "searchsorted",
    .inputs = 2,
    .parse_attrs = ir::Attrs<SearchAttrs>::parse,
    .infer = infer_search,
    .batch = batch_search,
    .cpu = kernel_search<On::cpu>,
    .cuda = kernel_search<On::gpu>,
    .no_vjp = "an index does not change smoothly",
    .doc =
        "Where each value would stand among elements that ascend along their last axis: how many are less than it "
        "(side=\"right\": or equal). A vector\n"
        "takes values of any shape; rows [..., n] take values [..., m].",
};

constinit const ir::OpDef def::unique{
    .name = "unique",
    .inputs = 1,
    .infer = infer_unique,
    .batch = batch_unique,
    .cpu = kernel_unique<On::cpu>,
    .cuda = kernel_unique<On::gpu>,
    .strided = true,
    .no_vjp = "its results are indices, which do not change smoothly",
    .doc =
        "of the distinct elements along the last axis, ascending: the first place, which one each element is, their counts, how many they "
        "are",
};

}  // namespace lamina::ops
