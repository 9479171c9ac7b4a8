#include "python_bindings/src/trace_warnings.h"

#include <utility>

#include "graph/frontend/concrete_function.h"
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

void warn(const char* category, const std::string& text) {
  if (PyErr_WarnEx(nb::module_::import_("lamina.errors").attr(category).ptr(), text.c_str(), 1) != 0) throw_python_error();
}

}  // namespace

void watch_retraces() { set_retrace_observer(observe_retrace); }

void warn_of_trace(const ConcreteFunction& traced, bool of_retraces) {
  if (const std::string text = std::exchange(pending_warning, {}); of_retraces && !text.empty()) warn("RetraceWarning", text);
  if (const auto loop = traced.unrolled_loop())
    warn("UnrollWarning",
         cat("lm.function ", traced.name(), ": the Python loop at ", text(loop->line), " takes ", loop->parts,
             " parts of one tensor or more; each iteration became ops of its own, ", traced.graph().size(),
             " in all. One op for all of them is faster: lm.einsum, lm.matmul with a batch, lm.vmap; or lm.scan, or for i in lm.range(n)"));
}

}  // namespace lamina::python
