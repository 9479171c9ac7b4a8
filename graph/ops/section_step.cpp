#include "graph/ops/section_step.h"

#include <limits>

#include "runtime/core/config.h"

namespace lamina::ops {

bool is_section_matrix(const TensorType& type) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  return type.dtype == DType::f32 && type.rank() == 2 && type.shape[0].number() <= most && type.shape[1].number() <= most;
}

void set_step(ir::SectionStep& out, section::StepKind kind, section::Partition partition, const TensorType& matrix,
              std::initializer_list<section::Broadcast> ins, std::initializer_list<section::Broadcast> outs) {
  section::Step& s = out.step;
  s.kind = kind;
  s.partition = partition;
  s.rows = int32_t(matrix.shape[0].number());
  s.n = int32_t(matrix.shape[1].number());
  s.ins = s.first_out = int32_t(ins.size());
  s.outs = int32_t(outs.size());
  int32_t buffer = 0;
  for (auto broadcasts : {ins, outs})
    for (section::Broadcast b : broadcasts) out.operands.push_back({buffer++, b});
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
