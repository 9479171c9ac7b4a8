// The bytes that a block's part of a step touches: the addresses of kernels/cuda/section_*.h, recomputed from the plan's numbers.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/section/blocks.h"

namespace lamina::section {

struct BlockAccess {
  int operand = 0;             // into the plan's operands
  int64_t begin = 0, end = 0;  // bytes from the operand's start
  bool write = false;
  bool ahead = false;   // read at any time after the step's chain began
  bool shared = false;  // the step's blocks alternate in these bytes, element by element
};

// The parts of a plan that are needed for it.
struct BlockPlaces {
  const BlockOperand* operands = nullptr;
  const BlockCopy* copies = nullptr;
  const int32_t* codes = nullptr;
};

// Not for turns. Empty parts touch nothing.
void accesses_of(const BlockPlaces& places, const BlockStep& step, int block, std::vector<BlockAccess>& out);

}  // namespace lamina::section
