// Functions of images [n, height, width, channels] and of sequences [n, length, channels]: convolution and pooling.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "graph/frontend/tensor.h"

namespace lamina {

// The padding around an image: "valid" (none), "same" (zeros on both sides, an odd one after, so that there are ceil(length / stride)
// windows), or numbers: above, below, left, right.
class LAMINA_API ImagePadding {
 public:
  ImagePadding() = default;        // "valid"
  ImagePadding(const char* name);  // throws not_found with the known names
  ImagePadding(const std::string& name);
  ImagePadding(int64_t above, int64_t below, int64_t left, int64_t right) : name_("given"), pads_{above, below, left, right} {}
  const std::string& name() const { return name_; }
  const std::array<int64_t, 4>& pads() const { return pads_; }

 private:
  std::string name_ = "valid";
  std::array<int64_t, 4> pads_{};
};

using Pair = std::array<int64_t, 2>;  // rows, columns

struct Conv2dOptions {
  Pair strides{1, 1};
  ImagePadding padding = {};
  Pair dilation{1, 1};  // distance between neighbours in the window
  int64_t groups = 1;   // of channels and filters, computed separately; as many as channels: depthwise
};
struct Conv1dOptions {
  int64_t stride = 1;
  ImagePadding padding = {};  // of four numbers, left and right apply
  int64_t dilation = 1;
  int64_t groups = 1;
};
struct Conv2dTransposeOptions {
  Pair strides{1, 1};
  ImagePadding padding = {};
  Pair dilation{1, 1};
  Pair output_padding{0, 0};  // extra rows and columns at the end, less than the stride and than the window's reach; not beside "same"
  int64_t groups = 1;
};

// x [n,h,w,c], filters [a,b,c/groups,o] of its dtype -> [n,h',w',o]: h' = (h + padding - ((a - 1) dilation + 1)) / stride + 1, rounded
// down. Throws invalid_argument for sizes that do not fit, type for non-floating or different dtypes.
LAMINA_API Tensor conv2d(const Operand& x, const Operand& filters, const Conv2dOptions& options = {});
// x [n,l,c], filters [a,c/groups,o] -> [n,l',o].
LAMINA_API Tensor conv1d(const Operand& x, const Operand& filters, const Conv1dOptions& options = {});
// The gradient of conv2d with respect to its input, as an op. x [n,h,w,c], filters [a,b,o/groups,c] -> [n,h',w',o]: h' = h stride with
// "same" padding, otherwise (h - 1) stride + (a - 1) dilation + 1 - padding, with "valid" at least h stride; plus output_padding.
LAMINA_API Tensor conv2d_transpose(const Operand& x, const Operand& filters, const Conv2dTransposeOptions& options = {});

// The maximum, or the mean, of each window; strides {0, 0} mean the window's size. x may have any numeric dtype for max; for the mean it
// must be floating, and padding does not count.
LAMINA_API Tensor max_pool2d(const Operand& x, Pair window, Pair strides = {0, 0}, const ImagePadding& padding = {});
LAMINA_API Tensor avg_pool2d(const Operand& x, Pair window, Pair strides = {0, 0}, const ImagePadding& padding = {});
// Over the whole image: [n,h,w,c] -> [n,c], or [n,1,1,c].
LAMINA_API Tensor global_avg_pool2d(const Operand& x, bool keepdims = false);
LAMINA_API Tensor global_max_pool2d(const Operand& x, bool keepdims = false);

}  // namespace lamina
