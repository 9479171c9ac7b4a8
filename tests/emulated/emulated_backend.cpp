#include "tests/emulated/emulated_backend.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

namespace lamina::tests {

EmulatedBackend& EmulatedBackend::one() {
  static auto* backend = new EmulatedBackend;  // never destroyed: tensors may outlive every static object
  return *backend;
}

DeviceProperties EmulatedBackend::properties(Device) {
  return {.name = "emulated",
          .memory = int64_t{1} << 30,
          .compute_capability = 90,
          .multiprocessors = 132,
          .shared_memory_per_block = 232448,
          .threads = 1};
}

void* EmulatedBackend::allocate(Stream&, size_t bytes) {
  if (bytes == 0) return nullptr;
  void* data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(data, 0xff, bytes);
  std::lock_guard lock(mutex_);
  blocks_[data] = bytes;
  return data;
}

void EmulatedBackend::free(Stream&, void* data, size_t bytes) {
  if (!data) return;
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(data);
  if (found == blocks_.end() || found->second != bytes) {
    ADD_FAILURE() << "memory is given back that was not taken, or was taken with another size";
    return;
  }
  blocks_.erase(found);
  std::free(data);
}

void EmulatedBackend::copy(Stream&, void* to, const void* from, size_t bytes, CopyKind) {
  if (bytes) std::memmove(to, from, bytes);
}

void EmulatedBackend::launch(Stream& stream, const Kernel& kernel, const KernelCall& call, const char* name) {
  ++launches_;
  instruction_ = name, line_ = call.line;
  kernel.run(call);
  synchronize(stream);  // a real device reports faults at the next wait
}

void EmulatedBackend::synchronize(Stream&) {
  if (std::optional<Error> error = log_.take(fault_)) throw *error;
}

FaultSite EmulatedBackend::fault_site(Stream&, DescribeFault describe, const std::string& about) {
  return {&fault_, log_.add(describe, about, instruction_, line_)};
}

size_t EmulatedBackend::bytes_in_use() {
  std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const auto& [data, bytes] : blocks_) sum += bytes;
  return sum;
}

}  // namespace lamina::tests
