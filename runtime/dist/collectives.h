// Collectives of host memory, or of devices' memory in stream order. Every rank calls the same ones in the same order. Each call first
// compares a header (op, dtype, count, shards, name) on all ranks; if they differ, every rank throws the same error of kind collective, and
// no data has moved.
#pragma once
#include "runtime/core/dtype.h"
#include "runtime/core/source_line.h"
#include "runtime/dist/place.h"
#include "runtime/dist/tree.h"

namespace lamina::distributed {

// What a call is about, for errors and records.
struct Subject {
  std::string_view tensor = "";
  std::string_view line = "";  // the user's
};

LAMINA_API void barrier(Communicator& c, Subject subject = {});
LAMINA_API void broadcast(const Place& at, DType dtype, void* data, int64_t count, int root, Subject subject = {});
// `all` has room for the `count` elements of every rank.
LAMINA_API void all_gather(const Place& at, DType dtype, const void* own, void* all, int64_t count, Subject subject = {});
// Sends and receives between some ranks; ranks without any call it with none. The lengths are compared, too.
LAMINA_API void send_receive(const Place& at, std::span<const Transfer> transfers, Subject subject = {});
// The last call of every rank: a rank that ends while others go on is an error on all.
LAMINA_API void end(Communicator& c);

// Sums in the fixed tree of tree.h: the same bits for any number of ranks up to `shards`. Half types are added in float32 and rounded once.
struct SumOf {
  DType dtype = DType::f32;
  int64_t count = 0;                // elements of a leaf
  int64_t shards = kDefaultShards;  // leaves of all ranks
  bool of_roots = false;            // a rank passes the sums of its roots_of() in place of its leaves
  bool reproducible = true;         // false: MPI or NCCL adds the ranks' sums of f32, f64 and half types, in its own order
};
// The leaves of rank r are part_of(shards, size, r).
LAMINA_API Range leaves_of(const Communicator& c, int64_t shards);
// `leaves`: this rank's, or its roots, one after the other. `result`: the sum, on every rank. They may not overlap.
LAMINA_API void all_reduce(const Place& at, const SumOf& sum, const void* leaves, void* result, Subject subject = {});
// For GPUs that sum by themselves (kernels/section/rank_sums.h): compares what they are about to launch, as all_reduce() does.
LAMINA_API void compare_sum(Communicator& c, const SumOf& sum, Subject subject = {});
// Memory of each rank that the others' kernels read: its addresses on all ranks. Empty, on all of them, where one cannot reach another
// one's memory. It lives as long as the joined devices.
LAMINA_API std::vector<char*> window(const Place& at, int64_t bytes, Subject subject = {});
// Whether each rank's GPU reads the memory of all others. All ranks call it together, and get the same.
LAMINA_API bool reach_memory(Communicator& c, Device device);
// Each rank gets its slice of the sum: part_of(count, size, rank).
LAMINA_API void reduce_scatter(const Place& at, const SumOf& sum, const void* leaves, void* slice, Subject subject = {});
// Each rank is one leaf.
LAMINA_API void all_reduce(const Place& at, DType dtype, const void* own, void* result, int64_t count, Subject subject = {});

}  // namespace lamina::distributed
