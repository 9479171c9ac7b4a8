// A ConcreteFunction's plan: the Program for one set of lengths. Internal to this folder.
#pragma once
#include <atomic>
#include <vector>

#include "graph/frontend/concrete_function.h"
#include "runtime/device/profiler.h"

namespace lamina {

struct ConcreteFunction::Plan {
  Plan(std::shared_ptr<const exec::Program> program, std::string function)
      : executor(std::move(program), function), name(profiler::Kind::function, std::move(function)) {}
  exec::Executor executor;
  profiler::Name name;  // names the profiler range of a call
  std::vector<TypeRef> outputs;
  std::vector<exec::VariableState*> states;  // of the graph's Variables; the ConcreteFunction keeps them alive
  double compile_microseconds = 0;
  bool by_place = false;  // valid only for arguments on the same devices
  std::atomic<int64_t> runs{0};
  std::atomic<double> microseconds{0};  // of the last measured run: the first, then every 16th
};

}  // namespace lamina
