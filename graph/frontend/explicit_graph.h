// Graph: a graph that is built by hand and run by fetching, without tracing a function.
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
// run() computes what the fetches need and nothing else: an error or a print that no fetch leads to does not happen. A read of a Variable
// needs the assignment before it in program order.
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

  // While it lives, ops on this thread add nodes to the graph.
  TraceScope building() const;
  // A value that every run which needs it is given. Only while building.
  Tensor input(const TensorSpec& spec, const std::string& name);
  // A Variable without a value: initialize() gives it the initial one, computed now. Reading it before is an error of kind state.
  Variable variable(const Operand& initial, const std::string& name = "");
  void initialize() const;  // all Variables, again too

  // "matmul", "add_1": every node in program order, but constants and inputs too.
  std::vector<std::string> operations() const;
  // "add_1:0"; throws not_found with the nearest names.
  Tensor tensor(const std::string& name) const;

  // "add_1:0"; throws invalid_argument for a tensor that is not of this graph.
  std::string name_of(const Tensor& t) const;

  // What a run computes: a value, or an operation by name (an assignment, a print, a check).
  struct Fetch {
    Fetch(const Tensor& t) : tensor(t) {}
    Fetch(std::string operation) : operation(std::move(operation)) {}
    Fetch(const char* operation) : operation(operation) {}
    Tensor tensor;
    std::string operation;  // or a value's name
  };
  // One Tensor per fetch; of an operation without results an empty one. `inputs`: a value per name that the fetches need.
  std::vector<Tensor> run(const std::vector<Fetch>& fetches, const std::vector<std::pair<std::string, Tensor>>& inputs = {}) const;

 private:
  struct Data;
  std::shared_ptr<Data> data_;
};

}  // namespace lamina
