// The time of a training step on several ranks, which sum their gradients: the costs of such sums, and a Play of all ranks for the
// simulator.
#pragma once
#include <string>
#include <vector>

#include "graph/cost/simulate.h"

namespace lamina::distributed {
class Communicator;
}

namespace lamina::cost {

// Ranks with a GPU each, evenly on hosts.
struct Ranks {
  Device device;
  int count = 1, hosts = 1;
};

// When gradients are summed, and by what.
enum class Exchange : uint8_t {
  after,      // one sum after the backward pass, by NCCL
  beside,     // several, by NCCL on a stream of its own, while the backward pass runs
  in_launch,  // blocks of the step's launch read the other ranks' memory: one host with NVLink
};
LAMINA_API const char* name(Exchange exchange);

// A sum in the fixed tree, alone. occupied: the part of `microseconds` in which its links are busy; the rest is latency.
struct SumTime {
  double microseconds = 0, occupied = 0;
};
LAMINA_API SumTime sum_time(const Ranks& ranks, Exchange exchange, double bytes);
LAMINA_API bool reach_memory(const Ranks& ranks);  // of each other: what in_launch needs

// A step of one rank, without sums.
struct Step {
  double microseconds = 0;
  std::vector<double> gradients;  // bytes of each, in the order in which the backward pass finishes them
};

// Every rank computes forward (a third of the step) and backward, whose gradients are finished evenly. A sum begins when all ranks have its
// gradients. sums: into how many the gradients are put, neighbours together.
LAMINA_API Play play_of(const Step& step, const Ranks& ranks, Exchange exchange, int sums);

struct StepTime {
  Exchange exchange = Exchange::after;
  int sums = 1;
  double microseconds = 0, exposed = 0;  // exposed: by which the sums prolong the step
};
// With the number of sums that the simulator finds best.
LAMINA_API StepTime step_time(const Step& step, const Ranks& ranks, Exchange exchange);
LAMINA_API std::string text(const Ranks& ranks);  // "8 ranks of null:h100 on 1 host, joined by NVLink 4"

// Sums between ranks on CPUs: threads, or processes under MPI.
struct HostSums {
  double latency = 0, bytes = 1;  // microseconds; bytes of the array per microsecond
  double microseconds(double array_bytes) const { return latency + array_bytes / bytes; }
};
// A rank on a CPU. cores: its share of its host's; threads: those that compute.
struct HostRank {
  HostSums sums;
  double cores = 1, threads = 1;
};
// As above. A sum beside the backward pass takes a core: where all of them compute, one sum after it is best.
LAMINA_API StepTime step_time(const Step& step, const HostRank& rank);
// Measured now, in a few milliseconds. All ranks call it together and get the same.
LAMINA_API HostSums measured_sums(distributed::Communicator& c);

}  // namespace lamina::cost
