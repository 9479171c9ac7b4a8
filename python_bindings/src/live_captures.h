// Tensors that a Python function takes from closures, globals and attributes. Its graphs hold them as captured inputs; when such a name
// holds another tensor, the function is traced again instead of going on with the old one.
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/frontend/concrete_function.h"
#include "python_bindings/src/bindings.h"

namespace lamina::python {

class LiveCaptures {
 public:
  // What a call starts from.
  struct Call {
    PyObject* function;
    std::span<PyObject* const> arguments;
  };
  // Part of the function's key: empty while every name that was found holds what it held at first.
  std::string key(const Call& call);
  bool any() const { return !places_.empty(); }
  // Finds the names that hold what the graph captured.
  void add(const Call& call, const ConcreteFunction& graph);
  const std::string& in_words() const { return words_; }  // of the last key: "as at first", "with another value in self.kept"

 private:
  struct Step {
    enum class Kind : uint8_t { function, argument, object, cell, global, attribute, item };
    Kind kind;
    size_t index = 0;  // of an argument, a cell, or an item of a sequence
    nb::object name;   // of a global, an attribute or an item of a dict
  };
  // A way to a tensor, and the tensors that were met there, each with a number that no other gets. A graph keeps what it captured alive.
  struct Place {
    std::vector<Step> way;
    std::string words;
    std::vector<std::pair<std::weak_ptr<const TensorData>, size_t>> met;
    size_t last = 0;
    size_t number_of(const std::shared_ptr<const TensorData>& tensor);
  };
  struct Search;
  static nb::object at(const Step& step, nb::handle from, const Call& call);
  std::vector<Place> places_;
  std::string words_ = "as at first";
};

}  // namespace lamina::python
