// dropout(x, state, rate): x / (1 - rate) with probability 1 - rate, else 0. Element i uses word i of the draw given by `state`.
#include "kernels/dropout.h"

#include <array>
#include <limits>

#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"
#include "graph/ops/section_step.h"

namespace lamina::ops {
namespace {

float rate_of(const ir::AttrsBase& attrs) { return ir::attrs_of<DropoutAttrs>(attrs).rate; }

std::vector<TensorType> infer_dropout(const ir::InferCall& call) {
  float rate = rate_of(call.attrs);
  require_floating("dropout", call.in[0]);
  if (!(rate >= 0 && rate < 1))
    throw Error(ErrorKind::invalid_argument, {.what = cat("dropout: rate ", rate, " is out of range"),
                                              .where = "argument 'rate'",
                                              .why = "it is the part of the elements that is dropped: at least 0 and less than 1",
                                              .fix = "pass a rate such as 0.2"});
  if (const int64_t first = ir::attrs_of<DropoutAttrs>(call.attrs).first; first < 0 || first > kMostBytes)
    throw Error(ErrorKind::invalid_argument, {.what = cat("dropout: first ", first, " is out of range"),
                                              .where = "attribute 'first'",
                                              .why = "it is the number of an element of the draw",
                                              .fix = "write the graph again with the program that made it"});
  require_state("dropout", call.in[1], call.in[0].shape);
  return {call.in[0]};
}

// The same draw drops the same elements.
std::vector<Value> vjp_dropout(const ir::VjpCall& call) {
  return {call.graph.add(def::dropout, ir::make_attrs(ir::attrs_of<DropoutAttrs>(call.attrs)), {call.cotangents[0], call.inputs[1]}),
          Value{}};
}

// One state for all models: the model index becomes the first axis of x, and elements are numbered over all models. A state per model: each
// model draws from its own, as it would alone.
std::vector<ir::Batched> batch_dropout(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const ir::Batched &x = call.inputs[0], &state = call.inputs[1];
  Value all = with_model_axis(g, x, call.size);
  if (state.batched) return {{dropout(g, all, state.value, rate_of(call.attrs)), true}};
  // States of outer models stay in front of the new axis.
  int outer = int(g.type(state.value).rank()) - 1;
  return {{move_axis(g, dropout(g, move_axis(g, all, 0, outer), state.value, rate_of(call.attrs)), outer, 0), true}};
}

template <On on>
Kernel kernel_dropout(const ir::KernelRequest& request) {
  const auto& a = ir::attrs_of<DropoutAttrs>(request.attrs);
  return for_floating(request.in[0].dtype, [&]<class T>() { return bind<LAMINA_ON(on, dropout<T>)>(a.rate, a.first); });
}

bool step_dropout(const ir::KernelRequest& request, ir::SectionStep& out) {
  TensorType x = request.in[0];
  const bool states = request.in[1].rank() == 2;  // a generator per model; a single one numbers the elements of all models
  if (states ? !is_section_stack(x) : request.in[1].rank() != 1) return false;
  if (!states && x.rank() == 3) x.shape = {x.shape[0] * x.shape[1], x.shape[2]};
  if (!states && !is_section_matrix(x)) return false;
  const int64_t first = ir::attrs_of<DropoutAttrs>(request.attrs).first;
  if (first > std::numeric_limits<int32_t>::max() || (states && first)) return false;
  using enum section::Broadcast;
  set_step(out, section::StepKind::dropout, section::Partition::rows, x, {full, scalar}, {full});
  out.step.scalar = rate_of(request.attrs);
  out.step.k = int32_t(first);
  if (states) set_models(out, request, std::array<size_t, 3>{2, 1, 2});
  return true;
}

std::optional<ir::RowsRule> rows_dropout(const ir::RowsCall& call) {
  const ir::Cut cut = call.cuts[0].whole() ? call.wanted : call.cuts[0];
  const Shape& shape = call.in[0].shape;
  if (cut.whole() || call.in[1].rank() != 1 || !rows_follow(shape, cut)) return {};
  return ir::RowsRule{
      .in = {cut, {}}, .out = {cut}, .attrs = [a = ir::attrs_of<DropoutAttrs>(call.attrs), cut, shape](int64_t first, int64_t) {
        DropoutAttrs rows = a;
        rows.first += first_element(shape, cut, first);
        return ir::make_attrs(rows);
      }};
}

}  // namespace

constinit const ir::OpDef def::dropout{
    .name = "dropout",
    .inputs = 2,
    .parse_attrs = ir::Attrs<DropoutAttrs>::parse,
    .infer = infer_dropout,
    .vjp = vjp_dropout,
    .batch = batch_dropout,
    .rows = rows_dropout,
    .cpu = kernel_dropout<On::cpu>,
    .cuda = kernel_dropout<On::gpu>,
    .section = step_dropout,
    .draws = true,
    .partition = section::Partition::rows,
    .doc = "Each element is 0 with probability rate, else x / (1 - rate); 0 <= rate < 1.",
};

}  // namespace lamina::ops
