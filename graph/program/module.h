// Module: a model that leaves the process. Variables and traced functions by name; they are saved to a directory and loaded from it, called
// and trained where neither the source code nor Python is.
//
//   auto m = lm::Module::load("policy");
//   lm::Tensor y = m.call("score", {{"rows", x}}).at("output");
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/frontend/concrete_function.h"
#include "graph/frontend/typed_function.h"

namespace lamina {

using NamedTensors = std::map<std::string, Tensor>;

// Copies share their Variables and graphs.
class LAMINA_API Module {
 public:
  // One graph of a function: for one signature.
  struct Graph {
    std::shared_ptr<ConcreteFunction> function;
    std::vector<std::string> arguments;  // a name for each tensor that it takes
    std::vector<std::string> outputs;    // a name for each that it gives: "output" of a single one
  };

  // Reads the directory that save() or lm.save wrote, which may be hostile: nothing in it runs, no other file is opened and no link in it is
  // followed. Variables and graphs are on the current device. Throws file with the place where it is wrong.
  static Module load(const std::string& path);
  // Writes a directory that takes the place of the one at `path` at one instant. The same module gives the same bytes. Throws file where it
  // cannot be written, invalid_argument where two names are the same, type for a Variable or a value that exists only while tracing.
  void save(const std::string& path) const;

  void add(const std::string& name, const Variable& variable);
  // Another graph of the function: a call takes the first that fits. `outputs` are named "output" or "output[0]", "output[1]", ... unless
  // they are given. Throws invalid_argument where the numbers of names are wrong.
  void add(const std::string& function, ConcreteFunction& graph, std::vector<std::string> outputs = {});
  void add(const std::string& function, Graph graph);
  // Another name by which call() and other programs find a function.
  void add_signature(const std::string& name, const std::string& function);

  const std::map<std::string, Variable>& variables() const { return variables_; }
  // Throws not_found with the names that there are.
  Variable variable(const std::string& name) const;
  const std::map<std::string, std::vector<Graph>>& functions() const { return functions_; }
  const std::map<std::string, std::string>& signatures() const { return signatures_; }
  // Calls a function by its name or that of a signature, with a tensor for each name of its arguments. Variables that it assigns change.
  // Throws not_found for the name, signature when no graph takes these arguments.
  NamedTensors call(const std::string& name, const NamedTensors& arguments) const;
  // What it holds: a line for each signature, function and Variable.
  std::string str() const;

  // A text that language bindings keep beside the program: how their arguments and results are nested.
  std::string language;

 private:
  std::map<std::string, Variable> variables_;
  std::map<std::string, std::vector<Graph>> functions_;
  std::map<std::string, std::string> signatures_;
};

}  // namespace lamina
