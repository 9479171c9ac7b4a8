// The border: wraps every compiled function of the module, so that no error leaves it in nanobind's or Python's own words.
// lamina/_border.py converts such errors. A successful call costs one more jump.
#include "python_bindings/src/border.h"

#include <array>
#include <cstring>

namespace lamina::python {
namespace {

// nanobind has a few call functions; this is the maximum that can be wrapped.
constexpr size_t kMostWays = 12;
std::array<vectorcallfunc, kMostWays> ways{};

nb::object arguments(PyObject* const* args, size_t count) {
  nb::object out = nb::steal(PyTuple_New(Py_ssize_t(count)));
  for (size_t i = 0; i < count; ++i) PyTuple_SET_ITEM(out.ptr(), Py_ssize_t(i), Py_NewRef(args[i]));
  return out;
}

bool named(PyTypeObject* type, const char* name) { return std::strcmp(type->tp_name, name) == 0; }

// Replaces the current Python exception by another one, or keeps it, or gives the result that the function has for a model's symbolic
// tensors.
PyObject* replace_error(PyObject* callable, PyObject* const* args, size_t nargs, PyObject* names) noexcept {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  nb::object raised = nb::steal(value), its_type = nb::steal(type), its_traceback = nb::steal(traceback);
  try {
    nb::dict by_name;
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
      by_name[nb::handle(PyTuple_GET_ITEM(names, i))] = nb::handle(args[Py_ssize_t(nargs) + i]);
    const bool method = named(Py_TYPE(callable), "nanobind.nb_method");
    nb::object other = nb::module_::import_("lamina._border")
                           .attr("failed")(nb::handle(callable), arguments(args, nargs), by_name, nb::bool_(method && nargs > 0), raised);
    if (!PyExceptionInstance_Check(other.ptr())) return other.release().ptr();
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(other.ptr())), other.ptr());
    return nullptr;
  } catch (nb::python_error&) {
  } catch (const std::exception&) {
  }
  PyErr_SetObject(its_type.ptr(), raised.ptr());
  return nullptr;
}

template <size_t way>
PyObject* border(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* names) {
  PyObject* result = ways[way](callable, args, nargsf, names);
  if (!result) [[unlikely]] {
    // nanobind keeps a flag of its own beside the reference count.
    constexpr size_t kCount = (size_t{1} << 32) - 1;
    if (PyErr_Occurred()) return replace_error(callable, args, nargsf & kCount, names);
  }
  return result;
}

template <size_t... i>
constexpr std::array<vectorcallfunc, sizeof...(i)> make_borders(std::index_sequence<i...>) {
  return {&border<i>...};
}
constexpr auto kBorders = make_borders(std::make_index_sequence<kMostWays>());

void put_border(PyObject* callable) {
  const Py_ssize_t offset = Py_TYPE(callable)->tp_vectorcall_offset;
  if (offset <= 0) return;
  auto& call = *reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(callable) + offset);
  if (!call) return;
  for (size_t i = 0; i < kMostWays; ++i)
    if (call == kBorders[i]) return;
  for (size_t i = 0; i < kMostWays; ++i) {
    if (!ways[i]) ways[i] = call;
    if (ways[i] != call) continue;
    call = kBorders[i];
    return;
  }
  internal_error("nanobind calls functions in more ways than the border has room for");
}

void put_borders(nb::handle value);
void put_borders_on_all(nb::handle names) {
  nb::object values = nb::steal(PyMapping_Values(names.ptr()));
  for (nb::handle value : values) put_borders(value);
}

void put_borders(nb::handle value) {
  PyObject* o = value.ptr();
  PyTypeObject* type = Py_TYPE(o);
  if (named(type, "nanobind.nb_func") || named(type, "nanobind.nb_method")) return put_border(o);
  if (PyModule_Check(o)) return put_borders_on_all(value.attr("__dict__"));
  if (nb::type_check(value)) {
    put_border(o);
    return put_borders_on_all(value.attr("__dict__"));
  }
  if (PyObject_TypeCheck(o, &PyProperty_Type))
    for (const char* part : {"fget", "fset"}) put_borders(value.attr(part));
  if (PyObject_TypeCheck(o, &PyStaticMethod_Type) || PyObject_TypeCheck(o, &PyClassMethod_Type)) put_borders(value.attr("__func__"));
}

}  // namespace

void bind_border(nb::module_& m) {
  m.def(
      "_set_signature",
      [](nb::handle type, nb::handle property) {
        auto* t = reinterpret_cast<PyTypeObject*>(type.ptr());
        if (PyDict_SetItemString(t->tp_dict, "__signature__", property.ptr())) throw_python_error();
        PyType_Modified(t);
      },
      nb::arg("type"), nb::arg("property"), "Sets __signature__ of a type of nanobind's, which Python code cannot change.");
  put_borders_on_all(m.attr("__dict__"));
}

}  // namespace lamina::python
