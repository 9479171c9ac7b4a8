// Layers over images and sequences: convolutions and pooling.
#pragma once
#include "graph/functions/image.h"
#include "graph/nn/activation.h"
#include "graph/nn/layer.h"
#include "graph/nn/weight.h"

namespace lamina::nn {

struct ConvOptions {
  Pair strides{1, 1};
  ImagePadding padding = {};
  Pair dilation{1, 1};
  int64_t groups = 1;
  Activation activation = {};
  bool use_bias = true;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
  DType dtype = DType::f32;  // of the weights; floating inputs are converted to it
  std::string name = "conv2d";
};

// x [n,h,w,c] -> activation(conv2d(x, kernel) + bias) [n,h',w',filters]; kernel [a,b,c/groups,filters], bias [filters]. Throws
// invalid_argument for sizes that do not fit, type when x is not floating point.
class LAMINA_API Conv2D : public Layer {
 public:
  Conv2D(int64_t filters, Pair window, ConvOptions options = {});
  Tensor call(const Tensor& x, bool training) override;
  void build(const TensorType& input) override;

  const Variable& kernel() const;  // throws state before the first call
  const std::optional<Variable>& bias() const { return bias_.if_made(); }
  const ConvOptions& options() const { return options_; }

 protected:
  Conv2D(int64_t filters, Pair window, ConvOptions options, bool transposed, Pair output_padding);
  int64_t filters_;
  Pair window_;
  ConvOptions options_;
  bool transposed_ = false;
  Pair output_padding_{0, 0};
  Weight kernel_, bias_;
};

// Transposed convolution: the gradient of a Conv2D as a layer, which enlarges images. kernel [a,b,filters/groups,c].
class LAMINA_API Conv2DTranspose : public Conv2D {
 public:
  Conv2DTranspose(int64_t filters, Pair window, ConvOptions options = {.name = "conv2d_transpose"}, Pair output_padding = {0, 0});
};

// x [n,l,c] -> [n,l',filters]; kernel [a,c/groups,filters]. Uses the second number of each pair in the options.
class LAMINA_API Conv1D : public Layer {
 public:
  Conv1D(int64_t filters, int64_t window, ConvOptions options = {.name = "conv1d"});
  Tensor call(const Tensor& x, bool training) override;
  void build(const TensorType& input) override;

  const Variable& kernel() const;
  const std::optional<Variable>& bias() const { return bias_.if_made(); }
  const ConvOptions& options() const { return options_; }

 protected:
  Conv1D(int64_t filters, int64_t window, ConvOptions options, bool transposed, int64_t output_padding);

 private:
  int64_t filters_, window_;
  ConvOptions options_;
  bool transposed_ = false;
  int64_t output_padding_ = 0;
  Weight kernel_, bias_;
};

// Transposed Conv1D, which lengthens sequences. x [n,l,c] -> [n,l',filters]; kernel [a,filters/groups,c].
class LAMINA_API Conv1DTranspose : public Conv1D {
 public:
  Conv1DTranspose(int64_t filters, int64_t window, ConvOptions options = {.name = "conv1d_transpose"}, int64_t output_padding = 0);
};

// Convolves each channel by filters of its own: x [n,h,w,c] -> [n,h',w',c multiplier]; kernel [a,b,c,multiplier], bias [c multiplier].
class LAMINA_API DepthwiseConv2D : public Layer {
 public:
  explicit DepthwiseConv2D(Pair window, int64_t multiplier = 1, ConvOptions options = {.name = "depthwise_conv2d"});
  Tensor call(const Tensor& x, bool training) override;
  void build(const TensorType& input) override;

  const Variable& kernel() const;
  const std::optional<Variable>& bias() const { return bias_.if_made(); }
  const ConvOptions& options() const { return options_; }

 private:
  Pair window_;
  int64_t multiplier_;
  ConvOptions options_;
  Weight kernel_, bias_;
};

// The maximum, or the mean, of each window over [n,h,w,c].
class LAMINA_API Pool2D : public Layer {
 public:
  enum class Kind { max, average };
  Pool2D(Kind kind, Pair window, Pair strides, ImagePadding padding, std::string name);
  Tensor call(const Tensor& x, bool training) override;

 private:
  Kind kind_;
  Pair window_, strides_;
  ImagePadding padding_;
};
struct LAMINA_API MaxPool2D : Pool2D {
  explicit MaxPool2D(Pair window = {2, 2}, Pair strides = {0, 0}, ImagePadding padding = {}, std::string name = "max_pool2d")
      : Pool2D(Kind::max, window, strides, std::move(padding), std::move(name)) {}
};
struct LAMINA_API AveragePooling2D : Pool2D {
  explicit AveragePooling2D(Pair window = {2, 2}, Pair strides = {0, 0}, ImagePadding padding = {}, std::string name = "average_pooling2d")
      : Pool2D(Kind::average, window, strides, std::move(padding), std::move(name)) {}
};

// The maximum, or the mean, of each window over [n,l,c].
class LAMINA_API Pool1D : public Layer {
 public:
  Pool1D(Pool2D::Kind kind, int64_t window, int64_t stride, ImagePadding padding, std::string name);
  Tensor call(const Tensor& x, bool training) override;

 private:
  Pool2D::Kind kind_;
  int64_t window_, stride_;
  ImagePadding padding_;
};
struct LAMINA_API MaxPool1D : Pool1D {
  explicit MaxPool1D(int64_t window = 2, int64_t stride = 0, ImagePadding padding = {}, std::string name = "max_pool1d")
      : Pool1D(Pool2D::Kind::max, window, stride, std::move(padding), std::move(name)) {}
};
struct LAMINA_API AveragePooling1D : Pool1D {
  explicit AveragePooling1D(int64_t window = 2, int64_t stride = 0, ImagePadding padding = {}, std::string name = "average_pooling1d")
      : Pool1D(Pool2D::Kind::average, window, stride, std::move(padding), std::move(name)) {}
};

// [n,h,w,c] -> [n,c].
class LAMINA_API GlobalAveragePool2D : public Layer {
 public:
  explicit GlobalAveragePool2D(std::string name = "global_average_pool2d") : Layer(std::move(name)) {}
  Tensor call(const Tensor& x, bool training) override;
};
class LAMINA_API GlobalMaxPool2D : public Layer {
 public:
  explicit GlobalMaxPool2D(std::string name = "global_max_pool2d") : Layer(std::move(name)) {}
  Tensor call(const Tensor& x, bool training) override;
};

// Repeats each pixel: [n,h,w,c] -> [n, h rows, w columns, c].
class LAMINA_API UpSampling2D : public Layer {
 public:
  explicit UpSampling2D(Pair size = {2, 2}, std::string name = "up_sampling2d");
  Tensor call(const Tensor& x, bool training) override;

 private:
  Pair size_;
};
// Zeros around images: above, below, left, right.
class LAMINA_API ZeroPadding2D : public Layer {
 public:
  explicit ZeroPadding2D(std::array<int64_t, 4> pads = {1, 1, 1, 1}, std::string name = "zero_padding2d");
  Tensor call(const Tensor& x, bool training) override;

 private:
  std::array<int64_t, 4> pads_;
};

}  // namespace lamina::nn
