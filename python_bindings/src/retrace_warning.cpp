#include "python_bindings/src/retrace_warning.h"

#include "graph/frontend/function.h"
#include "python_bindings/src/bindings.h"

namespace lamina::python {
namespace {

// A retrace warning from the observer, raised when Python code may run again.
thread_local std::string pending_warning;

void observe_retrace(const std::string& name, int traces, const TraceRecord& record) {
  constexpr int kQuiet = 2;  // no warning for one graph for training and one for the smaller last batch
  if (traces <= kQuiet) return;
  pending_warning =
      cat("lm.function ", name, " was traced again (", traces, " graphs): ", record.cause, " at ", text(record.line), "; ", record.fix);
}

}  // namespace

void watch_retraces() { set_retrace_observer(observe_retrace); }

void emit_retrace_warning() {
  if (pending_warning.empty()) return;
  const std::string text = std::move(pending_warning);
  pending_warning.clear();
  nb::object category = nb::module_::import_("lamina.errors").attr("RetraceWarning");
  if (PyErr_WarnEx(category.ptr(), text.c_str(), 1) != 0) throw_python_error();
}

}  // namespace lamina::python
