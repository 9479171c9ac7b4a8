// Warnings about a trace: lm.RetraceWarning for functions that are traced again and again, lm.UnrollWarning for a Python loop over the
// elements of a tensor that became very many ops.
#pragma once

namespace lamina {
class ConcreteFunction;
}

namespace lamina::python {

// Observes the traces of all Functions from now on.
void watch_retraces();
// Issues what there is to say about the trace that this thread has just made; of_retraces: also that it was traced again. Call it when
// Python may run again; throws if warnings are errors.
void warn_of_trace(const ConcreteFunction& traced, bool of_retraces);

}  // namespace lamina::python
