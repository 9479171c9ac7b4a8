// Ranks as threads: the conformance suite, faults, and calls on which ranks disagree.
#include "runtime/dist/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "runtime/core/mutex.h"
#include "runtime/core/settings.h"
#include "tests/runtime/dist/conformance.h"

namespace lamina::distributed::tests {
namespace {

constexpr Patience kShort{std::chrono::duration<double>(60), std::chrono::duration<double>(1)};

TEST(RankThreads, PassTheConformanceSuite) {
  for (const Case& one : conformance_cases())
    for (const int ranks : {1, 2, 3, 4, 6, 8})
      run_ranks(ranks, [&](Communicator& c) { EXPECT_EQ(one.run(c), "") << one.name << " with " << ranks << " ranks"; });
}

// Ranks that share no memory, as on several hosts.
class ByMessages final : public Communicator {
 public:
  explicit ByMessages(Communicator& c) : Communicator(c.rank(), c.size(), c.patience()), c_(c) {}
  const char* name() const override { return "messages"; }
  void exchange(std::span<const Transfer> transfers) override { c_.exchange(transfers); }
  void abort(const Error& why) override { c_.abort(why); }
  std::vector<RankStatus> ranks() const override { return c_.ranks(); }

 private:
  void stalled(const Error& error) override { throw error; }
  Communicator& c_;
};
TEST(RankThreads, PassTheConformanceSuiteByMessages) {
  for (const Case& one : conformance_cases())
    for (const int ranks : {1, 2, 3, 4, 6, 8})
      run_ranks(ranks, [&](Communicator& c) {
        ByMessages messages(c);
        EXPECT_EQ(one.run(messages), "") << one.name << " with " << ranks << " ranks";
      });
}

TEST(RankThreads, SumInRankOrderIsFoundAtThreeRanks) {
  const int64_t count = 1000;
  std::vector<int> found;
  for (const int ranks : {1, 2, 3, 4, 8})
    run_ranks(ranks, [&](Communicator& c) {
      const std::vector<char> leaves = own_leaves(c, DType::f32, count, 8);
      const Range numbers = leaves_of(c, 8);
      std::vector<float> own(size_t(count), 0), all(size_t(count * c.size()));
      // What a rank gives to MPI_Allreduce: its own part of the tree.
      std::vector<std::vector<float>> parts(static_cast<size_t>(numbers.size()), std::vector<float>(size_t(count)));
      for (size_t i = 0; i < parts.size(); ++i) std::memcpy(parts[i].data(), leaves.data() + i * size_t(count) * 4, size_t(count) * 4);
      for (size_t width = 1; width < parts.size(); width *= 2)
        for (size_t i = 0; i + width < parts.size(); i += 2 * width)
          for (size_t k = 0; k < size_t(count); ++k) parts[i][k] += parts[i + width][k];
      all_gather(c, DType::f32, parts[0].data(), all.data(), count);
      const std::vector<float> planted = rank_order_sum(c, all, count);
      if (c.rank() == 0 && std::memcmp(planted.data(), expected_sum(DType::f32, count, 8).data(), size_t(count) * 4))
        found.push_back(ranks);
    });
  EXPECT_NE(std::find(found.begin(), found.end(), 3), found.end()) << "a sum in the order of ranks has the tree's bits at 3 ranks";
  EXPECT_EQ(std::find(found.begin(), found.end(), 1), found.end());
}

TEST(RankThreads, FailedRankEndsAllOthersWithItsError) {
  std::atomic<int> others = 0;
  try {
    run_ranks(4, [&](Communicator& c) {
      if (c.rank() == 2) throw std::runtime_error("a label is missing");
      try {
        barrier(c, {.tensor = "never"});
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find("rank 2 has failed"), std::string::npos) << e.what();
        EXPECT_NE(std::string(e.what()).find("a label is missing"), std::string::npos) << e.what();
        ++others;
        throw;
      }
    });
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "a label is missing");
  }
  EXPECT_EQ(others, 3);
}

