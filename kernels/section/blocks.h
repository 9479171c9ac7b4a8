// Plans how a GPU's blocks share a section: the table as flat numbers, which block runs which step, and which waits for which.
//
// Each step belongs to consecutive blocks; the i-th runs part i. Steps shared by rows belong to the first blocks, the "spines": each runs
// its rows of the batch through the layers, copies of slices and transposes inside of rows among them. Deep networks have several sets of
// spines, which relay the rows: each set has some layers, whose weights it brings before their rows come, and both the steps forward and
// their gradients. Where a set goes on from another, numbers are handed from block to block (BlockProgram); all else is ordered by waits.
// Weight updates belong to the other blocks, the "helpers", a few each. In a run of steps there are no grid-wide barriers: a step waits, by
// counters that blocks increment, only for earlier steps of other blocks whose bytes it touches. Blocks take steps in the table's order, so
// waits cannot form a cycle. Bodies of loops and branches are part of the same sequence (flatten.h): control-flow points between runs are
// called turns; all blocks take them alike, mostly after a barrier.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernels/section/block_table.h"
#include "kernels/section/nested.h"
#include "runtime/core/view.h"
#include "runtime/device/recording.h"

namespace lamina::section {

struct BlockPlan {
  BlockProgram program;
  std::vector<char> bytes;
  int spines = 0, sets = 1, helpers = 0;  // spines: of a set
  std::vector<BlockStep> steps;           // the same as in bytes, for explain() and checks
  std::vector<BlockWait> waits;
  std::vector<BlockTurn> turns;
  std::vector<std::string> names;  // per step, for profilers
  struct Base {
    int buffer = -1;           // an operand of the instruction inside it
    int64_t offset = 0;        // that operand's offset
    char* constant = nullptr;  // used if there is no operand: constants of loops and branches
  };
  std::vector<Base> base_of;
  // Stacked operands that stay on the host (nested.h). The device has a ring of two chunks for each.
  struct Stack {
    int buffer = 0;
    int64_t slice = 0;  // bytes
    int64_t at = 0;     // of its ring within the memory of all rings
  };
  struct InfeedPlan {
    int32_t chunk = 0;  // slices; 0: no stacks
    int64_t slices = 0;
    std::vector<Stack> stacks;
    int64_t bytes = 0;  // of the rings
  } infeed;
  std::vector<int64_t> windows;  // per sum over ranks: bytes
  bool may_be_long = false;      // loops may exceed a launch's time limit: the launch then returns and is continued by another one
};

// Why a GPU cannot run this step, whose programs are in `codes`; null if it can. For a loop or branch, `nested` is its content.
LAMINA_API const char* why_not_on_blocks(const std::vector<kernels::ElementwiseCode>& codes, const Step& step,
                                         const Nested* nested = nullptr);
// How many elements a thread of a reduction reads: one thread adds a column, a warp all else.
LAMINA_API int64_t serial_terms(const Step& step);
// How many blocks this update or sum over ranks justifies.
int64_t blocks_worth(const Step& step);
// ranges and views (without addresses): of the instruction's operands, as in the table. Operands in one space keep their relative positions
// in all launches. most_blocks: all of them must be resident.
LAMINA_API BlockPlan plan_blocks(const TableWithLoops& table, const std::vector<OperandRange>& ranges, const std::vector<View>& views,
                                 int most_blocks);
LAMINA_API std::string print(const BlockPlan& plan);
// The clock entries of a launch (BlockClock) for each step that ran, in the table's order; began and ended are microseconds since the first
// block began.
LAMINA_API size_t clock_entries(const BlockPlan& plan);
LAMINA_API std::vector<profiler::DeviceStep> times_of_steps(const BlockPlan& plan, const std::vector<BlockClock>& clock);

}  // namespace lamina::section
