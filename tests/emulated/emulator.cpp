// GPU threads as fibers of one host thread: contexts, barriers, shuffles, shared memory, and scheduling.
#include "tests/emulated/emulator.h"

#include <sys/mman.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>

#include "tests/emulated/context.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace lamina::kernels::cuda::emulation {
namespace {

struct Block;

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  int64_t group;
  Where where;
};

struct Meeting {  // lanes that wait for each other
  unsigned mask = 0, arrived = 0;
  std::vector<struct Fiber*> waiting;
};
struct Warp {
  std::vector<Meeting> meetings;  // of disjoint lanes
  uint64_t given[32] = {};
};

struct Fiber {
  Context context;
  Position position{};
  Block* block = nullptr;
  Warp* warp = nullptr;
  unsigned lane = 0;
  bool done = false;
  const char* what = "";  // what it waits for, or last did
  Where where;
  bool vote = false;
  unsigned from = 0, votes = 0;
  uint64_t taken = 0;
  std::vector<Copy> copies;
  int64_t committed = 0;
};

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<char, Free>;
constexpr size_t kGuard = 256;  // bytes after shared memory that must not be written
constexpr unsigned char kGuardByte = 0xC5;

struct Block {
  Running* launch = nullptr;
  unsigned number = 0;  // in the launches that run together
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Warp> warps;
  std::vector<Fiber*> waiting;
  std::map<int, std::vector<Fiber*>> waiting_at;  // barriers of some threads
  unsigned alive = 0;
  Memory dynamic;
  size_t dynamic_bytes = 0;
  std::map<const void*, std::pair<Memory, size_t>> statics;
};

Settings the_settings;
Counts the_counts;
Observer* observer = nullptr;
Current now;

Fiber* running = nullptr;  // null: the host thread
Context host;
std::vector<Fiber*> ready;  // a queue that starts at `head`
size_t head = 0;
std::vector<Fiber*> late;  // threads of blocks that have not begun
unsigned alive = 0;
int64_t pauses = 0;
std::string failure;
std::mt19937 chance;
std::vector<std::unique_ptr<Block>> blocks;
std::vector<Launch>* listed = nullptr;                  // launches are not run, but listed here
thread_local std::vector<Running>* together = nullptr;  // launches are not run yet, but kept here

// --- contexts ---
void fiber_main();
#if defined(__SANITIZE_ADDRESS__)
void* fake_stack = nullptr;
const void* host_stack = nullptr;
size_t host_stack_size = 0;
#endif

void change_to(Fiber* next) {
  Context& from = running ? running->context : host;
  Context& to = next ? next->context : host;
  running = next;
  ++the_counts.switches;
  now.running = next != nullptr;
  if (next) {
    now.block = next->block->number;
    now.thread = next->position.thread;
    now.stack_begin = next->context.stack;
    now.stack_end = next->context.stack + next->context.size;
  }
#if defined(__SANITIZE_ADDRESS__)
  void* kept = nullptr;
  __sanitizer_start_switch_fiber(&kept, next ? to.stack : static_cast<const char*>(host_stack), next ? to.size : host_stack_size);
#endif
  switch_contexts(from, to);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(kept, nullptr, nullptr);
#endif
}

std::string text(const Where& w) {
  std::string file = w.file_name();
  if (const size_t at = file.rfind('/'); at != std::string::npos) file.erase(0, at + 1);
  return file + ":" + std::to_string(w.line());
}

// Threads by what they wait for.
std::string report() {
  std::map<std::string, std::vector<std::string>> groups;
  for (const auto& b : blocks) {
    std::map<std::string, std::pair<int, unsigned>> here;
    for (const auto& f : b->fibers) {
      if (b->alive == 0) continue;
      const std::string state = f->done ? "ended" : std::string(f->what) + " at " + text(f->where);
      auto& [count, first] = here[state];
      if (count++ == 0) first = f->position.thread;
    }
    for (const auto& [state, who] : here)
      groups[state].push_back("block " + std::to_string(b->number) + ": " + std::to_string(who.first) + " threads from " +
                              std::to_string(who.second));
  }
  std::string out;
  for (const auto& [state, who] : groups) {
    out += "\n  " + state + ": " + who[0];
    if (who.size() > 1) out += ", and in " + std::to_string(who.size() - 1) + " other blocks";
  }
  return out;
}

