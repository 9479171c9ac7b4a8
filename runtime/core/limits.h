// Limits: how long the calling thread may run programs and how much memory it may take. For programs that are not trusted and for
// loops that may never end.
//
//   lm::Limits limits({.seconds = 2, .bytes = int64_t{1} << 30});
//   module.call("score", inputs);  // throws time_limit or out_of_memory instead of going beyond
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "runtime/core/export.h"

namespace lamina {

struct LimitState;

// While it lives, its limits hold on this thread and for what the thread starts on streams. An inner one cannot exceed an outer one.
class LAMINA_API Limits {
 public:
  struct Amounts {
    double seconds = std::numeric_limits<double>::infinity();  // from now on
    int64_t bytes = -1;  // of memory that is requested from now on and held, on all devices together; -1: any
  };
  // Throws invalid_argument for a negative or not-a-number time.
  explicit Limits(Amounts most);
  ~Limits();
  Limits(const Limits&) = delete;
  Limits& operator=(const Limits&) = delete;

 private:
  std::shared_ptr<LimitState> before_;
};

// For the runtime. Time is checked between instructions, iterations of loops and passes; memory when a buffer is made.
std::shared_ptr<LimitState> current_limits();  // null: none
void check_time_limit();                       // throws time_limit

// Counts memory while it lives, against the limits of the thread that it is made on. Throws out_of_memory.
class LAMINA_API MemoryCharge {
 public:
  explicit MemoryCharge(size_t bytes);
  ~MemoryCharge();
  MemoryCharge(const MemoryCharge&) = delete;

 private:
  std::shared_ptr<LimitState> limits_;
  size_t bytes_;
};

// A stream's worker runs a task under its submitter's limits.
class LimitsOf {
 public:
  explicit LimitsOf(std::shared_ptr<LimitState> limits);
  ~LimitsOf();
  LimitsOf(const LimitsOf&) = delete;

 private:
  std::shared_ptr<LimitState> before_;
};

}  // namespace lamina
