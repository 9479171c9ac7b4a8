// A planned stop: SIGTERM or SIGUSR1 asks a program that saves checkpoints to end after its step. Schedulers send one before they take the
// machine away.
#pragma once
#include "runtime/dist/collectives.h"

namespace lamina::distributed {

// Until expect_stops(false): both signals are noted instead of ending the process, if the program does not handle them itself. The second
// one of a kind, a second or more after the first, ends it. Calls are counted: it holds while any has not been taken back. speaks: this
// process says on stderr what a signal will do.
LAMINA_API void expect_stops(bool expected, bool speaks = true);
LAMINA_API bool stops_are_expected();
LAMINA_API int stop_signal();  // that this process has got; 0: none

// The end of a step, on every rank: the signal that any rank has got, the same on all; 0: none.
LAMINA_API int end_of_step(Communicator& c, Subject subject = {});

// For the control thread: both signals are noted from now on, also without expect_stops. The one that has come since the last call, or 0.
void watch_signals();
int signal_came();
bool signals_end();  // whether the process would have ended without us
const char* signal_name(int number);

}  // namespace lamina::distributed
