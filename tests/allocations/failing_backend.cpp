#include "tests/allocations/failing_backend.h"

#include "runtime/core/error.h"
#include "tests/allocations/failing.h"

namespace lamina::tests {
namespace {
FailingBackend& installed() {
  static auto* backend = new FailingBackend;  // tensors may outlive every static object
  return *backend;
}
}  // namespace

void FailingBackend::install() { replace_backend(DeviceKind::cpu, &installed()); }
size_t FailingBackend::bytes_in_use() { return installed().in_use_; }

void* FailingBackend::allocate(Stream& stream, size_t bytes) {
  if (allocation_fails()) throw Error(ErrorKind::out_of_memory, {.what = "planted", .where = "", .why = "", .fix = ""});
  void* data = real_.allocate(stream, bytes);
  in_use_ += bytes;
  return data;
}
void FailingBackend::free(Stream& stream, void* data, size_t bytes) {
  in_use_ -= bytes;
  real_.free(stream, data, bytes);
}

}  // namespace lamina::tests
