#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <new>

#include "runtime/core/config.h"
#include "runtime/core/error.h"
#include "runtime/core/mutex.h"
#include "runtime/device/allocator.h"
#include "runtime/device/backend.h"
#include "runtime/device/cpu_stream.h"
#include "runtime/device/memory.h"

namespace lamina {
namespace {

// Memory limit of this process: the machine's, or its cgroup's.
int64_t machine_memory() {
  int64_t bytes = int64_t(sysconf(_SC_PHYS_PAGES)) * int64_t(sysconf(_SC_PAGESIZE));
  int64_t limit = 0;
  if (std::ifstream file("/sys/fs/cgroup/memory.max"); file >> limit && limit > 0) bytes = std::min(bytes, limit);
  return bytes;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  return "cpu";
}

std::shared_ptr<CpuEvent>& event_of(Event& event) { return *static_cast<std::shared_ptr<CpuEvent>*>(event.native); }
CpuStream& stream_of(Stream& stream) { return *static_cast<CpuStream*>(stream.native); }

constexpr int kMostDevices = 1024;

class CpuBackend final : public Backend {
 public:
  CpuBackend() : memory_(machine_memory()), processor_(processor_name()) {}

  void split(int count) {
    if (count < 1 || count > kMostDevices)
      throw Error(ErrorKind::invalid_argument, {.what = cat("the CPU cannot be split into ", count, " devices"),
                                                .where = "lm.config.set_virtual_devices",
                                                .why = cat("the count is from 1 to ", kMostDevices),
                                                .fix = "pass the number of devices that the program is to see"});
    std::lock_guard lock(mutex_);
    if (count == config::cpu_devices()) return;
    for (int i = 1; i < config::cpu_devices(); ++i)
      if (devices_[size_t(i)].load(std::memory_order_relaxed))
        throw Error(ErrorKind::state,
                    {.what = cat("the CPU cannot be split into ", count, " devices any more: it has ", config::cpu_devices()),
                     .where = "lm.config.set_virtual_devices",
                     .why = cat("cpu:", i, " is in use, and its memory and threads depend on the number of devices"),
                     .fix = "choose the number once, at the start of the program"});
    config::store_cpu_devices(count);
    if (State* first = devices_[0].load(std::memory_order_relaxed)) first->allocator.set_limit(size_t(memory_ / count));
  }

  const char* name() const override { return "cpu"; }
  int device_count() override { return config::cpu_devices(); }
  std::string unavailable_reason() override { return ""; }
  DeviceProperties properties(Device device) override {
    require(device);
    return {.name = processor_, .memory = memory_ / device_count(), .threads = config::threads()};
  }

  Stream default_stream(Device device) override { return {this, device, &state(device).stream}; }
  Stream create_stream(Device device) override {
    (void)state(device);
    return {this, device, new CpuStream(device, false)};
  }
  void destroy_stream(Stream& stream) override {
    if (!stream.native) return;
    if (stream.native == &state(stream.device).stream) internal_error(cat("the default stream of ", stream.device, " was destroyed"));
    delete &stream_of(stream);
    stream.native = nullptr;
  }

  Event create_event(Device) override { return {this, new std::shared_ptr<CpuEvent>(std::make_shared<CpuEvent>())}; }
  void destroy_event(Event& event) override {
    delete static_cast<std::shared_ptr<CpuEvent>*>(event.native);
    event.native = nullptr;
  }
  void record(Stream& stream, Event& event) override {
    std::shared_ptr<CpuEvent> e = event_of(event);
    CpuStream& s = stream_of(stream);
    if (s.idle()) {
      std::lock_guard lock(e->mutex);
      e->process = fork_count();
      e->reached = ++e->recorded;
      e->changed.notify_all();
      return;
    }
    std::unique_lock lock(e->mutex);
    e->process = fork_count();
    uint64_t ticket = ++e->recorded;
    lock.unlock();
    try {
      s.submit({.run = [e, ticket] { e->reach(ticket); }, .name = "", .always = true});
    } catch (...) {
      e->reach(ticket);  // it was not submitted, so nothing may wait for it
      throw;
    }
  }
  void wait(Stream& stream, Event& event) override {
    std::shared_ptr<CpuEvent> e = event_of(event);
    CpuStream& s = stream_of(stream);
    std::unique_lock lock(e->mutex);
    uint64_t ticket = e->recorded;
    if (e->reached >= ticket || e->process != fork_count()) return;
    lock.unlock();
    s.enqueue({.run =
                   [e = std::move(e), ticket] {
                     std::unique_lock lock(e->mutex);
                     e->changed.wait(lock, [&] { return e->reached >= ticket; });
                   },
               .name = "",
               .always = true});
  }
  void synchronize(Stream& stream) override { stream_of(stream).synchronize(); }

