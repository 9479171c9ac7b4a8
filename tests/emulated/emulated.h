// Helpers for tests of GPU kernels: memory with red zones, and launches repeated in several thread orders.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/cuda/device.h"
#include "tests/emulated/races.h"

namespace lamina::kernels::cuda {

// Memory of the emulated GPU: filled with NaN (or -1), with red zones on both sides. The race checker reports each access to a red zone
// with its line; without it, a write is found when the buffer is freed.
void add_red_zone(const void* begin, size_t bytes);
void remove_red_zone(const void* begin);
template <class T>
class Buffer {
 public:
  explicit Buffer(size_t count) : count_(count), bytes_(kZone + count * sizeof(T) + kZone) {
    bytes_ = (bytes_ + 255) / 256 * 256;
    memory_ = static_cast<char*>(std::aligned_alloc(256, bytes_));
    std::memset(memory_, kByte, bytes_);
    if (count) std::memset(memory_ + kZone, 0xff, count * sizeof(T));
    add_red_zone(memory_, kZone);
    add_red_zone(end(), size_t(memory_ + bytes_ - end()));
  }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) {
    if (count_) std::memcpy(data(), values.data(), count_ * sizeof(T));
  }
  Buffer(std::initializer_list<T> values) : Buffer(std::vector<T>(values)) {}
  ~Buffer() {
    remove_red_zone(memory_);
    remove_red_zone(end());
    for (const char* p = memory_; p < memory_ + bytes_ && !races_are_checked(); ++p) {
      if (p == memory_ + kZone) p = end();
      if (*p != kByte) {
        ADD_FAILURE() << "a kernel has written outside of a buffer of " << count_ << " elements of " << sizeof(T) << " bytes, at byte "
                      << p - (memory_ + kZone);
        break;
      }
    }
    std::free(memory_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  T* data() { return reinterpret_cast<T*>(memory_ + kZone); }
  const T* data() const { return reinterpret_cast<const T*>(memory_ + kZone); }
  size_t size() const { return count_; }
  T& operator[](size_t i) { return data()[i]; }
  std::vector<T> values() const { return {data(), data() + count_}; }

 private:
  static constexpr size_t kZone = 256;
  static constexpr char kByte = 0x5a;
  char* end() const { return memory_ + kZone + count_ * sizeof(T); }
  size_t count_, bytes_;
  char* memory_;
};

inline Stream& emulated_stream() {
  static Stream stream;
  return stream;
}

struct Order {
  emulation::Order order;
  unsigned seed;
};
inline const std::vector<Order>& orders() {
  static const std::vector<Order> all{
      {emulation::Order::forward, 1}, {emulation::Order::reverse, 1}, {emulation::Order::random, 1}, {emulation::Order::random, 2}};
  return all;
}
// Calls run() once per thread order. It should make its own outputs and check them.
template <class F>
void in_every_order(F run) {
  const emulation::Settings before = emulation::settings();
  for (const Order& o : orders()) {
    emulation::settings().order = o.order;
    emulation::settings().seed = o.seed;
    SCOPED_TRACE(testing::Message() << "order of threads: "
                                    << (o.order == emulation::Order::forward   ? "forward"
                                        : o.order == emulation::Order::reverse ? "reverse"
                                                                               : "random, seed ")
                                    << (o.order == emulation::Order::random ? int(o.seed) : 1));
    run();
  }
  emulation::settings() = before;
}

// The error that ended the launch, or nothing.
template <class F>
std::string failure_of(F run) {
  try {
    run();
  } catch (const emulation::Failure& f) {
    return f.what();
  }
  return "";
}

}  // namespace lamina::kernels::cuda
