// A block plan as the section kernel's arguments, with its state on each device, and the kernel that runs it.
#pragma once
#include "kernels/section/blocks.h"
#include "runtime/core/mutex.h"
#include "runtime/device/kernel.h"

namespace lamina::section {

// The windows of a section's sums over ranks (rank_sums.h).
class LAMINA_API RankMemory {
 public:
  virtual ~RankMemory() = default;
  virtual int rank() const = 0;
  // Before each launch, on all ranks: compares what they launch. The windows' addresses: of each sum in turn, on rank 0, 1, ...; the same
  // for all launches.
  virtual const std::vector<char*>& begin(Stream& stream, const std::vector<int64_t>& bytes) = 0;
  // Behind each launch, which may wait for other ranks.
  virtual void started(Stream& stream) = 0;
};

// Arguments of the section kernel: the plan, and its state on each device.
struct LAMINA_API BlockSection {
  std::shared_ptr<const TableWithLoops> table;
  BlockPlan plan;
  // Per stream: two streams may run the section at once, and counters belong to one launch.
  struct OnDevice {
    Stream stream;
    int ring = 0;               // places for pieces of weights that the device's shared memory has
    void* program = nullptr;    // plan.bytes
    uint32_t* state = nullptr;  // counters, number of blocks that have ended, the abort word, where the next launch continues; numbers
                                // handed from block to block
    size_t state_bytes = 0;
    char** windows = nullptr;  // addresses of RankMemory
    size_t windows_bytes = 0;
    void* rings = nullptr;  // of the plan's infeed; and the stream that fills them
    Stream infeed_stream;
  };
  std::shared_ptr<RankMemory> ranks;  // if it has sums over ranks
  mutable uint32_t launches = 0;      // of such a section
  mutable Mutex mutex;
  mutable std::vector<OnDevice> copies;
  BlockSection() = default;
  BlockSection(const BlockSection&) = delete;
  ~BlockSection();
};
// Runs a BlockSection on GPU devices. The CUDA build's kernel registers it at program start.
struct BlockRunner {
  void (*run)(const KernelCall&) = nullptr;
  int (*resident_blocks)(Device device) = nullptr;  // blocks that this card can hold at once; 0: it cannot run sections
};
LAMINA_API void set_block_runner(const BlockRunner* runner);
LAMINA_API const BlockRunner* block_runner();  // null if there is none

}  // namespace lamina::section
