#include "graph/functions/shape_functions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "graph/frontend/device.h"
#include "graph/frontend/eager.h"
#include "graph/ops/ops.h"

namespace lamina {
namespace {

constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();

Error refused(const CallSite& at, std::string what, std::string why, std::string fix) {
  return Error(ErrorKind::invalid_argument,
               {.what = std::move(what), .where = text(at.line()), .why = std::move(why), .fix = std::move(fix)});
}

// x[begin : end : step] along one axis, in the slice op's own terms.
Tensor cut(const Tensor& x, size_t axis, int64_t begin, int64_t end, int64_t step, CallSite at) {
  ops::SliceAttrs attrs;
  attrs.begin.assign(size_t(x.rank()), 0), attrs.end.assign(size_t(x.rank()), kToTheEnd), attrs.step.assign(size_t(x.rank()), 1);
  attrs.begin[axis] = begin, attrs.end[axis] = end, attrs.step[axis] = step;
  return apply_one(ops::def::slice, ir::make_attrs(std::move(attrs)), std::span(&x, 1), at);
}

// The lengths before, at and after an axis.
std::array<Dim, 3> around(const Shape& shape, size_t axis) {
  return {size_of(Shape(shape.begin(), shape.begin() + int64_t(axis))), shape[axis],
          size_of(Shape(shape.begin() + int64_t(axis) + 1, shape.end()))};
}

Tensor iota(const TensorType& type, int axis, CallSite at) {
  return apply_one(ops::def::iota, ir::make_attrs(ops::IotaAttrs{type, axis}), {}, at);
}

// Whether column - row >= diagonal, for each element of a matrix.
Tensor right_of_diagonal(Dim rows, Dim columns, int64_t diagonal, CallSite at) {
  const TensorType type{DType::i64, {rows, columns}};
  const Tensor row = iota(type, 0, at), column = iota(type, 1, at);
  return greater_equal(Operand(column, at), Operand(add(Operand(row, at), Operand(diagonal, at)), at));
}

void require_matrix(const char* op, const Tensor& x, CallSite at) {
  if (x.rank() < 2)
    throw refused(at, cat(op, ": ", x.type(), " is not a matrix"), "it needs the last two axes for rows and columns", "reshape it first");
}

// Rolls an axis of open length, which may be shorter than the shift.
Tensor rolled(const Tensor& x, size_t axis, int64_t shift, CallSite at) {
  const Beside there(x.device());
  const Operand place(iota({DType::i64, {x.shape()[axis]}}, 0, at), at), from_end(flip(place, AxesOrAll()), at);
  const Tensor length = add(Operand(add(place, from_end), at), Operand(1, at));
  const Tensor from = mod(Operand(sub(place, Operand(shift, at)), at), Operand(length, at));
  return gather(Operand(x, at), Operand(from, at), int(axis));
}

Tensor indices_tensor(const std::vector<int64_t>& indices, Device device) {
  const Beside there(device);
  return tensor(indices);
}

}  // namespace

std::vector<Tensor> split(const Operand& operand, int64_t sections, int axis) {
  const Tensor x = operand.resolve();
  const size_t a = size_t(normalize_axis("split", axis, size_t(x.rank())));
  const Dim length = x.shape()[a];
  if (sections < 1 || !length.known() || length.number() % sections != 0)
    throw refused(operand.at(), cat("split: axis ", axis, " of ", x.type(), " cannot be cut into ", sections, " equal parts"),
                  length.known() ? cat("its length is ", length) : "its length is not known while tracing",
                  "pass the parts' lengths instead");
  return split_sizes(Operand(x, operand.at()), std::vector<int64_t>(size_t(sections), length.number() / sections), axis);
}

std::vector<Tensor> split_sizes(const Operand& operand, const std::vector<int64_t>& wanted, int axis) {
  const Tensor x = operand.resolve();
  const size_t a = size_t(normalize_axis("split", axis, size_t(x.rank())));
  const Dim length = x.shape()[a];
  std::vector<int64_t> sizes = wanted;
  int64_t sum = 0, open = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < -1 || (sizes[i] == -1 && open >= 0) || sizes[i] > (int64_t{1} << 40))
      throw refused(operand.at(), cat("split: the lengths ", ir::attr_text(wanted), " are not possible"),
                    "a part's length is not negative, and one may be -1: it is what remains", "correct the lengths");
    if (sizes[i] == -1)
      open = int64_t(i);
    else
      sum += sizes[i];
  }
  if (open < 0 && length.known() ? sum != length.number() : length.known() && sum > length.number())
    throw refused(operand.at(), cat("split: the lengths ", ir::attr_text(wanted), " do not fit axis ", axis, " of ", x.type()),
                  cat("they add up to ", sum), cat("the sum must be ", length));
  std::vector<Tensor> out;
  int64_t begin = 0, behind = sum;  // of the parts after the open one, as far as they have not been passed
  bool passed = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (int64_t(i) == open) {
      out.push_back(cut(x, a, begin, behind ? -behind : kToTheEnd, 1, operand.at()));
      passed = true;
      continue;
    }
    behind -= sizes[i];
    if (passed && !length.known()) {
      out.push_back(cut(x, a, -(behind + sizes[i]), behind ? -behind : kToTheEnd, 1, operand.at()));
    } else {
      const int64_t first = passed ? length.number() - behind - sizes[i] : begin;
      out.push_back(cut(x, a, first, first + sizes[i], 1, operand.at()));
    }
    begin += sizes[i];
  }
  return out;
}

