// Elementwise programs in the form that the section kernel runs (block_table.h).
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/elementwise.h"

namespace lamina::section {

// Why the kernel cannot interpret it; null if it can.
const char* why_not_on_blocks(const kernels::ElementwiseCode& code);
// Which of the compiled programs it is (block_table.h); a loss's gradient takes labels, the numbers of classes and probabilities.
LAMINA_API int8_t known(const kernels::ElementwiseCode& code);
void append_code(const kernels::ElementwiseCode& code, std::vector<int32_t>& to);

}  // namespace lamina::section