TEST(RankThreads, RankThatEndsEarlyIsAnErrorOnAll) {
  std::atomic<int> told = 0;
  try {
    run_ranks(3, [&](Communicator& c) {
      if (c.rank() == 1) return;
      try {
        barrier(c, {.tensor = "epoch"});
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find("rank 1 is at the end of its program"), std::string::npos) << e.what();
        ++told;
        throw;
      }
    });
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("ranks 0, 2 are at barrier 'epoch'"), std::string::npos) << e.what();
  }
  EXPECT_EQ(told, 2);
}

TEST(RankThreads, StalledRankIsNamedWhenThePatienceIsOver) {
  const std::string folder = testing::TempDir() + "lamina_stalled";
  std::filesystem::create_directories(folder);
  setenv(config::name(Setting::flight_records), folder.c_str(), 1);
  std::atomic<bool> go = false;
  try {
    run_ranks(
        3,
        [&](Communicator& c) {
          c.record().set_step(12);
          if (c.rank() == 2)
            while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          try {
            all_reduce(c, DType::f32, std::vector<float>(5).data(), std::vector<float>(5).data(), 5,
                       {.tensor = "grad/w", .line = "train.py:9"});
          } catch (...) {
            go = true;
            throw;
          }
        },
        kShort);
    FAIL();
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_EQ(e.kind, ErrorKind::collective);
    for (const char* part : {"collective 1, all_reduce of f32[5] 'grad/w' in 3 shards (train.py:9), has not ended after 1 s",
                             "not there: rank 2 (host ", "step 12, no finished collective", "LAMINA_COLLECTIVE_TIMEOUT"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in " << text;
  }
  unsetenv(config::name(Setting::flight_records));
  EXPECT_TRUE(std::filesystem::exists(folder + "/lamina-rank-0.json") || std::filesystem::exists(folder + "/lamina-rank-1.json"));
  std::filesystem::remove_all(folder);
}

TEST(RankThreads, ImpossibleNumberOfRanksIsAnError) {
  for (const int ranks : {-1, 0, 1025}) EXPECT_THROW(run_ranks(ranks, [](Communicator&) {}), Error);
}

// One call of a random program, as data, so that it can be changed on one rank.
struct Call {
  Op op;
  DType dtype;
  int64_t count;
  int root;
  int64_t shards;
  std::string tensor;
  size_t bytes;  // of an exchange in a ring
};

void run(Communicator& c, const Call& call) {
  std::vector<char> in(size_t(call.count) * 8 * 64, 1), out(in.size(), 0);
  const Subject subject{.tensor = call.tensor, .line = "model.py:1"};
  switch (call.op) {
    case Op::barrier: return barrier(c, subject);
    case Op::broadcast: return broadcast(c, call.dtype, in.data(), call.count, call.root, subject);
    case Op::all_gather: return all_gather(c, call.dtype, in.data(), out.data(), call.count, subject);
    case Op::all_reduce: return all_reduce(c, SumOf{call.dtype, call.count, call.shards}, in.data(), out.data(), subject);
    case Op::reduce_scatter: return reduce_scatter(c, SumOf{call.dtype, call.count, call.shards}, in.data(), out.data(), subject);
    default: break;
  }
  std::vector<char> mine(call.bytes), theirs(call.bytes);
  const int next = (c.rank() + 1) % c.size(), previous = (c.rank() + c.size() - 1) % c.size();
  send_receive(c, std::vector<Transfer>{from_rank(previous, theirs.data(), call.bytes), to_rank(next, mine.data(), call.bytes)}, subject);
}

Call random_call(std::mt19937& random, int ranks) {
  constexpr Op ops[] = {Op::barrier, Op::broadcast, Op::all_gather, Op::all_reduce, Op::reduce_scatter, Op::send_receive};
  constexpr DType types[] = {DType::f32, DType::f64, DType::f16, DType::i32};
  return {ops[random() % 6],         types[random() % 4],    int64_t(1 + random() % 50), int(random() % unsigned(ranks)),
          int64_t(8 + random() % 3), cat("t", random() % 4), size_t(1 + random() % 100)};
}

// Changes the program of one rank so that it disagrees with the others. Returns what was changed, or "" if this change is none.
std::string mutate(std::vector<Call>& calls, std::mt19937& random, int ranks) {
  const size_t at = random() % calls.size();
  Call& call = calls[at];
  const bool sums = call.op == Op::all_reduce || call.op == Op::reduce_scatter;
  const bool has_elements = sums || call.op == Op::broadcast || call.op == Op::all_gather;
  switch (random() % 9) {
    case 0: calls.erase(calls.begin() + long(at)); return "skips a call";
    case 1: calls.insert(calls.begin() + long(at), random_call(random, ranks)); return "has another call";
    case 2: call.tensor += "x"; return "another name";
    case 3:
      if (has_elements) return ++call.count, "another count";
      return "";
    case 4:
      if (has_elements) return call.dtype = call.dtype == DType::f32 ? DType::f64 : DType::f32, "another dtype";
      return "";
    case 5:
      if (call.op == Op::broadcast) return call.root = (call.root + 1) % ranks, "another root";
      return "";
    case 6:
      if (sums) return ++call.shards, "another number of shards";
      return "";
    case 7:
      if (call.op == Op::send_receive) return ++call.bytes, "another length";
      return "";
    default: break;
  }
  if (at + 1 == calls.size()) return "";
  std::swap(calls[at], calls[at + 1]);
  return "another order";
}

bool same(const std::vector<Call>& a, const std::vector<Call>& b) {
  const auto key = [](const Call& c) {
    const bool sums = c.op == Op::all_reduce || c.op == Op::reduce_scatter;
    const bool has_elements = sums || c.op == Op::broadcast || c.op == Op::all_gather;
    return cat(int(c.op), " ", has_elements ? cat(c.dtype, c.count) : "", " ", c.op == Op::broadcast ? c.root : 0, " ", sums ? c.shards : 0,
               " ", c.tensor, " ", c.op == Op::send_receive ? c.bytes : 0);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Call& x, const Call& y) { return key(x) == key(y); });
}

TEST(RankThreads, EveryOfAThousandMutationsIsFoundOnEveryRank) {
  const unsigned seed = 20;
  std::mt19937 random(seed);
  std::map<std::string, int> kinds;
  for (int mutations = 0; mutations < 1000;) {
    const int ranks = 2 + int(random() % 3), changed = int(random() % unsigned(ranks));
    std::vector<Call> calls, other;
    for (int i = 0; i < 4; ++i) calls.push_back(random_call(random, ranks));
    other = calls;
    const std::string what = mutate(other, random, ranks);
    if (what.empty() || same(calls, other)) continue;
    ++mutations, ++kinds[what];
    Mutex mutex;
    std::vector<std::string> said;
    EXPECT_THROW(run_ranks(ranks,
                           [&](Communicator& c) {
                             try {
                               for (const Call& call : c.rank() == changed ? other : calls) run(c, call);
                               end(c);
                             } catch (const Error& e) {
                               const std::lock_guard lock(mutex);
                               if (e.kind == ErrorKind::collective) said.push_back(e.parts.what + e.parts.why);
                               throw;
                             }
                           }),
                 Error)
        << what << ", seed " << seed << ", mutation " << mutations;
    ASSERT_EQ(said.size(), size_t(ranks)) << what << ", mutation " << mutations;
    for (const std::string& text : said) {
      EXPECT_EQ(text, said[0]) << what;
      EXPECT_EQ(text.find("ranks disagree about collective "), 0u) << text;
    }
  }
  EXPECT_EQ(kinds.size(), 9u);
}

}  // namespace
}  // namespace lamina::distributed::tests
