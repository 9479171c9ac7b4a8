#include "graph/nn/read_ahead.h"

#include <semaphore.h>

#include <algorithm>
#include <deque>
#include <system_error>
#include <thread>

#include "runtime/core/interrupt.h"
#include "runtime/core/mutex.h"

namespace lamina::data {
namespace {

using namespace std::chrono_literals;

constexpr auto kLeaveWaits = 1000ms;  // for threads of a pass that is dropped before its end
constexpr int64_t kMostThreads = 256, kMostAhead = 512, kBytesAhead = 256 << 20;

std::atomic<int64_t> threads_now{0};

// Wakes the one consumer, whose waits end after a time so that it can look for interrupts.
class Bell {
 public:
  Bell() { sem_init(&rings_, 0, 0); }
  ~Bell() { sem_destroy(&rings_); }
  Bell(const Bell&) = delete;
  void ring() {  // once is enough: the consumer looks at everything after a ring
    int pending = 0;
    sem_getvalue(&rings_, &pending);
    if (pending <= 0) sem_post(&rings_);
  }
  void wait(std::chrono::milliseconds most) {
    timespec until{};
    clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t ns = until.tv_nsec + std::chrono::nanoseconds(most).count();
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    sem_clockwait(&rings_, CLOCK_MONOTONIC, &until);
  }

 private:
  sem_t rings_;
};

struct Slot {
  Element element;
  std::exception_ptr error;
  bool done = false;
};

// What the threads and the consumer of one pass share. It lives as long as any of them.
struct Shared {
  Shared(std::unique_ptr<ElementPass> from, MapFunction function, int64_t limit, bool grows)
      : from(std::move(from)), function(std::move(function)), limit(limit), grows(grows) {}

  // Threads use these one at a time, while `reading`.
  std::unique_ptr<ElementPass> from;
  const MapFunction function;
  const uint32_t process = fork_count();

  Mutex mutex;  // guards what follows
  Condition room;
  Bell bell;
  std::deque<Slot> slots;  // slot i is for item `first` + i
  int64_t first = 0, limit;
  bool grows, was_full = false, reading = false, ended = false, stop = false;
  int64_t running = 0;

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      room.wait(lock, [&] { return stop || ended || (!reading && int64_t(slots.size()) < limit); });
      if (stop || ended) break;
      reading = true;
      lock.unlock();
      Slot slot;
      bool more = true;
      try {
        more = from->next(slot.element);
      } catch (...) {
        slot.error = std::current_exception();
      }
      lock.lock();
      reading = false;
      if (!more) {
        ended = true;
        break;
      }
      const int64_t item = first + int64_t(slots.size());
      slots.emplace_back();
      if (int64_t(slots.size()) == limit) was_full = true;
      room.notify_all();
      lock.unlock();
      if (function && !slot.error) run(slot, item);
      slot.done = true;
      lock.lock();
      slots[size_t(item - first)] = std::move(slot);
      bell.ring();
    }
    --running;
    --threads_now;
    bell.ring();
    room.notify_all();
  }
  void run(Slot& slot, int64_t item) const {
    try {
      slot.element = function(slot.element, item);
    } catch (...) {
      slot.error = std::current_exception();
    }
  }
  void end() {
    const std::lock_guard lock(mutex);
    stop = true;
    room.notify_all();
  }
  bool left() {
    const std::lock_guard lock(mutex);
    return running == 0 || process != fork_count();
  }
};

// All passes with threads, for end_reading_threads().
struct Registry {
  Mutex mutex;
  std::vector<std::weak_ptr<Shared>> all;
  static Registry& get() {
    static auto* registry = new Registry;
    return *registry;
  }
  void add(const std::shared_ptr<Shared>& shared) {
    const std::lock_guard lock(mutex);
    std::erase_if(all, [](const std::weak_ptr<Shared>& one) { return one.expired(); });
    all.push_back(shared);
  }
};

class AheadPass final : public ElementPass {
 public:
  AheadPass(std::shared_ptr<Shared> shared, int64_t threads, const char* step)
      : shared_(std::move(shared)), threads_(threads), step_(step) {}
  ~AheadPass() override {
    if (!begun_ || shared_->process != fork_count()) return;
    shared_->end();
    const auto until = std::chrono::steady_clock::now() + kLeaveWaits;
    while (!shared_->left() && std::chrono::steady_clock::now() < until) shared_->bell.wait(5ms);
  }

  bool next(Element& out) override {
    if (shared_->process != fork_count()) {
      throw Error(ErrorKind::state, {.what = "Dataset: this pass was begun before the process was forked",
                                     .where = "",
                                     .why = "the threads that read ahead are in the parent",
                                     .fix = "begin a new loop over the Dataset in the child"});
    }
    if (!begun_) begin();
    Shared& s = *shared_;
    std::unique_lock lock(s.mutex);
    while (s.slots.empty() || !s.slots.front().done) {
      if (s.slots.empty() && s.ended) return false;
      if (s.stop) stopped();
      if (s.grows && std::exchange(s.was_full, false)) grow();
      lock.unlock();
      s.bell.wait(50ms);
      check_interrupt();
      lock.lock();
    }
    Slot slot = std::move(s.slots.front());
    s.slots.pop_front();
    const int64_t item = s.first++;
    if (s.grows && bytes_ == 0)
      for (const Tensor& t : slot.element) bytes_ += byte_size(t.type());
    s.room.notify_all();
    lock.unlock();
    if (slot.error && !step_) std::rethrow_exception(slot.error);
    if (slot.error) for_item(step_, item, [&] { std::rethrow_exception(slot.error); });
    out = std::move(slot.element);
    return true;
  }