// --- scheduling ---
void make_ready(std::vector<Fiber*>& waiting) {
  if (the_settings.order == Order::reverse) std::reverse(waiting.begin(), waiting.end());
  ready.insert(ready.end(), waiting.begin(), waiting.end());
  waiting.clear();
  pauses = 0;
}

Fiber* next_ready() {
  if (head == ready.size() && !late.empty()) make_ready(late);
  if (head == ready.size()) return nullptr;
  if (the_settings.order == Order::random) std::swap(ready[head], ready[head + chance() % (ready.size() - head)]);
  Fiber* f = ready[head++];
  if (head == ready.size())
    ready.clear(), head = 0;
  else if (head > 65536)
    ready.erase(ready.begin(), ready.begin() + ptrdiff_t(head)), head = 0;
  return f;
}

void run_another() {
  Fiber* me = running;
  Fiber* next = next_ready();
  if (next == me) return;
  if (!next) fail("deadlock: every thread waits" + report());
  change_to(next);
}

void check_guards(const Block& b) {
  auto check = [&](const char* begin, size_t bytes, const char* what) {
    for (size_t i = 0; i < kGuard; ++i)
      if (static_cast<unsigned char>(begin[bytes + i]) != kGuardByte)
        fail("block " + std::to_string(b.number) + " has written " + std::to_string(i) + " bytes behind its " + what +
             " shared memory of " + std::to_string(bytes) + " bytes");
  };
#if !defined(__SANITIZE_ADDRESS__)  // ASan has its own red zones
  if (b.dynamic) check(b.dynamic.get(), b.dynamic_bytes, "dynamic");
  for (const auto& [site, memory] : b.statics) check(memory.first.get(), memory.second, "static");
#else
  (void)check, (void)b;
#endif
}

Memory shared_memory(size_t bytes, unsigned block) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr size_t guard = 0;
#else
  constexpr size_t guard = kGuard;
#endif
  void* p = nullptr;
  if (posix_memalign(&p, 128, std::max<size_t>(bytes + guard, 1))) throw std::bad_alloc();
  std::memset(p, 0xff, bytes);  // NaN, or -1
  if (guard) std::memset(static_cast<char*>(p) + bytes, kGuardByte, guard);
  if (observer) observer->fresh(p, bytes, block);
  return Memory(static_cast<char*>(p));
}

void end_block(Block& b);
void fiber_main() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, host_stack ? nullptr : &host_stack, host_stack_size ? nullptr : &host_stack_size);
#endif
  try {
    running->block->launch->thread();
  } catch (const std::exception& e) {
    fail(std::string("a kernel threw: ") + e.what());
  }
  Fiber* me = running;
  me->done = true;
  pauses = 0;
  --alive;
  Block& b = *me->block;
  if (--b.alive == 0) {
    check_guards(b);
    end_block(b);
  }
  if (!me->copies.empty()) fail("a thread ended with copies that it did not wait for, begun at " + text(me->copies[0].where));
  // Ended threads no longer take part in barriers. Hardware may let the others pass, depending on chance.
  if (!b.waiting.empty() && b.waiting.size() == b.alive)
    fail("threads ended while others of their block wait at " + text(b.waiting[0]->where) + report());
  Fiber* next = next_ready();
  if (!next && alive > 0) fail("deadlock: every thread waits" + report());
  change_to(next);
  std::abort();  // a finished fiber is never resumed
}

// --- launches ---
struct Stacks {
  std::vector<char*> unused;
  size_t size = 0;
  char* take(size_t bytes) {
    if (size != bytes) {
      for (char* s : unused) munmap(s, size);
      unused.clear();
      size = bytes;
    }
    if (!unused.empty()) {
      char* s = unused.back();
      unused.pop_back();
      return s;
    }
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    return static_cast<char*>(p);
  }
} stacks;

// number: in the launches that run together.
std::unique_ptr<Block> make_block(Running& launch, unsigned number) {
  const unsigned local = number - launch.first_block;
  const LaunchShape& shape = launch.shape;
  auto b = std::make_unique<Block>();
  b->launch = &launch;
  b->number = number;
  b->alive = shape.threads;
  b->warps.resize(shape.threads / kWarp);
  b->dynamic_bytes = shape.shared_bytes;
  b->dynamic = shared_memory(shape.shared_bytes, number);
  for (unsigned t = 0; t < shape.threads; ++t) {
    auto f = std::make_unique<Fiber>();
    f->context.size = the_settings.stack_bytes;
    f->context.stack = stacks.take(the_settings.stack_bytes);
    f->position = {t, local % shape.grid.x, local / shape.grid.x, shape.threads, shape.grid.x, shape.grid.y};
    f->block = b.get();
    f->warp = &b->warps[t / kWarp];
    f->lane = t % kWarp;
    f->what = "not begun";
    start(f->context, fiber_main);
    b->fibers.push_back(std::move(f));
  }
  ++the_counts.blocks;
  return b;
}

