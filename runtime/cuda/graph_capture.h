// Launches recorded as a CUDA graph, which the driver replays with one call.
#pragma once
#include <functional>
#include <memory>

#include "runtime/cuda/cuda_api.h"
#include "runtime/device/backend.h"

namespace lamina::cuda {

// Nothing runs while `launches` is called. If it throws, the capture is ended and the stream is as before.
std::unique_ptr<Replayable> capture_graph(const CudaApi& api, Stream& stream, const std::function<void()>& launches);

}  // namespace lamina::cuda
