// lm.function's types: Function (function.cpp) and ConcreteFunction (inspect.cpp).
#pragma once
#include "graph/frontend/function.h"
#include "python_bindings/src/structure.h"

namespace lamina::python {

struct Concrete {
  std::shared_ptr<ConcreteFunction> function;
  nb::object nest;  // of a loaded graph: nests a list of results as the saved function's were; none where structure() does
};

bool is_function(PyObject* o);
std::vector<TensorSpec> to_specs(nb::handle signature);  // nested specs, flat
nb::object to_python(const TraceRecord& record);         // a dict
nb::object to_python(const Explanation& explanation);    // lm.Explanation

}  // namespace lamina::python