Tensor diagonal(const Operand& operand, int64_t offset, int axis1, int axis2) {
  const CallSite at = operand.at();
  Tensor x = operand.resolve();
  require_matrix("diagonal", x, at);
  const int rank = x.rank(), a = normalize_axis("diagonal", axis1, size_t(rank)), b = normalize_axis("diagonal", axis2, size_t(rank));
  if (a == b) throw refused(at, cat("diagonal: both axes are ", a), "a diagonal runs through two axes", "name two axes");
  if (a != rank - 2 || b != rank - 1) x = moveaxis(Operand(x, at), {a, b}, {-2, -1});
  const int64_t rows = x.shape()[size_t(rank) - 2].number(), columns = x.shape()[size_t(rank) - 1].number();
  offset = std::clamp(offset, -rows, columns);
  const int64_t first = offset >= 0 ? offset : -offset * columns,
                count = std::max<int64_t>(0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns));
  Shape flat(x.shape().begin(), x.shape().end() - 2);
  flat.push_back(Dim(rows) * Dim(columns));
  x = reshape_to(Operand(x, at), flat);
  return count ? cut(x, flat.size() - 1, first, first + count * (columns + 1), columns + 1, at) : cut(x, flat.size() - 1, 0, 0, 1, at);
}

Tensor flip(const Operand& operand, const AxesOrAll& axes) {
  const Tensor x = operand.resolve();
  ops::SliceAttrs attrs;
  attrs.begin.assign(size_t(x.rank()), 0), attrs.end.assign(size_t(x.rank()), kToTheEnd), attrs.step.assign(size_t(x.rank()), 1);
  auto turn = [&](size_t axis) { attrs.begin[axis] = kToTheEnd, attrs.end[axis] = -1, attrs.step[axis] = -1; };
  for (int64_t axis : axes.named()) {
    const size_t a = size_t(normalize_axis("flip", axis, size_t(x.rank())));
    if (attrs.step[a] < 0)
      throw refused(operand.at(), cat("flip: axis ", axis, " is named twice"), "turned twice it would be as before", "name each axis once");
    turn(a);
  }
  for (size_t axis = 0; axes.all() && axis < size_t(x.rank()); ++axis) turn(axis);
  return apply_one(ops::def::slice, ir::make_attrs(std::move(attrs)), std::span(&x, 1), operand.at());
}

Tensor roll(const Operand& operand, int64_t shift) {
  const Tensor x = operand.resolve();
  return reshape_to(Operand(roll(Operand(flatten(Operand(x, operand.at())), operand.at()), {shift}, {0}), operand.at()), x.shape());
}

