// one_hot(labels, classes, dtype): 1 where the class is the label, else 0; a label out of range gives a row of zeros.
#include "kernels/one_hot.h"

#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_one_hot(const ir::InferCall& call) {
  const auto& a = ir::attrs_of<OneHotAttrs>(call.attrs);
  require_integer("one_hot", "labels", call.in[0]);
  if (a.classes < 0)
    throw Error(ErrorKind::invalid_argument, {.what = cat("one_hot: there cannot be ", a.classes, " classes"),
                                              .where = "argument 'classes'",
                                              .why = "it is the length of the new axis",
                                              .fix = "pass how many classes there are"});
  TensorType out{a.dtype, call.in[0].shape};
  out.shape.push_back(Dim(a.classes));
  require_rank("one_hot", out.shape);
  return {out};
}

std::vector<Value> decompose_one_hot(Graph& g, const ir::AttrsBase& attrs, std::span<const Value> in, std::span<const ir::GraphRef>) {
  const auto& a = ir::attrs_of<OneHotAttrs>(attrs);
  Shape shape = g.type(in[0]).shape;
  shape.push_back(Dim(1));
  Value classes = iota(g, {DType::i64, {Dim(a.classes)}}, 0);
  return {astype(g, equal(g, reshape(g, astype(g, in[0], DType::i64), std::move(shape)), classes), a.dtype)};
}

std::vector<ir::Batched> batch_one_hot(const ir::BatchCall& call) {
  const auto& a = ir::attrs_of<OneHotAttrs>(call.attrs);
  return {{one_hot(call.graph, call.inputs[0].value, a.classes, a.dtype), true}};
}

template <On on>
Kernel kernel_one_hot(const ir::KernelRequest& request) {
  DType dtype = request.out[0].dtype;
  if (dtype == DType::boolean) return bind<LAMINA_ON(on, one_hot<bool>)>();
  return for_numeric(dtype, []<class T>() { return bind<LAMINA_ON(on, one_hot<T>)>(); });
}

std::optional<ir::RowsRule> rows_one_hot(const ir::RowsCall& call) {
  const ir::Cut cut = call.cuts[0].whole() ? call.wanted : call.cuts[0];
  if (cut.whole() || cut.axis == int(call.in[0].rank())) return {};
  return ir::RowsRule{.in = {cut}, .out = {cut}};
}

}  // namespace

constinit const ir::OpDef def::one_hot{
    .name = "one_hot",
    .inputs = 1,
    .parse_attrs = ir::Attrs<OneHotAttrs>::parse,
    .infer = infer_one_hot,
    .vjp = [](const ir::VjpCall&) { return std::vector<Value>{Value{}}; },  // labels are integers: nothing flows there
    .batch = batch_one_hot,
    .rows = rows_one_hot,
    .cpu = kernel_one_hot<On::cpu>,
    .cuda = kernel_one_hot<On::gpu>,
    .decompose = decompose_one_hot,
    .doc = "1 where the class is the label, else 0, along a new last axis",
};

}  // namespace lamina::ops
