// A ConcreteFunction's plan: one Program for one set of lengths. Internal to this folder.
#pragma once
#include <atomic>
#include <vector>

#include "graph/frontend/concrete_function.h"
#include "runtime/device/profiler.h"

namespace lamina {

struct ConcreteFunction::Plan {
  Plan(std::shared_ptr<const exec::Program> program, std::string function)
      : executor(std::move(program)), name(profiler::Kind::function, std::move(function)) {}
  exec::Executor executor;
  profiler::Name name;  // of a call's range
  std::vector<TypeRef> outputs;
  std::vector<exec::VariableState*> states;       // of the graph's Variables, which the ConcreteFunction keeps alive
  std::shared_ptr<const compile::Passed> passed;  // what the Program is made from
  double compile_microseconds = 0;
  bool by_place = false;  // it is for arguments on these devices alone
  std::atomic<int64_t> runs{0};
  std::atomic<double> microseconds{0};  // of the run measured last: the first, and then every 16th
};

}  // namespace lamina
