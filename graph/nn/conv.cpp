#include "graph/nn/conv.h"

#include <utility>

#include "graph/functions/op_functions.h"

namespace lamina::nn {
namespace {

void require_positive(const std::string& layer, const char* what, int64_t number) {
  if (number > 0) return;
  throw Error(ErrorKind::invalid_argument,
              {.what = cat(layer, ": ", number, " ", what), .where = "", .why = "there is at least one", .fix = "pass 1 or more"});
}

// The channels of an input of this rank, which the groups divide.
int64_t channels_of(const std::string& layer, const TensorType& input, size_t rank, const ConvOptions& o, CallSite at) {
  auto refuse = [&](ErrorKind kind, const std::string& why, const std::string& fix) {
    throw Error(kind, {.what = cat(layer, ": cannot take ", input), .where = text(at.line()), .why = why, .fix = fix});
  };
  if (input.rank() != rank) {
    refuse(ErrorKind::invalid_argument, rank == 4 ? "images are [n, height, width, channels]" : "sequences are [n, length, channels]",
           "reshape the input");
  }
  if (!input.shape.back().known()) {
    refuse(ErrorKind::invalid_argument, "the number of channels decides the weight's shape, and it is unknown",
           "give the last dimension a number");
  }
  if (input.dtype != o.dtype) {
    refuse(ErrorKind::type, cat("its weights are ", o.dtype), cat("use astype(x, ", o.dtype, "), or give the layer another dtype"));
  }
  const int64_t channels = input.shape.back().number();
  if (channels % o.groups != 0) refuse(ErrorKind::invalid_argument, cat(o.groups, " groups do not divide ", channels, " channels"), "");
  return channels;
}

Tensor finish(const Tensor& z, const Weight& bias, const ConvOptions& o, CallSite at) {
  return o.activation(Operand(o.use_bias ? add(Operand(z, at), Operand(bias->read(at), at)) : z, at));
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
    : Layer(options.name),
      filters_(filters),
      window_(window),
      options_(std::move(options)),
      transposed_(transposed),
      output_padding_(output_padding) {
  require_positive(name(), "filters", filters);
  require_positive(name(), "groups", options_.groups);
  for (int64_t side : window) require_positive(name(), "rows or columns of the window", side);
  if (filters % options_.groups != 0)
    throw Error(ErrorKind::invalid_argument, {.what = cat(name(), ": ", options_.groups, " groups of ", filters, " filters"),
                                              .where = "",
                                              .why = "every group has as many",
                                              .fix = "pass a multiple of the groups"});
}

void Conv2D::build(const TensorType& input) {
  const int64_t channels = channels_of(name(), input, 4, options_, call_site());
  const Shape shape = transposed_ ? Shape{window_[0], window_[1], filters_ / options_.groups, channels}
                                  : Shape{window_[0], window_[1], channels / options_.groups, filters_};
  kernel_ = add_weight("kernel", shape, options_.kernel_initializer, options_.dtype);
  if (options_.use_bias) bias_ = add_weight("bias", {filters_}, options_.bias_initializer, options_.dtype);
}

Tensor Conv2D::call(const Tensor& x, bool) {
  const CallSite at = call_site();
  const Operand image(x, at), filters(kernel().read(at), at);
  const ConvOptions& o = options_;
  const Tensor z = transposed_ ? conv2d_transpose(image, filters, {o.strides, o.padding, o.dilation, output_padding_, o.groups})
                               : conv2d(image, filters, {o.strides, o.padding, o.dilation, o.groups});
  return finish(z, bias_, o, at);
}

const Variable& Conv2D::kernel() const { return existing(kernel_, name()); }

Conv2DTranspose::Conv2DTranspose(int64_t filters, Pair window, ConvOptions options, Pair output_padding)
    : Conv2D(filters, window, std::move(options), true, output_padding) {}

Conv1D::Conv1D(int64_t filters, int64_t window, ConvOptions options)
    : Layer(options.name), filters_(filters), window_(window), options_(std::move(options)) {
  require_positive(name(), "filters", filters);
  require_positive(name(), "places of the window", window);
  require_positive(name(), "groups", options_.groups);
}
void Conv1D::build(const TensorType& input) {
  const int64_t channels = channels_of(name(), input, 3, options_, call_site());
  kernel_ = add_weight("kernel", {window_, channels / options_.groups, filters_}, options_.kernel_initializer, options_.dtype);
  if (options_.use_bias) bias_ = add_weight("bias", {filters_}, options_.bias_initializer, options_.dtype);
}
Tensor Conv1D::call(const Tensor& x, bool) {
  const CallSite at = call_site();
  const ConvOptions& o = options_;
  return finish(conv1d(Operand(x, at), Operand(kernel().read(at), at), {o.strides[1], o.padding, o.dilation[1], o.groups}), bias_, o, at);
}
const Variable& Conv1D::kernel() const { return existing(kernel_, name()); }

Pool2D::Pool2D(Kind kind, Pair window, Pair strides, ImagePadding padding, std::string name)
    : Layer(std::move(name)), kind_(kind), window_(window), strides_(strides), padding_(std::move(padding)) {}
Tensor Pool2D::call(const Tensor& x, bool) {
  const Operand image(x, call_site());
  return kind_ == Kind::max ? max_pool2d(image, window_, strides_, padding_) : avg_pool2d(image, window_, strides_, padding_);
}

Tensor GlobalAveragePool2D::call(const Tensor& x, bool) { return global_avg_pool2d(Operand(x, call_site())); }
Tensor GlobalMaxPool2D::call(const Tensor& x, bool) { return global_max_pool2d(Operand(x, call_site())); }

}  // namespace lamina::nn
