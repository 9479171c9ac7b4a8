#include "python_bindings/src/trace_warnings.h"

#include <utility>

#include "graph/frontend/concrete_function.h"
#include "graph/frontend/function.h"
#include "python_bindings/src/bindings.h"

namespace lamina::python {
namespace {

struct Warning {
  std::string text;
  SourceLine line;
};
// A retrace warning from the observer, raised when Python code may run again.
thread_local Warning pending_warning;

void observe_retrace(const std::string& name, int traces, const TraceRecord& record) {
  constexpr int kQuiet = 2;  // no warning for one graph for training and one for the smaller last batch
  if (traces <= kQuiet) return;
  pending_warning = {
      cat("lm.function ", name, " was traced again (", traces, " graphs): ", record.cause, " at ", text(record.line), "; ", record.fix),
      record.line};
}

// At a line of the user's program.
void warn(const char* category, const Warning& warning) {
  const nb::object errors = nb::module_::import_("lamina.errors"),
                   shown = errors.attr("__dict__").attr("setdefault")("__warningregistry__", nb::dict());
  const std::string line = text(warning.line);
  const size_t colon = line.rfind(':');
  const bool known = colon != std::string::npos;
  if (PyErr_WarnExplicit(errors.attr(category).ptr(), warning.text.c_str(), known ? line.substr(0, colon).c_str() : "lamina",
                         known ? std::stoi(line.substr(colon + 1)) : 1, nullptr, shown.ptr()) != 0)
    throw_python_error();
}

}  // namespace

void watch_retraces() { set_retrace_observer(observe_retrace); }

void warn_of_trace(const ConcreteFunction& traced, bool of_retraces) {
  if (const Warning warning = std::exchange(pending_warning, {}); of_retraces && !warning.text.empty()) warn("RetraceWarning", warning);
  if (const auto loop = traced.unrolled_loop())
    warn("UnrollWarning",
         {cat("lm.function ", traced.name(), ": the Python loop at ", text(loop->line), " takes ", loop->parts,
              " parts of one tensor or more; each iteration became ops of its own, ", traced.graph().size(),
              " in all. One op for all of them is faster: lm.einsum, lm.matmul with a batch, lm.vmap; or lm.scan, or for i in lm.range(n)"),
          loop->line});
}

}  // namespace lamina::python
