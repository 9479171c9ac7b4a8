// Conversions between Python and C++ values: dtypes, shapes, tensors.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "graph/frontend/tensor.h"
#include "graph/frontend/variable.h"
#include "graph/functions/op_functions.h"
#include "python_bindings/src/bindings.h"

namespace lamina::python {

extern PyTypeObject* tensor_type;    // lm.Tensor
extern PyTypeObject* variable_type;  // lm.Variable

inline bool is_tensor(PyObject* o) { return Py_TYPE(o) == tensor_type; }
inline bool is_variable(PyObject* o) { return Py_TYPE(o) == variable_type || PyObject_TypeCheck(o, variable_type); }
inline const Tensor& as_tensor(PyObject* o) {
  if (!is_tensor(o) || !nb::inst_ready(o)) throw_not_made(o, reinterpret_cast<PyObject*>(tensor_type));
  return *nb::inst_ptr<Tensor>(nb::handle(o));
}
inline const Variable& as_variable(PyObject* o) {
  if (!is_variable(o) || !nb::inst_ready(o)) throw_not_made(o, reinterpret_cast<PyObject*>(variable_type));
  return *nb::inst_ptr<Variable>(nb::handle(o));
}
PyObject* wrap(Tensor tensor);           // a new reference; None for an undefined tensor
PyObject* wrap_argument(Tensor tensor);  // the same, still marked as of the host if it is
// The docstring of an op.
inline const char* doc_of(const char* op) { return ir::find_op(op).doc; }
// A Python object that signatures and stubs show as a Tensor.
class TensorObject : public nb::object {
 public:
  NB_OBJECT(TensorObject, nb::object, "lamina._core.Tensor", is_tensor)
};
TensorObject to_python(Tensor tensor);
// A plain number: no tensor of a graph, and none that a tape records, whose gradient would be lost. Converted by to_number().
class NumberObject : public nb::object {
  static bool is_number(nb::handle value);
  NB_OBJECT(NumberObject, nb::object, "float", is_number)
};
using NumberArgument = const NumberObject&;
double to_number(nb::handle value);
bool is_recorded(nb::handle value);  // a Tensor or Variable of which lamina::is_recorded() says so
nb::object to_python(Variable variable);

// The dtype for a name, lm.float32, a NumPy dtype or scalar type, or bool, int, float, complex. Throws not_found or type.
DType to_dtype(nb::handle value);
inline DType dtype_or(nb::handle value, DType otherwise) { return value.is_none() ? otherwise : to_dtype(value); }
nb::object to_python(DType dtype);  // lm.float32, always the same object
std::optional<DType> to_optional_dtype(nb::handle value);
// A buffer's format (PEP 3118), and back: false and null for what tensors or formats lack; false for another byte order too.
bool dtype_of_format(const char* format, Py_ssize_t item_size, DType& out);
const char* format_of(DType d);

// A number or a sequence of numbers; None is an unknown dimension where `open` allows it.
Shape to_shape(nb::handle value, bool open = false);
nb::tuple to_python(const Shape& shape);         // None for unknown dimensions
std::vector<int64_t> to_axes(nb::handle value);  // None: empty
AxesOrAll to_axes_or_all(nb::handle value);      // None: all

// As lm.constant, for an operand or an argument: arrays and lists are marked as of the host (Tensor::from_host).
Tensor to_argument(nb::handle value);
// lm.constant: converts numbers, nested lists, NumPy arrays and scalars, tensors. Copies.
Tensor to_tensor(nb::handle value, std::optional<DType> dtype = {});
std::vector<Tensor> tensors_of(nb::handle values);  // of each element
// As arguments of an op that joins them: numbers take the dtype of the tensors among them. The elements stand in `depth` lists.
std::vector<Tensor> parts_of(nb::handle values, const char* op, size_t depth = 0);
nb::list to_list(std::span<const Tensor> tensors);
// An argument of an op; Python numbers stay weakly typed. False for anything else (no exception is set).
bool to_operand(nb::handle value, std::optional<Operand>& out);
Operand to_operand(nb::handle value);  // throws type
// Two operands of one op. A list of floats next to a float64 tensor keeps its digits.
std::pair<Operand, Operand> to_operands(nb::handle a, nb::handle b);
void keep_digits(nb::handle value, std::optional<Operand>& list, const Operand& other);
// Whether constant() would take it as data rather than as a Python value: NumPy arrays and scalars.
bool is_array(PyObject* value);
std::string shown(nb::handle value);  // its repr, shortened; its type if that fails
std::string a_type(PyObject* value);  // "an int", "a Policy": for errors

// A NumPy array with a copy of the elements; waits for the device.
nb::object to_numpy(const Tensor& tensor);
// Fills a Python buffer request with the tensor's own memory, read-only.
int get_buffer(PyObject* self, Py_buffer* view, int flags);
void release_buffer(PyObject* self, Py_buffer* view);

// Releases the GIL while an op works on much data. No Python object may be used meanwhile.
class Unlock {
 public:
  explicit Unlock(std::initializer_list<const Operand*> operands) {
    for (const Operand* o : operands) {
      if (o->is_tensor() && !o->tensor().is_symbolic() && o->tensor().size() >= kMuch) {
        release_.emplace();
        return;
      }
    }
  }

 private:
  static constexpr int64_t kMuch = 1 << 15;  // elements: below, releasing the lock costs more than it gains
  std::optional<ReleasedGil> release_;
};
// Returns f()'s tensor; f runs without the GIL.
template <class F>
TensorObject unlocked(std::initializer_list<const Operand*> operands, F&& f) {
  Tensor result;
  {
    Unlock unlock(operands);
    result = f();
  }
  return to_python(std::move(result));
}
template <Tensor (*op)(const Operand&, const AxesOrAll&, bool)>
TensorObject call_reduce(nb::handle x, nb::handle axis, bool keepdims) {
  const Operand operand = to_operand(x);
  const AxesOrAll axes = to_axes_or_all(axis);
  return unlocked({&operand}, [&] { return op(operand, axes, keepdims); });
}

}  // namespace lamina::python
