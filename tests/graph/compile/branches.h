// Graphs with independent branches, and a check of a Program's ordering.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "graph/ops/image.h"
#include "graph/ops/ops.h"
#include "kernels/section/table.h"
#include "runtime/core/error.h"
#include "runtime/exec/program.h"

namespace lamina::tests {

// Two branches of two convolutions each, added together. Each convolution has 29 M multiply-adds at the default size.
inline ir::Graph two_branches(int64_t images = 1, int64_t side = 28, int64_t channels = 64) {
  ir::Graph g;
  const ir::Value x = g.add_input({DType::f32, {images, side, side, channels}});
  ops::Conv2dAttrs same;
  same.padding = ops::Padding::same;
  const auto branch = [&] {
    ir::Value y = x;
    for (int layer = 0; layer < 2; ++layer) y = ops::conv2d(g, y, g.add_input({DType::f32, {3, 3, channels, channels}}), same);
    return y;
  };
  const ir::Value a = branch(), b = branch();
  g.outputs = {ops::add(g, a, b)};
  return g;
}

// Per instruction: whether streams and events alone guarantee that each earlier one has ended when it starts.
inline std::vector<std::vector<bool>> order_of(const exec::Program& p) {
  std::vector<std::vector<bool>> ended(p.instructions.size(), std::vector<bool>(p.instructions.size()));
  for (size_t i = 0; i < p.instructions.size(); ++i) {
    const exec::Instruction& it = p.instructions[i];
    for (size_t j = 0; j < i; ++j) {
      const exec::Instruction& other = p.instructions[j];
      if (other.stream != it.stream && std::find(it.wait_for.begin(), it.wait_for.end(), other.signal) == it.wait_for.end()) continue;
      ended[i][j] = true;
      for (size_t k = 0; k < j; ++k) ended[i][k] = ended[i][k] || ended[j][k];
    }
  }
  return ended;
}

// The first two instructions that may run concurrently although one writes what the other uses, or one is a section or loop and both are on
// one device; "" if there are none.
inline std::string what_is_unordered(const exec::Program& p) {
  const std::vector<std::vector<bool>> ended = order_of(p);
  const auto range = [&](int s) {
    const exec::Slot& slot = p.slots[size_t(s)];
    const exec::Storage& storage = p.storages[size_t(slot.storage)];
    const bool arena = storage.kind == exec::StorageKind::arena;
    return section::range_of(slot.view, arena ? -1 - storage.index : slot.storage, slot.offset + (arena ? storage.offset : 0));
  };
  const auto overlap = [&](const std::vector<int>& a, const std::vector<int>& b) {
    return std::any_of(a.begin(), a.end(), [&](int s) {
      const section::OperandRange one = range(s);
      return std::any_of(b.begin(), b.end(), [&](int t) {
        const section::OperandRange other = range(t);
        return one.space == other.space && one.begin < other.end && other.begin < one.end;
      });
    });
  };
  const auto alone = [](const exec::Instruction& i) {
    return i.section_steps > 0 || i.name == "cond" || i.name == "while_loop" || i.name == "scan" || i.name == "with_length";
  };
  const auto device = [&](const exec::Instruction& i) { return p.streams[size_t(i.stream)].device; };
  for (size_t i = 0; i < p.instructions.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const exec::Instruction &one = p.instructions[i], &other = p.instructions[j];
      if (ended[i][j]) continue;
      if (overlap(one.outputs, other.outputs) || overlap(one.outputs, other.inputs) || overlap(one.inputs, other.outputs))
        return cat(j, " ", other.name, " and ", i, " ", one.name, ": the same bytes");
      if ((alone(one) || alone(other)) && device(one) == device(other))
        return cat(j, " ", other.name, " and ", i, " ", one.name, "; a section or loop beside something");
    }
  return "";
}

}  // namespace lamina::tests
