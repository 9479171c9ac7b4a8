// A call's arguments and a body's results, taken apart into tensors, Variables and the rest.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/frontend/function.h"
#include "python_bindings/src/convert.h"

namespace lamina::python {

// Takes arguments apart: tensors and Variables in the order they are met, and a key that is equal exactly when everything else is: how they
// are nested, and the Python values by type and value. Objects that Python compares by identity count by identity.
class Flattener {
 public:
  std::vector<Tensor> tensors;
  std::vector<Variable> variables;
  std::string key;

  // With names, also where each tensor stood, "x" or "d['a'][1]", and every part in words. `held`: a dict of who keeps the key, in which
  // are the values that numbers in the key stand for: those compared by value, and those without weak references.
  explicit Flattener(PyObject* held, bool want_names = false) : held_(nb::borrow(held)), want_names_(want_names) {}
  void add(nb::handle value, const std::string& path);
  std::vector<std::string> tensor_names;
  std::vector<ArgumentPart> parts;

 private:
  void add_any(nb::handle value, const std::string& path);
  void add_tensor(Tensor t, const std::string& path);
  void add_count(char mark, Py_ssize_t n);
  void add_text(PyObject* string);
  void add_sequence(nb::handle value, char mark, const std::string& path);
  void add_dict(nb::handle value, const std::string& path);
  bool add_dataclass(nb::handle value, const std::string& path);
  void add_object(nb::handle value);
  nb::object held_;
  bool want_names_;
};

// Builds arguments again in the same order, with these tensors and Variables in their places.
struct Rebuilder {
  std::span<const Tensor> tensors;
  std::span<const Variable> variables;
  size_t tensor = 0, variable = 0;
  nb::object rebuild(nb::handle original);
};

// What a traced body returned: its tensors become outputs of the graph, everything else is kept as it was.
class ResultStructure {
 public:
  // Appends the tensors of `result` to `tensors`; Variables are read.
  static std::shared_ptr<ResultStructure> take(nb::handle result, std::vector<Tensor>& tensors);
  ~ResultStructure();

  bool is_tensor() const { return kind_ == Kind::tensor; }
  // The result with each tensor replaced by leaf(i).
  nb::object build(const std::function<nb::object(size_t)>& leaf) const;

 private:
  enum class Kind : uint8_t { tensor, kept, list, tuple, dict, named_tuple, dataclass };
  nb::object build(const std::function<nb::object(size_t)>& leaf, size_t& next) const;
  Kind kind_ = Kind::tensor;
  nb::object kept_;               // the value itself, the named tuple's class, a dataclass instance to copy
  std::vector<nb::object> keys_;  // of a dict, or a dataclass's fields
  std::vector<std::shared_ptr<ResultStructure>> children_;
};

// A tensor of the spec's type without data: stands for an argument when a graph is asked for.
Tensor placeholder(const TensorSpec& spec);
bool is_named_tuple(PyObject* o);

}  // namespace lamina::python
