// Elements that change their places: concatenation, padding, gathering, scattering, and tensors made of places.
#include <algorithm>

#include "graph/export_c/rules.h"
#include "graph/ops/ops.h"

namespace lamina::c_text {
namespace {

using ir::Node;

void write_concat(Writer& w, const Node& node) {
  const Operand& y = w.out[0];
  int axis = ir::attrs_of<ops::AxisAttrs>(*node.attrs).axis;
  if (axis < 0) axis += y.view.rank;
  int64_t place = 0;
  for (const Operand& x : w.in) {
    const std::vector<int64_t> shape = shape_of(x.view);
    const Writer::Nest nest = w.loops(shape, {strides_for(x.view, shape), {y.view.strides, y.view.strides + y.view.rank}});
    w(y[cat(place * y.view.strides[axis], " + ", nest.at[1])], " = ", x[nest.at[0]], ";");
    w.close(nest);
    place += x.view.shape[axis];
  }
}

// As ops::slice counts.
int64_t begin_of(int64_t begin, int64_t step, int64_t length) {
  if (step > 0) return begin < 0 ? std::max<int64_t>(0, begin + length) : std::min(begin, length);
  return std::clamp<int64_t>(begin, -1, length - 1);
}

void write_pad_slice(Writer& w, const Node& node) {
  const auto& attrs = ir::attrs_of<ops::PadSliceAttrs>(*node.attrs);
  const Operand &x = w.in[0], &y = w.out[0];
  std::vector<int64_t> steps;
  int64_t place = 0;
  for (int a = 0; a < y.view.rank; ++a) {
    const size_t i = size_t(a);
    const int64_t first = begin_of(attrs.begin[i], attrs.step[i], y.view.shape[a]) + (attrs.offset.empty() ? 0 : attrs.offset[i].number());
    place += first * y.view.strides[a];
    steps.push_back(y.view.strides[a] * attrs.step[i]);
  }
  w("memset(", y.name, ", 0, ", y.size(), " * sizeof(", c_type(y.dtype()), "));");
  const std::vector<int64_t> shape = shape_of(x.view);
  const Writer::Nest nest = w.loops(shape, {strides_for(x.view, shape), steps});
  w(y[cat(place, " + ", nest.at[1])], " = ", x[nest.at[0]], ";");
  w.close(nest);
}

// How x [batch, outer, length, inner] and `count` indices per batch meet, as kernels/gather.h says.
struct Meeting {
  int64_t batch = 1, outer = 1, length = 1, inner = 1, count = 1;
};
Meeting meeting(const View& x, const View& indices, int axis, int batch_axes) {
  Meeting out;
  if (axis < 0) axis += x.rank;
  for (int a = 0; a < x.rank; ++a) (a < batch_axes ? out.batch : a < axis ? out.outer : a == axis ? out.length : out.inner) *= x.shape[a];
  for (int a = batch_axes; a < indices.rank; ++a) out.count *= indices.shape[a];
  return out;
}
// Opens loops over batch, outer, count and defines the index as `place`, which lies inside; a wrong one counts as 0 if `read`, and skips if
// not.
void open_indices(Writer& w, const Meeting& m, const Operand& indices, bool read) {
  w.may_fail();
  w.loop("b", m.batch);
  w.loop("o", m.outer);
  w.loop("j", m.count);
  w("int64_t place = (int64_t)", indices[cat("b * ", m.count, " + j")], ";");
  w("if (place < 0) place += ", m.length, ";");
  w("if (place < 0 || place >= ", m.length, ") {");
  w("bad = 1;");
  w(read ? "place = 0;" : "continue;");
  w.end();
}
void close_indices(Writer& w) {
  for (int i = 0; i < 3; ++i) w.end();
}

void write_gather(Writer& w, const Node& node) {
  const auto& attrs = ir::attrs_of<ops::GatherAttrs>(*node.attrs);
  const Operand &x = w.in[0], &indices = w.in[1], &y = w.out[0];
  const Meeting m = meeting(x.view, indices.view, attrs.axis, attrs.batch_axes);
  open_indices(w, m, indices, true);
  w("memcpy(", y.name, " + ((b * ", m.outer, " + o) * ", m.count, " + j) * ", m.inner, ", ", x.name, " + ((b * ", m.outer, " + o) * ",
    m.length, " + place) * ", m.inner, ", ", m.inner, " * sizeof(", c_type(y.dtype()), "));");
  close_indices(w);
}

// to[place] = to[place] op update, element by element of a slice.
void write_updates(Writer& w, const Meeting& m, const Operand& updates, const Operand& to, const char* op) {
  w(c_type(to.dtype()), " *p = ", to.name, " + ((b * ", m.outer, " + o) * ", m.length, " + place) * ", m.inner, ";");
  w("const ", c_type(to.dtype()), " *u = ", updates.name, " + ((b * ", m.outer, " + o) * ", m.count, " + j) * ", m.inner, ";");
  w.loop("e", m.inner);
  const DType type = to.dtype();
  if (op && type == DType::boolean)
    w("p[e] = (uint8_t)(p[e] | u[e]);");
  else
    w("p[e] = ", op ? cat("lm_", op, "_", suffix(type), "(p[e], u[e])") : "u[e]", ";");
  w.end();
}

void write_scatter_add(Writer& w, const Node& node) {
  const auto& attrs = ir::attrs_of<ops::ScatterAttrs>(*node.attrs);
  const Operand &updates = w.in[0], &indices = w.in[1], &y = w.out[0];
  const Meeting m = meeting(y.view, indices.view, attrs.axis, attrs.batch_axes);
  w("memset(", y.name, ", 0, ", y.size(), " * sizeof(", c_type(y.dtype()), "));");
  open_indices(w, m, indices, false);
  write_updates(w, m, updates, y, "add");
  close_indices(w);
}

void write_scatter(Writer& w, const Node& node) {
  const auto& attrs = ir::attrs_of<ops::ScatterIntoAttrs>(*node.attrs);
  const Operand &updates = w.in[0], &indices = w.in[1], &x = w.in[2], &y = w.out[0];
  const Meeting m = meeting(y.view, indices.view, attrs.batch_axes, attrs.batch_axes);
  if (x.name != y.name) w("memcpy(", y.name, ", ", x.name, ", ", y.size(), " * sizeof(", c_type(y.dtype()), "));");
  open_indices(w, m, indices, false);
  const char* const ops[] = {nullptr, "add", "mul", "minimum", "maximum"};
  write_updates(w, m, updates, y, ops[int(attrs.mode)]);
  close_indices(w);
}

void write_one_hot(Writer& w, const Node&) {
  const Operand &labels = w.in[0], &y = w.out[0];
  const int64_t classes = y.view.shape[y.view.rank - 1];
  w.loop("e", labels.size());
  w.loop("c", classes);
  w(y[cat("e * ", classes, " + c")], " = (", c_type(y.dtype()), ")((int64_t)", labels["e"], " == (int64_t)c);");
  w.end();
  w.end();
}

void write_iota(Writer& w, const Node& node) {
  const Operand& y = w.out[0];
  int axis = ir::attrs_of<ops::IotaAttrs>(*node.attrs).axis;
  if (axis < 0) axis += y.view.rank;
  w.loop("e", y.size());
  w(y["e"], " = (", c_type(y.dtype()), ")(e / ", y.view.strides[axis], " % ", y.view.shape[axis], ");");
  w.end();
}

void write_ravel_index(Writer& w, const Node& node) {
  const auto& attrs = ir::attrs_of<ops::RavelIndexAttrs>(*node.attrs);
  const Operand& y = w.out[0];
  const std::vector<int64_t> shape = shape_of(y.view);
  std::vector<std::vector<int64_t>> strides;
  for (const Operand& x : w.in) strides.push_back(strides_for(x.view, shape));
  strides.push_back(strides_for(y.view, shape));
  w.may_fail();
  const Writer::Nest nest = w.loops(shape, strides);
  w("int64_t at = 0, place;");
  for (size_t i = 0; i < w.in.size(); ++i) {
    const int64_t length = attrs.lengths[i].number();
    w("place = (int64_t)", w.in[i][nest.at[i]], ";");
    w("if (place < 0) place += ", length, ";");
    w("if (place < 0 || place >= ", length, ") {");
    w("bad = 1;");
    w("place = 0;");
    w.end();
    w("at = at * ", length, " + place;");
  }
  w(y[nest.at.back()], " = at;");
  w.close(nest);
}

void write_nonzero(Writer& w, const Node&) {
  const Operand &x = w.in[0], &places = w.out[0], &count = w.out[1];
  const int64_t n = x.view.shape[x.view.rank - 1];
  w.loop("r", count.size());
  w("ptrdiff_t found = 0;");
  w.loop("e", n);
  w("if (", x[cat("r * ", n, " + e")], ") ", places[cat("r * ", n, " + found++")], " = e;");
  w.end();
  w(count["r"], " = found;");
  w("for (; found < ", n, "; ++found) ", places[cat("r * ", n, " + found")], " = ", n, ";");
  w.end();
}

void write_check(Writer& w, const Node&) {
  w.may_fail();
  w.loop("e", w.in[0].size());
  w("bad |= !", w.in[0]["e"], ";");
  w.end();
}

void write_check_numerics(Writer& w, const Node&) {
  const Operand &x = w.in[0], &y = w.out[0];
  w.may_fail();
  w.loop("e", x.size());
  w("bad |= !(", x["e"], " - ", x["e"], " == 0);");
  w(y["e"], " = ", x["e"], ";");
  w.end();
}

}  // namespace

std::vector<Rule> movement_rules() {
  return {{&ops::def::concat, write_concat},
          {&ops::def::pad_slice, write_pad_slice},
          {&ops::def::gather, write_gather},
          {&ops::def::scatter_add, write_scatter_add},
          {&ops::def::scatter, write_scatter},
          {&ops::def::one_hot, write_one_hot},
          {&ops::def::iota, write_iota},
          {&ops::def::ravel_index, write_ravel_index},
          {&ops::def::nonzero, write_nonzero},
          {&ops::def::check, write_check},
          {&ops::def::check_numerics, write_check_numerics}};
}

}  // namespace lamina::c_text
