#include "runtime/cuda/check.h"

namespace lamina::cuda {
bool ends_the_context(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable: return true;
    default: return false;
  }
}

namespace {

std::string fix_for(cudaError_t status) {
  if (status == cudaErrorInitializationError)
    return "use the GPU in the process that first used it, or start worker processes with spawn instead of fork";
  if (status == cudaErrorECCUncorrectable)
    return "the card reports damaged memory: restart the process, and have the card checked if it happens again";
  if (ends_the_context(status))
    return "restart the process: CUDA gives no more answers in this one. CUDA_LAUNCH_BLOCKING=1 names the call at fault";
  return "see the CUDA documentation of this error; CUDA_LAUNCH_BLOCKING=1 names the call at fault";
}

}  // namespace

Error error_of(const CudaApi& api, cudaError_t status, const std::string& doing, Device device) {
  api.take_last_error();  // clears it, so that the next call does not report it again
  return Error(status == cudaErrorMemoryAllocation ? ErrorKind::out_of_memory : ErrorKind::device,
               {.what = cat("cuda: cannot ", doing),
                .where = text(device),
                .why = cat(api.error_name(status), " (", static_cast<int>(status), "): ", api.error_text(status)),
                .fix = fix_for(status)});
}

}  // namespace lamina::cuda
