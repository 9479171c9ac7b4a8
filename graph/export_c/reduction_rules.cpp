// Sums and their like, softmax and what is computed along rows. Orders of sums are those of kernels/reduce.h.
#include "graph/export_c/rules.h"
#include "graph/ops/ops.h"

namespace lamina::c_text {
namespace {

using ir::Node;

DType sum_type(DType dtype) { return is_floating(dtype) ? dtype : DType::i64; }
const char* reduction_name(const ir::OpDef& op) {
  return &op == &ops::def::max ? "max" : &op == &ops::def::min ? "min" : &op == &ops::def::prod ? "prod" : "sum";
}

// Axes of a view, those of length 1 left out; neighbours in equal steps are one.
struct Axes {
  std::vector<int64_t> shape, strides;
  int64_t size = 1;
  void add(int64_t length, int64_t stride, bool joins) {
    size *= length;
    if (joins && !shape.empty() && strides.back() == stride * length)
      shape.back() *= length, strides.back() = stride;
    else
      shape.push_back(length), strides.push_back(stride);
  }
};

struct Reduction {
  Axes reduced, kept;
  DType type = DType::f32;                   // that sums are made in
  bool by_rows = false, by_columns = false;  // neither: the elements are put in order first
};
Reduction plan_reduction(const Node& node, const View& x, DType result) {
  const AxesOrAll& axes = ir::attrs_of<ops::ReduceAttrs>(*node.attrs).axes;
  std::vector<uint8_t> reduced_axis(size_t(x.rank), axes.all());
  if (!axes.all())
    for (int64_t a : axes.named()) reduced_axis[size_t(a < 0 ? a + x.rank : a)] = 1;
  Reduction out;
  out.type = sum_type(x.dtype);
  bool last_reduced = true, before = false, first = true;
  for (int a = 0; a < x.rank; ++a) {
    if (x.shape[a] == 1) continue;
    const bool is_reduced = reduced_axis[size_t(a)];
    (is_reduced ? out.reduced : out.kept).add(x.shape[a], x.strides[a], !first && before == is_reduced);
    last_reduced = before = is_reduced, first = false;
  }
  const bool direct = x.dtype == out.type && out.reduced.shape.size() <= 1;
  out.by_rows = direct && last_reduced && (out.reduced.strides.empty() || out.reduced.strides[0] == 1);
  out.by_columns = direct && !last_reduced && !out.reduced.shape.empty() && out.kept.strides.back() == 1 && result == out.type;
  return out;
}

void write_reduce(Writer& w, const Node& node) {
  const Operand &x = w.in[0], &y = w.out[0];
  const auto [reduced, kept, type, by_rows, by_columns] = plan_reduction(node, x.view, y.dtype());
  const std::string op = reduction_name(*node.op), at_type = suffix(type), count = cat(reduced.size);
  const bool is_mean = node.op == &ops::def::mean;
  auto store = [&, type = type](const std::string& at, const std::string& value) {
    w(y[at], " = ", scalar_call(ops::def::astype, type, y.dtype(), {is_mean ? cat("(", value, " / ", count, ")") : value}), ";");
  };
  if (reduced.size == 0) {
    w.loop("e", y.size());
    store("e", op == "prod" ? number(type, 1.0) : number(type, 0.0));
    return w.end();
  }
  if (by_rows) {
    const Writer::Nest nest = w.loops(kept.shape, {kept.strides, contiguous_strides(kept.shape)});
    store(nest.at[1], cat("lm_row_", op, "_", at_type, "(", x.name, " + ", nest.at[0], ", ", count, ")"));
    return w.close(nest);
  }
  if (by_columns) {
    const int64_t columns = kept.shape.back();
    std::vector<int64_t> outer(kept.shape.begin(), kept.shape.end() - 1), steps(kept.strides.begin(), kept.strides.end() - 1), to;
    for (int64_t s : contiguous_strides(outer)) to.push_back(s * columns);
    const Writer::Nest nest = w.loops(outer, {steps, to});
    w("for (ptrdiff_t c = 0; c < ", columns, "; c += 64) lm_columns_", op, "_", at_type, "(", x.name, " + ", nest.at[0], " + c, ", count,
      ", ", reduced.strides[0], ", ", columns % 64 ? cat(columns, " - c < 64 ? ", columns, " - c : 64") : "64", ", ", y.name, " + ",
      nest.at[1], " + c);");
    w.close(nest);
    if (!is_mean) return;
    w.loop("e", y.size());
    store("e", y["e"]);
    return w.end();
  }
  std::vector<int64_t> shape = kept.shape, steps = kept.strides;
  shape.insert(shape.end(), reduced.shape.begin(), reduced.shape.end());
  steps.insert(steps.end(), reduced.strides.begin(), reduced.strides.end());
  const Writer::Nest nest = w.loops(shape, {steps, contiguous_strides(shape)});
  w(w.scratch, "[", nest.at[1], "] = ", scalar_call(ops::def::astype, x.dtype(), type, {x[nest.at[0]]}), ";");
  w.close(nest);
  w.loop("e", kept.size);
  store("e", cat("lm_row_", op, "_", at_type, "(", w.scratch, " + e * ", count, ", ", count, ")"));
  w.end();
}
Scratch reduce_scratch(const Node& node, const ir::KernelRequest& request) {
  const Reduction plan = plan_reduction(node, contiguous_view(nullptr, request.in[0]), request.out[0].dtype);
  return {plan.type, plan.by_rows || plan.by_columns ? 0 : size_of(request.in[0].shape).number()};
}

int axis_of(int axis, const View& view) { return axis < 0 ? axis + view.rank : axis; }

// Loops over all lines along an axis; at[i] is where operand i's line begins.
Writer::Nest over_lines(Writer& w, int axis, const std::vector<const Operand*>& operands, const View& whole) {
  std::vector<int64_t> shape = shape_of(whole);
  shape[size_t(axis)] = 1;
  std::vector<std::vector<int64_t>> strides;
  for (const Operand* o : operands) {
    std::vector<int64_t> own(o->view.strides, o->view.strides + o->view.rank);
    if (own.size() + 1 == shape.size()) own.insert(own.begin() + axis, 0);  // a result without the axis
    strides.push_back(own);
  }
  return w.loops(shape, strides);
}

void write_softmax(Writer& w, const Node& node) {
  const Operand &x = w.in[0], &y = w.out[0];
  const int axis = axis_of(ir::attrs_of<ops::AxisAttrs>(*node.attrs).axis, x.view);
  const Writer::Nest nest = over_lines(w, axis, {&x, &y}, y.view);
  w("lm_", node.op->name, "_row_", suffix(x.dtype()), "(", x.name, " + ", nest.at[0], ", ", y.name, " + ", nest.at[1], ", ",
    x.view.shape[axis], ", ", x.view.strides[axis], ");");
  w.close(nest);
}

void write_cross_entropy(Writer& w, const Node&) {
  const Operand &logits = w.in[0], &labels = w.in[1], &losses = w.out[0], &probabilities = w.out[1];
  const int64_t n = logits.view.shape[logits.view.rank - 1];
  const std::string label = cat("(int64_t)", labels["e"]);
  w.may_fail();
  w.loop("e", labels.size());
  w("const int right = ", label, " >= 0 && ", label, " < ", n, ";");
  w("bad |= !right;");
  w(losses["e"], " = lm_cross_entropy_row_", suffix(logits.dtype()), "(", logits.name, " + e * ", n, ", ", probabilities.name, " + e * ", n,
    ", ", n, ", right ? ", label, " : 0);");
  w.end();
}

void write_argmax(Writer& w, const Node& node) {
  const Operand &x = w.in[0], &y = w.out[0];
  const int axis = axis_of(ir::attrs_of<ops::ArgmaxAttrs>(*node.attrs).axis, x.view);
  const Writer::Nest nest = over_lines(w, axis, {&x, &y}, x.view);
  const std::string at = cat(x.name, "[", nest.at[0], " + a * ", x.view.strides[axis], "]");
  w(c_type(x.dtype()), " most = ", x[nest.at[0]], ";");
  w("ptrdiff_t place = 0;");
  w("for (ptrdiff_t a = 1; a < ", x.view.shape[axis], "; ++a) {");
  w(is_floating(x.dtype()) ? cat("if (most == most && !(", at, " <= most)) {") : cat("if (", at, " > most) {"));
  w("most = ", at, ";");
  w("place = a;");
  w.end();
  w.end();
  w(y[nest.at[1]], " = place;");
  w.close(nest);
}

void write_cumsum(Writer& w, const Node& node) {
  const auto& attrs = ir::attrs_of<ops::CumsumAttrs>(*node.attrs);
  const Operand &x = w.in[0], &y = w.out[0];
  const int axis = axis_of(attrs.axis, x.view);
  const std::string made = is_floating(x.dtype()) ? "double" : "uint64_t";
  const int64_t n = x.view.shape[axis];
  const Writer::Nest nest = over_lines(w, axis, {&x, &y}, y.view);
  w(made, " sum = 0;");
  w.loop("s", n);
  w("const ptrdiff_t a = ", attrs.reverse ? cat(n - 1, " - s") : "s", ";");
  const std::string add = cat("sum += (", made, ")", x.name, "[", nest.at[0], " + a * ", x.view.strides[axis], "];");
  if (!attrs.exclusive) w(add);
  w(y.name, "[", nest.at[1], " + a * ", y.view.strides[axis], "] = (", c_type(y.dtype()), ")sum;");
  if (attrs.exclusive) w(add);
  w.end();
  w.close(nest);
}

}  // namespace

std::vector<Rule> reduction_rules() {
  return {{&ops::def::sum, write_reduce, reduce_scratch},
          {&ops::def::mean, write_reduce, reduce_scratch},
          {&ops::def::max, write_reduce, reduce_scratch},
          {&ops::def::min, write_reduce, reduce_scratch},
          {&ops::def::prod, write_reduce, reduce_scratch},
          {&ops::def::softmax, write_softmax},
          {&ops::def::log_softmax, write_softmax},
          {&ops::def::sparse_cross_entropy, write_cross_entropy},
          {&ops::def::argmax, write_argmax},
          {&ops::def::cumsum, write_cumsum}};
}

}  // namespace lamina::c_text
