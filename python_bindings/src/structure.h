// Splits a call's arguments and a body's results into tensors, Variables and the rest.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/frontend/function.h"
#include "python_bindings/src/containers.h"
#include "python_bindings/src/convert.h"

namespace lamina::python {

// Flattens arguments: tensors and Variables in order, and a key. Keys are equal exactly when everything else is: the nesting, and Python
// values by type and value. Objects that Python compares by identity count by identity.
class Flattener {
 public:
  std::vector<Tensor> tensors;
  std::vector<Variable> variables;
  std::string key;

  // With names: also the path of each tensor, "x" or "d['a'][1]", and every part in words. `held`: a dict owned by the key's owner. It
  // keeps the values that numbers in the key stand for: those compared by value, and those without weak references.
  explicit Flattener(PyObject* held, bool want_names = false) : held_(nb::borrow(held)), want_names_(want_names) {}
  void add(nb::handle value, const std::string& path);
  std::vector<std::string> tensor_names;
  std::vector<ArgumentPart> parts;

 private:
  void add_any(nb::handle value, const std::string& path);
  void add_tensor(Tensor t, const std::string& path);
  void add_count(char mark, Py_ssize_t n);
  void add_text(PyObject* string);
  void add_container(nb::handle value, Container kind, const std::string& path);
  void add_outside(nb::handle value);
  void add_object(nb::handle value);
  nb::object held_;
  bool want_names_;
  Walk walk_{"an argument"};
};

// Rebuilds an argument: copies its containers, with leaf() for tensors, Variables, arrays and TensorSpecs, in the Flattener's order, which
// is also that of a plain dict's keys in the copy.
class Rebuilder {
 public:
  virtual ~Rebuilder() = default;
  nb::object rebuild(nb::handle original);

 private:
  virtual nb::object leaf(nb::handle original) { return nb::borrow(original); }
  Walk walk_{"an argument"};
};

// Uses these tensors and Variables.
class ArgumentsWith final : public Rebuilder {
 public:
  ArgumentsWith(std::span<const Tensor> tensors, std::span<const Variable> variables) : tensors_(tensors), variables_(variables) {}
  void finish() const;  // throws unless all were used

 private:
  nb::object leaf(nb::handle original) override;
  [[noreturn]] static void refuse_changed();
  std::span<const Tensor> tensors_;
  std::span<const Variable> variables_;
  size_t tensor_ = 0, variable_ = 0;
};

// Throws for a result, or a part of one, that is no container and would not be there, or not the same, at the next call: an iterator, a
// view of a dict, an object that holds traced tensors.
void check_leaf(nb::handle value);

// The structure of a traced body's result. Tensors become outputs of the graph; everything else is kept.
class ResultStructure {
 public:
  // Appends the tensors of `result` to `tensors`; Variables are read.
  static std::shared_ptr<ResultStructure> take(nb::handle result, std::vector<Tensor>& tensors);
  ~ResultStructure();

  bool is_tensor() const { return leaf_; }
  // The result with each tensor replaced by leaf(i).
  nb::object build(const std::function<nb::object(size_t)>& leaf) const;

  // Of the whole result: the arguments that it was traced with, as described() says, whether layers were called to train, and the rest of
  // the function's key.
  nb::object arguments;
  bool training = false;
  std::string outside;

 private:
  static std::shared_ptr<ResultStructure> take(nb::handle result, std::vector<Tensor>& tensors, Walk& walk);
  nb::object build(const std::function<nb::object(size_t)>& leaf, size_t& next) const;
  bool leaf_ = true;  // a tensor
  Container container_ = Container::none;
  nb::object kept_;               // a leaf value; or the named tuple, dataclass or derived dict to imitate
  std::vector<nb::object> keys_;  // of a dict, or a dataclass's fields
  std::vector<std::shared_ptr<ResultStructure>> children_;
};

// The nesting of an argument or a result as tuples: ("tensor",), ("variable",), ("value", a plain constant), ("list" or "tuple", parts),
// ("dict", [(key, part), ...]), ("named", class name, [(field, part), ...]), ("object", what it is). Its tensors are in the graph's order.
nb::object described_argument(nb::handle value);
nb::object described_result(nb::handle value);

// A tensor of the spec's type without data: an argument in get_concrete_function and the like.
Tensor placeholder(const TensorSpec& spec);

}  // namespace lamina::python
