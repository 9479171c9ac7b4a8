// Launches of several host threads that run together.
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "tests/emulated/emulator.h"

namespace lamina::kernels::cuda::emulation {

struct Together::State {
  std::mutex mutex;
  std::condition_variable changed;
  const size_t threads;
  std::vector<std::vector<Running>> gpus;
  int rounds = 0;          // that have ended
  std::exception_ptr why;  // of the last round, if it failed
};
Together::Together(int threads)
    : state_(new State{.mutex = {}, .changed = {}, .threads = size_t(threads), .gpus = {}, .rounds = 0, .why = {}}) {}
Together::~Together() = default;

void Together::run(const std::function<void()>& start) {
  std::vector<Running> own = kept_launches(start);
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.gpus.push_back(std::move(own));
  const int round = s.rounds;
  if (s.gpus.size() == s.threads) {
    s.why = nullptr;
    try {
      run_all(s.gpus);
    } catch (...) {
      s.why = std::current_exception();
    }
    s.gpus.clear(), ++s.rounds;
    s.changed.notify_all();
  } else if (!s.changed.wait_for(lock, std::chrono::minutes(1), [&] { return s.rounds > round; })) {
    throw Failure("the other threads launch nothing");
  }
  if (s.why) std::rethrow_exception(s.why);
}

}  // namespace lamina::kernels::cuda::emulation
