#include "kernels/section/chains.h"

#include "kernels/section/access.h"

namespace lamina::section {
namespace {

// Of a block.
int most_rows(const BlockStep& s) {
  return s.partition == Partition::models || s.partition == Partition::one ? s.rows : (s.rows + s.blocks - 1) / s.blocks;
}
// Whether a block has all rows and models of the step at once.
bool is_one_pass(const BlockStep& s) {
  return most_rows(s) <= kMostRowsInPass && (s.partition != Partition::models || s.replicas <= s.blocks);
}

int width_before(const BlockStep& s) { return s.kind == StepKind::dense ? s.k : s.n; }
bool is_empty(const BlockStep& s) { return s.n == 0 || (is_product(s.kind) && s.k == 0); }

// Whether the first input of `next` is the result of `last`.
bool continues(const Flat& flat, const BlockStep& last, const BlockStep& next) {
  const Operand &out = flat.table.operands[size_t(last.first_out)], &in = flat.table.operands[size_t(next.first_in)];
  const FlatBuffer &given = flat.buffers[size_t(out.buffer)], &taken = flat.buffers[size_t(in.buffer)];
  return given.range.space == taken.range.space && given.first == taken.first && given.mover == taken.mover &&
         out.model_stride == in.model_stride && width_behind(last) == width_before(next);
}

// A wait in the middle of a chain is for steps before the chain: they do not depend on it.
bool waits_only_for_before(const Flat& flat, const BlockStep* steps, const BlockWait* waits, const BlockStep& s, int first) {
  for (int w = s.first_wait; w < s.first_wait + s.waits; ++w)
    for (size_t i = size_t(first); i < flat.table.steps.size(); ++i)
      if (steps[i].signal == waits[w].counter) return false;
  return true;
}

}  // namespace

LinkOf link_of(const Table& table, const Step& s) {
  using kernels::ScalarOp;
  if (is_product(s.kind)) return {LinkKind::product};
  if (s.kind == StepKind::dropout) return {LinkKind::dropout};
  if (s.kind != StepKind::elementwise || s.partition == Partition::tiles || s.code < 0) return {};
  const kernels::ElementwiseCode& code = table.codes[size_t(s.code)];
  if (code.instructions.size() != 1 || !code.constants.empty() || code.outputs.size() != 1 || code.inputs.empty() ||
      code.inputs.size() > 2 || code.outputs[0] != int(code.inputs.size()))
    return {};
  for (size_t i = 0; i < code.inputs.size(); ++i)
    if (code.inputs[i] != DType::f32 || table.operands[size_t(s.first_in) + i].broadcast != Broadcast::full) return {};
  const auto& op = code.instructions[0];
  if (op.type != DType::f32 || op.a != 0) return {};
  if (code.inputs.size() == 2 && op.b == 1) {
    if (op.op == ScalarOp::add) return {LinkKind::add};
    if (op.op == ScalarOp::mul) return {LinkKind::multiply};
  }
  for (const ActivationRow& row : kActivations) {
    if (row.parameter != Parameter::plain) continue;
    if (code.inputs.size() == 1 && op.op == row.op) return {LinkKind::activate, row.activation};
    if (code.inputs.size() == 2 && op.b == 1 && op.op == row.gradient) return {LinkKind::slope, row.activation};
  }
  return {};
}

bool hands_rows(const Flat& flat, const BlockStep& from, const BlockStep& to) {
  return from.link != LinkKind::none && is_product(to.kind) && from.partition == to.partition && from.partition != Partition::models &&
         from.rows == to.rows && from.blocks == to.blocks && from.run == to.run && from.first_block != to.first_block &&
         most_rows(to) <= kFewRowsInPass && !is_empty(from) && !is_empty(to) && width_before(to) <= kMostBlockWidth &&
         continues(flat, from, to);
}

const char* why_not_next(const Flat& flat, const BlockStep* steps, const BlockWait* waits, const std::vector<int>& chain, int number) {
  const BlockStep &first = steps[chain.front()], &last = steps[chain.back()], &next = steps[number];
  if (chain.size() >= size_t(kMostLinks)) return "the chain is full";
  if (first.link != LinkKind::product || next.link == LinkKind::none) return "it is no link";
  if (next.link == LinkKind::product && next.kind != first.kind) return "layers and gradients do not mix";
  if (next.partition != first.partition || next.first_block != first.first_block || next.blocks != first.blocks ||
      next.rows != first.rows || next.replicas != first.replicas || next.run != first.run)
    return "its rows are shared in another way";
  if (!waits_only_for_before(flat, steps, waits, next, chain.front())) return "it waits for what may wait for the chain";
  if (is_empty(last) || is_empty(next)) return "it is empty";

  if (!continues(flat, last, next)) return "its rows are not the result of the step before";

  std::vector<OperandRange> ranges;
  for (const FlatBuffer& b : flat.buffers) ranges.push_back(b.range);
  const bool one_pass = is_one_pass(next);
  std::vector<Access> of_earlier, of_next;
  accesses_of(flat.table, flat.table.steps[size_t(number)], of_next);
  for (int e : chain) {
    const Step& earlier = flat.table.steps[size_t(e)];
    accesses_of(flat.table, earlier, of_earlier);
    for (const Access& a : of_earlier)
      for (size_t i = 0; i < of_next.size(); ++i) {
        const Access& b = of_next[i];
        const FlatBuffer &x = flat.buffers[size_t(a.buffer)], &y = flat.buffers[size_t(b.buffer)];
        const bool meet_later = x.mover != y.mover && x.range.space == y.range.space;  // perhaps, in another iteration
        if (!meet_later && !overlap(ranges[size_t(a.buffer)], ranges[size_t(b.buffer)])) continue;
        if (a.write && !b.write && i > 0) return "it reads what the chain writes";
        if (b.write && !one_pass && (meet_later || conflict(earlier, a, flat.table.steps[size_t(number)], b, ranges)))
          return "it writes over rows that the chain still needs";
      }
  }
  return nullptr;
}

}  // namespace lamina::section
