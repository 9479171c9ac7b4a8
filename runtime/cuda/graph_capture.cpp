#include "runtime/cuda/graph_capture.h"

#include "runtime/cuda/check.h"
#include "runtime/cuda/cuda_backend.h"

namespace lamina::cuda {
namespace {

class CapturedGraph final : public Replayable {
 public:
  CapturedGraph(const CudaApi& api, cudaGraphExec_t executable) : api_(api), executable_(executable) {}
  ~CapturedGraph() override { api_.graph_executable_destroy(executable_); }
  void replay(Stream& stream) override {
    CurrentDevice current(api_, stream.device);
    check(api_, api_.graph_launch(executable_, static_cast<cudaStream_t>(stream.native)), "launch a graph", stream.device);
  }

 private:
  const CudaApi& api_;
  cudaGraphExec_t executable_;
};

}  // namespace

std::unique_ptr<Replayable> capture_graph(const CudaApi& api, Stream& stream, const std::function<void()>& launches) {
  const auto native = static_cast<cudaStream_t>(stream.native);
  // Thread-local: what other threads do with CUDA meanwhile is neither captured nor forbidden.
  check(api, api.capture_begin(native, cudaStreamCaptureModeThreadLocal), "begin the capture of a graph", stream.device);
  cudaGraph_t graph = nullptr;
  try {
    launches();
  } catch (...) {
    if (api.capture_end(native, &graph) == cudaSuccess && graph) api.graph_destroy(graph);
    api.take_last_error();
    throw;
  }
  check(api, api.capture_end(native, &graph), "end the capture of a graph", stream.device);
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = api.graph_instantiate(&executable, graph, 0);
  api.graph_destroy(graph);
  check(api, status, "make a graph ready to run", stream.device);
  return std::make_unique<CapturedGraph>(api, executable);
}

}  // namespace lamina::cuda
