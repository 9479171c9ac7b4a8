// slice(x, begin, end, step): x[begin : end : step] per axis. pad_slice(x, shape, begin, step): zeros with x at those indices.
//
// Indices are resolved against a length. With a positive step, negative indices count from the end, and indices beyond the end mean the
// end. With a negative step, -1 is before the first element, and indices beyond the end mean the last. So one alias fits any length.
#include <algorithm>
#include <limits>

#include "kernels/pad_slice.h"

#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"
#include "graph/ops/section_step.h"

namespace lamina::ops {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
constexpr int64_t kLongest = int64_t{1} << 31;  // larger absolute values are never meaningful, except kEnd

Error bad_slice(const char* op, const std::string& what, const std::string& why, const std::string& fix) {
  return Error(ErrorKind::invalid_argument, {.what = cat(op, ": ", what), .where = "", .why = why, .fix = fix});
}

void require_lists(const char* op, const TensorType& full, std::initializer_list<const std::vector<int64_t>*> lists) {
  for (const auto* list : lists)
    if (list->size() != full.rank())
      throw bad_slice(op, cat(full, " was given ", list->size(), " places"), cat("each axis has one, and there are ", full.rank()),
                      "pass begin, end and step for each axis");
}

void require_step(const char* op, int64_t step) {
  if (step == 0)
    throw bad_slice(op, "a step of 0 goes nowhere", "each step is the distance from one element to the next", "pass a step other than 0");
  if (step > kLongest || step < -kLongest)
    throw bad_slice(op, cat("a step of ", step, " is too large"), "no axis is that long", "pass a smaller step");
}

// The index of the first element on an axis of this length.
int64_t first_place(int64_t begin, int64_t step, int64_t length) {
  if (step > 0) return begin < 0 ? std::max<int64_t>(0, begin + length) : std::min(begin, length);
  return std::clamp<int64_t>(begin, -1, length - 1);
}

int64_t sliced_length(int64_t begin, int64_t end, int64_t step, int64_t length) {
  int64_t from = first_place(begin, step, length);
  if (step > 0) return std::max<int64_t>(0, (first_place(end, step, length) - from + step - 1) / step);
  return std::max<int64_t>(0, (from - std::max<int64_t>(end, -1) - step - 1) / -step);
}

// The same for an unknown length: a whole axis, or one without a few elements at its ends. Such a slice assumes that the axis is long
// enough.
Dim sliced_length(int64_t begin, int64_t end, int64_t step, Dim length) {
  if (length.known()) return Dim(sliced_length(begin, end, step, length.number()));
  auto unknown = [&](const char* why) {
    const auto place = [](int64_t i, bool outermost) { return outermost ? std::string() : cat(i); };  // as it is written
    const std::string written =
        cat(place(begin, begin == (step > 0 ? 0 : kEnd)), ":", place(end, end == (step > 0 ? kEnd : -1)), ":", step);
    return bad_slice("slice", cat("the length of ", written, " of ", length, " elements is not known"), why,
                     "slice an axis of known length, or with step 1 or -1");
  };
  if (step == -1 && begin == kEnd) return end < 0 ? length : length - Dim(end) - Dim(1);
  if (step != 1) {
    if (step > 0 && begin >= 0 && end >= 0 && end != kEnd) return Dim(std::max<int64_t>(0, (end - begin + step - 1) / step));
    if (step < 0 && begin != kEnd) return Dim(std::max<int64_t>(0, (begin - std::max<int64_t>(end, -1) - step - 1) / -step));
    throw unknown("the quotient of an unknown length cannot be a dimension");
  }
  if ((begin < 0) == (end < 0) && end != kEnd) return Dim(std::max<int64_t>(0, end - begin));
  if (begin < 0) {
    if (end != kEnd) throw unknown("it begins at the end and ends at the beginning");
    return Dim(-begin);
  }
  return end == kEnd ? length - Dim(begin) : length - Dim(begin) - Dim(-end);
}

int64_t offset_of(const Shape& offset, size_t axis) { return offset.empty() ? 0 : offset[axis].number(); }

void require_place(const char* op, int64_t place) {
  if (place != kEnd && (place > kLongest * kLongest / 2 || place < -kLongest * kLongest / 2))
    throw bad_slice(op, cat("the place ", place, " is too large"), "no axis is that long", "");
}

void require_inside(const char* op, const TensorType& full, int64_t begin, int64_t step, const Shape& offset, size_t axis, Dim count) {
  Dim length = full.shape[axis];
  if (!length.known() || !count.known() || (!offset.empty() && !offset[axis].known()) || count == Dim(0)) return;
  const int64_t n = length.number(), shift = offset_of(offset, axis);
  const int64_t first = shift < n ? std::min(first_place(begin, step, n), n - shift) + shift : n;
  const int64_t steps = step > 0 ? (n - 1 - first) / step : first / -step;  // from the first element to the end of the axis
  if (first < 0 || first >= n || count.number() - 1 > steps)
    throw bad_slice(op, cat(count, " elements from ", first, " with step ", step, " do not fit ", full),
                    cat("axis ", axis, " has ", length, " elements"), "");
}

std::vector<TensorType> infer_slice(const ir::InferCall& call) {
  const auto& a = ir::attrs_of<SliceAttrs>(call.attrs);
  const TensorType& in = call.in[0];
  require_lists("slice", in, {&a.begin, &a.step});
  if (a.size.empty()) require_lists("slice", in, {&a.end});
  if ((!a.size.empty() && a.size.size() != in.rank()) || (!a.offset.empty() && a.offset.size() != in.rank()))
    throw bad_slice("slice", cat(in, " does not fit the size [", text(a.size), "] and offset [", text(a.offset), "]"), "each axis has one",
                    "");
  TensorType out{in.dtype, {}};
  for (size_t i = 0; i < in.rank(); ++i) {
    require_step("slice", a.step[i]);
    require_place("slice", a.begin[i]);
    if (a.size.empty()) require_place("slice", a.end[i]);
    out.shape.push_back(a.size.empty() ? sliced_length(a.begin[i], a.end[i], a.step[i], in.shape[i]) : a.size[i]);
    if (!a.size.empty()) require_inside("slice", in, a.begin[i], a.step[i], a.offset, i, a.size[i]);
  }
  return {out};
}

std::vector<TensorType> infer_pad(const ir::InferCall& call) {
  const auto& a = ir::attrs_of<PadSliceAttrs>(call.attrs);
  const TensorType& in = call.in[0];
  TensorType out{in.dtype, a.shape};
  require_lists("pad_slice", in, {&a.begin, &a.step});
  if (a.shape.size() != in.rank() || (!a.offset.empty() && a.offset.size() != in.rank()))
    throw bad_slice("pad_slice", cat(in, " does not fit the shape [", text(a.shape), "]"), "both need as many dimensions", "");
  for (size_t i = 0; i < in.rank(); ++i) {
    require_step("pad_slice", a.step[i]);
    require_place("pad_slice", a.begin[i]);
    require_inside("pad_slice", out, a.begin[i], a.step[i], a.offset, i, in.shape[i]);
  }
  return {out};
}

// The elements of a slice in a view of the full shape.
bool see(const SliceAttrs& a, const View& in, const Shape& result, View& view, int64_t& element_offset) {
  view = in;
  element_offset = 0;
  for (int i = 0; i < in.rank; ++i) {
    size_t axis = size_t(i);
    view.shape[i] = result[axis].number();
    view.strides[i] = view.shape[i] > 1 ? in.strides[i] * a.step[axis] : in.strides[i];
    element_offset += (first_place(a.begin[axis], a.step[axis], in.shape[i]) + offset_of(a.offset, axis)) * in.strides[i];
  }
  if (view.size() == 0) element_offset = 0;
  return true;
}

bool alias_slice(const ir::AttrsBase& attrs, const View& in, const TensorType& out, View& view, int64_t& element_offset) {
  return see(ir::attrs_of<SliceAttrs>(attrs), in, out.shape, view, element_offset);
}

std::vector<Value> vjp_slice(const ir::VjpCall& call) {
  const auto& a = ir::attrs_of<SliceAttrs>(call.attrs);
  const Shape shape = call.graph.type(call.inputs[0]).shape;
  return {call.graph.add(def::pad_slice, ir::make_attrs(PadSliceAttrs{shape, a.begin, a.step, a.offset}), {call.cotangents[0]})};
}

std::vector<Value> vjp_pad(const ir::VjpCall& call) {
  const auto& a = ir::attrs_of<PadSliceAttrs>(call.attrs);
  const Shape size = call.graph.type(call.inputs[0]).shape;
  return {call.graph.add(def::slice, ir::make_attrs(SliceAttrs{a.begin, {}, a.step, a.offset, size}), {call.cotangents[0]})};
}

std::vector<int64_t> prepended(int64_t first, std::vector<int64_t> list) {
  list.insert(list.begin(), first);
  return list;
}
Shape prepended(Dim first, const Shape& list) { return list.empty() ? list : with_model_axis(first, list); }

std::vector<ir::Batched> batch_slice(const ir::BatchCall& call) {
  const auto& a = ir::attrs_of<SliceAttrs>(call.attrs);
  SliceAttrs all{prepended(0, a.begin), prepended(kEnd, a.end), prepended(1, a.step), prepended(Dim(0), a.offset),
                 prepended(call.size, a.size)};
  return {{call.graph.add(def::slice, ir::make_attrs(std::move(all)), {call.inputs[0].value}), true}};
}

std::vector<ir::Batched> batch_pad(const ir::BatchCall& call) {
  const auto& a = ir::attrs_of<PadSliceAttrs>(call.attrs);
  PadSliceAttrs all{with_model_axis(call.size, a.shape), prepended(0, a.begin), prepended(1, a.step), prepended(Dim(0), a.offset)};
  return {{call.graph.add(def::pad_slice, ir::make_attrs(std::move(all)), {call.inputs[0].value}), true}};
}

ir::SectionStep::Part part_of_pad(const ir::KernelRequest& request) {
  const auto& a = ir::attrs_of<PadSliceAttrs>(request.attrs);
  ir::SectionStep::Part part;
  see({a.begin, {}, a.step, a.offset, {}}, contiguous_view(nullptr, request.out[0]), request.in[0].shape, part.view, part.offset);
  return part;
}

template <On on>
Kernel kernel_pad(const ir::KernelRequest& request) {
  const ir::SectionStep::Part part = part_of_pad(request);
  return bind<LAMINA_ON(on, pad_slice)>(part.view, part.offset);
}

bool step_pad(const ir::KernelRequest& request, ir::SectionStep& step) { return set_parts(step, {part_of_pad(request)}, request.out[0]); }

// Whole along the axis of the rows.
std::optional<ir::RowsRule> rows_slice(const ir::RowsCall& call) {
  const auto& a = ir::attrs_of<SliceAttrs>(call.attrs);
  const ir::Cut cut = call.cuts[0].whole() ? call.wanted : call.cuts[0];
  if (cut.whole()) return {};
  const size_t axis = size_t(cut.axis);
  if (a.step[axis] != 1 || call.in[0].shape[axis] != call.out[0].shape[axis]) return {};
  return ir::RowsRule{.in = {cut}, .out = {cut}, .attrs = [a, cut, axis](int64_t first, int64_t end) {
                        SliceAttrs rows = a;
                        rows.begin[axis] = 0;
                        if (!rows.end.empty()) rows.end[axis] = kEnd;
                        if (!rows.size.empty()) rows.size = shape_of_rows(rows.size, cut, first, end);
                        return ir::make_attrs(std::move(rows));
                      }};
}
std::optional<ir::RowsRule> rows_pad(const ir::RowsCall& call) {
  const auto& a = ir::attrs_of<PadSliceAttrs>(call.attrs);
  const ir::Cut cut = call.cuts[0].whole() ? call.wanted : call.cuts[0];
  if (cut.whole()) return {};
  const size_t axis = size_t(cut.axis);
  if (a.step[axis] != 1 || call.in[0].shape[axis] != call.out[0].shape[axis]) return {};
  return ir::RowsRule{.in = {cut}, .out = {cut}, .attrs = [a, cut, axis](int64_t first, int64_t end) {
                        PadSliceAttrs rows = a;
                        rows.begin[axis] = 0;
                        rows.shape = shape_of_rows(rows.shape, cut, first, end);
                        return ir::make_attrs(std::move(rows));
                      }};
}

}  // namespace

constinit const ir::OpDef def::slice{
    .name = "slice",
    .inputs = 1,
    .parse_attrs = ir::Attrs<SliceAttrs>::parse,
    .infer = infer_slice,
    .vjp = vjp_slice,
    .batch = batch_slice,
    .rows = rows_slice,
    .alias = alias_slice,
    .no_cpu = "its result is its input seen differently",
    .no_cuda = "its result is its input seen differently",
    .doc = "x[begin : end : step] per axis",
};

constinit const ir::OpDef def::pad_slice{
    .name = "pad_slice",
    .inputs = 1,
    .parse_attrs = ir::Attrs<PadSliceAttrs>::parse,
    .infer = infer_pad,
    .vjp = vjp_pad,
    .batch = batch_pad,
    .rows = rows_pad,
    .cpu = kernel_pad<On::cpu>,
    .cuda = kernel_pad<On::gpu>,
    .section = step_pad,
    .strided = true,
    .doc = "zeros of a shape with x at begin, begin + step, ... of each axis",
};

}  // namespace lamina::ops
