// sparse_cross_entropy(logits, labels): losses log(sum(exp(logits))) - logits[label], and the softmax of the logits.
#include "kernels/sparse_cross_entropy.h"

#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"
#include "graph/ops/section_step.h"

namespace lamina::ops {
namespace {

constexpr const char* kSparseCrossEntropyName = "sparse_cross_entropy";

std::vector<TensorType> infer_sparse_cross_entropy(const ir::InferCall& call) {
  const TensorType &logits = call.in[0], &labels = call.in[1];
  require_floating(kSparseCrossEntropyName, logits);
  require_integer(kSparseCrossEntropyName, "labels", labels);
  if (logits.rank() == 0)
    throw Error(ErrorKind::invalid_argument, {.what = cat(kSparseCrossEntropyName, ": ", logits, " has no axis of classes"),
                                              .where = "argument 'logits'",
                                              .why = "the last axis of the logits is the classes",
                                              .fix = "pass logits of at least one dimension"});
  if (labels.shape != Shape(logits.shape.begin(), logits.shape.end() - 1))
    throw does_not_fit(
        kSparseCrossEntropyName, logits, labels,
        cat("labels have the logits' shape without the last axis, [", text(Shape(logits.shape.begin(), logits.shape.end() - 1)), "]"),
        "reshape the labels; one-hot labels are for cross entropy with probabilities");
  return {{logits.dtype, labels.shape}, logits};
}

// A tensor with one more last axis of length 1.
Value as_column(Graph& g, Value x) {
  Shape shape = g.type(x).shape;
  shape.push_back(Dim(1));
  return reshape(g, x, std::move(shape));
}

// 0, 1, ... classes - 1: a constant if the number is known, so that the comparison stays one elementwise group.
Value classes(Graph& g, Dim count) {
  if (!count.known()) return iota(g, {DType::i32, {count}}, 0);
  std::vector<int32_t> numbers(size_t(count.number()));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = int32_t(i);
  return constant(g, ir::Literal::of(Shape{count}, numbers));
}

// of the losses: (p - one_hot(label)) * dloss; of the probabilities: p * (dp - sum(p * dp))
std::vector<Value> vjp_sparse_cross_entropy(const ir::VjpCall& call) {
  Graph& g = call.graph;
  Value p = call.results[1], dlosses = call.cotangents[0], dp = call.cotangents[1], dlogits;
  const TensorType type = g.type(p);
  if (dlosses.valid()) {
    Value hit = equal(g, as_column(g, astype(g, call.inputs[1], DType::i32)), classes(g, type.shape.back()));
    dlogits = mul(g, sub(g, p, astype(g, hit, type.dtype)), as_column(g, dlosses));
  }
  if (dp.valid()) {
    Value through = mul(g, p, sub(g, dp, sum(g, mul(g, p, dp), {-1}, true)));
    dlogits = dlogits.valid() ? add(g, dlogits, through) : through;
  }
  return {dlogits, Value{}};
}

std::vector<ir::Batched> batch_sparse_cross_entropy(const ir::BatchCall& call) {
  std::vector<Value> in = with_model_axes(call.graph, call.inputs, call.size);
  Value losses = sparse_cross_entropy(call.graph, in[0], in[1]);
  return {{losses, true}, {{losses.node, 1}, true}};
}

template <On on>
Kernel kernel_sparse_cross_entropy(const ir::KernelRequest& request) {
  return for_floating(request.in[0].dtype, []<class T>() { return bind<LAMINA_ON(on, sparse_cross_entropy<T>)>(); });
}

bool step_sparse_cross_entropy(const ir::KernelRequest& request, ir::SectionStep& out) {
  TensorType logits = request.in[0];  // of several models: all their rows
  if (logits.rank() == 3) logits.shape = {logits.shape[0] * logits.shape[1], logits.shape[2]};
  if (!is_section_matrix(logits)) return false;
  using enum section::Broadcast;
  set_step(out, section::StepKind::sparse_cross_entropy, section::Partition::rows, logits, {full, column}, {column, full});
  return true;
}

std::optional<ir::RowsRule> rows_sparse_cross_entropy(const ir::RowsCall& call) {
  const ir::Cut cut = call.cuts[0].whole() ? call.cuts[1] : call.cuts[0];
  if (cut.whole() || cut.axis == int(call.in[0].rank()) - 1) return {};
  return ir::RowsRule{.in = {cut, cut}, .out = {cut, cut}};
}

}  // namespace

constinit const ir::OpDef def::sparse_cross_entropy{
    .name = kSparseCrossEntropyName,
    .inputs = 2,
    .infer = infer_sparse_cross_entropy,
    .vjp = vjp_sparse_cross_entropy,
    .batch = batch_sparse_cross_entropy,
    .rows = rows_sparse_cross_entropy,
    .cpu = kernel_sparse_cross_entropy<On::cpu>,
    .cuda = kernel_sparse_cross_entropy<On::gpu>,
    .section = step_sparse_cross_entropy,
    .can_fail = true,
    .partition = section::Partition::rows,
    .doc = "losses log(sum(exp(logits))) - logits[label], and the probabilities softmax(logits)",
};

}  // namespace lamina::ops
