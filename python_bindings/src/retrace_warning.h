// lm.RetraceWarning: tells users about functions that are traced again and again.
#pragma once

namespace lamina::python {

// Observes the traces of all Functions from now on.
void watch_retraces();
// Issues the warning that a trace on this thread has left, if any. Call it when Python may run again; throws if warnings are errors.
void emit_retrace_warning();

}  // namespace lamina::python
