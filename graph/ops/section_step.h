// Helpers of section hooks.
#pragma once
#include <initializer_list>
#include <span>

#include "graph/ir/op.h"

namespace lamina::ops {

// Whether a tensor is an f32 matrix, or a stack of one per model, of a size that a step can hold.
bool is_section_matrix(const TensorType& type);
bool is_section_stack(const TensorType& type);
bool is_step_matrix(const TensorType& type);  // one of the two
// Whether a product's models are shared by the threads, which take whole ones: not a few large models.
bool pays_by_models(const section::Step& product);
// Makes a step of this kind over the rows of matrix [rows, n]; its operands are the node's inputs, then results. A matrix [models, rows, n]
// makes a step shared by models; call set_models() to set each model's operands.
void set_step(ir::SectionStep& out, section::StepKind kind, section::Partition partition, const TensorType& matrix,
              std::initializer_list<section::Broadcast> ins, std::initializer_list<section::Broadcast> outs);
// ranks: per operand (inputs, then results) without the model axis. Operands with one more axis are split by model, the others shared.
void set_models(ir::SectionStep& out, const ir::KernelRequest& request, std::span<const size_t> ranks);
// Elements from one model's part of a tensor [models, ...] to the next one's; 0 without the axis.
int32_t model_stride(const TensorType& type, size_t rank_without_models, int64_t models);
// A copy of each input to a part of the result, of this type; the rest of the result is 0. False if it is too large for a step.
bool set_parts(ir::SectionStep& out, std::vector<ir::SectionStep::Part> parts, const TensorType& result);
// A kernel that runs this one step.
Kernel kernel_of(ir::SectionStep step);

}  // namespace lamina::ops
