#include "graph/ops/rows.h"

#include <algorithm>

namespace lamina::ops {

Shape shape_of_rows(Shape shape, ir::Cut cut, int64_t first, int64_t end) {
  if (!cut.whole()) shape[size_t(cut.axis)] = (end - first) * cut.each;
  return shape;
}

std::optional<ir::RowsRule> rows_elementwise(const ir::RowsCall& call) {
  const Shape& shape = call.out[0].shape;
  const int rank = int(shape.size());
  ir::Cut out = call.wanted;
  for (size_t i = call.in.size(); i-- > 0;) {
    const ir::Cut cut = call.cuts[i];
    if (cut.whole()) continue;
    const int axis = cut.axis + rank - int(call.in[i].rank());
    if (call.in[i].shape[size_t(cut.axis)] == shape[size_t(axis)]) out = {axis, cut.each};
  }
  if (out.whole()) return {};
  ir::RowsRule rule;
  for (const TensorType& t : call.in) {
    const int axis = out.axis - rank + int(t.rank());
    const bool has_rows = axis >= 0 && t.shape[size_t(axis)] == shape[size_t(out.axis)];
    rule.in.push_back(has_rows ? ir::Cut{axis, out.each} : ir::Cut{});
  }
  rule.out.assign(call.out.size(), out);
  return rule;
}

std::optional<ir::RowsRule> rows_beside(const ir::RowsCall& call, int axis) {
  const ir::Cut cut = call.cuts[0].whole() ? call.wanted : call.cuts[0];
  if (cut.whole() || cut.axis == (axis < 0 ? axis + int(call.in[0].rank()) : axis)) return {};
  return ir::RowsRule{.in = {cut}, .out = std::vector<ir::Cut>(call.out.size(), cut)};
}

std::optional<ir::RowsRule> rows_of_images(const ir::RowsCall& call, std::initializer_list<size_t> whole) {
  ir::RowsRule rule;
  for (size_t i = 0; i < call.in.size(); ++i) {
    const bool is_whole = std::find(whole.begin(), whole.end(), i) != whole.end();
    const ir::Cut cut = call.cuts[i];
    if (!cut.whole() && (is_whole || cut.axis != 0)) return {};
    if (!cut.whole()) rule.out = {cut};
  }
  if (rule.out.empty()) {
    if (call.wanted.axis != 0) return {};
    rule.out = {call.wanted};
  }
  for (size_t i = 0; i < call.in.size(); ++i)
    rule.in.push_back(std::find(whole.begin(), whole.end(), i) != whole.end() ? ir::Cut{} : rule.out[0]);
  rule.out.resize(call.out.size(), rule.out[0]);
  return rule;
}

std::optional<ir::RowsRule> rows_of_matrices(const ir::RowsCall& call) {
  const int leading = int(call.in[0].rank()) - 2;
  ir::Cut rows = call.wanted;
  for (size_t i = call.in.size(); i-- > 0;)
    if (!call.cuts[i].whole() && call.cuts[i].axis < leading) rows = call.cuts[i];
  if (rows.whole() || rows.axis >= leading) return {};
  return ir::RowsRule{.in = std::vector(call.in.size(), rows), .out = std::vector(call.out.size(), rows)};
}

bool rows_follow(const Shape& shape, ir::Cut cut) {
  return std::all_of(shape.begin(), shape.begin() + cut.axis, [](Dim d) { return d == Dim(1); });
}

int64_t first_element(const Shape& shape, ir::Cut cut, int64_t first_row) {
  int64_t element = first_row * cut.each;
  for (size_t a = size_t(cut.axis) + 1; a < shape.size(); ++a) element *= shape[a].number();
  return element;
}

}  // namespace lamina::ops
