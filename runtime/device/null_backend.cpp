#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "runtime/core/error.h"
#include "runtime/core/mutex.h"
#include "runtime/device/backend.h"

namespace lamina {
namespace {

constexpr int kDevicesPerModel = 1 << 15;
constexpr size_t kMostLines = size_t(1) << 20;

// Devices only for planning: invalid addresses, an enforced memory limit, and a record of every call.
class NullBackend final : public Backend {
 public:
  const char* name() const override { return "null"; }
  int device_count() override { return kDevicesPerModel; }
  std::string unavailable_reason() override { return ""; }
  DeviceProperties properties(Device device) override { return null_models().at(device.model); }

  Stream default_stream(Device device) override { return {this, device, nullptr}; }
  Stream create_stream(Device device) override {
    std::lock_guard lock(mutex_);
    auto* number = new int(++streams_);
    note(cat("create stream ", *number, " on ", device));
    return {this, device, number};
  }
  void destroy_stream(Stream& stream) override {
    std::lock_guard lock(mutex_);
    note(cat("destroy ", place(stream)));
    delete static_cast<int*>(stream.native);
    stream.native = nullptr;
  }
  Event create_event(Device device) override {
    std::lock_guard lock(mutex_);
    auto* number = new int(++events_);
    note(cat("create event ", *number, " on ", device));
    return {this, number};
  }
  void destroy_event(Event& event) override {
    std::lock_guard lock(mutex_);
    note(cat("destroy event ", number_of(event)));
    delete static_cast<int*>(event.native);
    event.native = nullptr;
  }
  void record(Stream& stream, Event& event) override {
    std::lock_guard lock(mutex_);
    note(cat("record event ", number_of(event), " on ", place(stream)));
  }
  void wait(Stream& stream, Event& event) override {
    std::lock_guard lock(mutex_);
    note(cat("wait for event ", number_of(event), " on ", place(stream)));
  }
  void synchronize(Stream& stream) override {
    std::lock_guard lock(mutex_);
    note(cat("synchronize ", place(stream)));
  }

  void* allocate(Stream& stream, size_t bytes) override {
    std::lock_guard lock(mutex_);
    Memory& memory = memories_[stream.device];
    size_t limit = size_t(properties(stream.device).memory), size = rounded(bytes);
    if (size < bytes || size > limit - memory.used)
      throw Error(ErrorKind::out_of_memory, {.what = cat("out of memory on ", stream.device, ": asked for ", bytes, " bytes"),
                                             .where = "",
                                             .why = cat("of ", limit, " bytes ", limit - memory.used, " are free and 0 are cached"),
                                             .fix = "use a smaller batch or model, or free tensors that are no longer needed"});
    memory.used += size;
    void* data = reinterpret_cast<void*>(memory.next);
    memory.next += size;
    note(cat("allocate ", bytes, " bytes on ", place(stream)));
    return data;
  }
  void free(Stream& stream, void* data, size_t bytes) override {
    if (!data) return;
    std::lock_guard lock(mutex_);
    memories_[stream.device].used -= rounded(bytes);
    note(cat("free ", bytes, " bytes on ", place(stream)));
  }
  void copy(Stream& stream, void* to, const void*, size_t bytes, CopyKind kind) override {
    std::lock_guard lock(mutex_);
    note(cat("copy ", bytes, " bytes ",
             kind == CopyKind::to_device ? "to "
             : kind == CopyKind::to_host ? "from "
                                         : "within ",
             place(stream)));
    if (kind == CopyKind::to_host && bytes > 0) std::memset(to, 0, bytes);  // nothing was computed, but host reads are defined
  }
  void launch(Stream& stream, const Kernel&, const KernelCall&, const char* name) override {
    std::lock_guard lock(mutex_);
    note(cat("launch ", name, " on ", place(stream)));
  }

  std::vector<std::string> take_record() {
    std::lock_guard lock(mutex_);
    return std::exchange(record_, {});
  }

 private:
  struct Memory {
    size_t used = 0;
    uintptr_t next = uintptr_t(1) << 48;  // above Linux's user addresses, so that any access faults
  };
  static size_t rounded(size_t bytes) { return bytes == 0 ? 256 : (bytes + 255) / 256 * 256; }
  static int number_of(const Event& event) { return event.native ? *static_cast<const int*>(event.native) : 0; }
  static std::string place(const Stream& stream) {
    return stream.native ? cat("stream ", *static_cast<const int*>(stream.native), " of ", stream.device) : text(stream.device);
  }
  void note(std::string line) {
    if (record_.size() < kMostLines) record_.push_back(std::move(line));  // bounded, in case nobody takes the record
  }

  Mutex mutex_;
  std::map<Device, Memory> memories_;
  std::vector<std::string> record_;
  int streams_ = 0, events_ = 0;
};

NullBackend& the_null_backend() {
  static auto* backend = new NullBackend;
  return *backend;
}

}  // namespace

Backend& null_backend() { return the_null_backend(); }
std::vector<std::string> take_null_record() { return the_null_backend().take_record(); }

}  // namespace lamina
