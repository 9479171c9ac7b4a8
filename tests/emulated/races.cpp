#include "tests/emulated/races.h"

#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <unordered_map>

#include "tests/emulated/emulator.h"
#include "tests/emulated/red_zones.h"

extern "C" char __executable_start;  // start of the program in memory, defined by the linker

namespace lamina::kernels::cuda {
namespace {

using emulation::current;
using emulation::Where;

// The time of an access, counted in barriers of its block and warp and releases of its thread.
struct Moment {
  uint32_t thread = 0;  // numbered across the launch
  uint32_t block_epoch = 0, warp_epoch = 0, sequence = 0;
};
// A vector clock: the times before which others' accesses are over for a thread.
struct Clock {
  std::unordered_map<uint32_t, uint32_t> blocks, warps, threads;
  static void raise(uint32_t& to, uint32_t v) { to = v > to ? v : to; }
  bool has(const Clock& c) const {
    const auto all = [](const auto& mine, const auto& theirs) {
      for (const auto& [k, v] : theirs)
        if (const auto at = mine.find(k); at == mine.end() || at->second < v) return false;
      return true;
    };
    return all(blocks, c.blocks) && all(warps, c.warps) && all(threads, c.threads);
  }
  void join(const Clock& c) {
    for (const auto& [k, v] : c.blocks) raise(blocks[k], v);
    for (const auto& [k, v] : c.warps) raise(warps[k], v);
    for (const auto& [k, v] : c.threads) raise(threads[k], v);
  }
};

enum class Level : uint8_t { thread, warp };
struct Readers {  // of one warp, since the last write
  Moment last;
  Level level = Level::thread;
  const void* pc = nullptr;
};
struct Cell {
  enum class State : uint8_t { unknown, fresh, written };
  State state = State::unknown;
  bool atomic = false;
  Moment write;
  const void* pc = nullptr;
  std::vector<Readers> readers;  // in the order of their warps: many cells are read by every warp of a launch
};
constexpr size_t kPage = 1024;  // cells
struct Page {
  bool has_red_zone = false;
  std::array<Cell, kPage> cells;
};

struct Site {
  const void* pc = nullptr;
  const Where* where = nullptr;
};

std::string place(const void* pc) {
  static std::map<const void*, std::string> known;
  if (auto at = known.find(pc); at != known.end()) return at->second;
  char command[256], line[512] = "?";
  std::snprintf(command, sizeof command, "addr2line -e /proc/%d/exe %#zx 2>/dev/null", int(getpid()),
                size_t(static_cast<const char*>(pc) - reinterpret_cast<const char*>(&__executable_start)) - 1);
  if (FILE* f = popen(command, "r")) {
    if (!std::fgets(line, sizeof line, f)) line[0] = '?', line[1] = 0;
    pclose(f);
  }
  std::string s = line;
  while (!s.empty() && (s.back() == '\n' || s.back() == ' ')) s.pop_back();
  if (const size_t at = s.rfind(" (discriminator"); at != std::string::npos) s.erase(at);
  if (const size_t at = s.rfind('/'); at != std::string::npos) s.erase(0, at + 1);
  return known[pc] = s;
}

class Checker final : public emulation::Observer {
 public:
  void launch_begins(unsigned blocks, unsigned threads) override {
    threads_ = threads;
    block_epochs_.assign(blocks, 0);
    warp_epochs_.assign(size_t(blocks) * (threads / kWarp), 0);
    sequences_.assign(size_t(blocks) * threads, 0);
    block_clocks_.assign(blocks, {});
    acquired_.clear();
    released_.clear();
    forget();
  }
  void launch_ends() override { forget(); }
  void fresh(const void* memory, size_t bytes, unsigned) override {
    const size_t begin = reinterpret_cast<size_t>(memory);
    for (size_t a = begin / 4; a < (begin + bytes + 3) / 4; ++a) {
      Cell& c = cell(words_, a, 4);
      c = {};
      c.state = Cell::State::fresh;
    }
    for (size_t a = begin; a < begin + bytes; ++a)
      if (bytes_.count(a / kPage)) cell(bytes_, a, 1) = {};
  }
  void block_barrier(unsigned block) override {
    ++block_epochs_[block];
    std::vector<std::shared_ptr<const Clock>> joined;  // most threads share theirs
    for (auto it = acquired_.begin(); it != acquired_.end();) {
      if (it->first / threads_ != block) {
        ++it;
        continue;
      }
      if (std::find(joined.begin(), joined.end(), it->second) == joined.end()) {
        joined.push_back(it->second);
        block_clocks_[block].join(*it->second);
      }
      it = acquired_.erase(it);
    }
  }
  void block_ends(unsigned block, const void* launch) override {
    block_barrier(block);
    Clock& c = released_[launch];
    c.join(block_clocks_[block]);
    Clock::raise(c.blocks[block], block_epochs_[block]);
  }
  void block_follows(unsigned block, const void* launch) override { block_clocks_[block].join(released_[launch]); }
  void warp_barrier(unsigned block, unsigned warp) override {
    ++warp_epochs_[block * (threads_ / kWarp) + warp];
    if (!acquired_.empty()) share(block, {warp}, {});
  }
  // Everything that these warps did, or knew, is over for all of them.
  void some_barrier(unsigned block, const std::vector<unsigned>& warps) override {
    Clock all;
    for (unsigned warp : warps) {
      const uint32_t number = block * (threads_ / kWarp) + warp;
      Clock::raise(all.warps[number], ++warp_epochs_[number]);
    }
    share(block, warps, std::move(all));
  }
  void atomic(const void* address, size_t bytes, const Where& where) override { look(address, bytes, true, true, {nullptr, &where}); }
  void access(const void* address, size_t bytes, bool write, const Where& where) override {
    look(address, bytes, write, false, {nullptr, &where});
  }
  void release(const void* address) override { join_present(released_[address]); }
  // All that the thread did and knows.
  void join_present(Clock& c) {
    const uint32_t block = current().block, thread = block * threads_ + current().thread, warp = thread / kWarp;
    c.join(block_clocks_[block]);
    if (auto at = acquired_.find(thread); at != acquired_.end()) c.join(*at->second);
    Clock::raise(c.blocks[block], block_epochs_[block]);
    Clock::raise(c.warps[warp], warp_epochs_[warp]);
    Clock::raise(c.threads[thread], ++sequences_[thread]);
  }
  void acquire(const void* address) override {
    const auto at = released_.find(address);
    if (at == released_.end()) return;
    std::shared_ptr<const Clock>& mine = acquired_[current().block * threads_ + current().thread];
    if (mine && mine->has(at->second)) return;  // one that polls learns nothing new
    Clock more = mine ? *mine : Clock();
    more.join(at->second);
    mine = std::make_shared<const Clock>(std::move(more));
  }

