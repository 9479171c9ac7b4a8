// Mutation tests for the validator of block plans: one planner mistake at a time.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "kernels/section/flatten.h"

namespace lamina::tests {

// The parts of a plan's bytes that are changed and restored.
class PlanMutator {
 public:
  PlanMutator(section::BlockPlan plan, section::Flat flat);

  // A description of the mistake; empty if the plan has no place for one.
  std::string mutate(std::mt19937& random);
  const section::BlockPlan& plan() const { return plan_; }

  static const std::vector<std::string>& kinds();
  size_t kind = 0;  // of the last mutation

 private:
  std::string remove_wait(std::mt19937& random);
  std::string change_count(std::mt19937& random);
  std::string move_wait(std::mt19937& random);
  std::string retarget_wait(std::mt19937& random);
  std::string remove_arrival(std::mt19937& random);
  std::string move_arrival(std::mt19937& random);
  std::string swap_steps(std::mt19937& random);
  std::string move_slot(std::mt19937& random);
  std::string drop_meeting(std::mt19937& random);
  std::string change_chain(std::mt19937& random);
  std::string change_sum(std::mt19937& random);
  std::string bring_first(std::mt19937& random);
  std::string change_handing(std::mt19937& random);
  int pick_step(std::mt19937& random, bool (*good)(const section::BlockStep&)) const;
  void write();

  section::BlockPlan plan_;
  section::Flat flat_;
  std::vector<section::BlockStep> steps_;
  std::vector<std::vector<section::BlockWait>> waits_;  // per step
};

}  // namespace lamina::tests
