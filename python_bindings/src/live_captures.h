// Tensors that a Python function takes from closures, globals and attributes. Its graphs hold them as captured inputs. When such a name
// holds another tensor, the function is retraced.
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
  // The start of the search: a call's function and arguments.
  struct Call {
    PyObject* function;
    std::span<PyObject* const> arguments;
  };
  // Part of the function's key. Empty while every known name holds its first value.
  std::string key(const Call& call);
  bool any() const { return !places_.empty(); }
  // Finds the names that hold the graph's captured tensors.
  void add(const Call& call, const ConcreteFunction& graph);
  const std::string& in_words() const { return words_; }  // of the last key: "as at first", "with another value in self.kept"

 private:
  struct Step {
    enum class Kind : uint8_t { function, argument, object, cell, global, attribute, item };
    Kind kind;
    size_t index = 0;  // of an argument, a cell, or an item of a sequence
    nb::object name;   // of a global, an attribute or an item of a dict
  };
  // A path to a tensor, and the tensors seen there, each with a unique number. A graph keeps its captured tensors alive.
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
