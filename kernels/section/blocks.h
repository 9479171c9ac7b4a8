// How a GPU's blocks share a section: the table as flat numbers that a kernel walks, who does which step, and who waits for whom.
//
// Each step belongs to some blocks in a row, part i of it to the i-th. Steps shared by rows all belong to the first blocks, the "spine": a
// block runs its rows of the batch through the whole chain of layers and waits for nobody. Updates of weights belong to the other blocks,
// the "helpers", a few each. In a straight run of steps there are no barriers of the whole grid: a step waits for exactly those earlier
// steps, of other blocks, whose bytes it touches, by counters that their blocks raise. Blocks take their steps in the table's order, so no
// circle of waits can arise. The bodies of loops and branches lie in the same row (flatten.h): between runs of steps there are turns, which
// all blocks take alike, mostly behind a barrier of all of them.
//
// Where the GPU has clusters of blocks, the blocks of a section may instead be one cluster and share the layers ("stages"): a block's
// weights stay in its shared memory for the whole launch, and it makes all rows of the batch, which it hands to the next block's shared
// memory. Updates are taken as late as what comes after them allows: while other blocks have the batch.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/section/block_table.h"
#include "kernels/section/nested.h"
#include "runtime/core/mutex.h"
#include "runtime/core/view.h"
#include "runtime/device/kernel.h"
#include "runtime/device/recording.h"

namespace lamina::section {

// What a plan may use of a GPU.
struct BlockLimits {
  int blocks = 1;                     // all resident
  int cluster = 0;                    // blocks of the largest cluster, each with all of a block's shared memory; 0: there are none
  int64_t shared_bytes = 0;           // of a block
  std::optional<bool> clusters = {};  // whether sections are clusters where they can be; nothing: where a model says that it is faster
};

struct BlockPlan {
  BlockProgram program;
  std::vector<char> bytes;
  int spines = 0, helpers = 0;
  std::string why_no_cluster;    // "" of a cluster
  std::vector<BlockStep> steps;  // the same as in bytes, for who explains or checks the plan
  std::vector<BlockWait> waits;
  std::vector<BlockTurn> turns;
  std::vector<BlockResident> residents;
  std::vector<std::string> names;  // per step, for profilers
  struct Base {
    int buffer = -1;           // one that lies in it: an operand of the instruction
    int64_t offset = 0;        // and that one's offset
    char* constant = nullptr;  // of loops and branches, where there is no buffer
  };
  std::vector<Base> base_of;
  // Stacked operands that stay on the host (nested.h): the device has a ring of two chunks of each.
  struct Stack {
    int buffer = 0;
    int64_t slice = 0;  // bytes
    int64_t at = 0;     // of its ring in the memory of all of them
  };
  struct InfeedPlan {
    int32_t chunk = 0;  // slices; 0: there are none
    int64_t slices = 0;
    std::vector<Stack> stacks;
    int64_t bytes = 0;  // of the rings
  } infeed;
  bool tensor_cores = false;  // some product has another precision than float32: the section kernel that has them runs it
  bool may_be_long = false;   // loops may take longer than a launch should: it returns, and is launched again from where it was
};

// Why no block of a GPU can run this step, whose codes are among these, or null. Of a loop or branch: `nested` is what it does.
LAMINA_API const char* why_not_on_blocks(const std::vector<kernels::ElementwiseCode>& codes, const Step& step,
                                         const Nested* nested = nullptr);
// ranges and views (whose addresses do not matter): of the instruction's operands, as in the table; operands of one
// space keep their distances from launch to launch.
LAMINA_API BlockPlan plan_blocks(const TableWithLoops& table, const std::vector<OperandRange>& ranges, const std::vector<View>& views,
                                 const BlockLimits& limits);
LAMINA_API std::string print(const BlockPlan& plan);
// What the clock of a launch says (BlockClock), for each step that has run, in the table's order; began and ended are microseconds since
// the first block began.
LAMINA_API size_t clock_entries(const BlockPlan& plan);
LAMINA_API std::vector<profiler::DeviceStep> times_of_steps(const BlockPlan& plan, const std::vector<BlockClock>& clock);

// Arguments of the section kernel: the plan, and what each device keeps of it.
struct LAMINA_API BlockSection {
  std::shared_ptr<const TableWithLoops> table;
  BlockPlan plan;
  // Per stream: two streams may run the section at once, and counters belong to one launch.
  struct OnDevice {
    Stream stream;
    void* program = nullptr;    // plan.bytes
    uint32_t* state = nullptr;  // counters, how many blocks have ended, the abort word, and where the next launch goes on
    size_t state_bytes = 0;
    void* rings = nullptr;  // of the plan's infeed, and the stream on which they are filled
    Stream infeed_stream;
  };
  mutable Mutex mutex;
  mutable std::vector<OnDevice> copies;
  BlockSection() = default;
  BlockSection(const BlockSection&) = delete;
  ~BlockSection();
};
// What runs a BlockSection on gpu devices: the CUDA build's kernel says so as the program starts.
struct BlockRunner {
  void (*run)(const KernelCall&) = nullptr;
  int (*resident_blocks)(Device device) = nullptr;  // that this very card holds at once; 0: it cannot run sections
  // How many blocks, at most so many, this very card can have as one cluster, each with all of a block's shared memory; 0: none.
  int (*largest_cluster)(Device device, int most) = nullptr;
};
LAMINA_API void set_block_runner(const BlockRunner* runner);
LAMINA_API const BlockRunner* block_runner();  // null where there is none

}  // namespace lamina::section
