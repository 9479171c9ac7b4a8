// Flattens a table: bodies of loops and branches become part of one sequence of steps, for a GPU's blocks to walk. Between runs of ordinary
// steps there are turns (control-flow steps, blocks.h):
//
//   scan          copies of the carried values | scan -> again | body | again -> body |
//   while_loop    copies | loop | condition | test -> meet | body | again -> condition | meet
//   branch        branch -> the other | what is done if true | leave -> meet | the other | meet
//
// An arrow shows the turn's target. Buffers of a body are inside operands of the loop, and move with its iterations if they are slices.
#pragma once
#include <string>
#include <vector>

#include "kernels/section/blocks.h"

namespace lamina::section {

// The memory behind an operand of the flat table.
struct FlatBuffer {
  OperandRange range;  // in the first iteration
  int64_t first = 0;   // offset of the view's first element in its space
  View view;
  int mover = 0;
  char* constant = nullptr;  // address of a constant, which has a space of its own
};

struct Flat {
  Table table;                      // without source lines; its operands are numbered as `buffers`
  std::vector<FlatBuffer> buffers;  // those of the instruction first
  std::vector<int> run_of;          // per step
  std::vector<std::string> names;   // per step, for profilers: "dense_1/dense train.py:9"; or ""
  std::vector<int64_t> copied;      // per step: bytes, for copies of carried values; else 0
  struct Announced {
    int32_t weights = -1, bias = -1;
  };
  std::vector<Announced> announced;  // per step: values of sums over ranks that an update's results are; then it has no other results
  std::vector<BlockTurn> turns;
  std::vector<BlockMover> movers;  // the first one moves nothing
  std::vector<BlockTail> tails;
  BlockPlan::InfeedPlan infeed;
  int loops = 0;
};

LAMINA_API Flat flatten(const TableWithLoops& table, const std::vector<OperandRange>& ranges, const std::vector<View>& views);

// Throws an internal error, with steps, blocks and bytes, when the plan contradicts the table: an operand is at another address, two blocks
// touch the same bytes unordered or in the wrong order, or a wait is never satisfied. Waits implied by others may be missing.
LAMINA_API void validate(const BlockPlan& plan, const Flat& flat);

// The limited resources of a launch that the loop or branch takes.
struct Needs {
  int turns = 0, movers = 0, loops = 0, constants = 0;
  int64_t steps = 0;
  Needs& operator+=(const Needs& other);
};
LAMINA_API Needs needs_of(const Nested& nested);
// Why a section cannot have that much; null if it can.
LAMINA_API const char* why_too_much(const Needs& needs);

// An upper bound of the table's run time on a slow GPU; infinity if the number of iterations is unknown.
double most_seconds(const TableWithLoops& table);

}  // namespace lamina::section
