// Collectives of tensors between the ranks of a job, eager and traced, with gradients. Every rank calls the same ones in the same order,
// also inside loops and branches, which all ranks must take alike. Gradients are those of the sum of all ranks' targets.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/frontend/tensor.h"
#include "runtime/dist/world.h"

namespace lamina::distributed {

// The sum of all ranks' x, with the same bits on every rank. With `shards`, x stacks this rank's of that many arrays along its first axis
// (as many as part_of(shards, size(), rank())), and the sum has the same bits for any number of ranks up to `shards`.
LAMINA_API Tensor all_reduce(const Operand& x, std::optional<int64_t> shards = {}, const std::string& name = "");
// All ranks' x, stacked along a new first axis.
LAMINA_API Tensor all_gather(const Operand& x, const std::string& name = "");
// As all_reduce, of which each rank gets an equal part of the first axis.
LAMINA_API Tensor reduce_scatter(const Operand& x, std::optional<int64_t> shards = {}, const std::string& name = "");
// Rank root's x.
LAMINA_API Tensor broadcast(const Operand& x, int64_t root = 0, const std::string& name = "");
// routes: pairs of ranks, from and to, the same on every rank. The x that is sent to this rank, or zeros if none is.
LAMINA_API Tensor send_receive(const Operand& x, const std::vector<std::pair<int64_t, int64_t>>& routes, const std::string& name = "");

}  // namespace lamina::distributed