  int64_t skip(int64_t n) override {
    if (begun_) return ElementPass::skip(n);
    const int64_t done = shared_->from->skip(n);
    shared_->first += done;
    return done;
  }

 private:
  void grow() {
    const int64_t most = bytes_ > 0 ? std::clamp<int64_t>(kBytesAhead / bytes_, 2, kMostAhead) : kMostAhead;
    shared_->limit = std::max(shared_->limit, std::min(2 * shared_->limit, most));
    shared_->room.notify_all();
  }
  void begin() {
    begun_ = true;
    Registry::get().add(shared_);
    for (int64_t i = 0; i < threads_; ++i) {
      {
        const std::lock_guard lock(shared_->mutex);
        ++shared_->running;
      }
      ++threads_now;
      try {
        std::thread([shared = shared_] { shared->work(); }).detach();
      } catch (const std::system_error& e) {
        --threads_now;
        const std::lock_guard lock(shared_->mutex);
        if (--shared_->running > 0) return;  // fewer do the same
        throw Error(ErrorKind::out_of_memory, {.what = "Dataset: no thread can be started to read ahead",
                                               .where = "",
                                               .why = e.what(),
                                               .fix = "end other threads, or read without prefetch() and parallel="});
      }
    }
  }
  [[noreturn]] static void stopped() {
    throw Error(ErrorKind::state, {.what = "Dataset: its threads have ended",
                                   .where = "",
                                   .why = "the process is about to exit",
                                   .fix = "read datasets before the program ends"});
  }
  std::shared_ptr<Shared> shared_;
  int64_t threads_, bytes_ = 0;
  const char* step_;  // null: adds nothing to errors
  bool begun_ = false;
};

class Mapped final : public Elements {
 public:
  Mapped(ElementsRef from, MapFunction function, int64_t threads, uint64_t seed)
      : from_(std::move(from)), function_(std::move(function)), threads_(threads), seeds_(seed) {}
  std::unique_ptr<ElementPass> start() const override {
    MapFunction seeded = [function = function_, seed = seeds_.next()](const Element& element, int64_t item) {
      const random::SeedScope seeds(random::mixed(seed, uint64_t(item)));
      return function(element, item);
    };
    if (threads_ == 1) return std::make_unique<Pass>(from_->start(), std::move(seeded));
    return std::make_unique<AheadPass>(std::make_shared<Shared>(from_->start(), std::move(seeded), 2 * threads_, false), threads_, "map");
  }
  std::optional<int64_t> size() const override { return from_->size(); }
  bool endless() const override { return from_->endless(); }
  bool reordered() const override { return from_->reordered(); }

 private:
  struct Pass final : ElementPass {
    Pass(std::unique_ptr<ElementPass> from, MapFunction function) : from(std::move(from)), function(std::move(function)) {}
    bool next(Element& out) override {
      if (!from->next(out)) return false;
      const int64_t number = item++;
      out = for_item("map", number, [&] { return function(out, number); });
      return true;
    }
    int64_t skip(int64_t n) override {
      const int64_t done = from->skip(n);
      item += done;
      return done;
    }
    std::unique_ptr<ElementPass> from;
    MapFunction function;
    int64_t item = 0;
  };
  ElementsRef from_;
  MapFunction function_;
  int64_t threads_;
  PassSeeds seeds_;
};

class Prefetched final : public Elements {
 public:
  Prefetched(ElementsRef from, int64_t most) : from_(std::move(from)), most_(most) {}
  std::unique_ptr<ElementPass> start() const override {
    const bool grows = most_ == kAutomatic;
    return std::make_unique<AheadPass>(std::make_shared<Shared>(from_->start(), nullptr, grows ? 2 : most_, grows), 1, nullptr);
  }
  std::optional<int64_t> size() const override { return from_->size(); }
  bool endless() const override { return from_->endless(); }
  bool reordered() const override { return from_->reordered(); }

 private:
  ElementsRef from_;
  int64_t most_;
};

}  // namespace

ElementsRef mapped_elements(ElementsRef from, MapFunction function, int64_t threads, uint64_t seed) {
  if (threads == kAutomatic) threads = std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  require_positive("a number of threads", threads);
  if (threads > kMostThreads) {
    throw Error(
        ErrorKind::invalid_argument,
        {.what = cat("Dataset: ", threads, " threads"), .where = "", .why = cat("a map has at most ", kMostThreads), .fix = "pass fewer"});
  }
  return std::make_shared<Mapped>(std::move(from), std::move(function), threads, seed);
}
ElementsRef prefetched_elements(ElementsRef from, int64_t most) {
  if (most != kAutomatic) require_positive("a prefetch", most);
  return std::make_shared<Prefetched>(std::move(from), most);
}

void end_reading_threads(std::chrono::milliseconds patience) {
  std::vector<std::shared_ptr<Shared>> all;
  {
    const std::lock_guard lock(Registry::get().mutex);
    for (const std::weak_ptr<Shared>& one : Registry::get().all)
      if (auto shared = one.lock()) all.push_back(std::move(shared));
  }
  for (const auto& shared : all) shared->end();
  const auto until = std::chrono::steady_clock::now() + patience;
  for (const auto& shared : all)
    while (!shared->left() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
}
int64_t reading_threads() { return threads_now; }

}  // namespace lamina::data
