// Converts Error to the classes of lamina/errors.py, and finds the user's line.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/frontend/call_site.h"
#include "python_bindings/src/bindings.h"
#include "python_bindings/src/convert.h"

namespace lamina::python {
namespace {

const char* kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument: return "invalid_argument";
    case ErrorKind::type: return "type";
    case ErrorKind::signature: return "signature";
    case ErrorKind::state: return "state";
    case ErrorKind::assertion: return "assertion";
    case ErrorKind::index: return "index";
    case ErrorKind::not_found: return "not_found";
    case ErrorKind::conversion: return "conversion";
    case ErrorKind::retrace: return "retrace";
    case ErrorKind::out_of_memory: return "out_of_memory";
    case ErrorKind::time_limit: return "time_limit";
    case ErrorKind::device: return "device";
    case ErrorKind::collective: return "collective";
    case ErrorKind::file: return "file";
    case ErrorKind::internal: break;
  }
  return "internal";
}

// A damaged file's bytes may be in it.
nb::object decoded(const std::string& text) { return nb::steal(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "replace")); }

nb::object exception_for(const Error& e) {
  return nb::module_::import_("lamina.errors")
      .attr("_from_core")(kind_name(e.kind), decoded(e.parts.what), decoded(e.parts.where), decoded(e.parts.why), decoded(e.parts.fix));
}

// The package's folder, with a slash: frames in it are not the user's. Lives as long as the process.
PyObject* package_folder = nullptr;

SourceLine user_line() {
  if (!package_folder || !Py_IsInitialized()) return {};
  HeldGil gil;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);  // this may run while a Python exception is being raised
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  SourceLine line;
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const bool ours = PyUnicode_Tailmatch(code->co_filename, package_folder, 0, PY_SSIZE_T_MAX, -1) == 1;
    if (!ours) {
      if (const char* file = PyUnicode_AsUTF8(code->co_filename)) line = source_line(file, PyFrame_GetLineNumber(frame));
    }
    Py_DECREF(code);
    if (!ours) break;
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  PyErr_Restore(type, value, traceback);
  return line;
}

}  // namespace

void set_python_error(const Error& error) noexcept {
  try {
    nb::object exception = exception_for(error);
    PyErr_SetObject(exception.type().ptr(), exception.ptr());
  } catch (nb::python_error& e) {
    e.restore();
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

void set_out_of_memory() noexcept try {
  set_python_error(Error(ErrorKind::out_of_memory, {.what = "there is not enough memory for an operand or the result of an operator",
                                                    .where = text(CallSite().line()),
                                                    .why = "it is larger than the memory that is left, or says so of itself",
                                                    .fix = "ask for less at a time"}));
} catch (...) {
  PyErr_NoMemory();
}

void throw_python_error() { throw nb::python_error(); }

void throw_type_error(const std::string& what, const std::string& why, const std::string& fix) {
  throw Error(ErrorKind::type, {.what = what, .where = text(CallSite().line()), .why = why, .fix = fix});
}

void throw_not_made(nb::handle o, nb::handle type) {
  const std::string wanted = nb::str(type.attr("__name__")).c_str(), given = a_type(o.ptr());
  const int is_one = PyObject_IsInstance(o.ptr(), type.ptr());
  if (is_one < 0) throw_python_error();
  if (!is_one) throw_type_error(cat(given, " is not a ", wanted), "a method of one type is called with another", "call it on an object");
  throw Error(ErrorKind::state, {.what = cat(given, " is used before it is made"),
                                 .where = text(CallSite().line()),
                                 .why = cat("__init__ of ", wanted, " has not run"),
                                 .fix = "call super().__init__(...) first"});
}

void bind_errors(nb::module_& m) {
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& e) {
      set_python_error(e);
    }
  });
  m.def(
      "unknown_name",
      [](const std::string& kind, const std::string& name, const std::vector<std::string>& existing) {
        return exception_for(unknown_name(kind, name, existing));
      },
      nb::arg("kind"), nb::arg("name"), nb::arg("existing"), "The error for a name that does not exist; lists what exists, nearest first.");
  m.def(
      "_set_package_folder",
      [](nb::str folder) {
        Py_XDECREF(package_folder);
        package_folder = folder.release().ptr();
        set_line_finder(user_line);
      },
      nb::arg("folder"));
  m.def("_user_line", [] { return text(user_line()); }, "Where the running user code is: \"train.py:41\".");
}

}  // namespace lamina::python
