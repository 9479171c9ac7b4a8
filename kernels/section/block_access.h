// Which bytes a block's part of a step touches: what kernels/cuda/section_*.h address, from the plan's own numbers.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/section/blocks.h"

namespace lamina::section {

struct BlockAccess {
  int operand = 0;             // into the plan's operands
  int64_t begin = 0, end = 0;  // bytes from where the operand lies
  bool write = false;
  bool early = false;   // weights that are asked for as soon as the step's run begins
  bool shared = false;  // the step's blocks take turns in these bytes, element by element
};

// What of a plan says so.
struct BlockPlaces {
  const BlockOperand* operands = nullptr;
  const BlockCopy* copies = nullptr;
  const int32_t* codes = nullptr;
};

// Of a step that is no turn. Empty parts touch nothing.
void accesses_of(const BlockPlaces& places, const BlockStep& step, int block, std::vector<BlockAccess>& out);

}  // namespace lamina::section