Tensor roll(const Operand& operand, const std::vector<int64_t>& shifts, const Axes& axes) {
  Tensor x = operand.resolve();
  if (shifts.size() != axes.size())
    throw refused(operand.at(), cat("roll: ", shifts.size(), " shifts for ", axes.size(), " axes"), "each axis has a shift of its own",
                  "pass one shift per axis");
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = size_t(normalize_axis("roll", axes[i], size_t(x.rank())));
    const Dim length = x.shape()[axis];
    int64_t shift = shifts[i];
    if (!length.known()) {
      if (shift) x = rolled(x, axis, shift, operand.at());
      continue;
    }
    const int64_t n = std::max<int64_t>(1, length.number());
    shift = (shift % n + n) % n;
    if (shift == 0) continue;
    // A positive shift brings the last elements to the front.
    x = concat({cut(x, axis, -shift, kToTheEnd, 1, operand.at()), cut(x, axis, 0, -shift, 1, operand.at())}, int(axis), operand.at());
  }
  return x;
}

Tensor expand_dims(const Operand& operand, const Axes& axes) {
  const Tensor x = operand.resolve();
  const size_t rank = size_t(x.rank()) + axes.size();
  std::vector<bool> is_new(rank);
  for (int64_t axis : axes) {
    const size_t a = size_t(normalize_axis("expand_dims", axis, rank));
    if (is_new[a])
      throw refused(operand.at(), cat("expand_dims: axis ", axis, " is named twice"), "each new axis has a place of its own in the result",
                    "name each once");
    is_new[a] = true;
  }
  Shape shape;
  size_t next = 0;
  for (size_t a = 0; a < rank; ++a) shape.push_back(is_new[a] ? Dim(1) : x.shape()[next++]);
  return reshape_to(Operand(x, operand.at()), shape);
}

Tensor moveaxis(const Operand& operand, const Axes& from, const Axes& to) {
  const Tensor x = operand.resolve();
  const size_t rank = size_t(x.rank());
  if (from.size() != to.size())
    throw refused(operand.at(), cat("moveaxis: ", from.size(), " axes for ", to.size(), " places"), "each axis that moves has one place",
                  "pass lists of one length");
  std::vector<int64_t> order(rank, -1);
  std::vector<bool> moved(rank);
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t a = size_t(normalize_axis("moveaxis", from[i], rank)), place = size_t(normalize_axis("moveaxis", to[i], rank));
    if (moved[a] || order[place] >= 0)
      throw refused(operand.at(), "moveaxis: an axis or a place is named twice", "each axis that moves has one place", "name each once");
    moved[a] = true, order[place] = int64_t(a);
  }
  size_t next = 0;
  for (int64_t& axis : order) {
    if (axis >= 0) continue;
    while (moved[next]) ++next;
    axis = int64_t(next++);
  }
  return transpose(Operand(x, operand.at()), order);
}

Tensor swapaxes(const Operand& operand, int a, int b) {
  const Tensor x = operand.resolve();
  Axes order;
  for (int i = 0; i < x.rank(); ++i) order.push_back(i);
  std::swap(order[size_t(normalize_axis("swapaxes", a, order.size()))], order[size_t(normalize_axis("swapaxes", b, order.size()))]);
  return transpose(Operand(x, operand.at()), order);
}

namespace {
// x as [before, length, behind]; each [length, behind] (or [behind], if `single`) is repeated `times` times.
Tensor repeat_blocks(const Tensor& x, size_t axis, int64_t times, bool single, CallSite at) {
  if (times == 1) return x;
  if (times < 0 || times > (int64_t{1} << 40))
    throw refused(at, cat(single ? "repeat" : "tile", ": ", times, " repeats are not possible"), "it says how often something stands there",
                  "pass a number that is not negative");
  const auto [before, length, behind] = around(x.shape(), axis);
  const Dim outer = single ? before * length : before, inner = single ? behind : length * behind;
  Shape shape = x.shape();
  shape[axis] = length * Dim(times);
  Tensor rows = reshape_to(Operand(x, at), {outer, Dim(1), inner});
  return reshape_to(Operand(broadcast_to(Operand(rows, at), {outer, Dim(times), inner}), at), shape);
}
}  // namespace

