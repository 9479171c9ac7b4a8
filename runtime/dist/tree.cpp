#include "runtime/dist/tree.h"

#include <algorithm>

#include "kernels/leaves.h"

namespace lamina::distributed {
namespace {

// The smallest node that is larger than this one and contains it.
Range parent_of(Range node, int64_t shards) {
  for (int64_t width = 2;; width *= 2) {
    const int64_t begin = node.begin / width * width;
    const Range up{begin, std::min(begin + width, shards)};
    if (up.begin < node.begin || up.end > node.end) return up;
    if (width >= shards) return node;  // the whole tree
  }
}

}  // namespace

Range part_of(int64_t total, int64_t parts, int64_t index) {
  return {kernels::first_row_of_leaf(total, parts, index), kernels::first_row_of_leaf(total, parts, index + 1)};
}

Range rows_of_rank(int64_t rows, int64_t shards, int64_t ranks, int64_t rank) {
  const Range own = part_of(shards, ranks, rank);
  return {part_of(rows, shards, own.begin).begin, part_of(rows, shards, own.end - 1).end};
}

std::vector<Range> roots_of(Range leaves, int64_t shards) {
  std::vector<Range> out;
  for (int64_t at = leaves.begin; at < leaves.end;) {
    int64_t end = at + 1;
    for (int64_t width = 2; at % width == 0 && end < shards && std::min(at + width, shards) <= leaves.end; width *= 2)
      end = std::min(at + width, shards);
    out.push_back({at, end});
    at = end;
  }
  return out;
}

std::vector<uint8_t> joins_of(std::span<const Range> nodes, int64_t shards) {
  std::vector<uint8_t> out;
  std::vector<Range> stack;
  for (const Range& node : nodes) {
    stack.push_back(node);
    uint8_t joins = 0;
    while (stack.size() > 1) {
      const Range lower = stack[stack.size() - 2], upper = stack.back();
      const Range both{lower.begin, upper.end};
      if (parent_of(lower, shards) != both || parent_of(upper, shards) != both) break;
      stack.pop_back();
      stack.back() = both;
      ++joins;
    }
    out.push_back(joins);
  }
  return out;
}

}  // namespace lamina::distributed
