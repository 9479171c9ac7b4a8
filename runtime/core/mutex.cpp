#include "runtime/core/mutex.h"

#include <pthread.h>

#include <chrono>
#include <thread>
#include <vector>

namespace lamina {
namespace {

constexpr std::chrono::milliseconds kForkWaits{200};      // also for a holder that gets no core on a busy machine
constexpr uint32_t kHeld = 1, kWaitedFor = 2, kBits = 3;  // of a Mutex's state
constexpr uint32_t kForking = 1;                          // bit of `epoch`

std::atomic<uint32_t> epoch{0};  // fork_count() times two; plus kForking while a fork waits

// Number of locks that a thread holds or waits for. Records are never deleted; a thread that ends leaves its record to another one.
struct Record {
  std::atomic<uint32_t> locks{0};
  std::atomic<bool> used{true};
  std::atomic<bool> gone{false};
  Record* next = nullptr;
};
std::atomic<Record*> records{nullptr};

thread_local Record* mine = nullptr;
struct Leaver {
  bool here = true;
  ~Leaver() {
    if (mine) mine->used.store(false, std::memory_order_release);
    mine = nullptr;
  }
};
thread_local Leaver leaver;

Record* new_record() {
  leaver.here = true;  // registers this thread, which returns the record when it ends
  for (Record* r = records.load(std::memory_order_acquire); r; r = r->next) {
    bool used = false;
    if (!r->gone.load(std::memory_order_relaxed) && r->used.compare_exchange_strong(used, true, std::memory_order_acq_rel)) return r;
  }
  auto* made = new Record;
  made->next = records.load(std::memory_order_relaxed);
  while (!records.compare_exchange_weak(made->next, made, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return made;
}

Record& record() {
  if (!mine) mine = new_record();
  return *mine;
}

struct Fork {
  std::atomic_flag busy;  // held by a thread that forks or adds handlers
  std::atomic<Record*> by{nullptr};
  std::vector<ForkHandlers> handlers;

  static Fork& get() {
    static auto* fork = [] {
      pthread_atfork([] { get().before(); }, [] { get().in_parent(); }, [] { get().in_child(); });
      return new Fork;
    }();
    return *fork;
  }
  void begin() {
    while (busy.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  void end() { busy.clear(std::memory_order_release); }

  bool others_hold_locks() const {
    for (Record* r = records.load(std::memory_order_acquire); r; r = r->next)
      if (r != by.load(std::memory_order_relaxed) && r->locks.load(std::memory_order_seq_cst) > 0) return true;
    return false;
  }
  void before() {
    begin();
    by.store(&record(), std::memory_order_relaxed);
    epoch.fetch_add(kForking, std::memory_order_seq_cst);
    const auto end = std::chrono::steady_clock::now() + kForkWaits;
    while (others_hold_locks() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::microseconds(20));
    for (auto h = handlers.rbegin(); h != handlers.rend(); ++h)
      if (h->before) h->before();
  }
  void in_parent() {
    for (const ForkHandlers& h : handlers)
      if (h.in_parent) h.in_parent();
    by.store(nullptr, std::memory_order_relaxed);
    epoch.fetch_sub(kForking, std::memory_order_seq_cst);
    epoch.notify_all();
    end();
  }
  void in_child() {
    for (Record* r = records.load(std::memory_order_relaxed); r; r = r->next) {
      if (r == by.load(std::memory_order_relaxed)) continue;
      r->gone.store(true, std::memory_order_relaxed);
      r->locks.store(0, std::memory_order_relaxed);
    }
    epoch.fetch_add(kForking, std::memory_order_seq_cst);  // the next count; locks held before become free
    for (const ForkHandlers& h : handlers)
      if (h.in_child) h.in_child();
    by.store(nullptr, std::memory_order_relaxed);
    end();
  }
};

const Fork& at_load = Fork::get();  // before anything can be locked

// Counts this thread as holding one more lock. Waits first for a fork to end, unless the thread already holds a lock. Returns the fork
// count.
uint32_t enter(Record& me) {
  const uint32_t locks = me.locks.load(std::memory_order_relaxed);
  for (;;) {
    me.locks.store(locks + 1, std::memory_order_seq_cst);
    const uint32_t now = epoch.load(std::memory_order_seq_cst);
    if (!(now & kForking) || locks > 0 || Fork::get().by.load(std::memory_order_relaxed) == &me) return now >> 1;
    me.locks.store(locks, std::memory_order_seq_cst);
    epoch.wait(now, std::memory_order_relaxed);
  }
}

void leave(Record& me) { me.locks.store(me.locks.load(std::memory_order_relaxed) - 1, std::memory_order_release); }

}  // namespace

void Mutex::lock() {
  const uint32_t base = enter(record()) << 2;
  uint32_t seen = base;  // a value that means free
  uint32_t wanted = base | kHeld;
  while (!state_.compare_exchange_weak(seen, wanted, std::memory_order_acquire, std::memory_order_relaxed)) {
    if ((seen & ~kBits) != base || (seen & kBits) == 0) continue;  // free; a lock held before a fork is free, too
    wanted = base | kWaitedFor;
    if (seen == wanted || state_.compare_exchange_strong(seen, wanted, std::memory_order_relaxed))
      state_.wait(wanted, std::memory_order_relaxed);
    seen = base;
  }
}

void Mutex::unlock() {
  const uint32_t free = fork_count() << 2;
  if ((state_.exchange(free, std::memory_order_release) & kBits) == kWaitedFor) state_.notify_one();
  leave(record());
}

ThreadToken this_thread() { return &record(); }

bool is_gone(ThreadToken thread) { return static_cast<const Record*>(thread)->gone.load(std::memory_order_relaxed); }

void RecursiveMutex::lock() {
  const ThreadToken me = this_thread();
  if (owner_.load(std::memory_order_relaxed) != me) {
    mutex_.lock();
    owner_.store(me, std::memory_order_relaxed);
    depth_ = 0;
  }
  ++depth_;
}

void RecursiveMutex::unlock() {
  if (--depth_ > 0) return;
  owner_.store(nullptr, std::memory_order_relaxed);
  mutex_.unlock();
}

void Condition::wait(std::unique_lock<Mutex>& lock) {
  const uint32_t seen = changes_.load(std::memory_order_relaxed);
  lock.unlock();
  changes_.wait(seen, std::memory_order_relaxed);
  lock.lock();
}

void Condition::notify_all() {
  changes_.fetch_add(1, std::memory_order_relaxed);
  changes_.notify_all();
}

uint32_t fork_count() { return epoch.load(std::memory_order_relaxed) >> 1; }

void on_fork(ForkHandlers handlers) {
  Fork& fork = Fork::get();
  fork.begin();
  fork.handlers.push_back(handlers);
  fork.end();
}

}  // namespace lamina
