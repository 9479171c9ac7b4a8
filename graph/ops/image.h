// Ops on images [n, height, width, channels]: builders and attributes. Reached through ops.h.
#pragma once
#include <optional>

#include "graph/ir/graph.h"

namespace lamina::ops {

using ir::Graph;
using ir::Value;

namespace def {
extern const ir::OpDef conv2d, conv2d_grad_filter, conv2d_grad_input, max_pool2d, max_pool2d_grad;
}  // namespace def

// The padding around an image.
enum class Padding : uint8_t {
  valid,  // none: windows stay inside
  same,   // zeros on both sides (an odd one after), so that there are ceil(length / stride) windows
  given,  // `pads`: above, below, left, right
};
LAMINA_API std::string attr_text(Padding v);
LAMINA_API void parse_attr(std::string_view text, Padding& v);

struct Conv2dAttrs {
  std::vector<int64_t> strides{1, 1};
  Padding padding = Padding::valid;
  std::vector<int64_t> pads{0, 0, 0, 0};
  std::vector<int64_t> dilation{1, 1};
  int64_t groups = 1;
  Shape shape;  // of the gradients: the shape of the input or of the filter. Empty for conv2d itself
  static constexpr auto fields = std::tuple{ir::field("strides", &Conv2dAttrs::strides), ir::field("padding", &Conv2dAttrs::padding),
                                            ir::field("pads", &Conv2dAttrs::pads),       ir::field("dilation", &Conv2dAttrs::dilation),
                                            ir::field("groups", &Conv2dAttrs::groups),   ir::field("shape", &Conv2dAttrs::shape)};
};
struct MaxPool2dAttrs {
  std::vector<int64_t> window{2, 2}, strides{2, 2};
  Padding padding = Padding::valid;
  std::vector<int64_t> pads{0, 0, 0, 0};
  Shape shape;  // of the gradient: the shape of the images. Empty for max_pool2d itself
  static constexpr auto fields = std::tuple{ir::field("window", &MaxPool2dAttrs::window), ir::field("strides", &MaxPool2dAttrs::strides),
                                            ir::field("padding", &MaxPool2dAttrs::padding), ir::field("pads", &MaxPool2dAttrs::pads),
                                            ir::field("shape", &MaxPool2dAttrs::shape)};
};

// x [n,h,w,c], filters [a,b,c/groups,o] -> [n,h',w',o].
Value conv2d(Graph& g, Value x, Value filters, Conv2dAttrs attrs);
// The gradient with respect to x of this `shape`, from the gradient of y. Also the transposed convolution.
Value conv2d_grad_input(Graph& g, Value dy, Value filters, Shape shape, Conv2dAttrs attrs);
// The gradient with respect to filters of this `shape`.
Value conv2d_grad_filter(Graph& g, Value x, Value dy, Shape shape, Conv2dAttrs attrs);
// x [n,h,w,c] -> result 0: [n,h',w',c]; result 1: i64, each maximum's position in its image: (row w + column) c + channel.
Value max_pool2d(Graph& g, Value x, MaxPool2dAttrs attrs);
// The gradient with respect to x of this `shape`: adds y's gradients at `places`, which must be max_pool2d's result 1.
Value max_pool2d_grad(Graph& g, Value dy, Value places, Shape shape, MaxPool2dAttrs attrs);
// The windows along one axis.
struct WindowAxis {
  Dim places;          // number of windows
  int64_t before = 0;  // padding in front; only for a known length
};
// axis: 0 rows, 1 columns. Throws invalid_argument naming `op` when no window fits.
WindowAxis window_axis(const char* op, const TensorType& image, int axis, Dim window, const std::vector<int64_t>& strides, int64_t dilation,
                       Padding padding, const std::vector<int64_t>& pads);
// Checks that strides, dilations and pads have the right length and range.
void require_window(const char* op, const std::vector<int64_t>& strides, const std::vector<int64_t>& dilation,
                    const std::vector<int64_t>& pads);
void require_image(const char* op, const char* argument, const TensorType& t);

}  // namespace lamina::ops
