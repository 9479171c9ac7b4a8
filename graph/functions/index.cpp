// x[...] with NumPy's rules: ranges, integers, new axes and "..." become one slice and a reshape; index tensors become one gather after it.
#include <algorithm>
#include <limits>
#include <optional>

#include "graph/frontend/device.h"
#include "graph/frontend/eager.h"
#include "graph/frontend/trace.h"
#include "graph/functions/indexing.h"
#include "graph/ops/ops.h"

namespace lamina {
namespace {

using Kind = IndexPart::Kind;
constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

struct Bounds {
  int64_t begin = 0, end = kEnd, step = 1;
  bool whole() const { return begin == 0 && end == kEnd && step == 1; }
};

Error bad_index(ErrorKind kind, const Operand& x, std::string what, std::string why, std::string fix) {
  return Error(kind, {.what = std::move(what), .where = text(x.at().line()), .why = std::move(why), .fix = std::move(fix)});
}

// Python's start:stop:step of one axis in the slice op's terms.
Bounds range_of(const Operand& x, const IndexPart& part, Dim length) {
  Bounds b;
  // Larger numbers mean the same as these, which cannot overflow.
  static constexpr int64_t kLongestStep = int64_t{1} << 31, kFarthest = int64_t{1} << 59;
  auto near = [](std::optional<int64_t> place) { return place ? std::optional(std::clamp(*place, -kFarthest, kFarthest)) : place; };
  const std::optional<int64_t> start = near(part.start), stop = near(part.stop);
  b.step = std::clamp(part.step.value_or(1), -kLongestStep, kLongestStep);
  if (b.step == 0)
    throw bad_index(ErrorKind::invalid_argument, x, "index: a step of 0 goes nowhere",
                    "each step is the distance from one element to the next", "pass a step other than 0");
  if (b.step > 0) {
    b.begin = start.value_or(0);
    b.end = stop && *stop < kFarthest ? *stop : kEnd;
    return b;
  }
  auto place = [&](int64_t i) {  // counted from the front; -1 is before the first
    if (i >= 0) return i;
    if (!length.known())
      throw bad_index(ErrorKind::invalid_argument, x, "index: a negative place on an axis of unknown length",
                      "a step backwards needs its places counted from the front", "leave the place out, or count from the front");
    return std::max<int64_t>(i + length.number(), -1);
  };
  b.begin = start ? place(*start) : kEnd;
  b.end = stop ? place(*stop) : -1;
  return b;
}

Bounds element_of(const Operand& x, int64_t i, Dim length, size_t axis) {
  if (length.known() && (i < -length.number() || i >= length.number()))
    throw bad_index(ErrorKind::index, x, cat("index ", i, " is out of range for axis ", axis, " of ", x.tensor().type()),
                    cat("the axis has ", length, " elements"),
                    length == Dim(0) ? "" : cat("pass a number from ", -length.number(), " to ", length.number() - 1));
  return {i, i == -1 ? kEnd : i + 1, 1};
}

bool is_mask(const IndexPart& p) { return p.kind == Kind::tensor && p.indices.dtype() == DType::boolean; }

// How many of x's axes a part covers; "..." is handled separately.
size_t axes_of(const IndexPart& p) {
  if (p.kind == Kind::new_axis || p.kind == Kind::rest) return 0;
  return is_mask(p) ? size_t(p.indices.rank()) : 1;
}

void check_count(const Operand& x, const std::vector<IndexPart>& parts) {
  const TensorType& type = x.tensor().type();
  size_t taken = 0, rests = 0;
  for (const IndexPart& p : parts) taken += axes_of(p), rests += p.kind == Kind::rest;
  if (rests > 1)
    throw bad_index(ErrorKind::index, x, "index: '...' stands twice", "it stands for all axes that are not named", "name each axis once");
  if (taken > type.rank())
    throw bad_index(ErrorKind::index, x, cat("index: ", taken, " places for ", type),
                    cat("the tensor has ", type.rank(), type.rank() == 1 ? " axis" : " axes"), "name each axis once");
}

// The bool tensor of a part as one index tensor per axis that it covers.
std::vector<IndexPart> places_of(const Operand& x, const IndexPart& mask, size_t axis) {
  const Tensor& m = mask.indices;
  const Shape& shape = x.tensor().shape();
  if (m.rank() == 0)
    throw bad_index(ErrorKind::index, x, "index: a bool without axes",
                    "a bool tensor says for each element along some axes whether it is chosen",
                    "outside of a trace and alone between the brackets it may have none; else use lm.where");
  const auto fits = [](const Dim& of_mask, const Dim& of_x) { return of_mask == of_x || of_mask == Dim(0); };
  if (!std::equal(m.shape().begin(), m.shape().end(), shape.begin() + int64_t(axis), fits))
    throw bad_index(ErrorKind::index, x, cat("index: ", m.type(), " does not fit axis ", axis, " of ", x.tensor().type()),
                    "a bool tensor has the lengths of the axes that it stands for, or a length of 0, which chooses nothing",
                    "give it the same shape");
  if (m.is_symbolic())
    throw bad_index(ErrorKind::invalid_argument, x,
                    cat("index: how many elements of ", x.tensor().type(), " a bool tensor chooses is not known while tracing"),
                    "the length of the result would follow from data",
                    "use lm.where(mask, x, 0), x.at[mask].set(v), or lm.nonzero(mask, size=n) for the first n");
  EagerScope outside;
  const std::vector<uint8_t> chosen = m.to_vector<uint8_t>();
  const std::vector<int64_t> lengths = numbers(m.shape());
  std::vector<std::vector<int64_t>> places(lengths.size());
  for (int64_t i = 0; i < int64_t(chosen.size()); ++i) {
    if (!chosen[size_t(i)]) continue;
    int64_t rest = i;
    for (size_t a = lengths.size(); a-- > 0; rest /= lengths[a]) places[a].push_back(rest % lengths[a]);
  }
  const Beside there(m.device());
  std::vector<IndexPart> out;
  for (const auto& list : places) {
    IndexPart part;
    part.kind = Kind::tensor, part.indices = tensor(list);
    out.push_back(std::move(part));
  }
  return out;
}

// The same parts with index tensors instead of bool tensors.
std::vector<IndexPart> without_masks(const Operand& x, const std::vector<IndexPart>& parts) {
  size_t taken = 0, axis = 0;
  for (const IndexPart& p : parts) taken += axes_of(p);
  std::vector<IndexPart> out;
  for (const IndexPart& p : parts) {
    if (is_mask(p)) {
      for (IndexPart& place : places_of(x, p, axis)) out.push_back(std::move(place));
    } else {
      out.push_back(p);
    }
    axis += p.kind == Kind::rest ? x.tensor().type().rank() - taken : axes_of(p);
  }
  return out;
}

// Gathers x along several axes by index tensors; the result's axes for them begin at `place`.
struct Gathered {
  size_t axis;
  Tensor indices;
};
Tensor gather_along(const Tensor& x, const std::vector<Gathered>& gathered, size_t place, CallSite at) {
  auto here = [&](const Tensor& t) { return Operand(t, at); };
  std::vector<int64_t> order;
  for (size_t axis = 0; axis < size_t(x.rank()); ++axis)
    if (std::none_of(gathered.begin(), gathered.end(), [&](const Gathered& g) { return g.axis == axis; })) order.push_back(int64_t(axis));
  for (size_t i = 0; i < gathered.size(); ++i) order.insert(order.begin() + int64_t(place + i), int64_t(gathered[i].axis));
  Tensor y = std::is_sorted(order.begin(), order.end()) ? x : transpose(here(x), order);
  Tensor indices = gathered[0].indices;
  if (gathered.size() > 1) {
    std::vector<Tensor> places;
    Shape lengths, merged(y.shape().begin(), y.shape().begin() + int64_t(place));
    for (const Gathered& g : gathered) places.push_back(g.indices), lengths.push_back(x.shape()[g.axis]);
    merged.push_back(size_of(lengths));
    merged.insert(merged.end(), y.shape().begin() + int64_t(place + gathered.size()), y.shape().end());
    indices = apply_one(ops::def::ravel_index, ir::make_attrs(ops::RavelIndexAttrs{lengths}), places, at);
    y = reshape_to(here(y), merged);
  }
  return gather(here(y), here(indices), int(place));
}

}  // namespace

Tensor slice(const Operand& x, const std::vector<int64_t>& begin, const std::vector<int64_t>& end, const std::vector<int64_t>& step) {
  if (begin.size() != end.size() || (!step.empty() && step.size() != begin.size()))
    throw bad_index(ErrorKind::invalid_argument, x,
                    cat("slice: ", begin.size(), " begins, ", end.size(), " ends and ", step.size(), " steps"),
                    "each sliced axis has one of each", "pass lists of one length");
  std::vector<IndexPart> parts;
  for (size_t i = 0; i < begin.size(); ++i) parts.push_back(IndexPart::range(begin[i], end[i], step.empty() ? 1 : step[i]));
  return index(x, parts);
}

Tensor index(const Operand& operand, const std::vector<IndexPart>& given) {
  const Operand x(operand.resolve(), operand.at());
  const TensorType type = x.tensor().type();
  check_count(x, given);
  if (given.size() == 1 && is_mask(given[0]) && given[0].indices.rank() == 0 && !given[0].indices.is_symbolic()) {
    Shape one = type.shape;  // x itself, once or not at all, along a new axis
    one.insert(one.begin(), 1);
    const Tensor stacked = reshape_to(x, one);
    const int64_t count = [&] {
      EagerScope outside;
      return given[0].indices.to_vector<uint8_t>()[0];
    }();
    return index(Operand(stacked, x.at()), {IndexPart::range(0, count, 1)});
  }
  const bool masks = std::any_of(given.begin(), given.end(), is_mask);
  const std::vector<IndexPart> expanded = masks ? without_masks(x, given) : std::vector<IndexPart>{};
  const std::vector<IndexPart>& parts = masks ? expanded : given;
  const bool any_tensor = std::any_of(parts.begin(), parts.end(), [](const IndexPart& p) { return p.kind == Kind::tensor; });
  size_t taken = 0;
  for (const IndexPart& p : parts) taken += axes_of(p);

  ops::SliceAttrs attrs;
  std::vector<int> kept;  // axes after the slice: an axis of x, or -1 for a new one
  std::vector<Gathered> gathered;
  size_t place = 0;  // of the gathered axes in the result
  enum class Run : uint8_t { none, now, over } run = Run::none;
  bool separated = false;
  bool any_slice = false;
  auto take = [&](const Bounds& b) {
    any_slice |= !b.whole();
    attrs.begin.push_back(b.begin), attrs.end.push_back(b.end), attrs.step.push_back(b.step);
  };
  auto take_whole = [&](size_t count) {
    for (; count; --count) kept.push_back(int(attrs.begin.size())), take({});
  };
  for (const IndexPart& p : parts) {
    const size_t axis = attrs.begin.size();
    // Beside index tensors, an integer acts as one of them.
    const bool advanced = p.kind == Kind::tensor || (p.kind == Kind::element && any_tensor);
    if (advanced && run == Run::none) place = kept.size();
    separated |= advanced && run == Run::over;
    if (advanced)
      run = Run::now;
    else if (run == Run::now)
      run = Run::over;
    switch (p.kind) {
      case Kind::new_axis: kept.push_back(-1); break;
      case Kind::rest: take_whole(type.rank() - taken); break;
      case Kind::element: take(element_of(x, p.element, type.shape[axis], axis)); break;
      case Kind::range:
        take(range_of(x, p, type.shape[axis]));
        kept.push_back(int(axis));
        break;
      case Kind::tensor:
        gathered.push_back({kept.size(), p.indices});
        take_whole(1);
        break;
    }
  }
  take_whole(type.rank() - attrs.begin.size());

  Tensor y = x.tensor();
  if (any_slice) y = apply_one(ops::def::slice, ir::make_attrs(std::move(attrs)), std::span(&y, 1), x.at());
  Shape shape;
  for (int axis : kept) shape.push_back(axis < 0 ? Dim(1) : y.shape()[size_t(axis)]);
  y = reshape_to(Operand(y, x.at()), shape);
  return gathered.empty() ? y : gather_along(y, gathered, separated ? 0 : place, x.at());
}

// --- changing elements ---

namespace {

Tensor combined(const Operand& x, const Operand& values, ScatterMode mode) {
  switch (mode) {
    case ScatterMode::set: break;
    case ScatterMode::add: return add(x, values);
    case ScatterMode::mul: return mul(x, values);
    case ScatterMode::min: return minimum(x, values);
    case ScatterMode::max: return maximum(x, values);
  }
  return values.tensor();
}

Tensor scatter(const Tensor& updates, const Tensor& indices, const Tensor& x, ScatterMode mode, CallSite at) {
  return apply_one(ops::def::scatter, ir::make_attrs(ops::ScatterIntoAttrs{mode, 0}), std::array{updates, indices, x}, at);
}

}  // namespace

Tensor At::update(const Operand& given, ScatterMode mode) const {
  const Operand x(x_, at_);
  const TensorType type = x_.type();
  check_count(x, parts_);
  const Tensor values =
      type.dtype == DType::boolean && !given.is_tensor() ? scalar_b(given.number() != 0) : given.resolve(type.dtype, x_.device(), "at");
  if (values.dtype() != type.dtype)
    throw bad_index(ErrorKind::type, x, cat("at: ", values.type(), " cannot be put into ", type), "tensors are never converted silently",
                    cat("convert the values: lm.astype(v, lm.", numpy_name(type.dtype), ")"));
  // A single bool tensor, with values that do not depend on how many elements are selected.
  if (parts_.size() == 1 && is_mask(parts_[0]) && parts_[0].indices.rank() > 0 && values.rank() + parts_[0].indices.rank() <= x_.rank()) {
    Shape shape = parts_[0].indices.shape();
    if (!std::equal(shape.begin(), shape.end(), type.shape.begin())) places_of(x, parts_[0], 0);  // throws
    shape.resize(type.rank(), Dim(1));
    const Tensor mask = reshape_to(Operand(parts_[0].indices, at_), shape);
    return where(Operand(mask, at_), Operand(combined(x, Operand(values, at_), mode), at_), x);
  }

  // Applies the parts to the axes up to the last one not taken whole, using the positions of their elements.
  const std::vector<IndexPart> parts = without_masks(x, parts_);
  size_t taken = 0, axis = 0, lead = 0;
  for (const IndexPart& p : parts) taken += axes_of(p);
  auto whole = [](const IndexPart& p) { return p.kind == Kind::range && p.start.value_or(0) == 0 && !p.stop && p.step.value_or(1) == 1; };
  bool new_axis_behind = false;
  for (const IndexPart& p : parts) {
    if (p.kind == Kind::new_axis) new_axis_behind = true;
    axis += p.kind == Kind::rest ? type.rank() - taken : axes_of(p);
    if (axes_of(p) && !whole(p)) lead = axis, new_axis_behind = false;
  }
  if (new_axis_behind) lead = type.rank();
  lead = std::max(lead, std::min<size_t>(1, type.rank()));
  std::vector<IndexPart> first;
  axis = 0;
  for (const IndexPart& p : parts) {
    const size_t before = axis;
    axis += p.kind == Kind::rest ? type.rank() - taken : axes_of(p);
    if (axes_of(p) == 0 || before < lead) first.push_back(p);
  }
  // "..." keeps covering the same axes before the last such axis.
  const Shape leading(type.shape.begin(), type.shape.begin() + int64_t(lead)), inner(type.shape.begin() + int64_t(lead), type.shape.end());
  const Dim count = size_of(leading);
  Tensor places;
  {
    const Beside there(x_.device());
    places = apply_one(ops::def::iota, ir::make_attrs(ops::IotaAttrs{{DType::i64, {count}}, 0}), {}, at_);
  }
  places = index(Operand(reshape_to(Operand(places, at_), leading), at_), first);
  // Slices of open axes may be shorter than they are traced. A number fits any length: it is put in where a mask is true.
  const bool open = std::any_of(leading.begin(), leading.end(), [](Dim d) { return !d.known(); });
  const bool ranges = std::any_of(first.begin(), first.end(), [&](const IndexPart& p) { return p.kind == Kind::range && !whole(p); });
  const bool tensors = std::any_of(first.begin(), first.end(), [](const IndexPart& p) { return p.kind == Kind::tensor; });
  if (open && ranges && !tensors && values.rank() == 0) {
    const Operand here(places, at_);
    const Tensor none = broadcast_to(Operand(scalar_b(false), at_), {count});
    const Tensor mask = scatter(equal(here, here), places, none, ScatterMode::set, at_);
    Shape shape = leading;
    shape.resize(type.rank(), Dim(1));
    return where(Operand(reshape_to(Operand(mask, at_), shape), at_), Operand(combined(x, Operand(values, at_), mode), at_), x);
  }
  Shape target = places.shape(), rows{count};
  target.insert(target.end(), inner.begin(), inner.end());
  rows.insert(rows.end(), inner.begin(), inner.end());
  const Tensor updates = broadcast_to(Operand(values, at_), target);
  return reshape_to(Operand(scatter(updates, places, reshape_to(x, rows), mode, at_), at_), type.shape);
}

// --- taking ---

Tensor take(const Operand& x, const Operand& indices) { return gather(Operand(flatten(x), x.at()), indices, 0); }
Tensor take(const Operand& x, const Operand& indices, int axis) { return gather(x, indices, axis); }

Tensor take_along_axis(const Operand& operand, const Operand& operand_indices, int axis) {
  const CallSite at = operand.at();
  auto here = [&](const Tensor& t) { return Operand(t, at); };
  Tensor x = operand.resolve(), indices = operand_indices.resolve();
  if (x.rank() != indices.rank())
    throw bad_index(ErrorKind::invalid_argument, operand,
                    cat("take_along_axis: ", x.type(), " and indices ", indices.type(), " have different ranks"),
                    "their axes are the same, of which one is walked along", "reshape one of them");
  const int rank = x.rank(), a = normalize_axis("take_along_axis", axis, size_t(rank));
  Axes there, back;
  for (int i = 0; i < rank; ++i)
    if (i != a) there.push_back(i);
  there.push_back(a);
  back.resize(size_t(rank));
  for (int i = 0; i < rank; ++i) back[size_t(there[size_t(i)])] = i;
  if (a != rank - 1) x = transpose(here(x), there), indices = transpose(here(indices), there);
  const Shape shared = broadcast(Shape(x.shape().begin(), x.shape().end() - 1), Shape(indices.shape().begin(), indices.shape().end() - 1));
  for (Tensor* t : {&x, &indices}) {
    Shape shape = shared;
    shape.push_back(t->shape().back());
    *t = broadcast_to(here(*t), shape);
  }
  const Tensor y = gather(here(x), here(indices), rank - 1, rank - 1);
  return a == rank - 1 ? y : transpose(here(y), back);
}

namespace {

// Indices [..., k] along the first k axes as indices [...] into those axes flattened.
Tensor raveled(const Tensor& indices, const Shape& shape, const Operand& where) {
  const Dim k = indices.rank() ? indices.shape().back() : Dim(0);
  if (!indices.rank() || !k.known() || k.number() < 1 || k.number() > int64_t(shape.size()))
    throw bad_index(ErrorKind::invalid_argument, where, cat("indices ", indices.type(), " do not fit the shape [", text(shape), "]"),
                    "their last axis holds a place along each of the first axes", cat("its length must be from 1 to ", shape.size()));
  std::vector<Tensor> places;
  IndexPart rest;
  rest.kind = Kind::rest;
  for (int64_t i = 0; i < k.number(); ++i) places.push_back(index(Operand(indices, where.at()), {rest, IndexPart::at(i)}));
  return apply_one(ops::def::ravel_index, ir::make_attrs(ops::RavelIndexAttrs{Shape(shape.begin(), shape.begin() + k.number())}), places,
                   where.at());
}
Shape with_first_flat(const Shape& shape, int64_t count) {
  Shape out{size_of(Shape(shape.begin(), shape.begin() + count))};
  out.insert(out.end(), shape.begin() + count, shape.end());
  return out;
}

}  // namespace

Tensor gather_nd(const Operand& operand, const Operand& operand_indices) {
  const Tensor x = operand.resolve(), indices = operand_indices.resolve();
  const Tensor places = raveled(indices, x.shape(), operand);
  return gather(Operand(reshape_to(Operand(x, operand.at()), with_first_flat(x.shape(), indices.shape().back().number())), operand.at()),
                Operand(places, operand.at()), 0);
}

Tensor scatter_nd(const Operand& operand_indices, const Operand& operand_updates, const Shape& shape) {
  const CallSite at = operand_indices.at();
  const Tensor indices = operand_indices.resolve(), updates = operand_updates.resolve();
  const Tensor places = raveled(indices, shape, operand_indices);
  const Tensor flat = scatter_add(Operand(updates, at), Operand(places, at), with_first_flat(shape, indices.shape().back().number()));
  return reshape_to(Operand(flat, at), shape);
}

Tensor scatter_add(const Operand& updates, const Operand& indices, const Shape& shape, int axis) {
  return apply_one(ops::def::scatter_add, ir::make_attrs(ops::ScatterAttrs{shape, axis, 0}),
                   std::array{updates.resolve(), indices.resolve()}, updates.at());
}

namespace {

struct Found {
  Tensor places, count;  // of nonzero elements of the flattened tensor
};
Found find_nonzero(const Tensor& x, CallSite at) {
  const Tensor flat = flatten(Operand(x, at)),
               condition = x.dtype() == DType::boolean ? flat : not_equal(Operand(flat, at), Operand(0, at));
  std::vector<Tensor> found = apply(ops::def::nonzero, nullptr, std::span(&condition, 1), at);
  return {std::move(found[0]), std::move(found[1])};
}

std::vector<Tensor> unraveled(Tensor places, const Shape& shape, CallSite at) {
  std::vector<Tensor> out(shape.size());
  for (size_t a = shape.size(); a-- > 0;) {
    if (a == 0) {
      out[0] = places;
      break;
    }
    const Operand length(std::max<int64_t>(1, shape[a].number()), at);
    out[a] = mod(Operand(places, at), length);
    places = floor_divide(Operand(places, at), length);
  }
  return out;
}

}  // namespace

std::vector<Tensor> nonzero(const Operand& operand) {
  const Tensor x = operand.resolve();
  if (x.is_symbolic())
    throw bad_index(ErrorKind::invalid_argument, operand,
                    cat("nonzero: how many elements of ", x.type(), " are not 0 is not known while tracing"),
                    "the length of the result would follow from data", "pass size: the first `size` of them, filled up");
  if (x.rank() == 0)
    throw bad_index(ErrorKind::invalid_argument, operand, "nonzero: a tensor without axes", "the places are along axes",
                    "reshape it to one dimension");
  const Found found = find_nonzero(x, operand.at());
  int64_t count;
  {
    EagerScope outside;
    count = found.count.item<int64_t>();
  }
  return unraveled(slice(Operand(found.places, operand.at()), {0}, {count}), x.shape(), operand.at());
}

std::vector<Tensor> nonzero(const Operand& operand, int64_t size, int64_t fill) {
  const CallSite at = operand.at();
  auto here = [&](const Tensor& t) { return Operand(t, at); };
  const Tensor x = operand.resolve();
  if (size < 0 || x.rank() == 0)
    throw bad_index(ErrorKind::invalid_argument, operand, cat("nonzero: the first ", size, " of ", x.type()),
                    "a size is not negative, and places are along axes", "pass how many are wanted");
  const Found found = find_nonzero(x, at);
  const Tensor numbers = apply_one(ops::def::iota, ir::make_attrs(ops::IotaAttrs{{DType::i64, {size}}, 0}), {}, at);
  Tensor places = found.places;
  const Dim length = places.shape()[0];
  if (!length.known() || size > length.number()) places = concat({places, zeros({size}, DType::i64)}, 0, at);
  places = slice(here(places), {0}, {size});
  const Tensor valid = less(here(numbers), here(found.count));
  std::vector<Tensor> out = unraveled(where(here(valid), here(places), Operand(0, at)), x.shape(), at);
  for (Tensor& t : out) t = where(here(valid), here(t), Operand(fill, at));
  return out;
}

}  // namespace lamina
