// Converts exceptions of Thrust to Errors.
#pragma once
#include "runtime/core/error.h"
#include "runtime/device/stream.h"

namespace lamina::cuda {

// `status`: a cudaError_t that was already cleared from cudart's last error. The error names the instruction that this thread is launching.
Error launch_error(const Stream& stream, int status);

}  // namespace lamina::cuda
