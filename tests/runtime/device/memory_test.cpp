#include "runtime/device/memory.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "runtime/core/error.h"
#include "runtime/device/buffer.h"

namespace lamina {
namespace {

TEST(Memory, CountsEachDeviceAndKeepsThePeak) {
  const Device h100 = parse_device("null:h100:5"), a100 = parse_device("null:a100:5");
  memory::reset_peak(h100);
  {
    const Buffer one(h100, 1000);
    const Buffer other(a100, 50);
    EXPECT_EQ(memory::stats(h100).live, 1000);
    EXPECT_EQ(memory::stats(a100).live, 50);
  }
  EXPECT_EQ(memory::stats(h100).live, 0);
  EXPECT_EQ(memory::stats(h100).peak, 1000);
  EXPECT_EQ(memory::stats(h100).limit, null_models()[h100.model].memory);
}

TEST(Memory, ARefusedBufferIsNotCounted) {
  const Device device = parse_device("null:h100:6");
  memory::set_limit(device, 100);
  const memory::Holder holder("Variable 'w'", device, 90);
  const Buffer first(device, 90);
  try {
    const Buffer second(device, 11);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::out_of_memory);
    EXPECT_NE(e.parts.why.find("of its limit of 100 bytes 90 are in use; the largest: Variable 'w' with 90"), std::string::npos)
        << e.what();
  }
  EXPECT_EQ(memory::stats(device).live, 90);
  const Buffer fits(device, 10);
  memory::set_limit(device, std::nullopt);
  try {
    const Buffer all(device, size_t(1) << 50);  // more than the device has
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.parts.why.find("Variable 'w'"), std::string::npos) << e.what();
  }
  EXPECT_EQ(memory::stats(device).live, 100);
}

TEST(Memory, HoldersOfOneNameAreAddedUp) {
  const Device device = parse_device("null:h100:7");
  const memory::Holder a("a", device, 3), b("b", device, 5), other("a", device, 4);
  const auto seen = memory::largest(device, 5);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].what, "a");
  EXPECT_EQ(seen[0].bytes, 7);
  EXPECT_EQ(memory::largest(device, 1).size(), 1U);
}

TEST(Memory, CountsAreRightWithManyThreads) {
  const Device device = parse_device("null:h100:8");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) const Buffer b(device, 64);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(memory::stats(device).live, 0);
  EXPECT_LE(memory::stats(device).peak, 4 * 64);
}

}  // namespace
}  // namespace lamina
