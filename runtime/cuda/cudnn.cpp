#include "runtime/cuda/cudnn.h"

namespace lamina::cuda {

CudnnApi load_cudnn(const Loader& loader) {
  const LibraryName& name = cudnn_name();
  void* library = require_library(name, loader);
  CudnnApi api{};
  require_symbol(name, loader, library, "cudnnCreate", api.create);
  require_symbol(name, loader, library, "cudnnDestroy", api.destroy);
  require_symbol(name, loader, library, "cudnnSetStream", api.set_stream);
  require_symbol(name, loader, library, "cudnnCreateTensorDescriptor", api.tensor_create);
  require_symbol(name, loader, library, "cudnnDestroyTensorDescriptor", api.tensor_destroy);
  require_symbol(name, loader, library, "cudnnSetTensor4dDescriptor", api.tensor_set);
  require_symbol(name, loader, library, "cudnnCreateFilterDescriptor", api.filter_create);
  require_symbol(name, loader, library, "cudnnDestroyFilterDescriptor", api.filter_destroy);
  require_symbol(name, loader, library, "cudnnSetFilter4dDescriptor", api.filter_set);
  require_symbol(name, loader, library, "cudnnCreateConvolutionDescriptor", api.convolution_create);
  require_symbol(name, loader, library, "cudnnDestroyConvolutionDescriptor", api.convolution_destroy);
  require_symbol(name, loader, library, "cudnnSetConvolution2dDescriptor", api.convolution_set);
  require_symbol(name, loader, library, "cudnnSetConvolutionMathType", api.convolution_math);
  require_symbol(name, loader, library, "cudnnSetConvolutionGroupCount", api.convolution_groups);
  require_symbol(name, loader, library, "cudnnGetConvolutionForwardAlgorithm_v7", api.choices[0]);
  require_symbol(name, loader, library, "cudnnGetConvolutionBackwardDataAlgorithm_v7", api.choices[1]);
  require_symbol(name, loader, library, "cudnnGetConvolutionBackwardFilterAlgorithm_v7", api.choices[2]);
  require_symbol(name, loader, library, "cudnnConvolutionForward", api.run[0]);
  require_symbol(name, loader, library, "cudnnConvolutionBackwardData", api.run[1]);
  require_symbol(name, loader, library, "cudnnConvolutionBackwardFilter", api.run[2]);
  require_symbol(name, loader, library, "cudnnGetErrorString", api.status_text);
  return api;
}

}  // namespace lamina::cuda