Tensor tile(const Operand& operand, const std::vector<int64_t>& repeats) {
  Tensor x = operand.resolve();
  if (repeats.size() > size_t(x.rank())) {
    Shape shape = x.shape();
    shape.insert(shape.begin(), repeats.size() - shape.size(), Dim(1));
    x = reshape_to(Operand(x, operand.at()), shape);
  }
  for (size_t i = 0; i < repeats.size(); ++i)
    x = repeat_blocks(x, size_t(x.rank()) - 1 - i, repeats[repeats.size() - 1 - i], false, operand.at());
  return x;
}

Tensor repeat(const Operand& operand, int64_t repeats, int axis) {
  const Tensor x = operand.resolve();
  return repeat_blocks(x, size_t(normalize_axis("repeat", axis, size_t(x.rank()))), repeats, true, operand.at());
}

Tensor repeat(const Operand& operand, const std::vector<int64_t>& repeats, int axis) {
  const Tensor x = operand.resolve();
  const int a = normalize_axis("repeat", axis, size_t(x.rank()));
  const Dim length = x.shape()[size_t(a)];
  if (repeats.size() == 1) return repeat(Operand(x, operand.at()), repeats[0], axis);
  if (length.known() && length.number() != int64_t(repeats.size()))
    throw refused(operand.at(), cat("repeat: ", repeats.size(), " counts for axis ", axis, " of ", x.type()),
                  cat("it has ", length, " elements"), "pass one count per element, or one for all");
  std::vector<int64_t> indices;
  for (size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] < 0)
      throw refused(operand.at(), cat("repeat: ", repeats[i], " repeats are not possible"), "it says how often something stands there",
                    "pass numbers that are not negative");
    indices.insert(indices.end(), size_t(repeats[i]), int64_t(i));
  }
  return gather(Operand(x, operand.at()), Operand(indices_tensor(indices, x.device()), operand.at()), a);
}

PadMode parse_pad_mode(std::string_view name) {
  constexpr std::pair<std::string_view, PadMode> kModes[] = {{"constant", PadMode::constant},
                                                             {"edge", PadMode::edge},
                                                             {"reflect", PadMode::reflect},
                                                             {"symmetric", PadMode::symmetric},
                                                             {"wrap", PadMode::wrap}};
  for (auto [known, mode] : kModes)
    if (name == known) return mode;
  throw Error(ErrorKind::not_found, {.what = cat("pad: there is no mode '", name, "'"),
                                     .where = "argument 'mode'",
                                     .why = "the modes are constant, edge, reflect, symmetric, wrap",
                                     .fix = "pass one of them"});
}

namespace {

// The element of 0..n-1 at position i, which may be before 0 or after n - 1.
int64_t padded_place(int64_t i, int64_t n, PadMode mode) {
  auto cycle = [](int64_t v, int64_t period) { return (v % period + period) % period; };
  switch (mode) {
    case PadMode::reflect: {
      if (n == 1) return 0;
      const int64_t j = cycle(i, 2 * n - 2);
      return j < n ? j : 2 * n - 2 - j;
    }
    case PadMode::symmetric: {
      const int64_t j = cycle(i, 2 * n);
      return j < n ? j : 2 * n - 1 - j;
    }
    case PadMode::wrap: return cycle(i, n);
    default: return std::clamp<int64_t>(i, 0, n - 1);
  }
}

}  // namespace

