// Windows over images: shared by convolutions and pooling.
#include <algorithm>

#include "graph/ops/image.h"

namespace lamina::ops {
namespace {

constexpr int64_t kLargest = int64_t{1} << 31;
constexpr Padding kPaddings[] = {Padding::valid, Padding::same, Padding::given};

Error refuse_window(const char* op, const std::string& what, const std::string& where, const std::string& why, const std::string& fix) {
  return Error(ErrorKind::invalid_argument, {.what = cat(op, ": ", what), .where = where, .why = why, .fix = fix});
}

void require_list(const char* op, const char* argument, const std::vector<int64_t>& list, size_t count, int64_t least) {
  const bool fits = list.size() == count && std::all_of(list.begin(), list.end(), [&](int64_t v) { return v >= least && v <= kLargest; });
  if (!fits)
    throw refuse_window(
        op, cat(argument, " are [", ir::attr_text(list), "]"), cat("argument '", argument, "'"),
        cat("there are ", count, ", each at least ", least, count == 4 ? ": above, below, left, right" : ": for rows and columns"), "");
}

}  // namespace

std::string attr_text(Padding v) { return v == Padding::valid ? "valid" : v == Padding::same ? "same" : "given"; }
void parse_attr(std::string_view text, Padding& v) {
  std::vector<std::string> names;
  for (Padding p : kPaddings) {
    if (text == attr_text(p)) return void(v = p);
    names.push_back(attr_text(p));
  }
  throw unknown_name("padding", std::string(text), std::move(names));
}

void require_image(const char* op, const char* argument, const TensorType& t) {
  if (t.rank() == 4) return;
  throw refuse_window(op, cat(t, " is not a batch of images"), cat("argument '", argument, "'"), "images are [n, height, width, channels]",
                      "reshape it to 4 dimensions");
}

void require_window(const char* op, const std::vector<int64_t>& strides, const std::vector<int64_t>& dilation,
                    const std::vector<int64_t>& pads) {
  require_list(op, "strides", strides, 2, 1);
  require_list(op, "dilation", dilation, 2, 1);
  require_list(op, "pads", pads, 4, 0);
}

WindowAxis window_axis(const char* op, const TensorType& image, int axis, Dim window, const std::vector<int64_t>& strides, int64_t dilation,
                       Padding padding, const std::vector<int64_t>& pads) {
  const Dim length = image.shape[size_t(1 + axis)];
  const char* name = axis == 0 ? "height" : "width";
  if (!window.known() || window.number() < 1 || window.number() > kLargest)
    throw refuse_window(op, cat("a window whose ", name, " is ", window), "", "it is a number, at least 1", "");
  const int64_t stride = strides[size_t(axis)], reach = (window.number() - 1) * dilation + 1;
  const int64_t before = padding == Padding::given ? pads[size_t(2 * axis)] : 0,
                after = padding == Padding::given ? pads[size_t(2 * axis + 1)] : 0;
  if (!length.known()) {
    if (stride != 1)
      throw refuse_window(op, cat("the ", name, " of ", image, " is not known"), "",
                          "with a stride it decides how many places the window has", cat("give the ", name, " a number"));
    if (padding == Padding::same) return {length, 0};
    const int64_t shorter = reach - 1 - before - after;
    return {shorter >= 0 ? length - Dim(shorter) : length + Dim(-shorter), before};
  }
  const int64_t size = length.number();
  if (padding == Padding::same) {
    const int64_t places = (size + stride - 1) / stride;
    return {places, std::max<int64_t>(0, (places - 1) * stride + reach - size) / 2};
  }
  if (size + before + after < reach)
    throw refuse_window(
        op, cat("a window of ", reach, " does not fit the ", name, " of ", image), "",
        cat("there are ", size + before + after, " with the padding", dilation > 1 ? ", and dilation widens the window" : ""),
        "pass padding \"same\", or a smaller window");
  return {(size + before + after - reach) / stride + 1, before};
}

}  // namespace lamina::ops
