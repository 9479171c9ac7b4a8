// data_parallel by rows: turns the graph of a whole batch into that of one rank, which has some rows of it. Graph -> Graph.
//
// Each value is whole on every rank, or cut along an axis into the ranks' rows (ir::Cut); each op's rule (OpDef::rows) says how it goes on.
// A batch is cut into `shards` parts, part_of(rows, shards, i); a rank has neighbouring ones. What adds up rows makes a leaf per shard. A
// fixed tree adds the leaves, so that the bits do not depend on the number of ranks: each rank as far as its own go, all_reduce the rest.
// What mixes rows otherwise gets them gathered. Sums that nothing needs yet travel together, in buckets.
#pragma once
#include "graph/passes/passes.h"

namespace lamina::passes {

inline constexpr int64_t kBucketBytes = 1 << 20;

struct RowsRequest {
  int64_t rows = 1, shards = 8;  // of the whole batch
  int64_t ranks = 1, rank = 0;
  std::vector<Device> devices = {};      // if given: there is a replica on each of them, in one graph, whose inputs and outputs are whole
  int64_t bucket_bytes = kBucketBytes;   // of a shard's sums that travel together; a larger one travels alone
  bool reproducible = true;              // false: the library adds the ranks' sums in its own order
  bool in_launch = false;                // small sums are exchanged within a section's launch: CollectiveAttrs::in_launch
  std::span<const ir::Cut> inputs = {};  // per input of the graph
};
// A node that mixes rows.
struct GatheredRows {
  std::string op, value;  // "sort", "f32[64,10]"
  SourceLine line;
};
struct RowsGraph {
  Graph graph;                   // inputs, outputs and resources in g's order
  std::vector<ir::Cut> outputs;  // per output, how it lies
  std::vector<GatheredRows> gathered;
};
// The graph must have concrete shapes. Throws invalid_argument for collectives in it.
LAMINA_API RowsGraph cut_rows(const Graph& g, const RowsRequest& request);

}  // namespace lamina::passes
