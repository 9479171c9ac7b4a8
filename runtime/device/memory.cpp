#include "runtime/device/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>

#include "runtime/core/error.h"
#include "runtime/core/mutex.h"
#include "runtime/device/backend.h"

namespace lamina::memory {
namespace {

struct Counts {
  std::atomic<int64_t> live{0}, peak{0}, limit{-1};
};

constexpr size_t kDirect = 64;  // devices of each kind whose counts are found without a lock

// Never destroyed, nor are the holders' list and lock: tensors may outlive every static object.
Counts& counts_of(Device device) {
  static auto* direct = new std::array<std::array<Counts, kDirect>, 2>;
  if (device.kind != DeviceKind::null && size_t(device.index) < kDirect)
    return (*direct)[device.kind == DeviceKind::gpu][size_t(device.index)];
  static auto* mutex = new Mutex;
  static auto* others = new std::map<Device, Counts>;
  std::lock_guard lock(*mutex);
  return (*others)[device];
}

struct Holders {
  Mutex mutex;
  Holder* first = nullptr;
};
Holders& holders() {
  static auto* all = new Holders;
  return *all;
}

std::atomic<int64_t (*)(Device)> pools[3] = {};

}  // namespace

Stats stats(Device device) {
  require_device(device);
  const Counts& c = counts_of(device);
  const auto pool = pools[int(device.kind)].load();
  return {c.live, c.peak, pool ? pool(device) : 0, limit(device)};
}

void reset_peak(Device device) {
  require_device(device);
  Counts& c = counts_of(device);
  c.peak = c.live.load();
}

void set_limit(Device device, std::optional<int64_t> bytes) {
  require_device(device);
  if (bytes && *bytes < 0)
    throw Error(ErrorKind::invalid_argument, {.what = cat("a memory limit of ", *bytes, " bytes"),
                                              .where = "",
                                              .why = "it is a number of bytes from 0",
                                              .fix = "pass how many bytes may be live on the device"});
  counts_of(device).limit = bytes.value_or(-1);
}

int64_t limit(Device device) {
  const int64_t set = counts_of(device).limit;
  return set >= 0 ? set : backend_of(device).properties(device).memory;
}

void take(Device device, size_t bytes) {
  Counts& c = counts_of(device);
  const int64_t live = c.live.fetch_add(int64_t(bytes), std::memory_order_relaxed) + int64_t(bytes);
  const int64_t most = c.limit.load(std::memory_order_relaxed);
  if (most >= 0 && live > most) {
    c.live.fetch_sub(int64_t(bytes), std::memory_order_relaxed);
    throw Error(ErrorKind::out_of_memory, {.what = cat("out of memory on ", device, ": asked for ", bytes, " bytes"),
                                           .where = "",
                                           .why = cat("of its limit of ", most, " bytes ", live - int64_t(bytes), " are in use"),
                                           .fix = "use a smaller batch or model, free tensors that are no longer needed, or raise the "
                                                  "limit: lm.config.set_memory_limit"});
  }
  int64_t peak = c.peak.load(std::memory_order_relaxed);
  while (peak < live && !c.peak.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

void give_back(Device device, size_t bytes) noexcept { counts_of(device).live.fetch_sub(int64_t(bytes), std::memory_order_relaxed); }

void tell_pool(DeviceKind kind, int64_t (*bytes)(Device)) { pools[int(kind)] = bytes; }

Holder::Holder(std::string what, Device device, int64_t bytes) : what_(std::move(what)), device_(device), bytes_(bytes) {
  std::lock_guard lock(holders().mutex);
  after_ = holders().first;
  if (after_) after_->before_ = this;
  holders().first = this;
}

Holder::~Holder() {
  std::lock_guard lock(holders().mutex);
  (before_ ? before_->after_ : holders().first) = after_;
  if (after_) after_->before_ = before_;
}

void Holder::resize(int64_t bytes) {
  std::lock_guard lock(holders().mutex);
  bytes_ = bytes;
}

std::vector<Holder::Seen> largest(Device device, size_t count) {
  std::map<std::string, int64_t> by_name;
  {
    std::lock_guard lock(holders().mutex);
    for (const Holder* h = holders().first; h; h = h->after_)
      if (h->device_ == device && h->bytes_ > 0) by_name[h->what_] += h->bytes_;
  }
  std::vector<Holder::Seen> out;
  for (const auto& [what, bytes] : by_name) out.push_back({what, bytes});
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  out.resize(std::min(out.size(), count));
  return out;
}

}  // namespace lamina::memory
