#include "graph/nn/conv.h"

#include <utility>

#include "graph/functions/op_functions.h"
#include "graph/functions/shape_functions.h"

namespace lamina::nn {
namespace {

const char* const kAxes = "add the axis that is missing: x[..., None] has one channel, x[None] is a batch of one";

void require_positive(const std::string& layer, const char* what, int64_t number) {
  if (number > 0) return;
  throw Error(ErrorKind::invalid_argument,
              {.what = cat(layer, ": ", number, " ", what), .where = "", .why = "there is at least one", .fix = "pass 1 or more"});
}

void require_groups(const std::string& layer, int64_t filters, int64_t groups) {
  require_positive(layer, "filters", filters);
  require_positive(layer, "groups", groups);
  if (filters % groups == 0) return;
  throw Error(ErrorKind::invalid_argument, {.what = cat(layer, ": ", groups, " groups of ", filters, " filters"),
                                            .where = "",
                                            .why = "every group has as many",
                                            .fix = "pass a multiple of the groups"});
}

// The channels of an input of this rank, which the groups divide. half: its dtype is the policy's.
int64_t channels_of(const std::string& layer, const TensorType& input, size_t rank, const ConvOptions& o, bool half, CallSite at) {
  auto refuse = [&](ErrorKind kind, const std::string& why, const std::string& fix) {
    throw Error(kind, {.what = cat(layer, ": cannot take ", input), .where = text(at.line()), .why = why, .fix = fix});
  };
  if (input.rank() != rank) {
    refuse(ErrorKind::invalid_argument, rank == 4 ? "images are [n, height, width, channels]" : "sequences are [n, length, channels]",
           kAxes);
  }
  if (!input.shape.back().known()) {
    refuse(ErrorKind::invalid_argument, "the number of channels decides the weight's shape, and it is unknown",
           "give the last dimension a number");
  }
  if (input.dtype != o.dtype && !half) {
    refuse(ErrorKind::type, cat("its weights are ", o.dtype), take_dtype_of(o.dtype));
  }
  const int64_t channels = input.shape.back().number();
  if (channels % o.groups != 0) {
    refuse(ErrorKind::invalid_argument, cat(o.groups, " groups do not divide ", channels, " channels"),
           "pass groups that divide the channels and the filters");
  }
  return channels;
}

void require_rank(const std::string& layer, const Tensor& x, int rank, const char* why, CallSite at) {
  if (x.rank() == rank) return;
  throw Error(ErrorKind::invalid_argument,
              {.what = cat(layer, ": cannot take ", x.type()), .where = text(at.line()), .why = why, .fix = kAxes});
}
void require_images(const std::string& layer, const Tensor& x, CallSite at) {
  require_rank(layer, x, 4, "images are [n, height, width, channels]", at);
}
// [n,l,c] as images of one row.
Tensor require_line(const std::string& layer, const Tensor& x, CallSite at) {
  require_rank(layer, x, 3, "sequences are [n, length, channels]", at);
  return expand_dims(Operand(x, at), 1);
}

Tensor finish(const Tensor& z, const Tensor& bias, const ConvOptions& o, CallSite at) {
  return o.activation(Operand(o.use_bias ? add(Operand(z, at), Operand(bias, at)) : z, at));
}

const Variable& existing(const Weight& kernel, const std::string& layer) {
  if (kernel) return *kernel;
  throw Error(ErrorKind::state, {.what = cat(layer, ": the kernel does not exist yet"),
                                 .where = "",
                                 .why = "weights are made at the first call",
                                 .fix = "call the layer once first"});
}

}  // namespace

Conv2D::Conv2D(int64_t filters, Pair window, ConvOptions options) : Conv2D(filters, window, std::move(options), false, {0, 0}) {}
Conv2D::Conv2D(int64_t filters, Pair window, ConvOptions options, bool transposed, Pair output_padding)
    : Layer(options.name, options.dtype),
      filters_(filters),
      window_(window),
      options_(std::move(options)),
      transposed_(transposed),
      output_padding_(output_padding) {
  compute_in_policy();
  require_groups(name(), filters, options_.groups);
  for (int64_t side : window) require_positive(name(), "rows or columns of the window", side);
}

void Conv2D::build(const TensorType& input) {
  const int64_t channels = channels_of(name(), input, 4, options_, computes_in(input.dtype), call_site());
  const Shape shape = transposed_ ? Shape{window_[0], window_[1], filters_ / options_.groups, channels}
                                  : Shape{window_[0], window_[1], channels / options_.groups, filters_};
  kernel_ = add_weight("kernel", shape, options_.kernel_initializer, options_.dtype);
  if (options_.use_bias) bias_ = add_weight("bias", {filters_}, options_.bias_initializer, options_.dtype);
}

Tensor Conv2D::call(const Tensor& x, bool) {
  const CallSite at = call_site();
  const Operand image(x, at), filters(read(kernel()), at);
  const ConvOptions& o = options_;
  const Tensor z = transposed_ ? conv2d_transpose(image, filters, {o.strides, o.padding, o.dilation, output_padding_, o.groups})
                               : conv2d(image, filters, {o.strides, o.padding, o.dilation, o.groups});
  return finish(z, o.use_bias ? read(*bias_) : Tensor(), o, at);
}

const Variable& Conv2D::kernel() const { return existing(kernel_, name()); }

Conv2DTranspose::Conv2DTranspose(int64_t filters, Pair window, ConvOptions options, Pair output_padding)
    : Conv2D(filters, window, std::move(options), true, output_padding) {}

Conv1D::Conv1D(int64_t filters, int64_t window, ConvOptions options) : Conv1D(filters, window, std::move(options), false, 0) {}
Conv1D::Conv1D(int64_t filters, int64_t window, ConvOptions options, bool transposed, int64_t output_padding)
    : Layer(options.name, options.dtype),
      filters_(filters),
      window_(window),
      options_(std::move(options)),
      transposed_(transposed),
      output_padding_(output_padding) {
  compute_in_policy();
  require_groups(name(), filters, options_.groups);
  require_positive(name(), "places of the window", window);
}
void Conv1D::build(const TensorType& input) {
  const int64_t channels = channels_of(name(), input, 3, options_, computes_in(input.dtype), call_site());
  const Shape shape =
      transposed_ ? Shape{window_, filters_ / options_.groups, channels} : Shape{window_, channels / options_.groups, filters_};
  kernel_ = add_weight("kernel", shape, options_.kernel_initializer, options_.dtype);
  if (options_.use_bias) bias_ = add_weight("bias", {filters_}, options_.bias_initializer, options_.dtype);
}
Tensor Conv1D::call(const Tensor& x, bool) {
  const CallSite at = call_site();
  const ConvOptions& o = options_;
  const Operand sequence(x, at), filters(read(kernel()), at);
  if (!transposed_)
    return finish(conv1d(sequence, filters, {o.strides[1], o.padding, o.dilation[1], o.groups}), o.use_bias ? read(*bias_) : Tensor(), o,
                  at);
  const Tensor rows = require_line(name(), x, at);  // an image of one row
  const ImagePadding& p = o.padding;
  const Tensor y = conv2d_transpose(Operand(rows, at), Operand(expand_dims(filters, 0), at),
                                    {{1, o.strides[1]},
                                     p.name() == "given" ? ImagePadding(0, 0, p.pads()[2], p.pads()[3]) : p,
                                     {1, o.dilation[1]},
                                     {0, output_padding_},
                                     o.groups});
  return finish(squeeze(Operand(y, at), Axes{1}), o.use_bias ? read(*bias_) : Tensor(), o, at);
}
const Variable& Conv1D::kernel() const { return existing(kernel_, name()); }

Conv1DTranspose::Conv1DTranspose(int64_t filters, int64_t window, ConvOptions options, int64_t output_padding)
    : Conv1D(filters, window, std::move(options), true, output_padding) {}

DepthwiseConv2D::DepthwiseConv2D(Pair window, int64_t multiplier, ConvOptions options)
    : Layer(options.name, options.dtype), window_(window), multiplier_(multiplier), options_(std::move(options)) {
  compute_in_policy();
  require_positive(name(), "filters for each channel", multiplier);
  for (int64_t side : window) require_positive(name(), "rows or columns of the window", side);
}
void DepthwiseConv2D::build(const TensorType& input) {
  const int64_t channels = channels_of(name(), input, 4, options_, computes_in(input.dtype), call_site());
  kernel_ = add_weight("kernel", {window_[0], window_[1], channels, multiplier_}, options_.kernel_initializer, options_.dtype);
  if (options_.use_bias) bias_ = add_weight("bias", {channels * multiplier_}, options_.bias_initializer, options_.dtype);
}
Tensor DepthwiseConv2D::call(const Tensor& x, bool) {
  const CallSite at = call_site();
  const ConvOptions& o = options_;
  const int64_t channels = kernel().shape()[2].number();
  const Tensor filters = reshape(Operand(read(kernel()), at), {window_[0], window_[1], 1, channels * multiplier_});
  return finish(conv2d(Operand(x, at), Operand(filters, at), {o.strides, o.padding, o.dilation, channels}),
                o.use_bias ? read(*bias_) : Tensor(), o, at);
}
const Variable& DepthwiseConv2D::kernel() const { return existing(kernel_, name()); }

Pool2D::Pool2D(Kind kind, Pair window, Pair strides, ImagePadding padding, std::string name)
    : Layer(std::move(name)), kind_(kind), window_(window), strides_(strides), padding_(std::move(padding)) {}
Tensor Pool2D::call(const Tensor& x, bool) {
  const Operand image(x, call_site());
  return kind_ == Kind::max ? max_pool2d(image, window_, strides_, padding_) : avg_pool2d(image, window_, strides_, padding_);
}

Pool1D::Pool1D(Pool2D::Kind kind, int64_t window, int64_t stride, ImagePadding padding, std::string name)
    : Layer(std::move(name)), kind_(kind), window_(window), stride_(stride), padding_(std::move(padding)) {
  require_positive(Layer::name(), "places of the window", window);
}
Tensor Pool1D::call(const Tensor& x, bool) {
  const CallSite at = call_site();
  const Operand rows(require_line(name(), x, at), at);
  const Pair window{1, window_}, strides{1, stride_ == 0 ? window_ : stride_};
  return squeeze(
      Operand(kind_ == Pool2D::Kind::max ? max_pool2d(rows, window, strides, padding_) : avg_pool2d(rows, window, strides, padding_), at),
      Axes{1});
}

UpSampling2D::UpSampling2D(Pair size, std::string name) : Layer(std::move(name)), size_(size) {
  for (int64_t side : size) require_positive(Layer::name(), "times a pixel is repeated", side);
}
Tensor UpSampling2D::call(const Tensor& x, bool) {
  const CallSite at = call_site();
  require_images(name(), x, at);
  return repeat(Operand(repeat(Operand(x, at), size_[0], 1), at), size_[1], 2);
}

ZeroPadding2D::ZeroPadding2D(std::array<int64_t, 4> pads, std::string name) : Layer(std::move(name)), pads_(pads) {
  for (int64_t side : pads)
    if (side < 0)
      throw Error(ErrorKind::invalid_argument,
                  {.what = cat(Layer::name(), ": a padding of ", side), .where = "", .why = "it is at least 0", .fix = "pass 0 or more"});
}
Tensor ZeroPadding2D::call(const Tensor& x, bool) {
  const CallSite at = call_site();
  require_images(name(), x, at);
  return pad(Operand(x, at), {{0, 0}, {pads_[0], pads_[1]}, {pads_[2], pads_[3]}, {0, 0}});
}

Tensor GlobalAveragePool2D::call(const Tensor& x, bool) { return global_avg_pool2d(Operand(x, call_site())); }
Tensor GlobalMaxPool2D::call(const Tensor& x, bool) { return global_max_pool2d(Operand(x, call_site())); }

}  // namespace lamina::nn