Tensor pad(const Operand& operand, const std::vector<std::pair<int64_t, int64_t>>& widths, PadMode mode, const Operand& value) {
  const CallSite at = operand.at();
  Tensor x = operand.resolve();
  if (widths.size() != size_t(x.rank()))
    throw refused(at, cat("pad: ", widths.size(), " pairs of widths for ", x.type()),
                  cat("each axis has one pair, and there are ", x.rank()), "pass (before, after) for each axis");
  for (auto [before, after] : widths)
    if (before < 0 || after < 0 || before > (int64_t{1} << 40) || after > (int64_t{1} << 40))
      throw refused(at, cat("pad: the widths (", before, ", ", after, ") are not possible"), "a width says how many elements are added",
                    "pass numbers that are not negative; x[a:b] takes elements away");
  if (mode == PadMode::constant && !value.is_tensor() && value.number() == 0 && !std::signbit(value.number()) &&
      x.dtype() != DType::boolean) {
    ops::PadSliceAttrs attrs;
    for (size_t i = 0; i < widths.size(); ++i) {
      attrs.shape.push_back(x.shape()[i] + Dim(widths[i].first + widths[i].second));
      attrs.begin.push_back(widths[i].first), attrs.step.push_back(1);
    }
    return attrs.shape == x.shape() ? x : apply_one(ops::def::pad_slice, ir::make_attrs(std::move(attrs)), std::span(&x, 1), at);
  }
  for (size_t axis = 0; axis < widths.size(); ++axis) {
    const auto [before, after] = widths[axis];
    if (before == 0 && after == 0) continue;
    if (mode == PadMode::constant) {
      const Tensor fill =
          x.dtype() == DType::boolean && !value.is_tensor() ? scalar_b(value.number() != 0) : value.resolve(x.dtype(), x.device(), "pad");
      std::vector<Tensor> parts;
      for (int64_t width : {before, int64_t(-1), after}) {
        Shape shape = x.shape();
        if (width >= 0) shape[axis] = Dim(width);
        if (width < 0)
          parts.push_back(x);
        else if (width > 0)
          parts.push_back(broadcast_to(Operand(fill, at), shape));
      }
      x = concat(parts, int(axis), at);
      continue;
    }
    const Dim length = x.shape()[axis];
    if (!length.known() || length.number() == 0)
      throw refused(at, cat("pad: axis ", axis, " of ", x.type(), " cannot be continued"),
                    length.known() ? "it has no elements to repeat" : "its length is not known while tracing", "pad with a constant");
    std::vector<int64_t> indices;
    indices.reserve(size_t((length + Dim(before) + Dim(after)).number()));  // refuses too large sizes at once
    for (int64_t i = -before; i < length.number() + after; ++i) indices.push_back(padded_place(i, length.number(), mode));
    x = gather(Operand(x, at), Operand(indices_tensor(indices, x.device()), at), int(axis));
  }
  return x;
}

Tensor tril(const Operand& operand, int64_t diagonal) {
  const CallSite at = operand.at();
  const Tensor x = operand.resolve();
  require_matrix("tril", x, at);
  const Tensor outside = right_of_diagonal(x.shape()[size_t(x.rank()) - 2], x.shape()[size_t(x.rank()) - 1], diagonal + 1, at);
  return where(Operand(outside, at), Operand(zeros({}, x.dtype()), at), Operand(x, at));
}
Tensor triu(const Operand& operand, int64_t diagonal) {
  const CallSite at = operand.at();
  const Tensor x = operand.resolve();
  require_matrix("triu", x, at);
  const Tensor inside = right_of_diagonal(x.shape()[size_t(x.rank()) - 2], x.shape()[size_t(x.rank()) - 1], diagonal, at);
  return where(Operand(inside, at), Operand(x, at), Operand(zeros({}, x.dtype()), at));
}

Tensor eye(int64_t rows, int64_t columns, int64_t diagonal, DType dtype) {
  if (columns == -1) columns = rows;
  if (rows < 0 || columns < 0)
    throw refused({}, cat("eye: a matrix of ", rows, " rows and ", columns, " columns"), "a matrix's sizes are not negative",
                  "pass its sizes");
  const TensorType type{DType::i64, {rows, columns}};
  const Tensor row = iota(type, 0, {}), column = iota(type, 1, {});
  return astype(
      Operand(equal(Operand(column, CallSite()), Operand(add(Operand(row, CallSite()), Operand(diagonal, CallSite())), CallSite())),
              CallSite()),
      dtype);
}

