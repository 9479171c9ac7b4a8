// Two other orders of a section's steps on a CPU. In stages, each thread keeps the layers that it computes: weights then never move from
// one core's cache to another's, which costs more than the arithmetic of a small layer on many machines. In chunks, each thread takes some
// rows through all layers: the values of a large batch then stay in its caches.
#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/section/table.h"
#include "runtime/core/mutex.h"

namespace lamina::section {

// What both have: the table's steps before `first` and from `last` on are shared among the threads as usual; thread 0 runs small steps
// between them, `before` and `after` all others.
struct Within {
  int32_t first = 0, last = 0;
  std::vector<int32_t> before, after;
};

// The steps of a stage run one after the other on one part of the rows, then on the next part. Part p of a stage waits for part p of the
// stage before. Forward through two threads' layers and back are three stages, of threads 0, 1 and 0; seven, if each thread has two runs of
// layers, between which the other's lie: then both wait less.
struct Stages : Within {
  struct Item {
    int32_t step = 0;
    bool whole = false;  // the step needs all rows: it runs once, on the last part's turn
  };
  struct Stage {
    int32_t thread = 0;
    int32_t begin = 0, end = 0;  // items of each part
    int32_t tail = 0;            // items from end to here follow the last part, when the next stage need not wait for them
  };
  static constexpr int kMost = 16;  // stages
  std::vector<Item> items;
  std::vector<Stage> stages;
  int32_t threads = 1, parts = 1;
  double idle = 0;  // time that threads wait for each other by plan, summed, over the time of a run
};

// Large batches go in chunks of rows, each of which a thread takes forward and back while its values are in the thread's caches. Gradients
// of weights add up from chunk to chunk, in the order of the rows, and the last chunk brings the updates: so each thread is a few steps
// behind the one with the chunk before. Values that only these steps use lie in the threads' own memory, for one chunk at a time.
struct Chunks : Within {
  struct Item {
    int32_t step = 0;
    int64_t sums = -1;  // where an update's gradients add up, in bytes of the sums' memory; below 0: a step of rows
  };
  struct Local {
    int32_t buffer = 0, row_bytes = 0;
    int64_t at = 0;  // in bytes of a thread's own memory
  };
  static constexpr int kMost = 16;        // threads
  static constexpr int kBlock = 32;       // rows that a bias's gradient adds up in a block (kernels/reduce.h); chunks consist of whole ones
  static constexpr int kMostRows = 4096;  // of updates: longer sums are made in other blocks (kLongSum in kernels/cpu/tiles.h)
  std::vector<Item> items;                // of each chunk
  std::vector<Local> locals;
  int64_t own_bytes = 0, sums_bytes = 0;
  int32_t rows = 0, count = 0;
  // The chunk's first row; where chunk is `count`, all rows.
  int64_t begin(int chunk) const { return std::min<int64_t>(rows, kBlock * (blocks() * chunk / count)); }
  int64_t most_rows() const { return kBlock * ((blocks() + count - 1) / count); }  // of a chunk
  int64_t blocks() const { return (int64_t(rows) + kBlock - 1) / kBlock; }
};

// Bytes of values that would be local, from which on a table has chunks: less stays in a core's cache as it is.
inline constexpr int64_t kLeastLocal = 1'000'000;

// Which way of running a section on several threads is the fastest here: the first calls try each, and now and then later ones do.
class LAMINA_API Ways {
 public:
  enum Way : uint8_t { shared, staged, chunked, alone };
  static constexpr int kCount = 4;
  std::shared_ptr<const Stages> on_all;     // of `staged`; null: it is none of the ways
  std::shared_ptr<const Chunks> in_chunks;  // of `chunked`; null: it is none of the ways
  std::shared_ptr<const Stages> on_one;     // of one thread without chunks; null: the table's own order

  Ways() { least_.fill(std::chrono::nanoseconds::max()); }
  Way next();  // for this call
  void took(Way way, std::chrono::nanoseconds time);
  static void always(std::optional<Way> way);  // for tests

 private:
  Mutex mutex_;
  uint32_t call_ = 0, trial_ = 0;  // the number of the next call; the first of this trial, or of the next one
  uint32_t pause_ = 32;            // calls until then
  Way fastest_ = shared;
  // The least time of each way in the last trial that could run it: while another process keeps a core busy, there is one thread.
  std::array<std::chrono::nanoseconds, kCount> least_;
  std::array<bool, kCount> measured_{};  // in this trial
};

// Sets table.ways, if the table is for several threads. The bits of all results are the same in all ways.
LAMINA_API void place_ways(Table& table, const std::vector<OperandRange>& ranges, int64_t least_local = kLeastLocal);
// "in stages: thread 0 from step 2, thread 1 from step 52, thread 0 from step 159, rows in 2 parts, or in chunks of 64 rows"; empty:
// neither.
LAMINA_API std::string print(const Ways& ways);

}  // namespace lamina::section