  void* allocate(Stream& stream, size_t bytes) override { return state(stream.device).allocator.allocate(bytes); }
  void free(Stream& stream, void* data, size_t bytes) override {
    Allocator& allocator = state(stream.device).allocator;
    CpuStream& s = stream_of(stream);
    if (s.idle()) return allocator.free(data, bytes);
    try {
      s.submit({.run = [&allocator, data, bytes] { allocator.free(data, bytes); }, .name = "", .always = true});
    } catch (const std::bad_alloc&) {  // called by destructors
      if (!s.may_finish()) throw;
      s.finish();
      allocator.free(data, bytes);
    }
  }
  void copy(Stream& stream, void* to, const void* from, size_t bytes, CopyKind kind) override {
    if (bytes == 0) return;
    CpuStream& s = stream_of(stream);
    const bool with_host = kind != CopyKind::within_device && s.may_finish();  // the host then reuses its memory
    if (with_host) s.synchronize();
    if (with_host || s.idle()) {
      std::memmove(to, from, bytes);
      return;
    }
    s.submit({.run = [to, from, bytes] { std::memmove(to, from, bytes); }, .name = "copy"});
  }

  void launch(Stream& stream, const Kernel& kernel, const KernelCall& call, const char* name) override {
    CpuStream& s = stream_of(stream);
    if (s.idle()) {
      try {
        kernel.run(call);
      } catch (const Error& e) {
        throw e.at(cat("instruction ", name));
      }
      return;
    }
    // The lists of views may be locals of the caller; the views themselves outlive the launch.
    struct Deferred {
      Stream stream;
      Kernel kernel;
      std::vector<const View*> in, out;
      SourceLine line;
    };
    auto d = std::make_shared<Deferred>(
        Deferred{stream, kernel, {call.in.begin(), call.in.end()}, {call.out.begin(), call.out.end()}, call.line});
    const void* args = call.args;
    s.submit({.run =
                  [d, args] {
                    try {
                      d->kernel.run({.stream = d->stream, .args = args, .in = d->in, .out = d->out, .line = d->line});
                    } catch (const Error& e) {
                      if (!d->line.known() || e.parts.where.find(text(d->line)) != std::string::npos) throw;
                      throw e.at(text(d->line));
                    }
                  },
              .name = name});
  }

  int64_t pooled(Device device) { return int64_t(state(device).allocator.usage().cached); }

  void before_fork() {
    mutex_.lock();
    for (auto& d : devices_)
      if (State* s = d.load(std::memory_order_relaxed)) s->allocator.mutex().lock();
  }
  void after_fork() {
    for (auto& d : devices_)
      if (State* s = d.load(std::memory_order_relaxed)) s->allocator.mutex().unlock();
    mutex_.unlock();
  }

 private:
  struct State {
    State(Device device, size_t memory) : allocator(text(device), memory), stream(device, true) {}
    Allocator allocator;
    CpuStream stream;
  };

  static void require(Device device) {
    if (device.kind == DeviceKind::cpu && device.index >= 0 && device.index < config::cpu_devices()) return;
    throw Error(ErrorKind::device,
                {.what = cat("there is no device ", device),
                 .where = "",
                 .why = cat("the CPU is split into ", config::cpu_devices(), config::cpu_devices() == 1 ? " device" : " devices"),
                 .fix = "split it into more: lm.config.set_virtual_devices(\"cpu\", count)"});
  }
  State& state(Device device) {
    require(device);
    std::atomic<State*>& place = devices_[size_t(device.index)];
    if (State* made = place.load(std::memory_order_acquire)) return *made;
    std::lock_guard lock(mutex_);
    require(device);
    if (State* made = place.load(std::memory_order_relaxed)) return *made;
    auto* made = new State(device, size_t(memory_ / config::cpu_devices()));  // never deleted, like the backend
    place.store(made, std::memory_order_release);
    return *made;
  }

  const int64_t memory_;
  const std::string processor_;
  Mutex mutex_;                                              // of the number of devices and of making them
  std::array<std::atomic<State*>, kMostDevices> devices_{};  // null: not in use
};

CpuBackend& the_cpu_backend() {
  static CpuBackend* backend = [] {
    auto* made = new CpuBackend;  // never deleted: tensors may outlive every static object
    memory::tell_pool(DeviceKind::cpu, [](Device device) { return the_cpu_backend().pooled(device); });
    on_fork({[] { the_cpu_backend().before_fork(); }, [] { the_cpu_backend().after_fork(); }, [] { the_cpu_backend().after_fork(); }});
    return made;
  }();
  return *backend;
}

}  // namespace

Backend& cpu_backend() { return the_cpu_backend(); }
void split_cpu(int count) { the_cpu_backend().split(count); }

}  // namespace lamina
