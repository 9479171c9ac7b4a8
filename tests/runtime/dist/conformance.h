// What every Communicator must do, as functions that all ranks run. The backends' tests run them: threads in lamina_tests, MPI in
// lamina_mpi_tests.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/dist/collectives.h"

namespace lamina::distributed::tests {

struct Case {
  const char* name;
  std::string (*run)(Communicator&);  // "" or what is wrong
};
std::span<const Case> conformance_cases();

// Leaf `number` of a sum, the same on every rank: floats of very different sizes, so that each order of additions has other bits.
std::vector<char> leaf(DType dtype, int64_t count, int64_t number);
// This rank's leaves, one after the other.
std::vector<char> own_leaves(const Communicator& c, DType dtype, int64_t count, int64_t shards);
// The sum in the fixed tree, by plain recursion over leaf numbers.
std::vector<char> expected_sum(DType dtype, int64_t count, int64_t shards);
// The sum of ranks' own sums in the order of ranks, as a library may compute it: `sums` are those of all ranks, one after the other.
std::vector<float> rank_order_sum(const Communicator& c, const std::vector<float>& sums, int64_t count);

}  // namespace lamina::distributed::tests
