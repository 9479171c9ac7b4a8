#include "graph/functions/sorting.h"

#include <array>

#include "graph/frontend/eager.h"
#include "graph/frontend/trace.h"
#include "graph/ops/ops.h"

namespace lamina {
namespace {

Tensor ordered(const ir::OpDef& op, const Operand& x, int axis, bool descending) {
  return apply_one(op, ir::make_attrs(ops::SortAttrs{axis, descending}), std::array{x.resolve()}, x.at());
}

Axes to_the_end(int rank, int axis) {
  Axes order;
  for (int i = 0; i < rank; ++i)
    if (i != axis) order.push_back(i);
  order.push_back(axis);
  return order;
}
Axes from_the_end(int rank, int axis) {
  Axes order;
  for (int i = 0; i + 1 < rank; ++i) order.push_back(i);
  order.insert(order.begin() + axis, rank - 1);
  return order;
}

struct Distinct {
  Tensor flat, first, inverse, counts, count;
};
Distinct find_distinct(const Operand& operand, const Tensor& x) {
  Distinct d;
  d.flat = flatten(Operand(x, operand.at()));
  std::vector<Tensor> found = apply(ops::def::unique, nullptr, std::span(&d.flat, 1), operand.at());
  d.first = found[0], d.counts = found[2], d.count = found[3];
  d.inverse = reshape_to(Operand(found[1], operand.at()), x.shape());
  return d;
}
Unique cut(const Distinct& d, int64_t size, CallSite at) {
  const Tensor first = slice(Operand(d.first, at), {0}, {size});
  return {gather(Operand(d.flat, at), Operand(first, at)), first, d.inverse, slice(Operand(d.counts, at), {0}, {size})};
}

}  // namespace

Tensor sort(const Operand& x, int axis, bool descending) { return ordered(ops::def::sort, x, axis, descending); }
Tensor argsort(const Operand& x, int axis, bool descending) { return ordered(ops::def::argsort, x, axis, descending); }

std::pair<Tensor, Tensor> top_k(const Operand& operand, int64_t k, int axis) {
  Tensor x = operand.resolve();
  const int rank = x.rank(), a = normalize_axis("top_k", axis, size_t(rank));
  if (a != rank - 1) x = transpose(Operand(x, operand.at()), to_the_end(rank, a));
  std::vector<Tensor> out = apply(ops::def::top_k, ir::make_attrs(ops::TopKAttrs{k}), std::span(&x, 1), operand.at());
  if (a != rank - 1)
    for (Tensor& t : out) t = transpose(Operand(t, operand.at()), from_the_end(rank, a));
  return {out[0], out[1]};
}

Tensor searchsorted(const Operand& sorted, const Operand& values, bool right) {
  const auto [row, wanted] = resolve_pair("searchsorted", sorted, values);
  return apply_one(ops::def::searchsorted, ir::make_attrs(ops::SearchAttrs{right}), std::array{row, wanted}, sorted.at());
}

Unique unique(const Operand& operand) {
  const Tensor x = operand.resolve();
  if (x.is_symbolic())
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("unique: how many distinct elements ", x.type(), " has is not known while tracing"),
                 .where = text(operand.at().line()),
                 .why = "the length of the result would follow from data",
                 .fix = "pass size: the first `size` of them, filled up with the smallest"});
  const Distinct d = find_distinct(operand, x);
  int64_t count;
  {
    EagerScope outside;
    count = d.count.item<int64_t>();
  }
  return cut(d, count, operand.at());
}

Unique unique(const Operand& operand, int64_t size) {
  const CallSite at = operand.at();
  const Tensor x = operand.resolve();
  Distinct d = find_distinct(operand, x);
  const Dim length = d.flat.shape()[0];
  if (size < 0 || length == Dim(0))
    throw Error(ErrorKind::invalid_argument, {.what = cat("unique: the first ", size, " distinct elements of ", x.type()),
                                              .where = text(at.line()),
                                              .why = "a size is not negative, and what is missing is the smallest element",
                                              .fix = "pass how many are wanted"});
  if (!length.known() || size > length.number()) {
    const Tensor smallest = slice(Operand(d.first, at), {0}, {1});
    d.first = concat({d.first, broadcast_to(Operand(smallest, at), {size})}, 0, at);
    d.counts = concat({d.counts, zeros({size}, DType::i64)}, 0, at);
  }
  return cut(d, size, at);
}

}  // namespace lamina
