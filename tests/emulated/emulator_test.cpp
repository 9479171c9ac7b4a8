// The emulation itself: everything that kernels may use works, and mistakes that it promises to find are found.
#include <cmath>
#include <numeric>

#include "tests/emulated/emulated.h"
#include "tests/emulated/emulator.h"
#include "tests/emulated/races.h"

namespace lamina::kernels::cuda {
namespace {

LAMINA_KERNEL(256) sum_blocks(const float* x, float* out, unsigned n, bool forget_barrier) {
  LAMINA_SHARED(float, part, 8);
  const unsigned i = block_index() * block_size() + thread_index();
  float v = i < n ? x[i] : 0;
  for (unsigned by = 16; by; by /= 2) v += shuffle_down(v, by);
  if (lane() == 0) part[warp_index()] = v;
  if (!forget_barrier) sync_block();
  if (warp_index() == 0) {
    v = lane() < block_size() / kWarp ? part[lane()] : 0;
    for (unsigned by = 16; by; by /= 2) v += shuffle_xor(v, by);
    if (lane() == 0) atomic_add(out, v);
  }
}

TEST(Emulation, AddsWithShufflesSharedMemoryAndAtomics) {
  for (unsigned n : {1u, 31u, 256u, 1000u}) {
    std::vector<float> values(n);
    std::iota(values.begin(), values.end(), 1.0f);
    in_every_order([&] {
      Buffer<float> x(values), out({0.0f});
      launch<sum_blocks>(emulated_stream(), {.grid = {(n + 255) / 256}}, x.data(), out.data(), n, false);
      EXPECT_EQ(out[0], float(n) * float(n + 1) / 2);
    });
  }
}

TEST(Emulation, AMissingBarrierGivesWrongNumbersInSomeOrder) {
  int wrong = 0;
  in_every_order([&] {
    Buffer<float> x(std::vector<float>(256, 1.0f)), out({0.0f});
    launch<sum_blocks>(emulated_stream(), {}, x.data(), out.data(), 256, true);
    wrong += out[0] != 256.0f;
    take_races();  // tested in races_test.cpp
  });
  EXPECT_GE(wrong, 1);
}

LAMINA_KERNEL(64) votes(unsigned* out) {
  const unsigned odd = ballot(thread_index() % 2);
  const bool some = any(thread_index() == 33), every = all(thread_index() >= 32);
  const bool block = sync_block_or(thread_index() == 5);
  out[thread_index()] = (odd == 0xaaaaaaaau) + 2 * some + 4 * every + 8 * block;
}
TEST(Emulation, Votes) {
  in_every_order([&] {
    Buffer<unsigned> out(64);
    launch<votes>(emulated_stream(), {.threads = 64}, out.data());
    for (unsigned t = 0; t < 64; ++t) EXPECT_EQ(out[t], t < 32 ? 9u : 15u) << t;
  });
}

LAMINA_KERNEL(64) parts_of_a_warp(int* out) {
  const unsigned mask = lane() < 8 ? 0x000000ffu : 0xffffff00u;
  int v = int(lane());
  if (lane() < 8)
    v = shuffle_up(v, 1, mask);
  else
    v = shuffle(v, 31, mask);
  out[thread_index()] = v;
}
TEST(Emulation, ShufflesAmongSomeLanes) {
  in_every_order([&] {
    Buffer<int> out(64);
    launch<parts_of_a_warp>(emulated_stream(), {.threads = 64}, out.data());
    for (int t = 0; t < 64; ++t) EXPECT_EQ(out[size_t(t)], t % 32 == 0 ? 0 : t % 32 < 8 ? t % 32 - 1 : 31) << t;
  });
}

LAMINA_KERNEL(64) double_in_shared(const float* x, float* y, bool wait) {
  float* tile = dynamic_shared<float>();
  copy_async<4>(tile + thread_index(), x + thread_index());
  commit_copies();
  if (wait) wait_copies<0>();
  sync_block();
  y[thread_index()] = 2 * tile[63 - thread_index()];
  wait_copies<0>();
}
TEST(Emulation, CopiesArriveOnlyAtTheWait) {
  std::vector<float> values(64);
  std::iota(values.begin(), values.end(), 0.0f);
  in_every_order([&] {
    Buffer<float> x(values), y(64), late(64);
    launch<double_in_shared>(emulated_stream(), {.threads = 64, .shared_bytes = 256}, x.data(), y.data(), true);
    for (int i = 0; i < 64; ++i) EXPECT_EQ(y[size_t(i)], 2.0f * float(63 - i));
    launch<double_in_shared>(emulated_stream(), {.threads = 64, .shared_bytes = 256}, x.data(), late.data(), false);
    int unfilled = 0;
    for (size_t i = 0; i < 64; ++i) unfilled += std::isnan(late[i]);
    EXPECT_GE(unfilled, 1);
    take_races();
  });
}

// Each block adds to the previous one's result.
LAMINA_KERNEL(32) pass_on(unsigned* turn, int* value) {
  if (thread_index() == 0)
    while (load_acquire(turn) != block_index()) pause();
  sync_block();
  if (thread_index() == 0) {
    *value = load_shared_between_blocks(value) * 3 + int(block_index());
    store_release(turn, block_index() + 1);
  }
}
TEST(Emulation, BlocksOfACooperativeLaunchWaitForEachOther) {
  in_every_order([&] {
    Buffer<unsigned> turn({0u});
    Buffer<int> value({1});
    launch<pass_on>(emulated_stream(), {.grid = {6}, .threads = 32, .cooperative = true}, turn.data(), value.data());
    int want = 1;
    for (int b = 0; b < 6; ++b) want = want * 3 + b;
    EXPECT_EQ(value[0], want);
  });
}

TEST(Emulation, ReportsAWaitForAMissingBlock) {
  emulation::settings().order = emulation::Order::reverse;
  emulation::settings().most_pauses = 1000;
  Buffer<unsigned> turn({0u});
  Buffer<int> value({1});
  const std::string why = failure_of([&] { launch<pass_on>(emulated_stream(), {.grid = {6}, .threads = 32}, turn.data(), value.data()); });
  emulation::settings() = {};
  EXPECT_NE(why.find("stuck: nothing has happened"), std::string::npos) << why;
  EXPECT_NE(why.find("waits in a loop at emulator_test.cpp"), std::string::npos) << why;
}

LAMINA_KERNEL(64) wrong(int kind, float* out) {
  const unsigned t = thread_index();
  if (kind == 0 && t >= 32) sync_block();  // the others never arrive
  if (kind == 0 && t < 32) sync_warp(t == 0 ? 1u : kAllLanes);
  if (kind == 1 && t >= 32) return;
  if (kind == 1) sync_block();
  if (kind == 2 && t < 32) sync_block();
  if (kind == 2 && t >= 32) sync_block();
  if (kind == 3) shuffle(1, t + 1, 0xffu << (t & 24u));
  if (kind == 4) dynamic_shared<float>()[t] = 1;  // 32 of 64 floats
  if (kind == 5) copy_async<16>(dynamic_shared<char>() + 4, out);
  if (kind == 6) copy_async<16>(dynamic_shared<float>(), out);
  if (kind == 7 && t >= 16) sync_some<1, 32>();
  if (kind == 8 && t < 32) sync_some<1, 64>();
  if (kind == 8 && t >= 32) sync_some<1, 32>();
  if (kind == 9 && t < 32) sync_some<2, 64>();  // the others never arrive
  if (kind == 10) sync_some<16, 64>();
}
std::string mistake(int kind) {
  Buffer<float> out(64);
  return failure_of([&] { launch<wrong>(emulated_stream(), {.threads = 64, .shared_bytes = 128}, kind, out.data()); });
}
TEST(Emulation, FindsMistakesWithBarriers) {
  EXPECT_NE(mistake(0).find("deadlock: every thread waits"), std::string::npos) << mistake(0);
  EXPECT_NE(mistake(1).find("ended"), std::string::npos) << mistake(1);
  EXPECT_NE(mistake(2).find("wait at different barriers"), std::string::npos) << mistake(2);
  EXPECT_NE(mistake(3).find("which is not in the mask"), std::string::npos) << mistake(3);
  EXPECT_NE(mistake(7).find("a part of a warp at barrier 1"), std::string::npos) << mistake(7);
  EXPECT_NE((mistake(8) + mistake(8)).find("barrier 1 of "), std::string::npos) << mistake(8);
  EXPECT_NE(mistake(9).find("deadlock: every thread waits"), std::string::npos) << mistake(9);
  EXPECT_NE(mistake(10).find("they are 1 to 15"), std::string::npos) << mistake(10);
}
TEST(Emulation, FindsMistakesWithSharedMemoryAndCopies) {
#if !defined(__SANITIZE_ADDRESS__)  // ASan ends the process there
  EXPECT_NE(mistake(4).find("has written 0 bytes behind its dynamic shared memory of 128 bytes"), std::string::npos) << mistake(4);
#endif
  EXPECT_NE(mistake(5).find("not aligned"), std::string::npos) << mistake(5);
  EXPECT_NE(mistake(6).find("copies that it did not wait for"), std::string::npos) << mistake(6);
}
TEST(Emulation, RefusesInvalidLaunches) {
  Buffer<float> out(64);
  EXPECT_NE(failure_of([&] { launch<wrong>(emulated_stream(), {.threads = 48}, 7, out.data()); }).find("48 threads"), std::string::npos);
  EXPECT_NE(failure_of([&] { launch<wrong>(emulated_stream(), {.grid = {0}}, 7, out.data()); }).find("grid of 0 x 1"), std::string::npos);
  EXPECT_NE(failure_of([&] { launch<wrong>(emulated_stream(), {.shared_bytes = 233472}, 7, out.data()); }).find("233472 bytes"),
            std::string::npos);
  EXPECT_NE(failure_of([&] { launch<wrong>(emulated_stream(), {.grid = {5000}, .cooperative = true}, 7, out.data()); }).find("resident"),
            std::string::npos);
}
TEST(Emulation, WorksAfterAFailedLaunch) {
  mistake(2);
  Buffer<float> x(std::vector<float>(64, 1.0f)), out({0.0f});
  launch<sum_blocks>(emulated_stream(), {.threads = 64}, x.data(), out.data(), 64u, false);
  EXPECT_EQ(out[0], 64.0f);
}

}  // namespace
}  // namespace lamina::kernels::cuda
