// Elementwise programs in the form that the section kernel interprets (block_table.h).
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/elementwise.h"

namespace lamina::section {

// Why the kernel cannot interpret it; null if it can.
const char* why_not_on_blocks(const kernels::ElementwiseCode& code);
void append_code(const kernels::ElementwiseCode& code, std::vector<int32_t>& to);

}  // namespace lamina::section
