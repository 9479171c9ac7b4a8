#include "kernels/section/blocks.h"
#include "runtime/core/error.h"

namespace lamina::section {
namespace {
const char* name(Turn turn) {
  switch (turn) {
    case Turn::scan: return "scan";
    case Turn::loop: return "while_loop";
    case Turn::test: return "test";
    case Turn::again: return "again";
    case Turn::branch: return "branch";
    case Turn::leave: return "leave";
    case Turn::meet: break;
  }
  return "meet";
}
bool has_code(const BlockStep& s) {
  return s.kind == StepKind::elementwise || s.kind == StepKind::dense_update || (s.kind == StepKind::collect && s.code >= 0);
}
// Which program computes the step's elements; an update's bias has the same.
const char* how(const BlockStep& s) {
  const bool of_bias = s.code < 0;
  if ((of_bias ? s.descent2 : s.descent) >= 0) return "gradient descent";
  if (s.known == kLossGradient) return "the loss's gradient";
  const int8_t known = of_bias ? s.known2 : s.known;
  if (known == kStored) return "no program: the gradient is the result";
  return known == kInterpreted ? "an interpreted program" : kernels::known::kCodes[known].name;
}
}  // namespace

std::string print(const BlockPlan& plan) {
  std::string out = cat(plan.program.blocks, " blocks");
  out += cat(": ", plan.spines, " take rows, ");
  if (plan.sets > 1) out += cat("and so many take them over in each of ", plan.sets - 1, " relays, ");
  out += cat(plan.helpers, " update weights; ");
  out += cat(plan.program.counters, " counters, ", plan.waits.size(), " waits");
  if (plan.infeed.chunk > 0) out += cat("; slices from the host come through rings of ", plan.infeed.bytes, " bytes");
  out += plan.windows.empty() ? "; run by section_kernel" : "; run by section_kernel_of_ranks";  // as a profiler shows it
  if (!plan.turns.empty())
    out += cat("; ", plan.program.loops, " loops, ", plan.turns.size(), " turns",
               plan.may_be_long ? ", launched again after each 100 ms" : "");
  out += '\n';
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const BlockStep& s = plan.steps[i];
    if (s.kind == StepKind::loop) {
      const BlockTurn& turn = plan.turns[size_t(s.code)];
      out += cat("  ", i, ' ', name(turn.turn));
      if (turn.loop >= 0) out += cat(" loop ", turn.loop);
      if (turn.limit >= 0) out += cat(turn.operand >= 0 || turn.turn == Turn::loop ? ", at most " : ", ", turn.limit, " iterations");
      if (turn.target >= 0) out += cat(" -> ", turn.target);
      if (turn.infeed) out += cat(" | waits for the host each ", plan.infeed.chunk, " iterations");
      out += turn.barrier ? " | all blocks meet\n" : "\n";
      continue;
    }
    out += cat("  ", i, " ", name(s.kind), " blocks ", s.first_block, "..", s.first_block + s.blocks - 1);
    if (is_of_ranks(s.kind)) out += cat(s.kind == StepKind::announce ? " to" : " from", " all ranks: value ", s.k);
    if (s.announces >= 0 || s.announces2 >= 0) {
      out += " to all ranks: value";
      for (const int value : {s.announces, s.announces2})
        if (value >= 0) out += cat(' ', value);
    }
    if (s.neighbours > 1) out += cat(", of which ", s.neighbours, " share the same ", s.partition == Partition::models ? "leaf" : "rows");
    if (s.chain > 1) out += cat(" in one chain with the next ", s.chain - 1);
    if (has_code(s) && s.link == LinkKind::none) out += cat(" by ", how(s));
    if (s.takes >= 0) out += " with rows from other blocks";
    if (s.hands >= 0) out += " hands its rows on";
    if (s.early) out += " whose weights come first";
    if (s.signal >= 0) out += cat(" raises ", s.signal);
    for (int w = 0; w < s.waits; ++w)
      out += cat(w ? ", " : " waits for ", plan.waits[size_t(s.first_wait + w)].counter, "=", plan.waits[size_t(s.first_wait + w)].until);
    out += '\n';
  }
  return out;
}

}  // namespace lamina::section
