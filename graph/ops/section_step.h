// What the section hooks of several ops have in common.
#pragma once
#include <initializer_list>
#include <span>

#include "graph/ir/op.h"

namespace lamina::ops {

// Whether a tensor is an f32 matrix of a size that a step can hold; or a matrix for each model of an ensemble.
bool is_section_matrix(const TensorType& type);
bool is_section_stack(const TensorType& type);
// Fills a step of this kind over the rows of matrix [rows, n] whose operands are the node's: inputs, then results. Of matrices [models,
// rows, n] the step is shared by models; set_models() then says where each model's operands are.
void set_step(ir::SectionStep& out, section::StepKind kind, section::Partition partition, const TensorType& matrix,
              std::initializer_list<section::Broadcast> ins, std::initializer_list<section::Broadcast> outs);
// ranks: of each operand (inputs, then results) without the model axis. Operands that have it are taken apart, the others shared.
void set_models(ir::SectionStep& out, const ir::KernelRequest& request, std::span<const size_t> ranks);
// From one model's part of a tensor [models, ...] to the next one's; 0 for a tensor without the axis.
int32_t model_stride(const TensorType& type, size_t rank_without_models, int64_t models);
// A kernel that runs this one step.
Kernel kernel_of(ir::SectionStep step);

}  // namespace lamina::ops
