#include "runtime/device/virtual_gpus.h"

#include <atomic>

#include "runtime/core/error.h"

namespace lamina {
namespace {
std::atomic<int> parts_of_each{1};
std::atomic<bool> in_use{false};
}  // namespace

int gpu_parts() { return parts_of_each.load(std::memory_order_relaxed); }

void note_gpu_use(bool used) { in_use.store(used, std::memory_order_relaxed); }

void split_gpus(int parts) {
  if (parts < 1 || parts > kMostGpuParts)
    throw Error(ErrorKind::invalid_argument, {.what = cat("a GPU cannot be split into ", parts, " devices"),
                                              .where = "lm.config.set_virtual_devices",
                                              .why = cat("the count is from 1 to ", kMostGpuParts),
                                              .fix = "pass the number of devices that the program is to see for each GPU"});
  if (parts == gpu_parts()) return;
  if (in_use)
    throw Error(ErrorKind::state, {.what = cat("GPUs cannot be split into ", parts, " devices any more: each has ", gpu_parts()),
                                   .where = "lm.config.set_virtual_devices",
                                   .why = "a GPU is in use, and its memory and multiprocessors depend on the number of devices",
                                   .fix = "choose the number once, at the start of the program"});
  parts_of_each = parts;
}

}  // namespace lamina
