// Planner: a traced graph's way to Programs. What the passes make of the graph is kept and shared by its plans.
#pragma once
#include "graph/compile/compile.h"
#include "graph/passes/pipeline.h"

namespace lamina::compile {

// A graph after the passes, and how long they took.
struct Passed {
  passes::Optimized optimized;
  double microseconds = 0;
};

struct Planned {
  std::shared_ptr<const exec::Program> program;
  std::shared_ptr<const Passed> passed;  // what the program is made from
  double microseconds = 0;               // that compiling took
  bool by_place = false;                 // it would be another one if the arguments were on other devices
};

// For one thread at a time.
class Planner {
 public:
  explicit Planner(const ir::Graph& traced) : traced_(traced) {}

  // `lengths`: of the graph's symbols. `arguments`: where the first inputs lie in this call; those that a loop may take from the host while
  // it runs stay there, and options.input_devices says where all others are copied to.
  Planned plan(Options options, const DimBindings& lengths, std::span<const Device> arguments = {});
  // The graph after the passes, whatever its lengths and devices.
  const std::shared_ptr<const Passed>& passed();

 private:
  const ir::Graph& traced_;
  std::shared_ptr<const Passed> passed_;
};

}  // namespace lamina::compile