void clear() {
  for (auto& b : blocks)
    for (auto& f : b->fibers) stacks.unused.push_back(f->context.stack);
  blocks.clear();
  ready.clear(), late.clear();
  head = 0;
  running = nullptr;
  now = {};
}

// Begins blocks of launches, which are in order.
void begin_blocks(const std::vector<Running*>& launches, const std::vector<unsigned>& numbers) {
  std::vector<Fiber*> all;
  for (unsigned number : numbers) {
    const auto own = std::find_if(launches.begin(), launches.end(),
                                  [&](const Running* l) { return number >= l->first_block && number < l->first_block + l->blocks(); });
    ++(*own)->alive;
    blocks.push_back(make_block(**own, number));
    for (auto& f : blocks.back()->fibers) (number - (*own)->first_block < the_settings.first_late ? all : late).push_back(f.get());
    alive += unsigned(blocks.back()->fibers.size());
  }
  make_ready(all);
}
std::vector<unsigned> in_order(unsigned first, unsigned count);
// The last block of a launch begins the next one on the same GPU.
void end_block(Block& b) {
  Running& launch = *b.launch;
  if (observer) observer->block_ends(b.number, &launch);
  if (--launch.alive > 0 || !launch.next) return;
  Running& next = *launch.next;
  if (observer)
    for (unsigned i = 0; i < next.blocks(); ++i) observer->block_follows(next.first_block + i, &launch);
  begin_blocks({&next}, in_order(next.first_block, next.blocks()));
}
std::vector<unsigned> in_order(unsigned first, unsigned count) {
  std::vector<unsigned> numbers(count);
  for (unsigned i = 0; i < count; ++i) numbers[i] = first + i;
  if (the_settings.order == Order::reverse) std::reverse(numbers.begin(), numbers.end());
  if (the_settings.order == Order::random) std::shuffle(numbers.begin(), numbers.end(), chance);
  return numbers;
}
void run_blocks(const std::vector<Running*>& launches, const std::vector<unsigned>& numbers) {
  alive = 0;
  begin_blocks(launches, numbers);
  change_to(next_ready());
  std::string why;
  std::swap(why, failure);
  clear();
  if (!why.empty()) throw Failure(why);
}

}  // namespace

Settings& settings() { return the_settings; }
Counts& counts() { return the_counts; }
const Position& position() { return running->position; }
const Current& current() { return now; }
void set_observer(Observer* o) { observer = o; }

void fail(const std::string& why) {
  if (!running) throw Failure(why);
  if (failure.empty()) failure = why;
  change_to(nullptr);
  std::abort();
}

// While start() runs, `place` points to `list`, where its launches go.
template <class List>
static void collect_in(List*& place, List& list, const std::function<void()>& start) {
  struct Back {
    List*& place;
    ~Back() { place = nullptr; }
  } back{place};
  place = &list;
  start();
}

std::vector<Launch> launches_of(const std::function<void()>& start) {
  std::vector<Launch> out;
  collect_in(listed, out, start);
  return out;
}

void run_all(std::vector<std::vector<Running>>& gpus) {
  pauses = 0;
  chance.seed(the_settings.seed);
  unsigned count = 0, first = 0;
  std::vector<Running*> begin;
  for (auto& launches : gpus)
    if (!launches.empty()) begin.push_back(&launches[0]), launches[0].first_block = first, first += launches[0].blocks();
  count = first;
  for (auto& launches : gpus)
    for (size_t i = 0; i < launches.size(); ++i) {
      ++the_counts.launches;
      if (i == 0) continue;
      launches[i - 1].next = &launches[i], launches[i].first_block = count, count += launches[i].blocks();
    }
  if (begin.empty()) return;
  if (observer) observer->launch_begins(count, begin[0]->shape.threads);
  try {
    if (begin[0]->shape.cooperative)
      run_blocks(begin, in_order(0, first));
    else
      for (unsigned number : in_order(0, first)) run_blocks(begin, {number});
  } catch (const Failure& f) {
    if (observer) observer->launch_ends();
    throw Failure(begin[0]->name + ": " + f.what());
  }
  if (observer) observer->launch_ends();
}