  void look(const void* address, size_t bytes, bool write, bool atomic, const Site& site) {
    if (!current().running || threads_ == 0) return;
    const char* p = static_cast<const char*>(address);
    if (p >= current().stack_begin && p < current().stack_end) return;
    const size_t a = reinterpret_cast<size_t>(address);
    if (bytes < 4) {
      for (size_t i = a; i < a + bytes; ++i) look(bytes_, i, 1, write, atomic, site);
    } else {
      for (size_t i = a / 4; i <= (a + bytes - 1) / 4; ++i) look(words_, i, 4, write, atomic, site);
    }
  }

  std::vector<std::string> take() {
    std::vector<std::string> out;
    for (const auto& [text, count] : found_) out.push_back(text + (count > 1 ? " (" + std::to_string(count) + " times)" : ""));
    found_.clear();
    return out;
  }

 private:
  using Pages = std::unordered_map<size_t, std::unique_ptr<Page>>;

  // The threads of these warps all know `more`, and what each of them knew.
  void share(unsigned block, const std::vector<unsigned>& warps, Clock more) {
    std::vector<const Clock*> joined;
    const auto each = [&](const auto& f) {
      for (unsigned warp : warps)
        for (uint32_t t = block * threads_ + warp * kWarp, end = t + kWarp; t < end; ++t) f(t);
    };
    each([&](uint32_t t) {
      const auto at = acquired_.find(t);
      if (at == acquired_.end() || std::find(joined.begin(), joined.end(), at->second.get()) != joined.end()) return;
      joined.push_back(at->second.get());
      more.join(*at->second);
    });
    if (more.blocks.empty() && more.warps.empty() && more.threads.empty()) return;
    const auto all = std::make_shared<const Clock>(std::move(more));
    each([&](uint32_t t) { acquired_[t] = all; });
  }
  void forget() {
    words_.clear();
    bytes_.clear();
    last_page_ = nullptr;
    last_pages_ = nullptr;
  }
  Cell& cell(Pages& pages, size_t index, size_t size) {
    if (last_pages_ != &pages || last_number_ != index / kPage) {
      std::unique_ptr<Page>& page = pages[index / kPage];
      if (!page) {
        page = std::make_unique<Page>();
        const char* begin = reinterpret_cast<const char*>(index / kPage * kPage * size);
        page->has_red_zone = has_red_zone(begin, begin + kPage * size);
      }
      last_pages_ = &pages, last_number_ = index / kPage, last_page_ = page.get();
    }
    return last_page_->cells[index % kPage];
  }

