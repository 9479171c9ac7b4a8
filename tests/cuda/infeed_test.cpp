// The host side of an infeed: the contents of the rings over time, and the host's signals. The test plays the kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/cuda/section_infeed.h"
#include "runtime/cuda/cuda_backend.h"
#include "tests/cuda/fake_cuda.h"

namespace lamina::kernels::cuda {
namespace {

using lamina::cuda::CudaBackend;
using lamina::cuda::FakeCuda;
using section::BlockPlan;
using section::BlockSection;

constexpr int kSlices = 7, kChunk = 2, kCounters = 3, kWide = 3;  // ints of a slice of the first stack; the second has one

class CudaInfeed : public testing::Test {
 protected:
  CudaInfeed() {
    FakeCuda::reset();
    fake.memory = size_t{64} << 20;
    std::iota(xs.begin(), xs.end(), 100);
    std::iota(ys.begin(), ys.end(), 500);
    section.plan.infeed = {.chunk = kChunk, .slices = kSlices, .stacks = {{0, kWide * 4, 0}, {2, 4, 256}}, .bytes = 512};
    section.plan.program.counters = kCounters;
    section.copies.push_back(
        {.stream = backend.default_stream(device), .program = nullptr, .state = state.data(), .state_bytes = state.size() * 4});
    views[0].data = xs.data(), views[2].data = ys.data();
  }
  ~CudaInfeed() override {
    fake.work.finish_all();
    for (BlockSection::OnDevice& d : section.copies) d.state = nullptr;  // the test's own
  }
  Infeed infeed() { return Infeed(section, section.copies[0], {section.copies[0].stream, &section, pointers, {}}); }
  uint32_t& word(int number) { return state[size_t(kCounters + number)]; }
  uint32_t come() {
    fake.work.finish_all();
    return word(resident::kCome);
  }
  // Whether the slices [first, end) are in the rings.
  bool lie_there(Infeed& from, int first, int end) {
    const int *x = reinterpret_cast<const int*>(from.ring_of(0)), *y = reinterpret_cast<const int*>(from.ring_of(2));
    for (int s = first; s < end; ++s) {
      if (!std::equal(x + s % (2 * kChunk) * kWide, x + (s % (2 * kChunk) + 1) * kWide, xs.data() + s * kWide)) return false;
      if (y[s % (2 * kChunk)] != ys[size_t(s)]) return false;
    }
    return true;
  }
  void goes_through() {
    Infeed feed = infeed();
    feed.prepare();
    EXPECT_EQ(come(), 4u) << "there is room for two chunks";
    EXPECT_TRUE(lie_there(feed, 0, 4));
    EXPECT_EQ(feed.ring_of(1), nullptr);
    EXPECT_FALSE(feed.feed());
    word(resident::kTaken) = 2;
    EXPECT_TRUE(feed.feed());
    EXPECT_EQ(come(), 6u);
    EXPECT_TRUE(lie_there(feed, 2, 6));
    EXPECT_FALSE(feed.feed()) << "slices 2 and 3 may still be read";
    word(resident::kTaken) = 4;
    feed.follow();
    EXPECT_EQ(come(), 7u);
    EXPECT_TRUE(lie_there(feed, 4, 7));
    EXPECT_FALSE(feed.feed());
  }

  const Device device{.kind = DeviceKind::gpu, .model = 0, .index = 0};
  FakeCuda& fake = FakeCuda::now();
  CudaBackend backend{lamina::cuda::fake_api()};
  std::vector<uint32_t> state = std::vector<uint32_t>(kCounters + resident::kStateWords, 77);
  std::vector<int> xs = std::vector<int>(kSlices * kWide), ys = std::vector<int>(kSlices);
  View views[3];
  const View* pointers[3] = {&views[0], &views[1], &views[2]};
  BlockSection section;
};

TEST_F(CudaInfeed, FillsTheRingsAsTheyAreRead) {
  goes_through();
  goes_through();  // the next call starts at the first slice
}

TEST_F(CudaInfeed, AnnouncesSlicesAfterTheyAreCopied) {
  Infeed feed = infeed();
  feed.prepare();
  word(resident::kTaken) = 2;
  fake.calls.clear();
  ASSERT_TRUE(feed.feed());
  std::vector<std::string> order;
  for (const std::string& c : fake.calls)
    if (c.starts_with("copy") || c.starts_with("event_synchronize")) order.push_back(c.substr(0, c.find(" kind")));
  // Per chunk: read the words, copy a slice chunk of each stack, wait with another read, then announce the number of slices.
  const std::vector<std::string> end(order.end() - 5, order.end());
  EXPECT_EQ(end[0], "copy 24") << testing::PrintToString(order);
  EXPECT_EQ(end[1], "copy 8") << testing::PrintToString(order);
  EXPECT_EQ(end[2], "copy 8") << testing::PrintToString(order);
  EXPECT_TRUE(end[3].starts_with("event_synchronize")) << testing::PrintToString(order);
  EXPECT_EQ(end[4], "copy 4") << testing::PrintToString(order);
}

TEST_F(CudaInfeed, FollowsALaunchToItsEnd) {
  Infeed feed = infeed();
  feed.prepare();
  word(resident::kLeft) = 1;  // a label was out of range, say
  feed.follow();
  EXPECT_EQ(come(), 4u);
  // The launch will be continued: the slices for which it may have left are there.
  word(resident::kTaken) = 2;
  feed.prepare();
  EXPECT_EQ(come(), 6u);
  EXPECT_EQ(word(resident::kLeft), 0u);
}

// Each CUDA call fails once.
TEST_F(CudaInfeed, AFailedCallIsAnErrorAndTheNextOneWorks) {
  int failures = 0;
  for (bool failed = true; failed; ++failures) {
    fake.countdown = failures, fake.countdown_status = cudaErrorMemoryAllocation;
    try {
      infeed().prepare();
      failed = false;
    } catch (const Error& e) {
      EXPECT_TRUE(e.kind == ErrorKind::out_of_memory || e.kind == ErrorKind::device) << e.what();
    }
    fake.countdown = -1, fake.last = cudaSuccess;
    goes_through();
  }
  EXPECT_GT(failures, 5);
}

}  // namespace
}  // namespace lamina::kernels::cuda
