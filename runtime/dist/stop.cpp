#include "runtime/dist/stop.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "runtime/dist/checked_call.h"

namespace lamina::distributed {
namespace {

constexpr double kAgain = 1;  // seconds: srun and its daemons may pass a signal on twice

// A signal and what was done about it before. All that the handler touches is lock-free.
struct Caught {
  const int number;
  const char* said;
  struct sigaction before{};
  std::atomic<bool> handled{false};
  std::atomic<double> first{0};  // when it came; 0: it has not
};
Caught term{SIGTERM, "lamina: SIGTERM: the program ends after this step, with a checkpoint; a second SIGTERM ends it at once\n"};
Caught usr1{SIGUSR1, "lamina: SIGUSR1: the program ends after this step, with a checkpoint; a second SIGUSR1 ends it at once\n"};
Mutex installing;
std::atomic<int> expecting{0}, requested{0}, came{0};
std::atomic<bool> watched{false}, speaks_out{true};

bool is_default(const Caught& c) { return !(c.before.sa_flags & SA_SIGINFO) && c.before.sa_handler == SIG_DFL; }

double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

void end_by(const Caught& c) {  // once the handler has returned
  sigaction(c.number, &c.before, nullptr);
  kill(getpid(), c.number);
}

void on_stop(int number, siginfo_t* info, void* context) {
  const int error = errno;
  Caught& c = number == SIGTERM ? term : usr1;
  came = number;
  if (c.before.sa_flags & SA_SIGINFO) {
    if (c.before.sa_sigaction) c.before.sa_sigaction(number, info, context);
  } else if (c.before.sa_handler != SIG_DFL && c.before.sa_handler != SIG_IGN) {
    c.before.sa_handler(number);
  } else if (c.before.sa_handler == SIG_DFL && expecting > 0) {
    double none = 0;
    if (c.first.compare_exchange_strong(none, now())) {
      requested = number;
      [[maybe_unused]] const ssize_t written = speaks_out ? write(STDERR_FILENO, c.said, std::strlen(c.said)) : 0;
    } else if (now() - c.first > kAgain) {
      end_by(c);
    }
  } else if (c.before.sa_handler == SIG_DFL && !watched) {
    end_by(c);
  }
  errno = error;
}

void handle(Caught& c) {
  if (c.handled) return;
  struct sigaction ours{};
  ours.sa_sigaction = on_stop;
  ours.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&ours.sa_mask);
  sigaction(c.number, nullptr, &c.before);
  sigaction(c.number, &ours, nullptr);
  static std::atomic<bool> forks{false};
  if (!forks.exchange(true))  // a child ends by the signal, as its parent would without us
    on_fork({.before = nullptr, .in_parent = nullptr, .in_child = [] {
               for (Caught* c : {&term, &usr1})
                 if (c->handled.exchange(false)) sigaction(c->number, &c->before, nullptr);
               expecting = 0, requested = 0, watched = false;
             }});
  c.handled = true;
}

}  // namespace

void expect_stops(bool expected, bool speaks) {
  const std::lock_guard lock(installing);
  speaks_out = speaks;
  expecting += expected ? 1 : -1;
  if (!expected) return;
  for (Caught* c : {&term, &usr1}) handle(*c);
}
bool stops_are_expected() { return expecting > 0 && is_default(term); }
int stop_signal() { return requested; }

int end_of_step(Communicator& c, Subject subject) {
  const CheckedCall call(c, {.op = Op::barrier}, subject, stop_signal());
  return call.signal();
}

void watch_signals() {
  const std::lock_guard lock(installing);
  watched = true;
  for (Caught* c : {&term, &usr1}) handle(*c);
}
int signal_came() { return came.exchange(0); }
bool signals_end() { return is_default(term) && expecting == 0; }
const char* signal_name(int number) { return number == SIGTERM ? "SIGTERM" : "SIGUSR1"; }

}  // namespace lamina::distributed