  bool is_over(const Moment& m, Level level, const Moment& now) const {
    if (level == Level::thread && m.thread == now.thread) return true;
    const uint32_t block = m.thread / threads_, warp = m.thread / kWarp;
    if (warp == now.thread / kWarp && m.warp_epoch < now.warp_epoch) return true;
    if (block == now.thread / threads_ && m.block_epoch < now.block_epoch) return true;
    auto knows = [&](const Clock& c) {
      if (auto at = c.blocks.find(block); at != c.blocks.end() && m.block_epoch < at->second) return true;
      if (auto at = c.warps.find(warp); at != c.warps.end() && m.warp_epoch < at->second) return true;
      if (level == Level::warp) return false;
      auto at = c.threads.find(m.thread);
      return at != c.threads.end() && m.sequence < at->second;
    };
    if (knows(block_clocks_[now.thread / threads_])) return true;
    if (acquired_.empty()) return false;
    auto at = acquired_.find(now.thread);
    return at != acquired_.end() && knows(*at->second);
  }

  void report(const char* what, const void* before, const Site& site) {
    if (found_.size() > 200) return;
    std::string here;
    if (site.where) {
      here = site.where->file_name();
      if (const size_t at = here.rfind('/'); at != std::string::npos) here.erase(0, at + 1);
      here += ":" + std::to_string(site.where->line());
    } else {
      here = place(site.pc);
    }
    std::string text = std::string(what) + " at " + here;
    if (before) text += ", before at " + place(before);
    ++found_[text];
  }

  void look(Pages& pages, size_t index, size_t size, bool write, bool atomic, const Site& site) {
    Cell& c = cell(pages, index, size);
    if (last_page_->has_red_zone && in_red_zone(reinterpret_cast<const void*>(index * size)))
      return report(write ? "write outside of a buffer" : "read outside of a buffer", nullptr, site);
    const uint32_t thread = current().block * threads_ + current().thread;
    const Moment now{thread, block_epochs_[current().block], warp_epochs_[thread / kWarp], sequences_[thread]};
    const bool known = c.state == Cell::State::written;
    if (!write && c.state == Cell::State::fresh) report("read of shared memory that nobody has written", nullptr, site);
    if (known && !(atomic && c.atomic) && !is_over(c.write, Level::thread, now))
      report(write ? "race: two writes" : "race: read of what is being written", c.pc, site);
    if (write) {
      for (const Readers& r : c.readers)
        if (!is_over(r.last, r.level, now)) report("race: write of what is being read", r.pc, site);
      c.readers.clear();
      c.state = Cell::State::written;
      c.atomic = atomic;
      c.write = now;
      c.pc = site.pc;
      return;
    }
    const uint32_t warp = thread / kWarp, first_warp = warp - current().thread / kWarp;
    const auto at_warp = [&](uint32_t w) {
      return std::lower_bound(c.readers.begin(), c.readers.end(), w,
                              [](const Readers& r, uint32_t of) { return r.last.thread / kWarp < of; });
    };
    auto mine = at_warp(warp);
    if (mine != c.readers.end() && mine->last.thread / kWarp == warp && mine->last.block_epoch == now.block_epoch) {
      const bool alone = mine->last.warp_epoch < now.warp_epoch || (mine->level == Level::thread && mine->last.thread == thread);
      *mine = {now, alone ? Level::thread : Level::warp, site.pc};
      return;
    }
    // A block's barrier is behind all of its earlier readers.
    const auto block = at_warp(first_warp);
    const auto end = at_warp(first_warp + threads_ / kWarp);
    c.readers.erase(std::remove_if(block, end, [&](const Readers& r) { return r.last.block_epoch != now.block_epoch; }), end);
    c.readers.insert(at_warp(warp), {now, Level::thread, site.pc});
  }

