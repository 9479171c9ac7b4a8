// Graph: a graph built by hand and run by fetching values, without tracing a function.
//
//   lm::Graph g;
//   lm::Tensor y;
//   {
//     auto building = g.building();           // ops add nodes to g
//     auto x = g.input({{2}, lm::dtype::f32}, "x");
//     auto b = g.variable(12.f, "b");
//     y = x * 2 + b.read();
//   }
//   g.initialize();                            // Variables get their initial values
//   g.run({y}, {{"x:0", lm::tensor({1, 2}, {2})}});
//
// run() computes only what the fetches need: errors and prints of other nodes do not happen. A read of a Variable depends on the assignment
// before it in program order.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/frontend/concrete_function.h"
#include "graph/frontend/trace.h"

namespace lamina {

class LAMINA_API Graph {
 public:
  explicit Graph(std::string name = "graph");

  // A move copies: the Graph that was moved from stays the same one.
  Graph(const Graph&) = default;
  Graph& operator=(const Graph&) = default;

  // While it lives, ops on this thread add nodes to the graph.
  TraceScope building() const;
  // A placeholder: every run that needs it must feed it. Only while building.
  Tensor input(const TensorSpec& spec, const std::string& name);
  // A Variable without a value. initialize() sets the initial value, which is computed now. Reading it earlier is an error of kind state.
  Variable variable(const Operand& initial, const std::string& name = "");
  void initialize() const;  // sets all Variables; may be called again

  // "matmul", "add_1": every node in program order, including constants and inputs.
  std::vector<std::string> operations() const;
  // "add_1:0"; throws not_found with the nearest names.
  Tensor tensor(const std::string& name) const;

  // "add_1:0"; throws invalid_argument for a tensor that is not of this graph.
  std::string name_of(const Tensor& t) const;

  // A value, or an operation by name (an assignment, a print, a check).
  struct Fetch {
    Fetch(const Tensor& t) : tensor(t) {}
    Fetch(std::string name) : operation(std::move(name)) {}
    Fetch(const char* name) : operation(name) {}
    Tensor tensor;
    std::string operation;  // or the name of a value
  };
  // One Tensor per fetch; an empty one for an operation without results. `inputs`: the fed values by name.
  std::vector<Tensor> run(const std::vector<Fetch>& fetches, const std::vector<std::pair<std::string, Tensor>>& inputs = {}) const;

 private:
  struct Data;
  std::shared_ptr<Data> data_;
};

}  // namespace lamina
