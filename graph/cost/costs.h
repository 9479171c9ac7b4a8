// Costs: how long an instruction takes on a device, and a copy on a link. One table for placement, explain and the simulator.
#pragma once
#include <string>

#include "runtime/exec/program.h"

namespace lamina::cost {

// What an instruction, or a part of one, does.
struct Work {
  double flops = 0, bytes = 0;  // arithmetic; bytes read and written
  int steps = 1;                // of a section
};

// Rates of one core of this machine; times in microseconds.
struct CpuRates {
  double flops = 2e4, bytes = 1e4;  // per microsecond
  double launch = 0.5;              // of an instruction
  double step = 0.2, barrier = 1;   // of a section's step; between steps that several threads share
  double hand_over = 10;            // until a sleeping thread runs what it was given
};

inline constexpr double kEventMicroseconds = 4;  // of a link's latency: an event's record and wait
// A way from one device's memory to another's.
struct Link {
  const char* name = "";
  double latency = 0;  // microseconds, until the other device sees what is finished here
  double bytes = 0;    // per microsecond
};

class LAMINA_API Costs {
 public:
  explicit Costs(const CpuRates& cpu) : cpu_(cpu) {}
  // With the rates of this machine, which are measured at the first use, in about 10 ms.
  static const Costs& here();

  double launch(Device device) const;                                       // of an instruction, without its work
  double microseconds(const Work& work, Device device, int threads) const;  // without launch(); threads: of a CPU device
  Link link(Device from, Device to) const;
  double copy(Device from, Device to, double bytes) const;  // without the latency
  // Of an instruction or copy, with its launch, when nothing else runs. By the model in predict.h where that has figures.
  double microseconds(const exec::Program& program, const exec::Instruction& instruction) const;
  const CpuRates& cpu() const { return cpu_; }
  std::string text() const;  // the CPU's rates in a line

 private:
  CpuRates cpu_;
};

// Threads that the instruction uses: more than one only on a CPU.
LAMINA_API int threads_of(const exec::Program& program, const exec::Instruction& instruction);

}  // namespace lamina::cost
