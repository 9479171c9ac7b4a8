// Sharing a section's layers among the blocks of a cluster: which block takes a step, and which weights stay in its shared memory.
#pragma once
#include <string>
#include <vector>

#include "kernels/section/access.h"
#include "kernels/section/flatten.h"

namespace lamina::section {

struct Stages {
  std::string why_not;  // the blocks are no cluster; the rest is empty then
  int count = 0;        // of blocks
  struct Home {
    int first_block = -1, blocks = 1;  // first_block -1: not decided here
    int resident = -1;                 // product: where its weights lie
    int renews = -1;                   // of residents
  };
  std::vector<Home> homes;  // per step
  struct Resident {
    int block = 0;
    BlockResident place;
  };
  std::vector<Resident> residents;  // by block
  int resident_floats = 0;          // of the block with most
};
Stages find_stages(const Flat& flat, const BlockLimits& limits);

// The model of the GPU by which a cluster is chosen, in cycles: a product of `rows` rows with [k, n] weights, resident or read from memory,
// on one block; its multiply-adds per cycle; from what one block does until another one sees it.
double product_cycles(Precision precision, double rows, int64_t k, int64_t n, bool resident);
double multiply_adds_per_cycle(Precision precision);
inline constexpr double kHandCycles = 350;

// The steps in an order that keeps what each of them reads and writes, with updates as late as that allows. Runs stay apart. accesses: per
// step.
std::vector<int> with_late_updates(const Flat& flat, const std::vector<std::vector<Access>>& accesses);

// Words of counters that a block of a cluster has room for.
inline constexpr int kMostWords = 256;

// Parts of updates' work that are worth a block each.
int64_t blocks_worth(const Step& s);
// What is shared by tiles because it has no rows of the batch: updates.
inline bool is_update(const Step& s) {
  return s.partition == Partition::tiles && (s.kind == StepKind::dense_update || s.kind == StepKind::elementwise);
}

}  // namespace lamina::section
