#include "graph/nn/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "graph/frontend/factories.h"
#include "graph/nn/dataset.h"

namespace lamina::data {
namespace {

using namespace std::chrono_literals;

int64_t number_of(const Element& e) { return e[0].item<int64_t>(); }
Element numbered(int64_t n) { return {scalar_i(n, DType::i64)}; }
std::vector<int64_t> all(const Dataset& d) {
  std::vector<int64_t> out;
  for (const Element& e : d)
    for (const int64_t n : e[0].to_vector<int64_t>()) out.push_back(n);
  return out;
}
std::vector<int64_t> counted(int64_t n, int64_t times = 1) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(i * times);
  return out;
}
bool threads_end() {
  for (int i = 0; i < 5000 && reading_threads() > 0; ++i) std::this_thread::sleep_for(1ms);
  return reading_threads() == 0;
}

TEST(ReadAhead, ThreadsKeepTheOrder) {
  for (const int64_t threads : {1, 2, 7, int(AUTOTUNE)}) {
    std::atomic<int64_t> in_work{0}, most{0};
    const auto slow = [&](const Element& e, int64_t item) {
      const int64_t now = ++in_work;
      for (int64_t seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50 * (item % 5)));
      --in_work;
      EXPECT_EQ(number_of(e), item);
      return numbered(3 * item);
    };
    EXPECT_EQ(all(Dataset::range(100).map(slow, threads)), counted(100, 3));
    EXPECT_EQ(all(Dataset::range(100).map(slow, threads).batch(7).prefetch(2)), counted(100, 3));
    EXPECT_LE(most, threads == AUTOTUNE ? 256 : threads);
  }
  EXPECT_TRUE(threads_end());
}

TEST(ReadAhead, ReadsNoFurtherThanItsBound) {
  std::atomic<int64_t> read{0};
  const Dataset source =
      Dataset::from_generator([&] { return [&, n = int64_t(0)](Element& out) mutable { return ++read, out = numbered(n++), n <= 1000; }; });
  for (const int64_t ahead : {1, 5}) {
    read = 0;
    auto pass = source.prefetch(ahead).pass();
    Element e;
    for (int64_t taken = 1; taken <= 20; ++taken) {
      ASSERT_TRUE(pass.next(e));
      if (taken % 10 == 0) std::this_thread::sleep_for(20ms);
      EXPECT_LE(read, taken + ahead);
    }
  }
  read = 0;
  auto pass = source.map([](const Element& e, int64_t) { return e; }, 3).pass();
  Element e;
  ASSERT_TRUE(pass.next(e));
  std::this_thread::sleep_for(20ms);
  EXPECT_LE(read, 1 + 6);
}

TEST(ReadAhead, AnErrorComesAtItsStepAndNamesTheItem) {
  for (const int64_t threads : {1, 4}) {
    const auto fails = [](const Element& e, int64_t item) {
      if (item == 5) throw Error(ErrorKind::not_found, {.what = "there is no file", .where = "", .why = "", .fix = ""});
      return e;
    };
    auto pass = Dataset::range(8).map(fails, threads).prefetch(3).pass();
    Element e;
    for (int64_t i = 0; i < 8; ++i) {
      if (i != 5) {
        ASSERT_TRUE(pass.next(e));
        EXPECT_EQ(number_of(e), i);
        continue;
      }
      try {
        pass.next(e);
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.kind, ErrorKind::not_found);
        EXPECT_EQ(error.parts.where, "item 5 of map");
      }
    }
    EXPECT_FALSE(pass.next(e));
  }
}

TEST(ReadAhead, SkippedElementsAreNotMade) {
  std::atomic<int64_t> made{0};
  const auto count = [&](const Element& e, int64_t item) {
    ++made;
    EXPECT_EQ(number_of(e), item);
    return e;
  };
  for (const int64_t threads : {1, 3}) {
    made = 0;
    auto pass = Dataset::range(100).map(count, threads).batch(10).prefetch(1).pass();
    EXPECT_EQ(pass.skip(9), 9);
    EXPECT_EQ(made, 0);
    Element e;
    ASSERT_TRUE(pass.next(e));
    EXPECT_EQ(e[0].to_vector<int64_t>()[0], 90);
    EXPECT_FALSE(pass.next(e));
    EXPECT_EQ(made, 10);
    EXPECT_EQ(Dataset::range(7).batch(3).pass().skip(100), 3);
    EXPECT_EQ(Dataset::range(7).batch(3, true).pass().skip(100), 2);
    EXPECT_EQ(Dataset::range(3).repeat(4).pass().skip(100), 12);
    EXPECT_EQ(Dataset::zip({Dataset::range(7), Dataset::range(5)}).pass().skip(100), 5);
  }
}

TEST(ReadAhead, APassMayBeDroppedAtAnyTime) {
  for (int taken = 0; taken < 6; ++taken) {
    auto pass =
        Dataset::range(1000).map([](const Element& e, int64_t) { return std::this_thread::sleep_for(1ms), e; }, 3).prefetch(2).pass();
    Element e;
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(pass.next(e));
  }
  EXPECT_TRUE(threads_end());
}

TEST(ReadAhead, EndingTheThreadsIsAnErrorOfTheNextStep) {
  auto pass = Dataset::range(1000).prefetch(1).pass();
  Element e;
  ASSERT_TRUE(pass.next(e));
  end_reading_threads(5s);
  EXPECT_EQ(reading_threads(), 0);
  try {
    while (pass.next(e)) {
    }
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::state);
  }
}

TEST(Dataset, PaddedBatchesFillUpEachAxis) {
  const auto ragged = [](const Element&, int64_t item) { return Element{full({item, 2}, double(item)), full({}, double(item))}; };
  auto pass = Dataset::range(4).map(ragged).padded_batch(4, -1).pass();
  Element e;
  ASSERT_TRUE(pass.next(e));
  EXPECT_EQ(text(e[0].type()), "f32[4,3,2]");
  EXPECT_EQ(e[0].to_vector<int>(), (std::vector<int>{-1, -1, -1, -1, -1, -1, 1, 1, -1, -1, -1, -1, 2, 2, 2, 2, -1, -1, 3, 3, 3, 3, 3, 3}));
  EXPECT_THROW(all(Dataset::range(4).map(ragged).batch(2)), Error);
}

TEST(Dataset, PartsAreDisjointAndKeepTheirOrder) {
  const auto parts = Dataset::range(20).random_split({15, 5}, 3);
  std::vector<int64_t> both = all(parts[0]), second = all(parts[1]);
  EXPECT_TRUE(std::is_sorted(both.begin(), both.end()) && std::is_sorted(second.begin(), second.end()));
  both.insert(both.end(), second.begin(), second.end());
  std::sort(both.begin(), both.end());
  EXPECT_EQ(both, counted(20));
  EXPECT_THROW(Dataset::range(20).random_split({15, 6}, 3), Error);
}

}  // namespace
}  // namespace lamina::data
