// Stages: another order of a section's steps on a CPU, in which each thread keeps the layers that it computes. Weights then never move from
// one core's cache to another's, which costs more than the arithmetic of a small layer on many machines.
#pragma once
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/section/table.h"
#include "runtime/core/mutex.h"

namespace lamina::section {

// The steps of a stage run one after the other on one part of the rows, then on the next part. Part p of a stage waits for part p of the
// stage before. Forward through two threads' layers and back are three stages, of threads 0, 1 and 0.
struct Stages {
  struct Item {
    int32_t step = 0;
    bool whole = false;  // the step needs all rows: it runs once, on the last part's turn
  };
  struct Stage {
    int32_t thread = 0;
    int32_t begin = 0, end = 0;  // items of each part
    int32_t tail = 0;            // items from end to here follow the last part, when the next stage need not wait for them
  };
  static constexpr int kMost = 16;     // stages
  int32_t first = 0, last = 0;         // the table's steps before and after these are shared among the threads as usual
  std::vector<int32_t> before, after;  // small steps between them, which thread 0 runs before and after all stages
  std::vector<Item> items;
  std::vector<Stage> stages;
  int32_t threads = 1, parts = 1;
  double idle = 0;  // time that threads wait for each other by plan, summed, over the time of a run
};

// Which way of running a section on several threads is the fastest here: the first calls try each, and now and then later ones do.
class LAMINA_API Ways {
 public:
  enum Way : uint8_t { shared, staged, alone };
  // Of `staged`; of `alone`. Null: no large part of the table can be run so, and the table's own order counts.
  std::shared_ptr<const Stages> on_all, on_one;

  Ways() { least_.fill(std::chrono::nanoseconds::max()); }
  Way next();  // for this call
  void took(Way way, std::chrono::nanoseconds time);
  static void always(std::optional<Way> way);  // for tests

 private:
  Mutex mutex_;
  uint32_t call_ = 0, trial_ = 0;  // the number of the next call; the first of this trial, or of the next one
  uint32_t pause_ = 64;            // calls until then
  Way fastest_ = shared;
  // The least time of each way in the last trial that could run it: while another process keeps a core busy, there is one thread.
  std::array<std::chrono::nanoseconds, 3> least_;
  std::array<bool, 3> measured_{};  // in this trial
};

// Sets table.ways, if the table is for several threads. The bits of all results are the same in all ways.
LAMINA_API void place_ways(Table& table, const std::vector<OperandRange>& ranges);
// "in stages: thread 0 from step 2, thread 1 from step 52, thread 0 from step 159, rows in 2 parts"; empty: never so.
LAMINA_API std::string print(const Ways& ways);

}  // namespace lamina::section
