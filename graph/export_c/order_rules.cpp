// Order along an axis of fixed length: places are sorted by heaps, with equal elements in their order.
#include "graph/export_c/rules.h"
#include "graph/ops/ops.h"

namespace lamina::c_text {
namespace {

using ir::Node;

struct Line {
  int64_t lines = 1, n = 1, step = 1;  // lines of n elements; those of a line are `step` apart
  std::string begin;                   // of line r
};
Line line_of(const View& x, int axis) {
  if (axis < 0) axis += x.rank;
  Line out{x.size() / std::max<int64_t>(1, x.shape[axis]), x.shape[axis], x.strides[axis], ""};
  out.begin = out.step == 1 ? cat("r * ", out.n) : cat("r / ", out.step, " * ", out.n * out.step, " + r % ", out.step);
  return out;
}

void write_sort(Writer& w, const Node& node) {
  const auto& attrs = ir::attrs_of<ops::SortAttrs>(*node.attrs);
  const Operand &x = w.in[0], &y = w.out[0];
  const Line line = line_of(x.view, attrs.axis);
  w.loop("r", line.lines);
  w("lm_argsort_", suffix(x.dtype()), "(", x.name, " + ", line.begin, ", ", line.step, ", ", w.scratch, ", ", line.n, ", ",
    int(attrs.descending), ");");
  w.loop("a", line.n);
  const bool places = node.op == &ops::def::argsort;
  w(y[cat(line.begin, " + a * ", line.step)], " = ",
    places ? cat(w.scratch, "[a]") : x[cat(line.begin, " + ", w.scratch, "[a] * ", line.step)], ";");
  w.end();
  w.end();
}
Scratch sort_scratch(const Node& node, const ir::KernelRequest& request) {
  const auto& attrs = ir::attrs_of<ops::SortAttrs>(*node.attrs);
  return {DType::i64, line_of(contiguous_view(nullptr, request.in[0]), attrs.axis).n};
}
Scratch last_axis_scratch(const Node&, const ir::KernelRequest& request) { return {DType::i64, request.in[0].shape.back().number()}; }

void write_top_k(Writer& w, const Node& node) {
  const int64_t k = ir::attrs_of<ops::TopKAttrs>(*node.attrs).k;
  const Operand &x = w.in[0], &values = w.out[0], &places = w.out[1];
  const Line line = line_of(x.view, -1);
  w.loop("r", line.lines);
  w("lm_argsort_", suffix(x.dtype()), "(", x.name, " + ", line.begin, ", 1, ", w.scratch, ", ", line.n, ", 1);");
  w.loop("a", k);
  w(places[cat("r * ", k, " + a")], " = ", w.scratch, "[a];");
  w(values[cat("r * ", k, " + a")], " = ", x[cat(line.begin, " + ", w.scratch, "[a]")], ";");
  w.end();
  w.end();
}

void write_searchsorted(Writer& w, const Node& node) {
  const bool right = ir::attrs_of<ops::SearchAttrs>(*node.attrs).right;
  const Operand &sorted = w.in[0], &values = w.in[1], &places = w.out[0];
  const Line line = line_of(sorted.view, -1);
  const int64_t count = values.size() / std::max<int64_t>(1, line.lines);
  const std::string before = cat("lm_before_", suffix(sorted.dtype()), "(");
  w.loop("r", line.lines);
  w.loop("v", count);
  w("const ", c_type(values.dtype()), " x = ", values[cat("r * ", count, " + v")], ";");
  w("int64_t low = 0, high = ", line.n, ";");
  w("while (low < high) {");
  w("const int64_t middle = (low + high) / 2;");
  const std::string element = sorted[cat(line.begin, " + middle")];
  w("if (", right ? cat("!", before, "x, ", element, ")") : cat(before, element, ", x)"), ") low = middle + 1;");
  w("else high = middle;");
  w.end();
  w(places[cat("r * ", count, " + v")], " = low;");
  w.end();
  w.end();
}

void write_unique(Writer& w, const Node&) {
  const Operand &x = w.in[0], &first = w.out[0], &which = w.out[1], &counts = w.out[2], &count = w.out[3];
  const Line line = line_of(x.view, -1);
  const std::string before = cat("lm_before_", suffix(x.dtype()), "("), p = w.scratch, begin = cat(line.begin, " + ");
  w.loop("r", line.lines);
  w("ptrdiff_t found = -1;");
  w("lm_argsort_", suffix(x.dtype()), "(", x.name, " + ", line.begin, ", 1, ", p, ", ", line.n, ", 0);");
  w.loop("a", line.n);
  w("if (a == 0 || ", before, x[cat(begin, p, "[a - 1]")], ", ", x[cat(begin, p, "[a]")], ")) {");
  w("++found;");
  w(first[begin + "found"], " = ", p, "[a];");
  w(counts[begin + "found"], " = 0;");
  w.end();
  w("++", counts[begin + "found"], ";");
  w(which[cat(begin, p, "[a]")], " = found;");
  w.end();
  w(count["r"], " = found + 1;");
  w("for (ptrdiff_t a = found + 1; a < ", line.n, "; ++a) {");
  w(first[begin + "a"], " = ", p, "[0];");
  w(counts[begin + "a"], " = 0;");
  w.end();
  w.end();
}

}  // namespace

std::vector<Rule> order_rules() {
  return {{&ops::def::sort, write_sort, sort_scratch},
          {&ops::def::argsort, write_sort, sort_scratch},
          {&ops::def::top_k, write_top_k, last_axis_scratch},
          {&ops::def::searchsorted, write_searchsorted},
          {&ops::def::unique, write_unique, last_axis_scratch}};
}

}  // namespace lamina::c_text