  unsigned threads_ = 0;
  std::vector<uint32_t> block_epochs_, warp_epochs_, sequences_;
  std::vector<Clock> block_clocks_;
  std::unordered_map<uint32_t, std::shared_ptr<const Clock>> acquired_;  // by a thread since its last barrier
  std::unordered_map<const void*, Clock> released_;
  Pages words_, bytes_;
  const Pages* last_pages_ = nullptr;
  size_t last_number_ = 0;
  Page* last_page_ = nullptr;
  std::map<std::string, int64_t> found_;
};

Checker* checker = nullptr;

}  // namespace

bool races_are_checked() { return checker != nullptr; }
std::vector<std::string> take_races() { return checker ? checker->take() : std::vector<std::string>(); }

}  // namespace lamina::kernels::cuda

#if !defined(__SANITIZE_THREAD__)
// Functions called by compiled code. Files compiled with -fsanitize=thread call __tsan_init at program start.
using lamina::kernels::cuda::checker;
extern "C" {
void __tsan_init() {
  if (checker) return;
  checker = new lamina::kernels::cuda::Checker;
  lamina::kernels::cuda::emulation::set_observer(checker);
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
#define LAMINA_ACCESS(name, bytes, write) \
  void __tsan_##name(void* p) { checker->look(p, bytes, write, false, {__builtin_return_address(0), nullptr}); }
#define LAMINA_ACCESSES(bytes)                       \
  LAMINA_ACCESS(read##bytes, bytes, false)           \
  LAMINA_ACCESS(write##bytes, bytes, true)           \
  LAMINA_ACCESS(unaligned_read##bytes, bytes, false) \
  LAMINA_ACCESS(unaligned_write##bytes, bytes, true)
LAMINA_ACCESSES(1)
LAMINA_ACCESSES(2)
LAMINA_ACCESSES(4)
LAMINA_ACCESSES(8)
LAMINA_ACCESSES(16)
void __tsan_read_range(void* p, unsigned long n) { checker->look(p, n, false, false, {__builtin_return_address(0), nullptr}); }
void __tsan_write_range(void* p, unsigned long n) { checker->look(p, n, true, false, {__builtin_return_address(0), nullptr}); }
// Atomic operations of the host's own code in these files; kernels have none.
#define LAMINA_ATOMICS(bits, T)                                                                                     \
  T __tsan_atomic##bits##_load(const volatile T* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }           \
  void __tsan_atomic##bits##_store(volatile T* p, T v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }           \
  T __tsan_atomic##bits##_exchange(volatile T* p, T v, int) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_add(volatile T* p, T v, int) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_sub(volatile T* p, T v, int) { return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST); } \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* e, T v, int, int) {                           \
    return __atomic_compare_exchange_n(p, e, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                             \
  }                                                                                                                 \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* e, T v, int, int) {                             \
    return __atomic_compare_exchange_n(p, e, v, 1, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                             \
  }
LAMINA_ATOMICS(8, unsigned char)
LAMINA_ATOMICS(32, unsigned)
LAMINA_ATOMICS(64, unsigned long)
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}
}
#endif
