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
  const char* (*status_text)(int status);
};
// Throws device, with every path that was tried, when the library is missing.
CudnnApi load_cudnn(const Loader& loader);

}  // namespace lamina::cuda