void run(const LaunchShape& wanted, const std::function<void()>& thread, const char* name) {
  const std::string what = std::string(name) + ": ";
  if (wanted.threads == 0 || wanted.threads % kWarp || wanted.threads > 1024)
    throw Failure(what + "a block has " + std::to_string(wanted.threads) + " threads, wanted 32 to 1024 in whole warps");
  if (wanted.grid.x == 0 || wanted.grid.y == 0 || wanted.grid.y > 65535 || wanted.grid.x > 0x7fffffffu)
    throw Failure(what + "a grid of " + std::to_string(wanted.grid.x) + " x " + std::to_string(wanted.grid.y) + " blocks");
  if (wanted.shared_bytes > the_settings.shared_bytes)
    throw Failure(what + std::to_string(wanted.shared_bytes) + " bytes of shared memory");
  const unsigned count = wanted.grid.x * wanted.grid.y;
  if (wanted.cooperative && count > the_settings.resident_blocks)
    throw Failure(what + "more blocks than can be resident at once: " + std::to_string(count));
  if (running) throw Failure(what + "launched by a kernel");
  if (listed) return listed->push_back({name, wanted});
  if (together) {
    if (!wanted.cooperative) throw Failure(what + "launches that run together are cooperative");
    return together->push_back({wanted, thread, name});
  }
  std::vector<std::vector<Running>> one{{{wanted, thread, name}}};
  run_all(one);
}

std::vector<Running> kept_launches(const std::function<void()>& start) {
  std::vector<Running> out;
  collect_in(together, out, start);
  return out;
}

void run_together(const std::vector<std::function<void()>>& starts) {
  std::vector<std::vector<Running>> gpus;
  for (const auto& start : starts) gpus.push_back(kept_launches(start));
  run_all(gpus);
}

// --- what kernels call ---
void sync_block(const Where& where) { sync_block_or(false, where); }

bool sync_block_or(bool v, const Where& where) {
  Fiber* me = running;
  Block& b = *me->block;
  me->what = "barrier of the block";
  me->where = where;
  me->vote = v;
  if (!b.waiting.empty() && b.waiting[0]->where.line() != where.line())
    fail("threads of block " + std::to_string(b.number) + " wait at different barriers: " + text(b.waiting[0]->where) + " and " +
         text(where));
  if (b.alive < b.fibers.size()) fail("a barrier of the block at " + text(where) + " after threads have ended" + report());
  b.waiting.push_back(me);
  if (b.waiting.size() == b.alive) {
    ++the_counts.block_barriers;
    bool any = false;
    for (Fiber* f : b.waiting) any |= f->vote;
    for (Fiber* f : b.waiting) f->vote = any;
    if (observer) observer->block_barrier(b.number);
    make_ready(b.waiting);
  }
  run_another();
  return me->vote;
}

void sync_some(int barrier, unsigned threads, const Where& where) {
  Fiber* me = running;
  Block& b = *me->block;
  me->what = "barrier of some threads";
  me->where = where;
  if (barrier < 1 || barrier > 15) fail("barrier " + std::to_string(barrier) + " at " + text(where) + ": they are 1 to 15");
  if (threads == 0 || threads % kWarp || threads > b.fibers.size())
    fail("a barrier of " + std::to_string(threads) + " threads at " + text(where));
  std::vector<Fiber*>& waiting = b.waiting_at[barrier];
  if (!waiting.empty() && waiting[0]->votes != threads)
    fail("barrier " + std::to_string(barrier) + " of " + std::to_string(waiting[0]->votes) + " threads at " + text(waiting[0]->where) +
         " and of " + std::to_string(threads) + " at " + text(where));
  me->votes = threads;
  waiting.push_back(me);
  if (waiting.size() == threads) {
    std::map<unsigned, unsigned> lanes;
    for (Fiber* f : waiting) ++lanes[f->position.thread / kWarp];
    std::vector<unsigned> warps;
    for (const auto& [warp, count] : lanes) {
      if (count != kWarp) fail("a part of a warp at barrier " + std::to_string(barrier) + " at " + text(where));
      warps.push_back(warp);
    }
    if (observer) observer->some_barrier(b.number, warps);
    make_ready(waiting);
  }
  run_another();
}

