// Planted races that the checker must find in any thread order, and correct kernels that it must accept.
#include "tests/emulated/races.h"
#include "tests/emulated/emulated.h"

namespace lamina::kernels::cuda {
namespace {

#define LAMINA_NEEDS_CHECKS() \
  if (!races_are_checked()) GTEST_SKIP() << "this program's accesses are not looked at; lamina_emulated_checked runs this test"

std::string races() {
  std::string all;
  for (const std::string& r : take_races()) all += r + "\n";
  return all;
}
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

LAMINA_KERNEL(64) neighbours(const float* x, float* y, bool first, bool second) {
  LAMINA_SHARED(float, tile, 64);
  const unsigned t = thread_index();
  for (int turn = 0; turn < 2; ++turn) {
    tile[t] = x[t] + float(turn);
    if (first) sync_block();
    y[t] = tile[(t + 32) % 64];
    if (second) sync_block();
  }
}
TEST(Races, FindsAMissingBarrierBetweenAWriteAndARead) {
  LAMINA_NEEDS_CHECKS();
  in_every_order([] {
    Buffer<float> x(std::vector<float>(64, 1.0f)), y(64);
    launch<neighbours>(emulated_stream(), {.threads = 64}, x.data(), y.data(), true, true);
    EXPECT_EQ(races(), "");
    launch<neighbours>(emulated_stream(), {.threads = 64}, x.data(), y.data(), false, true);
    const std::string read = races();
    EXPECT_TRUE(has(read, "races_test.cpp:")) << read;
    EXPECT_TRUE(has(read, "read of shared memory that nobody has written") || has(read, "race: read of what is being written")) << read;
    launch<neighbours>(emulated_stream(), {.threads = 64}, x.data(), y.data(), true, false);
    EXPECT_TRUE(has(races(), "race: write of what is being read"));
  });
}

LAMINA_KERNEL(32) within_a_warp(float* y, bool sync) {
  LAMINA_SHARED(float, tile, 32);
  tile[lane()] = float(lane());
  if (sync) sync_warp();
  y[lane()] = tile[31 - lane()];
}
TEST(Races, FindsAMissingBarrierInAWarp) {
  LAMINA_NEEDS_CHECKS();
  in_every_order([] {
    Buffer<float> y(32);
    launch<within_a_warp>(emulated_stream(), {.threads = 32}, y.data(), true);
    EXPECT_EQ(races(), "");
    launch<within_a_warp>(emulated_stream(), {.threads = 32}, y.data(), false);
    EXPECT_NE(races(), "");
  });
}

LAMINA_KERNEL(32) same_place(int* out, bool atomically) {
  if (atomically)
    atomic_add(out, 1);
  else
    *out += 1;
}
TEST(Races, FindsTwoBlocksThatWriteOnePlace) {
  LAMINA_NEEDS_CHECKS();
  Buffer<int> out({0});
  launch<same_place>(emulated_stream(), {.grid = {2}, .threads = 32}, out.data(), true);
  EXPECT_EQ(out[0], 64);
  EXPECT_EQ(races(), "");
  launch<same_place>(emulated_stream(), {.grid = {2}, .threads = 32}, out.data(), false);
  EXPECT_TRUE(has(races(), "race: two writes"));
}

// Block 0 writes, all others read.
LAMINA_KERNEL(64) hand_over(float* data, float* out, unsigned* flag, bool barrier, bool wait, bool barrier_after) {
  const unsigned t = thread_index();
  if (block_index() == 0) {
    data[t] = float(t);
    if (barrier) sync_block();
    if (t == 0) add_release(flag, 1);
  } else {
    if (t == 0 && wait)
      while (load_acquire(flag) == 0) pause();
    if (barrier_after) sync_block();
    out[(block_index() - 1) * 64 + t] = data[63 - t];
  }
}
TEST(Races, FollowsReleasesFromBlockToBlock) {
  LAMINA_NEEDS_CHECKS();
  auto run = [](bool barrier, bool wait, bool barrier_after) {
    std::string all;
    in_every_order([&] {
      Buffer<float> data(64), out(128);
      Buffer<unsigned> flag({0u});
      launch<hand_over>(emulated_stream(), {.grid = {3}, .threads = 64, .cooperative = true}, data.data(), out.data(), flag.data(), barrier,
                        wait, barrier_after);
      const std::string now = races();
      EXPECT_EQ(now.empty(), barrier && wait && barrier_after) << now;
    });
  };
  run(true, true, true);
  run(false, true, true);
  run(true, false, true);
  run(true, true, false);
}

// Warps 0 and 1 hand a tile to each other; warp 2 does not take part in their barrier.
LAMINA_KERNEL(96) some_warps(float* y, bool meets, bool third_reads) {
  LAMINA_SHARED(float, tile, 64);
  const unsigned t = thread_index();
  for (int turn = 0; turn < 2 && t < 64; ++turn) {
    tile[t] = float(t) + float(turn);
    if (meets) sync_some<1, 64>();
    y[t] = tile[63 - t];
    sync_some<2, 64>();
  }
  if (t >= 64 && third_reads) y[t] = tile[t - 64];
}
TEST(Races, ABarrierOfSomeWarpsOrdersOnlyThese) {
  LAMINA_NEEDS_CHECKS();
  in_every_order([] {
    Buffer<float> y(96);
    launch<some_warps>(emulated_stream(), {.threads = 96}, y.data(), true, false);
    EXPECT_EQ(races(), "");
    launch<some_warps>(emulated_stream(), {.threads = 96}, y.data(), false, false);
    EXPECT_NE(races(), "");
    launch<some_warps>(emulated_stream(), {.threads = 96}, y.data(), true, true);
    EXPECT_NE(races(), "");
  });
}

LAMINA_KERNEL(32) beyond(const float* x, float* y, int by) { y[lane()] = x[int(lane()) + by]; }
TEST(Races, FindsReadsOutsideOfABuffer) {
  LAMINA_NEEDS_CHECKS();
  Buffer<float> x(std::vector<float>(32, 1.0f)), y(32);
  launch<beyond>(emulated_stream(), {.threads = 32}, x.data(), y.data(), 0);
  EXPECT_EQ(races(), "");
  for (int by : {1, -1}) {
    launch<beyond>(emulated_stream(), {.threads = 32}, x.data(), y.data(), by);
    EXPECT_TRUE(has(races(), "read outside of a buffer at races_test.cpp:"));
  }
}

LAMINA_KERNEL(64) bytes(unsigned char* out) { out[thread_index()] = 1; }
TEST(Races, DistinguishesNeighbouringBytes) {
  LAMINA_NEEDS_CHECKS();
  Buffer<unsigned char> out(64);
  launch<bytes>(emulated_stream(), {.threads = 64}, out.data());
  EXPECT_EQ(races(), "");
}

}  // namespace
}  // namespace lamina::kernels::cuda
