// The operands that a step reads and writes, for placing barriers and for validation.
#pragma once
#include <vector>

#include "kernels/section/table.h"

namespace lamina::section {

struct Access {
  int buffer = 0;
  bool write = false;
  // A `rows` step touches row i of this operand only for row i of the batch.
  bool by_rows = false;
  // A `models` step touches model i's part of this operand only for model i.
  bool by_models = false;
};

// In order: the inputs, then the outputs. The step's operands must exist.
void accesses_of(const Table& table, const Step& step, std::vector<Access>& out);

// Whether two operands share bytes.
bool overlap(const OperandRange& a, const OperandRange& b);
// Whether the two steps, run concurrently, could interfere through these accesses.
bool conflict(const Step& a, const Access& of_a, const Step& b, const Access& of_b, const std::vector<OperandRange>& ranges);

}  // namespace lamina::section