// Lanes' results are fixed when the last lane arrives, so that nothing can overwrite them.
static void meet(unsigned mask, const char* what, const Where& where) {
  Fiber* me = running;
  Warp& w = *me->warp;
  me->what = what;
  me->where = where;
  if (!(mask >> me->lane & 1)) fail("lane " + std::to_string(me->lane) + " is not in its own mask at " + text(where));
  Meeting* m = nullptr;
  for (Meeting& other : w.meetings) {
    if (other.arrived == 0)
      m = m ? m : &other;
    else if (other.mask == mask && other.waiting[0]->where.line() == where.line())
      m = &other;
    else if (other.mask & mask)
      fail("lanes of a warp meet at different places or with different masks: " + text(other.waiting[0]->where) + " and " + text(where));
    if (m == &other && other.arrived) break;
  }
  if (!m) m = &w.meetings.emplace_back();
  m->mask = mask;
  m->arrived |= 1u << me->lane;
  m->waiting.push_back(me);
  if (m->arrived == mask) {
    ++the_counts.warp_barriers;
    unsigned votes = 0;
    for (Fiber* f : m->waiting) votes |= unsigned(f->vote) << f->lane;
    for (Fiber* f : m->waiting) f->votes = votes, f->taken = w.given[f->from];
    m->arrived = 0;
    if (observer) observer->warp_barrier(me->block->number, me->position.thread / kWarp);
    make_ready(m->waiting);
  }
  run_another();
}

void sync_warp(unsigned mask, const Where& where) { meet(mask, "barrier of the warp", where); }

void shuffle(void* value, size_t bytes, unsigned from, unsigned mask, const Where& where) {
  if (bytes > 8) fail("a shuffle of more than 8 bytes at " + text(where));
  Fiber* me = running;
  if (!(mask >> from & 1)) fail("a shuffle at " + text(where) + " from lane " + std::to_string(from) + ", which is not in the mask");
  std::memcpy(&me->warp->given[me->lane], value, bytes);
  me->from = from;
  meet(mask, "shuffle", where);
  std::memcpy(value, &me->taken, bytes);
}

unsigned ballot(bool v, unsigned mask, const Where& where) {
  running->vote = v;
  meet(mask, "vote", where);
  running->vote = false;
  return running->votes;
}

void pause(const Where& where) {
  Fiber* me = running;
  me->what = "waits in a loop";
  me->where = where;
  constexpr int64_t long_enough = 10'000;  // nobody else can go on
  if (++pauses > long_enough && !late.empty()) make_ready(late);
  if (pauses > the_settings.most_pauses) fail("stuck: nothing has happened for " + std::to_string(pauses) + " pauses" + report());
  ready.push_back(me);
  run_another();
}

void before_atomic(const void* address, size_t bytes, const Where& where) {
  if (the_settings.order == Order::random && chance() % 2) pause(where);
  pauses = 0;
  if (observer) observer->atomic(address, bytes, where);
}
void acquired(const void* address, const Where&) {
  if (observer) observer->acquire(address);
}
void before_release(const void* address, const Where&) {
  if (observer) observer->release(address);
}

void copy_async(void* to, const void* from, size_t bytes, const Where& where) {
  if (reinterpret_cast<uintptr_t>(to) % bytes || reinterpret_cast<uintptr_t>(from) % bytes)  // null: zeros
    fail("a copy of " + std::to_string(bytes) + " bytes that is not aligned, at " + text(where));
  running->copies.push_back({to, from, bytes, running->committed, where});
}
void commit_copies() { ++running->committed; }
// Copies arrive as late as allowed: without waiting, a thread reads the old contents.
void wait_copies(int but, const Where&) {
  Fiber* me = running;
  size_t done = 0;
  for (; done < me->copies.size() && me->copies[done].group < me->committed - but; ++done) {
    const Copy& c = me->copies[done];
    if (observer && c.from) observer->access(c.from, c.bytes, false, c.where);
    if (observer) observer->access(c.to, c.bytes, true, c.where);
    if (c.from)
      std::memcpy(c.to, c.from, c.bytes);
    else
      std::memset(c.to, 0, c.bytes);
  }
  me->copies.erase(me->copies.begin(), me->copies.begin() + ptrdiff_t(done));
}

void* static_shared(const void* site, size_t bytes) {
  Block& b = *running->block;
  const auto found = b.statics.find(site);
  if (found != b.statics.end()) return found->second.first.get();
  return (b.statics[site] = {shared_memory(bytes, b.number), bytes}).first.get();
}
void* dynamic_shared() { return running->block->dynamic.get(); }

}  // namespace lamina::kernels::cuda::emulation
