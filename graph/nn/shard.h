// shard: this rank's rows of each batch, for data_parallel.
#pragma once
#include "graph/nn/dataset.h"
#include "runtime/dist/collectives.h"

namespace lamina::distributed {

// A batch is cut along the first axis of its tensors into `shards` parts, as even as possible; each rank has neighbouring ones, so that the
// same rows meet in the same sums for any number of ranks. A small last batch may leave a rank without rows. Every rank must iterate over
// the same batches: give shuffle() a seed. Throws invalid_argument for more ranks than shards; a pass does for tensors with different
// numbers of rows.
LAMINA_API data::Dataset shard(const data::Dataset& batches, int64_t shards = kDefaultShards);

}  // namespace lamina::distributed
