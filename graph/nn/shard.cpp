#include "graph/nn/shard.h"

#include "graph/frontend/factories.h"
#include "runtime/dist/world.h"

namespace lamina::distributed {

data::Dataset shard(const data::Dataset& batches, int64_t shards) {
  const Communicator& c = current();
  const int ranks = c.size(), rank = c.rank();
  if (shards < 1 || shards > kMostShards || ranks > shards)
    throw Error(ErrorKind::invalid_argument, {.what = cat("shard: ", ranks, ranks == 1 ? " rank and " : " ranks and ", shards, " shards"),
                                              .where = "",
                                              .why = cat("each rank has at least one shard of a batch, and there are 1 to ", kMostShards),
                                              .fix = "pass at least as many shards as there are ranks"});
  return batches.map([=](const data::Element& batch, int64_t) {
    data::Element out;
    for (const Tensor& t : batch) {
      if (t.rank() == 0 || t.shape()[0] != batch[0].shape()[0])
        throw Error(ErrorKind::invalid_argument, {.what = cat("shard: ", t.type(), " beside ", batch[0].type()),
                                                  .where = "",
                                                  .why = "a batch is cut along the first axis of all its tensors, which have as many rows",
                                                  .fix = "batch the dataset first: shard(data.batch(1024))"});
      TensorType type = t.type();
      const int64_t rows = type.shape[0].number(), bytes = rows ? byte_size(type) / rows : 0;
      const Range own = rows_of_rank(rows, shards, ranks, rank);
      type.shape[0] = own.size();
      out.push_back(constant(static_cast<const char*>(t.data()) + own.begin * bytes, type));
    }
    return out;
  });
}

}  // namespace lamina::distributed
