// NVTX ranges on a thread's timeline in Nsight Systems and similar tools, in the domain "Lamina": for each call of a traced function, each
// instruction in it, and each step of a section on the CPU. Without a tool a range costs one branch.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/core/export.h"
#include "runtime/device/device.h"

namespace lamina::profiler {

// NVTX categories. input: a program waits for its next batch.
enum class Kind : uint8_t { function = 1, instruction, step, layer, user, input };

// Where an instruction runs: a device's stream, numbered from 0 per device; -1: on the host.
struct Lane {
  Device device;
  int stream = -1;
};

namespace detail {
enum State : int { unknown, off, on };
extern LAMINA_API std::atomic<int> state;
LAMINA_API bool find_tool();  // once per process; sets state
}  // namespace detail

// Whether a tool receives ranges: the library named by the environment variable NVTX_INJECTION64_PATH, which nsys, ncu and CUPTI set. It is
// loaded at the first call.
inline bool listening() {
  const int state = detail::state.load(std::memory_order_acquire);
  return state != detail::off && (state == detail::on || detail::find_tool());
}
// In words: "ranges go to /opt/...so", "no tool listens: NVTX_INJECTION64_PATH is not set", or why its library was not loaded.
LAMINA_API std::string status();

// The text of a range that is pushed many times; the tool gets it once.
class LAMINA_API Name {
 public:
  Name() = default;
  Name(Kind kind, std::string text, Lane lane = {}) : text_(std::move(text)), kind_(kind), lane_(lane) {}
  Name(const Name& other) : text_(other.text_), kind_(other.kind_), lane_(other.lane_) {}
  Name(Name&& other) noexcept : text_(std::move(other.text_)), kind_(other.kind_), lane_(other.lane_) {}
  Name& operator=(Name other) {
    text_ = std::move(other.text_), kind_ = other.kind_, lane_ = other.lane_;
    registered_.store(nullptr, std::memory_order_relaxed);
    return *this;
  }
  const std::string& text() const { return text_; }
  Kind kind() const { return kind_; }
  Lane lane() const { return lane_; }
  void* registered() const;

 private:
  std::string text_;
  Kind kind_ = Kind::user;
  Lane lane_;
  mutable std::atomic<void*> registered_{nullptr};
};

LAMINA_API void push(const Name& name, int64_t payload);  // while listening() only
LAMINA_API void push(Kind kind, std::string_view text);
LAMINA_API void pop();

// A range with a kept Name until the end of the block, also on exceptions. Null: none.
class Scope {
 public:
  Scope(const Name* name, int64_t payload) : on_(name != nullptr) {
    if (on_) [[unlikely]]
      push(*name, payload);
  }
  ~Scope() {
    if (on_) [[unlikely]]
      pop();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const bool on_;
};

// A range of the user's: lm::profiler::Range range("load batch");
class Range {
 public:
  explicit Range(std::string_view text, Kind kind = Kind::user) : on_(listening()) {
    if (on_) [[unlikely]]
      push(kind, text);
  }
  ~Range() {
    if (on_) [[unlikely]]
      pop();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  const bool on_;
};

// Why this process seems to run under a profiler, sanitizer or debugger; "" if not. Such tools replay or serialise kernels, so a kernel
// that waits for the host would deadlock. Checked on every call, in a few microseconds:
//   LAMINA_RESIDENT=staged           the user says so
//   NVTX_INJECTION64_PATH            set by nsys, ncu and for CUPTI
//   CUDA_INJECTION64_PATH            a library that the CUDA driver loads: profilers, NVBit
//   NSYS_PROFILING_SESSION_ID        nsys
//   NV_COMPUTE_PROFILER_PERFWORKS_DIR, NV_NSIGHT_INJECTION_TRANSPORT_TYPE    ncu
//   NV_SANITIZER_INJECTION_PORT_BASE, NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN    compute-sanitizer
//   TracerPid of /proc/self/status   a debugger, such as cuda-gdb
// NVIDIA documents the two injection paths; the variables below them are observed behaviour of its tools.
LAMINA_API std::string attached_by();
inline bool profiler_attached() { return !attached_by().empty(); }

}  // namespace lamina::profiler
