// What the section hooks of several ops have in common.
#pragma once
#include <initializer_list>

#include "graph/ir/op.h"

namespace lamina::ops {

// Whether a tensor is an f32 matrix of a size that a step can hold.
bool is_section_matrix(const TensorType& type);
// Fills a step of this kind over the rows of matrix [rows, n] whose operands are the node's: inputs, then results.
void set_step(ir::SectionStep& out, section::StepKind kind, section::Partition partition, const TensorType& matrix,
              std::initializer_list<section::Broadcast> ins, std::initializer_list<section::Broadcast> outs);
// A kernel that runs this one step.
Kernel kernel_of(ir::SectionStep step);

}  // namespace lamina::ops
