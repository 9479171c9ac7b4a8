#include <algorithm>
#include <optional>
#include <set>

#include "kernels/section/access.h"
#include "kernels/section/block_codes.h"
#include "kernels/section/flatten.h"
#include "kernels/section/rank_sums.h"

namespace lamina::section {
namespace {

// The one step that reads what step `from` writes to this buffer, if nothing outside of the section does.
std::optional<size_t> only_reader(const Flat& flat, size_t from, int buffer) {
  const OperandRange& value = flat.buffers[size_t(buffer)].range;
  std::optional<size_t> found;
  std::vector<Access> accesses;
  for (size_t i = from + 1; i < flat.table.steps.size(); ++i) {
    accesses_of(flat.table, flat.table.steps[i], accesses);
    bool over = false, in_part = false;  // whether other values take its place
    for (const Access& a : accesses) {
      const OperandRange& other = flat.buffers[size_t(a.buffer)].range;
      if (!overlap(value, other)) continue;
      if (!a.write && (found || other.begin != value.begin || other.end != value.end)) return {};
      if (!a.write) found = i;
      if (a.write) (other.begin <= value.begin && other.end >= value.end ? over : in_part) = true;
    }
    if (over) return found;
    if (in_part) break;
  }
  return value.is_inner ? found : std::nullopt;
}

// The collection with that step's program, if a block can run it chunk by chunk. Its operands are added to the table.
std::optional<Step> joined(Flat& flat, const Step& collect, const Step& update) {
  Table& table = flat.table;
  if (update.kind != StepKind::elementwise || update.partition == Partition::models || int64_t(update.rows) * update.n != collect.n)
    return {};
  std::vector<Operand> operands;
  int input = -1;  // that is the collected value
  const OperandRange& value = flat.buffers[size_t(table.operands[size_t(collect.first_out)].buffer)].range;
  for (int i = 0; i < update.ins + update.outs; ++i) {
    Operand o = table.operands[size_t(i < update.ins ? update.first_in + i : update.first_out + i - update.ins)];
    if (update.rows == 1 && o.broadcast != Broadcast::full)
      o.broadcast = o.broadcast == Broadcast::row ? Broadcast::full : Broadcast::scalar;
    if (o.broadcast != Broadcast::full && o.broadcast != Broadcast::scalar) return {};
    if (i < update.ins && overlap(value, flat.buffers[size_t(o.buffer)].range)) input = i;
    operands.push_back(o);
  }
  const bool is_whole = operands[size_t(input)].broadcast == Broadcast::full || collect.n == 1;
  if (!is_whole || table.codes[size_t(update.code)].inputs[size_t(input)] != DType::f32) return {};
  // Input 0 of the program is the value.
  kernels::ElementwiseCode code = table.codes[size_t(update.code)];
  std::swap(code.inputs[0], code.inputs[size_t(input)]), std::swap(operands[0], operands[size_t(input)]);
  const auto renumber = [&](auto& number) {
    if (number == 0 || int(number) == input) number = std::remove_reference_t<decltype(number)>(input - number);
  };
  for (auto& instruction : code.instructions) {
    renumber(instruction.a);
    if (kernels::operands(instruction.op) > 1) renumber(instruction.b);
    if (kernels::operands(instruction.op) > 2) renumber(instruction.c);
  }
  for (auto& output : code.outputs) renumber(output);
  Step out = collect;
  out.code = int32_t(table.codes.size());
  out.first_in = int32_t(table.operands.size()), out.ins = update.ins - 1;
  out.first_out = out.first_in + out.ins, out.outs = update.outs;
  table.codes.push_back(std::move(code));
  table.operands.insert(table.operands.end(), operands.begin() + 1, operands.end());
  return out;
}

void erase(Flat& flat, const std::set<size_t, std::greater<>>& those) {
  for (const size_t i : those) {
    const auto at = ptrdiff_t(i);
    flat.table.steps.erase(flat.table.steps.begin() + at), flat.names.erase(flat.names.begin() + at);
    flat.run_of.erase(flat.run_of.begin() + at), flat.copied.erase(flat.copied.begin() + at);
    flat.announced.erase(flat.announced.begin() + at);
    for (BlockTurn& turn : flat.turns) turn.target -= turn.target > int(i);
  }
}

void join_updates(Flat& flat) {
  std::vector<Step>& steps = flat.table.steps;
  std::set<size_t, std::greater<>> joint;  // collections that are a part of a later step now
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind != StepKind::collect || steps[i].code >= 0) continue;
    const std::optional<size_t> update = only_reader(flat, i, flat.table.operands[size_t(steps[i].first_out)].buffer);
    if (!update || flat.run_of[*update] != flat.run_of[i]) continue;
    if (const std::optional<Step> both = joined(flat, steps[i], steps[*update])) steps[*update] = *both, joint.insert(i);
  }
  erase(flat, joint);
}

// Of updates all of whose results are gradients that are announced.
void join_announcements(Flat& flat) {
  std::vector<Step>& steps = flat.table.steps;
  std::set<size_t, std::greater<>> joint;
  for (size_t i = 0; i < steps.size(); ++i) {
    Step& update = steps[i];
    if (update.kind != StepKind::dense_update) continue;
    Flat::Announced announced;
    std::vector<size_t> by;
    for (int out = 0; out < update.outs; ++out) {
      const bool of_weights = out == 0 && update.code >= 0;
      const int buffer = flat.table.operands[size_t(update.first_out + out)].buffer;
      const std::optional<size_t> reader = only_reader(flat, i, buffer);
      if (known(flat.table.codes[size_t(of_weights ? update.code : update.code2)]) != kStored || !reader ||
          steps[*reader].kind != StepKind::announce || flat.run_of[*reader] != flat.run_of[i])
        break;
      (of_weights ? announced.weights : announced.bias) = steps[*reader].k;
      by.push_back(*reader);
    }
    if (update.outs == 0 || by.size() != size_t(update.outs)) continue;
    flat.announced[i] = announced, update.outs = 0;
    joint.insert(by.begin(), by.end());
  }
  erase(flat, joint);
}

}  // namespace

void join_sums(Flat& flat) {
  join_updates(flat);
  join_announcements(flat);
}

}  // namespace lamina::section
