// device.h for the host: every GPU thread is a fiber. The functions in `emulation` are defined in tests/emulated/emulator.cpp, and in no
// library. An error found by the emulation ends the launch, which then throws emulation::Failure.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

#define LAMINA_KERNEL(...) inline void
#define LAMINA_ARGUMENT const
#define LAMINA_DEVICE inline
#define LAMINA_SHARED(T, name, count)         \
  static const char lamina_shared_##name = 0; \
  T* const name = static_cast<T*>(::lamina::kernels::cuda::emulation::static_shared(&lamina_shared_##name, sizeof(T) * (count)))
#define LAMINA_CALLED [[gnu::noinline]] inline
#define LAMINA_CALLED_MEMBER [[gnu::noinline]]
#define LAMINA_UNROLL
#define LAMINA_UNROLL_BY(times)
#define LAMINA_ROLLED
#define LAMINA_UNSEEN [[gnu::no_sanitize("thread")]]  // ignored by the race checker

namespace lamina::kernels::cuda {
namespace emulation {

using Where = std::source_location;

enum class Order { forward, reverse, random };  // in which ready threads continue
struct Settings {
  Order order = Order::forward;
  unsigned seed = 1;
  unsigned stack_bytes = 128 * 1024;
  int64_t most_pauses = 1'000'000;     // in a row without other progress: the launch is stuck
  unsigned shared_bytes = 227 * 1024;  // that a block can have
  unsigned resident_blocks = 1024;     // a larger cooperative launch fails, as on a GPU where blocks do not fit
  Mistake mistake = Mistake::none;     // that kernels make
  unsigned first_late = ~0u;           // of a launch's blocks: it and all behind it begin when the others wait for them, or have ended
};
Settings& settings();
struct Counts {
  int64_t launches = 0, blocks = 0, block_barriers = 0, warp_barriers = 0, switches = 0;
};
Counts& counts();
// Instead of running the launches that `start` makes, returns their shapes.
struct Launch {
  std::string kernel;
  LaunchShape shape;
};
std::vector<Launch> launches_of(const std::function<void()>& start);
// Each of these makes cooperative launches, which run on a GPU of its own, one after the other. The GPUs run at once.
void run_together(const std::vector<std::function<void()>>& starts);
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Position {
  unsigned thread, block, block_y, threads, blocks, blocks_y;
};
const Position& position();
void sync_block(const Where& where);
bool sync_block_or(bool v, const Where& where);
void sync_warp(unsigned mask, const Where& where);
void sync_some(int barrier, unsigned threads, const Where& where);
// Each lane passes `bytes` (at most 8) and gets those of lane `from`.
void shuffle(void* value, size_t bytes, unsigned from, unsigned mask, const Where& where);
unsigned ballot(bool v, unsigned mask, const Where& where);
void pause(const Where& where);  // other threads run first
void before_atomic(const void* address, size_t bytes, const Where& where);
void acquired(const void* address, const Where& where);
void before_release(const void* address, const Where& where);
void copy_async(void* to, const void* from, size_t bytes, const Where& where);  // from null: zeros
void commit_copies();
void wait_copies(int but, const Where& where);
void* static_shared(const void* site, size_t bytes);
void* dynamic_shared();
void run(const LaunchShape& shape, const std::function<void()>& thread, const char* name);

}  // namespace emulation
inline bool makes(Mistake mistake) { return emulation::settings().mistake == mistake; }

LAMINA_UNSEEN inline unsigned thread_index() { return emulation::position().thread; }
LAMINA_UNSEEN inline unsigned block_size() { return emulation::position().threads; }
LAMINA_UNSEEN inline unsigned block_index() { return emulation::position().block; }
LAMINA_UNSEEN inline unsigned block_index_y() { return emulation::position().block_y; }
LAMINA_UNSEEN inline unsigned block_count() { return emulation::position().blocks; }
LAMINA_UNSEEN inline unsigned block_count_y() { return emulation::position().blocks_y; }
inline unsigned lane() { return thread_index() % kWarp; }
inline unsigned warp_index() { return thread_index() / kWarp; }

#define LAMINA_WHERE emulation::Where where = emulation::Where::current()
inline void sync_block(LAMINA_WHERE) { emulation::sync_block(where); }
inline bool sync_block_or(bool v, LAMINA_WHERE) { return emulation::sync_block_or(v, where); }
inline void sync_warp(unsigned mask = kAllLanes, LAMINA_WHERE) { emulation::sync_warp(mask, where); }
template <int barrier, int threads>
void sync_some(LAMINA_WHERE) {
  emulation::sync_some(barrier, threads, where);
}

template <class T>
T shuffle(T v, unsigned from, unsigned mask = kAllLanes, LAMINA_WHERE) {
  emulation::shuffle(&v, sizeof(T), from % kWarp, mask, where);
  return v;
}
template <class T>
T shuffle_up(T v, unsigned by, unsigned mask = kAllLanes, LAMINA_WHERE) {
  return shuffle(v, lane() < by ? lane() : lane() - by, mask, where);
}
template <class T>
T shuffle_down(T v, unsigned by, unsigned mask = kAllLanes, LAMINA_WHERE) {
  return shuffle(v, lane() + by < kWarp ? lane() + by : lane(), mask, where);
}
template <class T>
T shuffle_xor(T v, unsigned bits, unsigned mask = kAllLanes, LAMINA_WHERE) {
  return shuffle(v, lane() ^ bits, mask, where);
}
inline unsigned ballot(bool v, unsigned mask = kAllLanes, LAMINA_WHERE) { return emulation::ballot(v, mask, where); }
inline bool any(bool v, unsigned mask = kAllLanes, LAMINA_WHERE) { return emulation::ballot(v, mask, where) != 0; }
inline bool all(bool v, unsigned mask = kAllLanes, LAMINA_WHERE) { return emulation::ballot(v, mask, where) == mask; }

// Fibers switch only at these calls, so atomic operations need not be atomic on the host.
namespace emulation {
template <class T>
LAMINA_UNSEEN inline T read(const T* p) {
  return *static_cast<const volatile T*>(p);
}
template <class T>
LAMINA_UNSEEN inline void write(T* p, T v) {
  *static_cast<volatile T*>(p) = v;
}
template <class T, class F>
LAMINA_UNSEEN inline T change(T* to, F f, const Where& where) {
  before_atomic(to, sizeof(T), where);
  const T old = read(to);
  write(to, T(f(old)));
  return old;
}
}  // namespace emulation
template <class T>
T atomic_add(T* to, T v, LAMINA_WHERE) {
  return emulation::change(to, [v](T old) { return old + v; }, where);
}
template <class T>
T atomic_min(T* to, T v, LAMINA_WHERE) {
  return emulation::change(to, [v](T old) { return v < old ? v : old; }, where);
}
template <class T>
T atomic_max(T* to, T v, LAMINA_WHERE) {
  return emulation::change(to, [v](T old) { return old < v ? v : old; }, where);
}
inline unsigned atomic_or(unsigned* to, unsigned v, LAMINA_WHERE) {
  return emulation::change(to, [v](unsigned old) { return old | v; }, where);
}
inline unsigned atomic_exchange(unsigned* to, unsigned v, LAMINA_WHERE) {
  return emulation::change(to, [v](unsigned) { return v; }, where);
}
template <class T>
T atomic_cas(T* to, T expected, T v, LAMINA_WHERE) {
  return emulation::change(to, [=](T old) { return old == expected ? v : old; }, where);
}

template <class T>
T load_acquire(const T* p, LAMINA_WHERE) {
  emulation::pause(where);
  emulation::acquired(p, where);
  return emulation::read(p);
}
template <class T>
void store_release(T* p, T v, LAMINA_WHERE) {
  emulation::before_release(p, where);
  emulation::change(p, [v](T) { return v; }, where);
}
inline void store_relaxed(unsigned* p, unsigned v, LAMINA_WHERE) {
  emulation::change(p, [v](unsigned) { return v; }, where);
}
namespace emulation {
// Called when the kernel reads or writes a word shared with the host, to let the host act; null: it does nothing. One for all libraries.
[[gnu::visibility("default")]] inline void (*host_turn)() = nullptr;
}  // namespace emulation
inline unsigned load_acquire_in_system(const unsigned* p, LAMINA_WHERE) {
  if (emulation::host_turn) emulation::host_turn();
  return load_acquire(p, where);
}
inline void store_release_in_system(unsigned* p, unsigned v, LAMINA_WHERE) {
  store_release(p, v, where);
  if (emulation::host_turn) emulation::host_turn();
}
inline void add_release(unsigned* p, unsigned v, LAMINA_WHERE) {
  emulation::before_release(p, where);
  emulation::change(p, [v](unsigned old) { return old + v; }, where);
}
inline unsigned add_acquire_release(unsigned* p, unsigned v, LAMINA_WHERE) {
  emulation::acquired(p, where);
  add_release(p, v, where);
  return emulation::read(p) - v;
}
inline void store_marked(unsigned long long* p, float v, LAMINA_WHERE) {
  unsigned bits = 0;
  std::memcpy(&bits, &v, sizeof bits);
  emulation::change(p, [bits](unsigned long long) { return 1ull << 32 | bits; }, where);
}
inline void remove_mark(unsigned long long* p, LAMINA_WHERE) {
  emulation::change(p, [](unsigned long long) { return 0ull; }, where);
}
inline unsigned long long load_marked(const unsigned long long* p, LAMINA_WHERE) {
  emulation::pause(where);
  return emulation::read(p);
}
inline bool has_mark(unsigned long long v) { return unsigned(v >> 32) != 0; }
inline float without_mark(unsigned long long v) {
  const unsigned bits = unsigned(v);
  float out = 0;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}
template <class T>
T load_acquire_in_block(const T* p, LAMINA_WHERE) {
  return load_acquire(p, where);
}
template <class T>
void store_release_in_block(T* p, T v, LAMINA_WHERE) {
  store_release(p, v, where);
}
inline void pause(LAMINA_WHERE) { emulation::pause(where); }
template <class T>
T load_shared_between_blocks(const T* p) {
  return *p;
}

template <int bytes>
void copy_async(void* to_shared, const void* from, bool is_there = true, LAMINA_WHERE) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  emulation::copy_async(to_shared, is_there ? from : nullptr, bytes, where);
}
inline void commit_copies() { emulation::commit_copies(); }
template <int but>
void wait_copies(LAMINA_WHERE) {
  emulation::wait_copies(but, where);
}
#undef LAMINA_WHERE

inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

template <class T>
T* dynamic_shared() {
  return static_cast<T*>(emulation::dynamic_shared());
}

// Returns when the launch has finished, whatever the stream, but for launches that run together.
template <auto kernel, class... A>
void launch(Stream&, const LaunchShape& shape, A... arguments) {
  emulation::run(shape, [=] { kernel(arguments...); }, __PRETTY_FUNCTION__);
}

}  // namespace lamina::kernels::cuda
