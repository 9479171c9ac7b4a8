// The part of cuDNN's interface that Lamina uses, declared as in cublaslt.h. It is the function interface (cudnnConvolutionForward): stable
// for years, in every cuDNN 9, and its heuristics say which algorithms are deterministic. The graph interface could fuse more, but has
// about a hundred attributes.
#pragma once
#include <cstddef>

#include "runtime/cuda/libraries.h"

namespace lamina::cuda {

namespace cudnn {

// An algorithm that a heuristic proposes: the common layout of cudnnConvolution{Fwd,BwdData,BwdFilter}AlgoPerf_t.
struct Choice {
  int algorithm;
  int status;
  float time;
  size_t memory;  // of the workspace, in bytes
  int determinism;
  int math;
  int reserved[3];
};

inline constexpr bool not_supported(int status) { return status >= 3000 && status < 4000; }  // cudnnStatus_t; 0 is success
inline constexpr bool no_memory(int status) { return status == 4003 || status == 4004; }     // of the host, of the device
inline constexpr int kFloat = 0, kDouble = 1, kHalf = 2, kBfloat16 = 9;                      // cudnnDataType_t
inline constexpr int kChannelsLast = 1;                                                      // cudnnTensorFormat_t: CUDNN_TENSOR_NHWC
inline constexpr int kDefaultMath = 0, kTensorMath = 1, kConvertingMath = 2, kFmaMath = 3;   // cudnnMathType_t; 0 allows tf32
inline constexpr int kCrossCorrelation = 1;                                                  // cudnnConvolutionMode_t
inline constexpr int kDeterministic = 1;                                                     // cudnnDeterminism_t
inline constexpr int kMaxDeterministic = 3;                                                  // cudnnPoolingMode_t
inline constexpr int kPropagateNan = 1;                                                      // cudnnNanPropagation_t
inline constexpr int kSpatial = 1;                                                           // cudnnBatchNormMode_t

}  // namespace cudnn

// Functions return cudnnStatus_t. choices and run: forward (x, w -> y), backward data (w, dy -> dx), backward filter (x, dy -> dw).
struct CudnnApi {
  int (*create)(void** handle);
  int (*destroy)(void* handle);
  int (*set_stream)(void* handle, void* stream);
  int (*tensor_create)(void** tensor);
  int (*tensor_destroy)(void* tensor);
  int (*tensor_set)(void* tensor, int format, int type, int images, int channels, int height, int width);
  int (*filter_create)(void** filter);
  int (*filter_destroy)(void* filter);
  int (*filter_set)(void* filter, int type, int format, int filters, int channels, int height, int width);
  int (*convolution_create)(void** convolution);
  int (*convolution_destroy)(void* convolution);
  int (*convolution_set)(void* convolution, int pad_height, int pad_width, int stride_height, int stride_width, int dilation_height,
                         int dilation_width, int mode, int compute_type);
  int (*convolution_math)(void* convolution, int math);
  int (*convolution_groups)(void* convolution, int groups);
  int (*choices[3])(void* handle, void* first, void* second, void* convolution, void* result, int wanted, int* found,
                    cudnn::Choice* choices);
  int (*run[3])(void* handle, const void* alpha, void* first, const void* first_data, void* second, const void* second_data,
                void* convolution, int algorithm, void* workspace, size_t workspace_bytes, const void* beta, void* result,
                void* result_data);
  int (*pooling_create)(void** pooling);
  int (*pooling_destroy)(void* pooling);
  int (*pooling_set)(void* pooling, int mode, int nan, int window_height, int window_width, int pad_height, int pad_width,
                     int stride_height, int stride_width);
  int (*pool)(void* handle, void* pooling, const void* alpha, void* x, const void* x_data, const void* beta, void* y, void* y_data);
  int (*pool_gradient)(void* handle, void* pooling, const void* alpha, void* y, const void* y_data, void* dy, const void* dy_data, void* x,
                       const void* x_data, const void* beta, void* dx, void* dx_data);
  int (*norm_derive)(void* of_channels, void* x, int mode);
  int (*normalize)(void* handle, int mode, const void* alpha, const void* beta, void* x, const void* x_data, void* y, void* y_data,
                   void* of_channels, const void* scale, const void* bias, double average_factor, void* running_mean,
                   void* running_variance, double epsilon, void* saved_mean, void* saved_inverse_deviation);
  int (*normalize_gradient)(void* handle, int mode, const void* alpha_data, const void* beta_data, const void* alpha_parameters,
                            const void* beta_parameters, void* x, const void* x_data, void* dy, const void* dy_data, void* dx,
                            void* dx_data, void* of_channels, const void* scale, void* dscale, void* dbias, double epsilon,
                            const void* saved_mean, const void* saved_inverse_deviation);
  const char* (*status_text)(int status);
};
// Throws device, with every path that was tried, when the library is missing.
CudnnApi load_cudnn(const Loader& loader);

}  // namespace lamina::cuda
