// Divides a section's layers among the blocks of a cluster: which block runs a step, and which weights stay in its shared memory.
#pragma once
#include <string>
#include <vector>

#include "kernels/section/access.h"
#include "kernels/section/flatten.h"

namespace lamina::section {

struct Stages {
  std::string why_not;  // why the blocks do not form a cluster; the rest is empty then
  int count = 0;        // number of blocks
  struct Home {
    int first_block = -1, blocks = 1;  // first_block -1: not decided here
    int resident = -1;                 // product: index of its weights in residents
    int renews = -1;                   // index into residents
  };
  std::vector<Home> homes;  // where each step runs
  struct Resident {
    int block = 0;
    BlockResident place;
  };
  std::vector<Resident> residents;  // per block
  int resident_floats = 0;          // maximum over blocks
};
Stages find_stages(const Flat& flat, const BlockLimits& limits);

// The cost model by which a cluster is chosen, in cycles: a product of `rows` rows with [k, n] weights, resident or read from memory, on
// one block; multiply-adds per cycle; latency from one block to another.
double product_cycles(Precision precision, double rows, int64_t k, int64_t n, bool resident);
double multiply_adds_per_cycle(Precision precision);
inline constexpr double kHandCycles = 350;

// Reorders the steps within each run so that updates come as late as dependences allow. accesses: per step.
std::vector<int> with_late_updates(const Flat& flat, const std::vector<std::vector<Access>>& accesses);

// Words for counters in each block of a cluster.
inline constexpr int kMostWords = 256;

// How many blocks this update justifies.
int64_t blocks_worth(const Step& s);
// Updates have no batch rows; they are shared by tiles.
inline bool is_update(const Step& s) {
  return s.partition == Partition::tiles && (s.kind == StepKind::dense_update || s.kind == StepKind::elementwise);
}

}  // namespace lamina::section
