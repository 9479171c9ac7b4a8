// Where the values of sums over ranks lie. Each sum has a window on each rank: memory of the same layout, that all ranks read. Launches
// write one of its two buffers by turns. Two are enough: a rank writes a buffer again in launch n + 2, behind its launch n + 1, which has
// collected what each other rank announced in its own launch n + 1, behind its reads in launch n. A launch that stops early collects
// nothing, and is this section's last one that announces.
//
// No rank waits for ever: values have one order on all ranks, and no rank needs to collect a value, or a later one, before it announces
// it. Of the values for which ranks wait, all have announced the first one.
#pragma once
#include <span>
#include <vector>

#include "kernels/section/block_table.h"

namespace lamina::section {

struct Flat;

// Of the values of all sums, in order.
struct WindowLayout {
  std::vector<BlockSum> values;
  std::vector<BlockRoot> roots;
  std::vector<int64_t> bytes;  // per sum: of a window
};
// Why the steps are not those of the sums; null if they are. repeats: runs inside of loops.
// announced_by: per value, the step.
const char* why_not_sums(std::span<const BlockStep> steps, const std::vector<RankSum>& sums, const std::vector<bool>& repeats,
                         std::vector<int>& announced_by);
LAMINA_API WindowLayout layout_of(const std::vector<RankSum>& sums);
// Throws invalid_argument where the steps announce more or fewer roots than this rank has.
LAMINA_API void require_roots(std::span<const BlockStep> steps, const std::vector<RankSum>& sums, int rank);
// Gradients that only their announcement reads go to the window at once, and an elementwise step that alone reads a collected value becomes
// a part of the collection, as an optimizer's update does.
void join_sums(Flat& flat);
constexpr int32_t chunks_of(int64_t elements) { return int32_t((elements + kSumChunk - 1) / kSumChunk); }

}  // namespace lamina::section
