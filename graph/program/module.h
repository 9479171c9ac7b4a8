// Module: Variables and traced functions by name, as a saved program. It is written to a directory and read back without the source code
// and without Python, called, and trained further.
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
  // One graph of a function.
  struct Graph {
    std::shared_ptr<ConcreteFunction> function;
    std::vector<std::string> arguments;  // one name per tensor argument
    std::vector<std::string> outputs;    // one name per result; "output" if there is only one
  };

  // Reads a directory that save() or lm.save wrote. It may be hostile: nothing in it is executed, no other file is opened, and no link in
  // it is followed. Variables and graphs are on the current device. Throws file with the place of the error.
  static Module load(const std::string& path);
  // Writes a directory that replaces the one at `path` atomically. The same module gives the same bytes. Throws file if it cannot be
  // written, invalid_argument if two values have one name, type for a value that exists only during tracing.
  void save(const std::string& path) const;

  void add(const std::string& name, const Variable& variable);
  // Adds a graph to a function: a call runs the first graph that fits. `outputs` names the results; by default "output", or "output[0]",
  // "output[1]", ... Throws invalid_argument for a wrong number of names.
  void add(const std::string& function, ConcreteFunction& graph, std::vector<std::string> outputs = {});
  void add(const std::string& function, Graph graph);
  // A public name for a function, which call() accepts too.
  void add_signature(const std::string& name, const std::string& function);

  const std::map<std::string, Variable>& variables() const { return variables_; }
  // Throws not_found with the names that there are.
  Variable variable(const std::string& name) const;
  const std::map<std::string, std::vector<Graph>>& functions() const { return functions_; }
  const std::map<std::string, std::string>& signatures() const { return signatures_; }
  // Calls a function by its name or a signature's, with one tensor per argument name. Assignments to Variables take effect. Throws
  // not_found for an unknown name, signature if no graph takes these arguments.
  NamedTensors call(const std::string& name, const NamedTensors& arguments) const;
  // One line per signature, function and Variable.
  std::string str() const;

  // Text for the language bindings, stored with the program: how arguments and results are nested.
  std::string language;

 private:
  std::map<std::string, Variable> variables_;
  std::map<std::string, std::vector<Graph>> functions_;
  std::map<std::string, std::string> signatures_;
};

}  // namespace lamina
