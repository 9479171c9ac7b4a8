#include "kernels/section/chains.h"

#include "kernels/section/access.h"

namespace lamina::section {
namespace {

// Whether a block has all rows and models of the step at once.
bool is_one_pass(const BlockStep& s) {
  const bool by_models = s.partition == Partition::models;
  const int rows = by_models || s.partition == Partition::one ? s.rows : (s.rows + s.blocks - 1) / s.blocks;
  return rows <= kMostRowsInPass && (!by_models || s.replicas <= s.blocks);
}

}  // namespace

const char* why_not_next(const Flat& flat, const BlockStep* steps, const std::vector<int>& chain, int product) {
  const BlockStep &first = steps[chain.front()], &last = steps[chain.back()], &next = steps[product];
  if (chain.size() >= size_t(kMostLinks)) return "the chain is full";
  if (next.kind != first.kind) return "layers and gradients do not mix";
  if (next.partition != first.partition || next.first_block != first.first_block || next.blocks != first.blocks ||
      next.rows != first.rows || next.replicas != first.replicas || next.run != first.run)
    return "its rows are shared in another way";
  if (next.waits > 0) return "it waits for other blocks";
  if (last.k == 0 || last.n == 0 || next.k == 0 || next.n == 0) return "it is empty";

  const auto operand = [&](int i) -> const Operand& { return flat.table.operands[size_t(i)]; };
  const auto buffer = [&](int i) -> const FlatBuffer& { return flat.buffers[size_t(operand(i).buffer)]; };
  const FlatBuffer &given = buffer(last.first_out), &taken = buffer(next.first_in);
  if (given.range.space != taken.range.space || given.first != taken.first || given.mover != taken.mover ||
      operand(last.first_out).model_stride != operand(next.first_in).model_stride ||
      (last.kind == StepKind::dense ? last.n : last.k) != (next.kind == StepKind::dense ? next.k : next.n))
    return "its rows are not the result of the product before";

  std::vector<OperandRange> ranges;
  for (const FlatBuffer& b : flat.buffers) ranges.push_back(b.range);
  const bool one_pass = is_one_pass(next);
  std::vector<Access> of_earlier, of_next;
  accesses_of(flat.table, flat.table.steps[size_t(product)], of_next);
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
        if (b.write && !one_pass && (meet_later || conflict(earlier, a, flat.table.steps[size_t(product)], b, ranges)))
          return "it writes over rows that the chain still needs";
      }
  }
  return nullptr;
}

}  // namespace lamina::section
