// The fixed tree of sums. A sum has `shards` leaves, numbered from 0; each rank has a contiguous range of them. The tree over leaf numbers
// depends on `shards` alone, so the sum has the same bits for any number of ranks.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/core/export.h"

namespace lamina::distributed {

constexpr int kDefaultShards = 8, kMostShards = 1 << 16;

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// Part `index` of 0 to total, cut into `parts` as evenly as possible; the first ones are the longer ones.
LAMINA_API Range part_of(int64_t total, int64_t parts, int64_t index);

// A rank's rows of a batch. The batch is cut into `shards` parts; a rank has the neighbouring ones part_of(shards, ranks, rank).
LAMINA_API Range rows_of_rank(int64_t rows, int64_t shards, int64_t ranks, int64_t rank);

// The tree's nodes are the ranges [k 2^j, (k+1) 2^j), cut off at `shards`. The fewest nodes that cover a range of leaves, in order: their
// sums are what a rank sends.
LAMINA_API std::vector<Range> roots_of(Range leaves, int64_t shards);

// How to add nodes that cover the children of one node, in order: after node i has been pushed on a stack, its two uppermost entries are
// replaced by their sum joins[i] times.
LAMINA_API std::vector<uint8_t> joins_of(std::span<const Range> nodes, int64_t shards);

}  // namespace lamina::distributed
