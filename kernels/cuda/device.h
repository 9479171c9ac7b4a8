// The language of GPU kernels. nvcc maps it to a few instructions each (device_gpu.h). Other compilers run every GPU thread as a fiber of
// one host thread (device_host.h), so that the same source runs, and is checked, without a GPU.
//
// Rules that make both possible:
//   LAMINA_KERNEL(256) name(arguments by value) { ... }       at most 256 threads a block; blocks have whole warps, in one dimension
//   LAMINA_KERNEL(256, 1) name(...) { ... }                 one block per multiprocessor is enough: it may use all registers
//   launch<name>(stream, {.grid = {x, y}, .threads = 256, .shared_bytes = n}, arguments...);   never <<<>>>
//   LAMINA_KERNEL(256) name(LAMINA_ARGUMENT Big b) { ... }   a large argument whose address is taken: not copied by each thread
//   LAMINA_DEVICE float helper(float x) { ... }                functions that kernels call
//   LAMINA_CALLED void helper() { ... }                        the same, never inlined; LAMINA_CALLED_MEMBER: in a class
//   LAMINA_SHARED(float, tile, 64 * 65);                       shared memory of a fixed size: tile is a float* to it
//   float* more = dynamic_shared<float>();                     the launch's shared_bytes, 16-byte aligned
// It uses only what is declared below, kernels/shared and its own functions: no <cuda_fp16.h>, no cooperative groups, no PTX of its own.
//
//   where    thread_index() block_size() block_index() block_index_y() block_count() block_count_y() lane() warp_index()
//   barriers sync_block() sync_block_or(bool) sync_warp(mask)          every thread of the block, or of the mask, must arrive
//            sync_some<barrier, threads>(): that many threads of the block, in whole warps, meet at barrier 1 to 15
//   warps    shuffle(v, lane) shuffle_up(v, n) shuffle_down(v, n) shuffle_xor(v, bits) ballot(bool) any(bool) all(bool); a mask may follow
//   atomics  atomic_add(T*, T): int, unsigned, unsigned long long, float, double; atomic_min, atomic_max: int, unsigned, long long;
//            atomic_or(unsigned*), atomic_exchange(unsigned*), atomic_cas(unsigned* or unsigned long long*, expected, value). All relaxed;
//            they return the old value
//   waiting  load_acquire(const unsigned*) store_release(unsigned*, v) store_relaxed(unsigned*, v) add_release(unsigned*, v)
//            add_acquire_release(unsigned*, v), which returns the old value; pause()
//            to pass data between blocks: writes; sync_block(); one thread: add_release. In the other block, one thread: load_acquire
//            until the value is right; sync_block(); read with load_shared_between_blocks(const T*), which bypasses the SM's L1 cache
//            load_acquire_in_system() and store_release_in_system(): the same for words that the host or another GPU also uses while the
//            kernel runs load_acquire_in_block() and store_release_in_block(): the same for words in shared memory, of 4 or 8 bytes
//   copies   copy_async<16>(to_shared, from) commit_copies() wait_copies<n>(): all but the last n commits of this thread have arrived
//   numbers  fma(a, b, c): one rounding. a * b + c rounds twice: nvcc gets -fmad=false, as kernels/shared requires
//
// Blocks of a launch run in any order, one after the other or at once. Only with .cooperative = true may they wait for each other: then all
// are resident, and a launch with more blocks than fit fails.
#pragma once
#include "runtime/device/launch_shape.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cuda {

inline constexpr unsigned kWarp = 32, kAllLanes = 0xffffffffu;

// Mistakes that tests plant in the section kernel, to see them found: makes(mistake) is false on a GPU.
enum class Mistake {
  none,
  meets_early,         // computing warps meet the others before they have written a piece's results
  brings_late,         // a piece is told to be there before its weights are
  overtakes,           // a piece is brought to a place whose weights are still to be read
  takes_rows_early,    // a chain's first rows are read before other blocks have written them
  leaves_marks,        // numbers that were taken still look like new ones
  fetches_before,      // weights are read before other blocks have written them
  stores_early,        // results are stored before they are there
  announces_early,     // results are announced before they are stored
  announces_unfenced,  // or without a release behind the stores
  goes_on_stopped,     // a chain hands and announces what it has, although the launch was stopped
  updates_before,      // a step between chains does not wait for other blocks
  shows_early,         // sums are announced to other ranks before they are in the window
  collects_early,      // they are collected without waiting
  misses_a_rank,       // or without waiting for the last rank
  has_one_buffer,      // all launches use the same one
};

}  // namespace lamina::kernels::cuda

#if defined(__CUDACC__)
#include "kernels/cuda/device_gpu.h"
#else
#include "kernels/cuda/device_host.h"
#endif
