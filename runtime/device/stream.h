// Stream and Event: order of work on a device. Both are values; their Backend owns the resources behind them.
#pragma once
#include "runtime/device/device.h"

namespace lamina {

class Backend;

struct Stream {
  Backend* backend = nullptr;
  Device device;
  void* native = nullptr;  // cudaStream_t on CUDA, the queue on a CPU
  bool operator==(const Stream&) const = default;
};

struct Event {
  Backend* backend = nullptr;
  void* native = nullptr;
};

}  // namespace lamina
