// Tensors and Variables that a Python function takes from closures, globals and attributes. Its graphs hold them. When such a name holds
// another one, the function is retraced. What lies inside of layers is looked at only when some layer's attribute has been replaced since,
// or when a list, a dict or another object that a layer holds has other parts.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
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
  // Finds the names that hold the graph's captured tensors and Variables.
  void add(const Call& call, const ConcreteFunction& graph);
  std::string in_words() const;  // of the last key: "as at first", "with another value in self.kept"

 private:
  struct Step {
    enum class Kind : uint8_t { function, argument, object, type, cell, defaults, global, attribute, item };
    Kind kind;
    Py_ssize_t index = 0;   // of an argument, a cell, a class in its order, or an item of a sequence; negative: from a list's end
    nb::object name;        // of a global, an attribute or an item of a dict
    Py_ssize_t length = 0;  // of the list that the item was found in
    bool in_layer = false;  // the step starts at a layer, or inside of one
  };
  // Paths share their beginnings: a node is a step from an earlier node, or from nothing.
  struct Node {
    int from;
    Step step;
  };
  // The end of a path to a tensor or Variable, and those seen there, each with a unique number. A graph keeps its own alive. Or of one to a
  // container of which a graph took all parts: how many they were, until a graph takes the same of more.
  struct Place {
    int node;
    bool of_argument;
    std::string words;
    std::vector<std::pair<std::weak_ptr<const void>, size_t>> met;
    std::optional<Py_ssize_t> parts = {};
    bool of_all = true;
    size_t last = 0;
    template <class T>
    size_t number_of(const std::shared_ptr<T>& found);
  };
  struct Search;
  struct Containers;
  std::vector<int> nodes_of(const std::vector<Step>& way);  // behind each of its steps
  std::vector<int> watch(const std::vector<Step>& way, const std::string& words, const std::shared_ptr<const void>& found);
  void watch_parts(const Call& call, const Containers& containers);
  static nb::object at(const Step& step, nb::handle from, const Call& call);
  static std::optional<size_t> changed_to(Place& place, PyObject* now);  // the number of what it holds now; none: it counts as at first
  std::deque<Node> nodes_;                                               // with addresses that stay
  std::deque<Place> places_;
  std::map<std::tuple<int, int, Py_ssize_t, PyObject*>, int> known_nodes_;  // by the node that they come from, and their step
  std::unordered_map<int, size_t> place_of_;                                // per node
  std::vector<int> layers_;                                                 // nodes: the outermost layers
  // Of the last look into layers: when it was, at which ones, and the places that count, with their numbers.
  struct Inside {
    int64_t changes = -1;
    size_t nodes = 0;
    std::vector<PyObject*> layers;
    std::vector<std::pair<size_t, size_t>> changed;
    // Parts of lists, dicts and objects that are no layers, and the steps to them: layers do not tell when these change.
    std::vector<std::pair<size_t, std::optional<const void*>>> parts;
  };
  static Inside parts_inside(const std::deque<Node>& nodes, const std::vector<nb::object>& values);
  std::shared_ptr<const Inside> inside_ = std::make_shared<Inside>();
  std::vector<std::pair<size_t, size_t>> changed_;  // places that count in the last key, with the numbers of what they hold
};

}  // namespace lamina::python
