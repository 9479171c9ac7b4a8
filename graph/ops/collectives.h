// Collectives: all_reduce, all_gather, reduce_scatter, broadcast_from and send_receive between the ranks of a job. Part of ops.h.
//
// They have Effect::ranks: every pass keeps them, and their order, also in regions. Their kernels run on the rank that the calling
// thread is (runtime/dist/world.h): in host memory, or between the ranks' GPUs (Place::of). Gradients are those of the sum of all ranks'
// targets.
#pragma once
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "kernels/section/block_section.h"

namespace lamina::ops {

struct CollectiveAttrs {
  int64_t ranks = 1;            // of the job that the graph is for; kernels refuse another number
  int64_t rank = 0;             // of broadcast_from: this one
  int64_t shards = 1;           // of sums: leaves of all ranks
  int64_t root = 0;             // of broadcast_from
  std::vector<int64_t> routes;  // of send_receive: pairs of ranks, from and to
  std::string name;             // compared by the ranks
  bool reproducible = true;     // of all_reduce; false: the library's order of additions
  bool of_rows = false;         // made for data_parallel: gradients were taken before, and leaves added up to the rank's roots
  bool leaves = false;          // of rows: leaves were not added up
  bool in_launch = false;       // of rows: the ranks' GPUs reach each other's memory, and exchange small sums within a section's launch
  static constexpr auto fields =
      std::tuple{ir::field("ranks", &CollectiveAttrs::ranks),         ir::field("rank", &CollectiveAttrs::rank),
                 ir::field("shards", &CollectiveAttrs::shards),       ir::field("root", &CollectiveAttrs::root),
                 ir::field("routes", &CollectiveAttrs::routes),       ir::field("name", &CollectiveAttrs::name),
                 ir::field("of_rows", &CollectiveAttrs::of_rows),     ir::field("reproducible", &CollectiveAttrs::reproducible),
                 ir::field("in_launch", &CollectiveAttrs::in_launch), ir::field("leaves", &CollectiveAttrs::leaves)};
};

// Sums in the fixed tree of runtime/dist/tree.h. Each input [l,...] stacks this rank's l leaves; with of_rows and without `leaves`, its
// roots. Result i [...] is the sum of all ranks' leaves of input i. All inputs have one dtype and travel together.
std::vector<ir::Value> all_reduce(ir::Graph& g, std::vector<ir::Value> leaves, CollectiveAttrs attrs);
// [...] -> [ranks,...].
ir::Value all_gather(ir::Graph& g, ir::Value x, CollectiveAttrs attrs);
// [l,n,...] -> [n / ranks,...]: this rank's part of the sum of all leaves.
ir::Value reduce_scatter(ir::Graph& g, ir::Value leaves, CollectiveAttrs attrs);
// The value of rank `root`, of the same type on all ranks.
ir::Value broadcast_from(ir::Graph& g, ir::Value x, CollectiveAttrs attrs);
// What another rank sends to this one by `routes`; zeros where none does. A rank sends to at most one and receives from at most one.
ir::Value send_receive(ir::Graph& g, ir::Value x, CollectiveAttrs attrs);

// The windows of a section's sums, made at its first launch.
std::shared_ptr<section::RankMemory> memory_of(const std::vector<section::RankSum>& sums);

}  // namespace lamina::ops
