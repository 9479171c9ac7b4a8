#include "graph/ops/section_step.h"

#include <limits>

#include "runtime/core/config.h"

namespace lamina::ops {

bool is_section_matrix(const TensorType& type) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  return type.dtype == DType::f32 && type.rank() == 2 && type.shape[0].number() <= most && type.shape[1].number() <= most;
}

bool is_section_stack(const TensorType& type) {
  return type.rank() == 3 && type.shape[0].number() <= std::numeric_limits<int32_t>::max() &&
         is_section_matrix({type.dtype, {type.shape[1], type.shape[2]}}) &&
         type.shape[1].number() * type.shape[2].number() <= std::numeric_limits<int32_t>::max();
}

bool is_step_matrix(const TensorType& type) { return is_section_matrix(type) || is_section_stack(type); }

bool pays_by_models(const section::Step& product) {
  constexpr double kSmallModel = 4e6;  // flops
  return product.replicas >= config::threads() || 2.0 * product.rows * product.k * product.n <= kSmallModel;
}

int32_t model_stride(const TensorType& type, size_t rank_without_models, int64_t models) {
  if (type.rank() != rank_without_models + 1 || type.shape[0].number() != models || models == 0) return 0;
  return int32_t(size_of(type.shape).number() / models);
}

void set_models(ir::SectionStep& out, const ir::KernelRequest& request, std::span<const size_t> ranks) {
  for (size_t i = 0; i < ranks.size(); ++i)
    out.operands[i].model_stride =
        model_stride(i < request.in.size() ? request.in[i] : request.out[i - request.in.size()], ranks[i], out.step.replicas);
}

void set_step(ir::SectionStep& out, section::StepKind kind, section::Partition partition, const TensorType& matrix,
              std::initializer_list<section::Broadcast> ins, std::initializer_list<section::Broadcast> outs) {
  section::Step& s = out.step;
  s.kind = kind;
  s.partition = partition;
  const size_t first = matrix.rank() - 2;
  s.rows = int32_t(matrix.shape[first].number());
  s.n = int32_t(matrix.shape[first + 1].number());
  if (first == 1) s.replicas = int32_t(matrix.shape[0].number()), s.partition = section::Partition::models;
  s.ins = s.first_out = int32_t(ins.size());
  s.outs = int32_t(outs.size());
  int32_t buffer = 0;
  for (auto broadcasts : {ins, outs})
    for (section::Broadcast b : broadcasts) out.operands.push_back({buffer++, b});
}

bool set_parts(ir::SectionStep& out, std::vector<ir::SectionStep::Part> parts, const TensorType& result) {
  const int64_t size = size_of(result.shape).number();
  if (size > std::numeric_limits<int32_t>::max()) return false;
  section::Step& s = out.step;
  s.kind = section::StepKind::copy;
  s.rows = 1, s.n = int32_t(size);
  s.ins = s.first_out = int32_t(parts.size());
  s.outs = 1 + s.ins;
  for (int32_t i = 0; i < s.ins + s.outs; ++i) out.operands.push_back({.buffer = i});
  out.parts = std::move(parts);
  return true;
}

Kernel kernel_of(ir::SectionStep step) {
  auto table = std::make_shared<section::Table>();
  table->steps = {step.step};
  table->operands = std::move(step.operands);
  table->codes = std::move(step.codes);
  table->flops = step.flops;
  table->threads = config::threads();
  return {kernels::cpu::run_section, std::move(table)};
}

}  // namespace lamina::ops
