// A table with the bodies of its loops and branches in one row, for a GPU's blocks to walk. Between runs of ordinary steps there are turns
// (blocks.h):
//
//   scan          copies of the carried values | scan -> again | body | again -> body |
//   while_loop    copies | loop | condition | test -> meet | body | again -> condition | meet
//   branch        branch -> the other | what is done if true | leave -> meet | the other | meet
//
// An arrow is the turn's target. Buffers of a body lie in operands of the loop's, and move with its iterations where they are slices.
#pragma once
#include <string>
#include <vector>

#include "kernels/section/blocks.h"

namespace lamina::section {

// What an operand of the flat table names.
struct FlatBuffer {
  OperandRange range;  // in the first iteration
  int64_t first = 0;   // where the view's first element lies in its space
  View view;
  int mover = 0;
  char* constant = nullptr;  // where a constant begins, which has a space of its own
};

struct Flat {
  Table table;                      // without lines; ranges of operands are those of `buffers`
  std::vector<FlatBuffer> buffers;  // first those of the instruction
  std::vector<int> run_of;          // per step
  std::vector<std::string> names;   // per step, for profilers: "dense_1/dense train.py:9"; "" where it has none
  std::vector<int64_t> copied;      // per step: bytes, of copies of carried values; else 0
  std::vector<BlockTurn> turns;
  std::vector<BlockMover> movers;  // the first moves nothing
  std::vector<BlockTail> tails;
  BlockPlan::InfeedPlan infeed;
  int loops = 0;
};

LAMINA_API Flat flatten(const TableWithLoops& table, const std::vector<OperandRange>& ranges, const std::vector<View>& views);

// Throws an internal error where the plan does not give what the table means: where an operand lies elsewhere than in the table, two blocks
// touch the same bytes in no certain order or in the wrong one, or a wait is never met. It names steps, blocks and bytes. A wait that
// others imply may be absent.
LAMINA_API void validate(const BlockPlan& plan, const Flat& flat);

// How much of what a launch has few of the loop or branch takes.
struct Needs {
  int turns = 0, movers = 0, loops = 0, constants = 0;
  int64_t steps = 0;
  Needs& operator+=(const Needs& other);
};
LAMINA_API Needs needs_of(const Nested& nested);
// Why a section cannot have that much, or null.
LAMINA_API const char* why_too_much(const Needs& needs);

// An upper bound of the time that the table takes on a slow GPU; infinity where the number of iterations is known to nobody.
double most_seconds(const TableWithLoops& table);

}  // namespace lamina::section