Tensor diag(const Operand& operand, int64_t offset) {
  const CallSite at = operand.at();
  const Tensor x = operand.resolve();
  if (x.rank() == 2) return diagonal(Operand(x, at), offset);
  if (x.rank() != 1)
    throw refused(at, cat("diag: ", x.type(), " is neither a vector nor a matrix"), "a vector becomes a diagonal, a matrix gives its own",
                  "use diagonal for more axes");
  const int64_t n = x.shape()[0].number(), side = n + std::abs(offset);
  Tensor flat =
      apply_one(ops::def::pad_slice,
                ir::make_attrs(ops::PadSliceAttrs{{Dim(side) * Dim(side)}, {offset >= 0 ? offset : -offset * side}, {side + 1}, {}}),
                std::span(&x, 1), at);
  return reshape_to(Operand(flat, at), {side, side});
}

Tensor full_like(const Operand& x, const Operand& value) { return full_like(x, value, x.resolve().dtype()); }
Tensor full_like(const Operand& operand, const Operand& value, DType dtype) {
  const Tensor x = operand.resolve();
  const Tensor one = value.is_tensor()                                                   ? astype(value, dtype)
                     : value.kind() == Operand::Kind::boolean || dtype == DType::boolean ? scalar(value.number(), dtype)
                                                                                         : value.resolve(dtype, x.device(), "full_like");
  return broadcast_to(Operand(one, operand.at()), x.shape());
}

Tensor linspace(double start, double stop, int64_t count, bool end, DType dtype) {
  if (count < 0)
    throw refused({}, cat("linspace: ", count, " numbers"), "it says how many there are", "pass a number that is not negative");
  const TensorType type{DType::f64, {count}};
  const Buffer buffer(Device{}, size_t(byte_size(type)));  // throws out_of_memory
  auto* values = static_cast<double*>(buffer.data());
  const double steps = double(end ? count - 1 : count);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = i == 0 ? start : end && i == count - 1 ? stop : start + (stop - start) * (double(i) / steps);
    if (is_integer(dtype)) values[i] = std::floor(values[i]);
  }
  return astype(Operand(constant(values, type), CallSite()), dtype);
}

Tensor linspace(const Operand& start, const Operand& stop, int64_t count, bool end, std::optional<DType> dtype) {
  const auto o = [&](const Tensor& t) { return Operand(t, start.at()); };
  const std::vector<Tensor> ends = resolve_all("linspace", std::array{start, stop}, Mixing::fractions);
  const int rank = std::max(ends[0].rank(), ends[1].rank());
  std::vector<int64_t> along(size_t(rank) + 1, 1);
  along[0] = count;
  const auto part = [&](double from, double to) {
    return reshape(o(astype(o(linspace(from, to, count, end, DType::f64)), ends[0].dtype())), along);
  };
  Tensor out = add(o(mul(o(ends[0]), o(part(1, 0)))), o(mul(o(ends[1]), o(part(0, 1)))));
  if (dtype && is_integer(*dtype)) out = floor(o(out));
  return dtype && *dtype != out.dtype() ? astype(o(out), *dtype) : out;
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors, bool matrix_order, CallSite at) {
  const size_t n = vectors.size();
  auto axis_of = [&](size_t i) { return !matrix_order && n >= 2 && i < 2 ? 1 - i : i; };
  Shape shape(n);
  for (size_t i = 0; i < n; ++i) shape[axis_of(i)] = size_of(vectors[i].shape());
  std::vector<Tensor> out;
  for (size_t i = 0; i < n; ++i) {
    if (vectors[i].rank() > 1)
      throw refused(at, cat("meshgrid: ", vectors[i].type(), " is not a vector"), "each vector is one axis of the grid",
                    "flatten it first");
    Shape own(n, Dim(1));
    own[axis_of(i)] = shape[axis_of(i)];
    out.push_back(broadcast_to(Operand(reshape_to(Operand(vectors[i], at), own), at), shape));
  }
  return out;
}

}  // namespace lamina
