// The parts of a block plan, from its own bytes: steps, waits, lists, chains, handed numbers. They lie in the plan, and are what the table
// says.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "kernels/section/block_access.h"
#include "kernels/section/flatten.h"
#include "runtime/core/error.h"

namespace lamina::section {

class PlanForm {
 protected:
  PlanForm(const BlockPlan& plan, const Flat& flat);  // throws if the plan has another form than the table

  [[noreturn]] static void fail(const std::string& why) { internal_error("a section's plan for blocks: " + why); }
  static void require(bool good, const std::string& why) {
    if (!good) fail(why);
  }
  std::string step_text(int i) const {
    return cat("step ", i, " (", table_.steps[size_t(i)].kind == StepKind::loop ? "a turn" : name(table_.steps[size_t(i)].kind), ")");
  }
  bool is_turn(int step) const { return table_.steps[size_t(step)].kind == StepKind::loop; }
  bool has(int block, int step) const {
    return block >= steps_[step].first_block && block < steps_[step].first_block + steps_[step].blocks;
  }

  const BlockPlan& plan_;
  const BlockProgram& p_;
  const Flat& flat_;
  const Table& table_;
  size_t count_ = 0;
  const BlockStep* steps_ = nullptr;
  const BlockOperand* operands_ = nullptr;
  const BlockWait* waits_ = nullptr;
  const int32_t *targets_ = nullptr, *starts_ = nullptr, *lists_ = nullptr;
  BlockPlaces places_;
  std::vector<BlockTurn> turns_;
  std::vector<int> turn_steps_;                // per turn
  std::vector<std::vector<int>> run_lists_;    // per block and run: its steps
  std::vector<std::vector<int>> raisers_;      // per counter: steps
  std::vector<int> arrivals_;                  // per counter, per execution of its run
  std::vector<bool> repeats_;                  // per run: whether it is inside a loop
  std::vector<int> announced_by_;              // per value of sums over ranks: a step
  std::vector<int> handed_by_, first_handed_;  // per step: whose numbers it takes; of those that it hands, the first part among all
  int parts_handed_ = 0;
  std::vector<int> chain_of_;  // per step: its chain's first, or -1

 private:
  template <class T>
  const T* table_at(int32_t at, size_t count, const char* what) const;
  void check_tables();
  void check_places() const;
  void check_step(size_t i) const;
  void check_counters();
  void check_sums();
  void check_list(int block);
  void check_chains(int block, const std::vector<int>& list);
  void check_handed();

  std::set<std::vector<int>> chains_;  // checked ones
};

}  // namespace lamina::section
