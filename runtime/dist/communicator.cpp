#include "runtime/dist/communicator.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "kernels/tree_sum.h"
#include "runtime/dist/collectives.h"

namespace lamina::distributed {

Communicator::Communicator(int rank, int size, Patience patience) : rank_(rank), size_(size), patience_(patience) {}

void Communicator::all_gather(const void* own, void* all, size_t bytes) {
  char* to = static_cast<char*>(all);
  if (bytes) std::memmove(to + size_t(rank_) * bytes, own, bytes);
  std::vector<Transfer> transfers;
  for (int other = 0; other < size_; ++other)
    if (other != rank_) {
      transfers.push_back(to_rank(other, to + size_t(rank_) * bytes, bytes));
      transfers.push_back(from_rank(other, to + size_t(other) * bytes, bytes));
    }
  exchange(transfers);
}

// A binomial tree: in each round, every rank that has the data sends them to one that has not.
void Communicator::broadcast(void* data, size_t bytes, int root) {
  const int self = (rank_ - root + size_) % size_;
  for (int have = 1; have < size_; have *= 2) {
    std::vector<Transfer> transfers;
    const auto real = [&](int number) { return (number + root) % size_; };
    if (self < have && self + have < size_) transfers.push_back(to_rank(real(self + have), data, bytes));
    if (self >= have && self < 2 * have) transfers.push_back(from_rank(real(self - have), data, bytes));
    exchange(transfers);
  }
}

void Communicator::barrier() {
  std::vector<char> all(static_cast<size_t>(size_));
  const char own = 1;
  all_gather(&own, all.data(), 1);
}

// In the order of ranks.
void Communicator::sum(DType dtype, void* data, int64_t count) {
  const size_t bytes = size_t(count) * size_of(dtype);
  std::vector<char> all(bytes * size_t(size_));
  all_gather(data, all.data(), bytes);
  std::vector<const void*> arrays;
  for (int r = 0; r < size_; ++r) arrays.push_back(all.data() + size_t(r) * bytes);
  cpu::tree_sum({.from = dtype, .to = dtype, .count = count, .joins = one_by_one(arrays.size()).data()}, arrays, data);
}

void Communicator::wait(const std::function<bool()>& done) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  auto pause = std::chrono::microseconds(20);
  bool warned = false;
  const auto spins = std::chrono::microseconds(may_spin() ? 300 : 0);
  while (!done()) {
    const std::chrono::duration<double> waited = Clock::now() - start;
    if (waited < spins) continue;
    if (waited < std::chrono::milliseconds(1)) {
      sched_yield();
      continue;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1000));
    if (!warned && waited > patience_.warning) {
      warned = true;
      say(cat("lamina: rank ", rank_, " has waited ", int64_t(waited.count()), " s in ", current_text(), "\n", missing_text()));
    }
    if (waited > patience_.failure && !may_wait_longer())
      stalled(Error(ErrorKind::collective, {.what = cat(current_text(), ", has not ended after ", int64_t(waited.count()), " s"),
                                            .where = record_.current().line,
                                            .why = missing_text(),
                                            .fix = "look why those ranks are late; LAMINA_COLLECTIVE_TIMEOUT sets how long ranks wait"}));
  }
}

SharedMemory& Communicator::shared() {
  constexpr size_t most = 2 << 20, most_of_all = 16 << 20;  // bytes of a half: containers often have 64 MB of shared memory
  if (!shared_) {
    const size_t half = std::min(most, most_of_all / size_t(size_) / 4096 * 4096);
    shared_ = {.of_ranks = half ? share(2 * half) : std::vector<char*>(), .half = half};
  }
  return *shared_;
}

Peers& Communicator::joined(Device device) {
  const std::lock_guard lock(devices_mutex_);
  std::unique_ptr<Peers>& peers = devices_[device];
  if (!peers) {
    distributed::barrier(*this, {.tensor = "the ranks' devices, which are joined"});  // no rank is elsewhere
    peers = join_devices(*this, device);
  }
  return *peers;
}

void Communicator::leave_devices() {
  const std::lock_guard lock(devices_mutex_);
  devices_.clear();
}

int64_t Communicator::graph_call() const { return graphs_begun_.load() + (graphs_running_.load() == 0 ? 1 : 0); }

std::string Communicator::current_text() const {
  const Entry now = record_.current();
  return now.op == Op::none ? std::string("an exchange") : cat("collective ", now.sequence, ", ", text(now));
}

std::string Communicator::missing_text() const {
  const Entry own = record_.current();
  std::string out;
  for (const RankStatus& s : ranks()) {
    if (s.rank == rank_ || (s.current.op != Op::none && s.current.sequence >= own.sequence) || s.last.sequence >= own.sequence) continue;
    out += (out.empty() ? "not there: " : "; ") + text(s);
  }
  return out.empty() ? "every rank has begun it" : out;
}

void fail_together(Communicator& c, const Error& why) noexcept try {
  write_json(c.record(), c.rank(), why.what(), c.ranks());
  c.abort(why);
} catch (...) {  // one rank alone: its own calls throw the error
}

void say(const std::string& text) noexcept {
  const char* at = text.c_str();
  size_t left = text.size();
  for (int tries = 0; left > 0 && tries < 1000; ++tries) {
    const ssize_t written = ::write(STDERR_FILENO, at, left);
    if (written > 0) at += written, left -= size_t(written);
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;
  }
  const ssize_t ignored = ::write(STDERR_FILENO, "\n", 1);
  (void)ignored;
}

}  // namespace lamina::distributed
