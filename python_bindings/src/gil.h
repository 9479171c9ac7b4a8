// Scopes that release and acquire the GIL.
#pragma once
#include <Python.h>

#include <unistd.h>

namespace lamina::python {

// A thread still running when the interpreter ends can never reacquire the GIL: up to Python 3.13, CPython then unwinds the thread's stack,
// and a destructor or catch-all on it ends the process. Such a thread is parked instead, and the process ends without it.
template <class F>
auto or_park(F take) {
  try {
    return take();
  } catch (...) {
    for (;;) pause();
  }
}

class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()) {}
  ~ReleasedGil() {
    or_park([&] { PyEval_RestoreThread(state_); });
  }
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* state_;
};

class HeldGil {
 public:
  HeldGil() : state_(or_park([] { return PyGILState_Ensure(); })) {}
  ~HeldGil() { PyGILState_Release(state_); }
  HeldGil(const HeldGil&) = delete;
  HeldGil& operator=(const HeldGil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace lamina::python
