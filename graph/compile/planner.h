// Planner: makes Programs from a traced graph. All its plans share one run of the passes.
#pragma once
#include "graph/compile/compile.h"
#include "graph/passes/pipeline.h"

namespace lamina::compile {

// A graph after the passes, and how long the passes took.
struct Passed {
  passes::Optimized optimized;
  double microseconds = 0;
};

struct Planned {
  std::shared_ptr<const exec::Program> program;
  double microseconds = 0;  // compile time
  bool by_place = false;    // whether arguments on other devices would need another program
};

// A graph after the passes, for a call's lengths. Throws where the trace relied on others: see ops/short_slices.h.
LAMINA_API ir::Graph optimized_for(const ir::Graph& traced, const ir::Graph& optimized, const DimBindings& lengths);

// Not thread-safe: one thread at a time.
class Planner {
 public:
  explicit Planner(const ir::Graph& traced) : traced_(traced) {}

  // `lengths` binds the graph's symbols. `arguments` says where the first inputs are in this call. Inputs that a loop can stream from the
  // host stay there; options.input_devices says where all others are copied to.
  Planned plan(Options options, const DimBindings& lengths, std::span<const Device> arguments = {});
  // The graph after the passes, from which all plans are made.
  const std::shared_ptr<const Passed>& passed();

 private:
  const ir::Graph& traced_;
  std::shared_ptr<const Passed> passed_;
};

}  // namespace lamina::compile
