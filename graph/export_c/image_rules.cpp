// Convolution and pooling of images. A convolution is a product for each row of results and each place in the window: of the row's images'
// elements, one below the other, and the filters at that place. Its gradients are the two other products of the same three.
#include "graph/export_c/rules.h"
#include "graph/ops/ops.h"

namespace lamina::c_text {
namespace {

using ir::Node;

TensorType type_of(const View& v) {
  Shape shape;
  for (int a = 0; a < v.rank; ++a) shape.push_back(Dim(v.shape[a]));
  return {v.dtype, shape};
}

void write_convolution(Writer& w, const Node& node) {
  const auto& attrs = ir::attrs_of<ops::Conv2dAttrs>(*node.attrs);
  const bool of_input = node.op == &ops::def::conv2d_grad_input, of_filter = node.op == &ops::def::conv2d_grad_filter;
  const Operand& to = w.out[0];
  const Operand &x = of_input ? to : w.in[0], &filters = of_filter ? to : w.in[1], &y = of_input ? w.in[0] : of_filter ? w.in[1] : to;
  const View &xs = x.view, &fs = filters.view, &ys = y.view;
  const int64_t channels = xs.shape[3], outputs = ys.shape[3], groups = attrs.groups, k = channels / groups, n = outputs / groups;
  int64_t before[2];
  for (int axis = 0; axis < 2; ++axis)
    before[axis] = ops::window_axis("export_c", type_of(xs), axis, Dim(fs.shape[axis]), attrs.strides, attrs.dilation[size_t(axis)],
                                    attrs.padding, attrs.pads)
                       .before;
  const std::string type = suffix(to.dtype());
  w("memset(", to.name, ", 0, ", to.size(), " * sizeof(", c_type(to.dtype()), "));");
  w.loop("image", xs.shape[0]);
  w.loop("i", ys.shape[1]);
  w.loop("a", fs.shape[0]);
  w("const ptrdiff_t row = i * ", attrs.strides[0], " + a * ", attrs.dilation[0], " - ", before[0], ";");
  w("if (row < 0 || row >= ", xs.shape[1], ") continue;");
  w.loop("b", fs.shape[1]);
  w("const ptrdiff_t shift = b * ", attrs.dilation[1], " - ", before[1], ";");
  w("ptrdiff_t first = 0, end = ", ys.shape[2], ";");
  w("while (first < end && first * ", attrs.strides[1], " + shift < 0) ++first;");
  w("while (first < end && (end - 1) * ", attrs.strides[1], " + shift >= ", xs.shape[2], ") --end;");
  w("if (first == end) continue;");
  w.loop("g", groups);
  const std::string at_x = cat(x.name, " + ((image * ", xs.shape[1], " + row) * ", xs.shape[2], " + first * ", attrs.strides[1],
                               " + shift) * ", channels, " + g * ", k);
  const std::string at_y = cat(y.name, " + ((image * ", ys.shape[1], " + i) * ", ys.shape[2], " + first) * ", outputs, " + g * ", n);
  const std::string at_f = cat(filters.name, " + (a * ", fs.shape[1], " + b) * ", k * outputs, " + g * ", n);
  const int64_t step = attrs.strides[1] * channels;
  if (of_input)
    w("lm_madd_turned_", type, "(end - first, ", k, ", ", n, ", ", at_y, ", ", outputs, ", 1, ", at_f, ", ", outputs, ", ", at_x, ", ",
      step, ", ", w.scratch, ");");
  else if (of_filter)
    w("lm_madd_", type, "(", k, ", ", n, ", end - first, ", at_x, ", 1, ", step, ", ", at_y, ", ", outputs, ", ", at_f, ", ", outputs,
      ");");
  else
    w("lm_madd_", type, "(end - first, ", n, ", ", k, ", ", at_x, ", ", step, ", 1, ", at_f, ", ", outputs, ", ", at_y, ", ", outputs,
      ");");
  for (int i = 0; i < 5; ++i) w.end();
}
Scratch turned_filters(const Node& node, const ir::KernelRequest& request) {
  return {request.in[0].dtype, 64 * request.in[0].shape[3].number() / ir::attrs_of<ops::Conv2dAttrs>(*node.attrs).groups};
}

void write_max_pool(Writer& w, const Node& node) {
  const auto& attrs = ir::attrs_of<ops::MaxPool2dAttrs>(*node.attrs);
  const Operand &x = w.in[0], &y = w.out[0], &places = w.out[1];
  const View &xs = x.view, &ys = y.view;
  int64_t before[2];
  for (int axis = 0; axis < 2; ++axis)
    before[axis] =
        ops::window_axis("export_c", type_of(xs), axis, Dim(attrs.window[size_t(axis)]), attrs.strides, 1, attrs.padding, attrs.pads)
            .before;
  const int64_t channels = xs.shape[3];
  w.loop("e", y.size());
  w("const ptrdiff_t c = e % ", channels, ", column = e / ", channels, " % ", ys.shape[2], " * ", attrs.strides[1], " - ", before[1],
    ", row = e / ", channels * ys.shape[2], " % ", ys.shape[1], " * ", attrs.strides[0], " - ", before[0], ";");
  w("const ptrdiff_t image = e / ", channels * ys.shape[1] * ys.shape[2], " * ", channels * xs.shape[1] * xs.shape[2], ";");
  w("ptrdiff_t place = -1;");
  w("for (ptrdiff_t i = row < 0 ? 0 : row; i < row + ", attrs.window[0], " && i < ", xs.shape[1], "; ++i) {");
  w("for (ptrdiff_t j = column < 0 ? 0 : column; j < column + ", attrs.window[1], " && j < ", xs.shape[2], "; ++j) {");
  w("const ptrdiff_t at = (i * ", xs.shape[2], " + j) * ", channels, " + c;");
  const std::string most = x["image + place"], now = x["image + at"];
  w("if (place < 0 || ", is_floating(x.dtype()) ? cat("(", most, " == ", most, " && !(", now, " <= ", most, "))") : cat(now, " > ", most),
    ") place = at;");
  w.end();
  w.end();
  w(y["e"], " = ", most, ";");
  w(places["e"], " = place;");
  w.end();
}

void write_max_pool_grad(Writer& w, const Node&) {
  const Operand &dy = w.in[0], &places = w.in[1], &dx = w.out[0];
  const int64_t image = dx.view.shape[1] * dx.view.shape[2] * dx.view.shape[3],
                results = dy.size() / std::max<int64_t>(1, dy.view.shape[0]);
  w("memset(", dx.name, ", 0, ", dx.size(), " * sizeof(", c_type(dx.dtype()), "));");
  w.loop("e", dy.size());
  w(dx[cat("e / ", results, " * ", image, " + ", places["e"])], " += ", dy["e"], ";");
  w.end();
}

}  // namespace

std::vector<Rule> image_rules() {
  return {{&ops::def::conv2d, write_convolution},
          {&ops::def::conv2d_grad_input, write_convolution, turned_filters},
          {&ops::def::conv2d_grad_filter, write_convolution},
          {&ops::def::max_pool2d, write_max_pool},
          {&ops::def::max_pool2d_grad, write_max_pool_grad}};
}

}  // namespace lamina::c_text
