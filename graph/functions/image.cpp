#include "graph/functions/image.h"

#include <algorithm>

#include "graph/frontend/eager.h"
#include "graph/functions/op_functions.h"
#include "graph/ops/ops.h"

namespace lamina {
namespace {

ops::Padding op_padding(const ImagePadding& padding) {
  ops::Padding out;
  ops::parse_attr(padding.name(), out);
  return out;
}
std::vector<int64_t> vector_of(const Pair& pair) { return {pair.begin(), pair.end()}; }
std::vector<int64_t> vector_of(const ImagePadding& padding) { return {padding.pads().begin(), padding.pads().end()}; }

ops::Conv2dAttrs attrs_of(const Pair& strides, const ImagePadding& padding, const Pair& dilation, int64_t groups) {
  return {vector_of(strides), op_padding(padding), vector_of(padding), vector_of(dilation), groups, {}};
}

Tensor need_rank(const char* op, const Operand& x, int rank, const char* form) {
  Tensor t = x.resolve();
  if (t.rank() == rank) return t;
  throw Error(ErrorKind::invalid_argument,
              {.what = cat(op, ": ", t.type(), " has ", t.rank(), t.rank() == 1 ? " dimension" : " dimensions"),
               .where = text(x.at().line()),
               .why = cat("it takes ", form),
               .fix = "reshape it"});
}

Shape with_axis(Shape shape, int at) {
  shape.insert(shape.begin() + at, Dim(1));
  return shape;
}

}  // namespace

ImagePadding::ImagePadding(const char* name) : ImagePadding(std::string(name ? name : "")) {}
ImagePadding::ImagePadding(const std::string& name) : name_(name) {
  if (name != "valid" && name != "same") throw unknown_name("padding", name, {"same", "valid"});
}

Tensor conv2d(const Operand& x, const Operand& filters, const Conv2dOptions& o) {
  auto [image, w] = resolve_pair("conv2d", x, filters);
  return apply_one(ops::def::conv2d, ir::make_attrs(attrs_of(o.strides, o.padding, o.dilation, o.groups)),
                   std::array{std::move(image), std::move(w)}, x.at());
}

Tensor conv1d(const Operand& x, const Operand& filters, const Conv1dOptions& o) {
  const Tensor sequence = need_rank("conv1d", x, 3, "sequences [n, length, channels]"),
               w = need_rank("conv1d", filters, 3, "filters [length, channels / groups, filters]");
  const Tensor y = conv2d(Operand(reshape_to(Operand(sequence, x.at()), with_axis(sequence.shape(), 1)), x.at()),
                          Operand(reshape_to(Operand(w, x.at()), with_axis(w.shape(), 0)), x.at()),
                          {{1, o.stride}, o.padding, {1, o.dilation}, o.groups});
  return reshape_to(Operand(y, x.at()), {y.shape()[0], y.shape()[2], y.shape()[3]});
}

Tensor conv2d_transpose(const Operand& x, const Operand& filters, const Conv2dTransposeOptions& o) {
  const char* op = "conv2d_transpose";
  const Tensor image = need_rank(op, x, 4, "images [n, height, width, channels]"),
               w = need_rank(op, filters, 4, "filters [height, width, filters / groups, channels]");
  ops::Conv2dAttrs attrs = attrs_of(o.strides, o.padding, o.dilation, o.groups);
  ops::require_window(op, attrs.strides, attrs.dilation, attrs.pads);
  attrs.shape = {image.shape()[0], {}, {}, w.shape()[2] * Dim(std::max<int64_t>(1, o.groups))};
  for (size_t i : {0, 1}) {
    const Dim length = image.shape()[1 + i];
    const auto refuse = [&](const std::string& what, const char* why, const std::string& fix) {
      throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": ", what), .where = text(x.at().line()), .why = why, .fix = fix});
    };
    if (!length.known() || !w.shape()[i].known()) refuse(cat(image.type()), "height and width are known", "give these dimensions numbers");
    const int64_t n = length.number(), reach = (w.shape()[i].number() - 1) * o.dilation[i] + 1, stride = o.strides[i];
    const int64_t more = o.output_padding[i], limit = o.padding.name() == "given" ? stride : std::min(stride, reach);
    if (more != 0 && o.padding.name() == "same")
      refuse(cat("output_padding ", more, " beside padding \"same\""), "\"same\" says the size: the input's times the stride",
             "leave output_padding out");
    if (more < 0 || more >= limit)
      refuse(cat("output_padding ", more),
             "it is from 0 to below the stride, and below the window's length: more would be another input's size",
             limit == 1 ? "leave output_padding out" : cat("pass at most ", limit - 1));
    int64_t size = n * stride;
    if (o.padding.name() == "valid") size += std::max<int64_t>(0, reach - stride);
    if (o.padding.name() == "given") size = (n - 1) * stride + reach - attrs.pads[2 * i] - attrs.pads[2 * i + 1];
    attrs.shape[1 + i] = std::max<int64_t>(0, size + more);
  }
  return apply_one(ops::def::conv2d_grad_input, ir::make_attrs(std::move(attrs)), std::array{image, w}, x.at());
}

Tensor max_pool2d(const Operand& x, Pair window, Pair strides, const ImagePadding& padding) {
  if (strides == Pair{0, 0}) strides = window;
  const ops::MaxPool2dAttrs attrs{vector_of(window), vector_of(strides), op_padding(padding), vector_of(padding), {}};
  const Tensor image = x.resolve();
  return apply(ops::def::max_pool2d, ir::make_attrs(attrs), std::array{image}, x.at())[0];
}

// A filter of ones per channel, divided by the number of covered elements.
Tensor avg_pool2d(const Operand& x, Pair window, Pair strides, const ImagePadding& padding) {
  const CallSite at = x.at();
  if (strides == Pair{0, 0}) strides = window;
  const Tensor image = need_rank("avg_pool2d", x, 4, "images [n, height, width, channels]");
  const Dim channels = image.shape()[3];
  if (!channels.known() || channels == Dim(0) || window[0] < 1 || window[1] < 1 || window[0] > (1 << 20) || window[1] > (1 << 20))
    throw Error(ErrorKind::invalid_argument, {.what = cat("avg_pool2d: a window of ", window[0], " x ", window[1], " over ", image.type()),
                                              .where = text(at.line()),
                                              .why = "the window is at least 1 x 1, and the number of channels is known",
                                              .fix = "pass a window of 1 or more, and give the last dimension a number"});
  auto sums = [&](const Tensor& t, Dim count) {
    const Tensor ones_of_window = ones({window[0], window[1], 1, count}, image.dtype());
    return conv2d(Operand(t, at), Operand(ones_of_window, at), {strides, padding, {1, 1}, count.number()});
  };
  const Tensor total = sums(image, channels);
  if (padding.name() == "valid") return mul(Operand(total, at), Operand(1.0 / double(window[0] * window[1]), at));
  const Tensor covered = sums(ones({1, image.shape()[1], image.shape()[2], 1}, image.dtype()), 1);
  return div(Operand(total, at), Operand(covered, at));
}

Tensor global_avg_pool2d(const Operand& x, bool keepdims) {
  return mean(Operand(need_rank("global_avg_pool2d", x, 4, "images [n, height, width, channels]"), x.at()), {1, 2}, keepdims);
}
Tensor global_max_pool2d(const Operand& x, bool keepdims) {
  return max(Operand(need_rank("global_max_pool2d", x, 4, "images [n, height, width, channels]"), x.at()), {1, 2}, keepdims);
}

}  // namespace lamina
