// lm::distributed::data_parallel with ranks as threads, and the texts of its errors.
#include "graph/frontend/data_parallel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <regex>

#include "graph/frontend/factories.h"
#include "graph/frontend/function.h"
#include "graph/frontend/tape.h"
#include "graph/functions/collectives.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/random.h"
#include "graph/functions/sorting.h"
#include "graph/nn/optimizer.h"
#include "runtime/dist/collectives.h"
#include "runtime/dist/threads.h"
#include "tests/source_file.h"

namespace lamina {
namespace {

namespace dist = distributed;

std::vector<float> noise(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& v : out) v = std::normal_distribution<float>()(random);
  return out;
}

// This rank's rows of a matrix with `columns` columns.
Tensor own_rows(const dist::Communicator& c, const std::vector<float>& all, int64_t columns, int64_t shards = 8) {
  const int64_t rows = int64_t(all.size()) / columns;
  const dist::Range own = dist::rows_of_rank(rows, shards, c.size(), c.rank());
  return tensor(std::vector<float>(all.begin() + own.begin * columns, all.begin() + own.end * columns), {own.size(), columns});
}

// The weights and losses of a small network with statistics of the batch and dropout after some steps of Adam, on rank 0.
std::vector<float> trained(int ranks, int64_t rows, int steps, const dist::DataParallelOptions& options = {}) {
  const std::vector<float> xs = noise(rows * 6, 1), ys = noise(rows * 3, 2);
  std::vector<float> out;
  dist::run_ranks(ranks, [&](dist::Communicator& c) {
    Variable w(tensor(noise(6 * 16, 3), {6, 16}) * 0.3, "w"), v(tensor(noise(16 * 3, 4), {16, 3}) * 0.3, "v"), b(zeros({3}), "b");
    Variable generator(tensor(std::vector<int64_t>{5, 0}, {2}), "generator", false);
    optim::Adam adam(0.01);
    auto step = dist::data_parallel(
        [&](Tensor x, Tensor y) {
          GradientTape tape;
          const Tensor h = relu(matmul(x, w)), mean_of = mean(h, Axes{0}), centred = h - mean_of;
          const Tensor normal = centred / sqrt(mean(square(centred), Axes{0}) + 1e-3);
          const Tensor out_of = matmul(normal, v) + b;
          const Tensor cost = mean(square(out_of - y));
          adam.apply_gradients(tape.gradient(cost, w, v, b), {w, v, b});
          return std::pair(cost, max(out_of, Axes{0}));
        },
        options);
    std::vector<float> mine;
    for (int i = 0; i < steps; ++i) {
      const auto [cost, most] = step(own_rows(c, xs, 6, options.shards), own_rows(c, ys, 3, options.shards));
      for (const Tensor& t : {cost, most})
        for (float value : t.to_vector<float>()) mine.push_back(value);
    }
    EXPECT_EQ(step.trace_count(), 1);
    for (const Variable& variable : {w, v, b})
      for (float value : variable.read().to_vector<float>()) mine.push_back(value);
    if (c.rank() == 0) out = mine;
  });
  return out;
}

TEST(DataParallel, TrainsWithTheSameBitsOnAnyNumberOfRanks) {
  for (const int64_t rows : {64, 21, 5}) {
    const std::vector<float> one = trained(1, rows, 5);
    EXPECT_LT(one[4 * 4], one[0]) << "it learns";
    for (const int ranks : {2, 3, 4, 6, 8}) {
      const std::vector<float> many = trained(ranks, rows, 5);
      ASSERT_EQ(many.size(), one.size());
      EXPECT_EQ(std::memcmp(many.data(), one.data(), one.size() * 4), 0) << ranks << " ranks, " << rows << " rows";
    }
  }
}

// A rank with many shards adds them level by level.
TEST(DataParallel, AnyNumberOfShardsGivesTheSameBitsOnAnyNumberOfRanks) {
  for (const int64_t shards : {5, 17, 40, 77}) {
    const std::vector<float> one = trained(1, 101, 3, {.shards = shards});
    for (const int ranks : {2, 3, 5})
      EXPECT_EQ(trained(ranks, 101, 3, {.shards = shards}), one) << ranks << " ranks, " << shards << " shards";
  }
}

TEST(DataParallel, BucketsOfGradientsLeaveTheBits) {
  const std::vector<float> one = trained(1, 21, 5);
  for (const int64_t buckets : {1, 2, 3, 100})
    for (const int ranks : {1, 2, 3})
      EXPECT_EQ(trained(ranks, 21, 5, {.buckets = buckets}), one) << ranks << " ranks, " << buckets << " buckets";
}

// Of two ranks each sends one root of the tree, whose sum has one order; of three, each sends two.
TEST(DataParallel, SumsByTheLibraryAreNearTheTrees) {
  const std::vector<float> one = trained(1, 21, 5);
  for (const int ranks : {1, 2, 3}) {
    const std::vector<float> many = trained(ranks, 21, 5, {.buckets = 2, .reproducible = false});
    ASSERT_EQ(many.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(many[i], one[i], 2e-3) << ranks << " ranks, number " << i;
    EXPECT_EQ(many == one, ranks < 3) << ranks << " ranks";
  }
}

// The exchange of the last layer's gradient runs while the first layer's is computed.
TEST(DataParallel, BucketsAreExchangedBesideTheBackwardPass) {
  dist::run_ranks(2, [&](dist::Communicator& c) {
    std::vector<Variable> w;
    for (int i = 0; i < 4; ++i) w.emplace_back(tensor(noise(128 * 128, unsigned(i)), {128, 128}) * 0.1);
    optim::SGD sgd(0.1);
    const auto explained = [&](int64_t buckets) {
      auto step = dist::data_parallel(
          [&](Tensor x) {
            GradientTape tape;
            for (const Variable& v : w) x = tanh(matmul(x, v));
            const Tensor cost = mean(x);
            sgd.apply_gradients(tape.gradient(cost, w[0], w[1], w[2], w[3]), w);
            return cost;
          },
          {.buckets = buckets});
      const Tensor rows = own_rows(c, noise(1024 * 128, 9), 128);
      step(rows);
      return step.explain(rows);
    };
    const auto count = [](const std::string& text, const std::string& word) {
      int n = 0;
      for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++n;
      return n;
    };
    EXPECT_EQ(count(explained(1), "stream 1"), 0);
    const std::string several = explained(4);
    EXPECT_GT(count(several, "stream 1"), 1) << several;
  });
}

// What an allreduce of a library does: each rank's rows are one leaf.
TEST(DataParallel, SumsByRankInPlaceOfShardsAreFoundAtThreeRanks) {
  const std::vector<float> xs = noise(48 * 40, 1);
  std::vector<float> one, by_rank;
  const auto sums = [&](int ranks, int64_t shards) {
    std::vector<float> out;
    dist::run_ranks(ranks, [&](dist::Communicator& c) {
      auto f = dist::data_parallel([](Tensor x) { return sum(x, Axes{0}); }, {.shards = shards});
      const std::vector<float> mine = f(own_rows(c, xs, 40, shards)).to_vector<float>();
      if (c.rank() == 0) out = mine;
    });
    return out;
  };
  EXPECT_EQ(sums(1, 8), sums(3, 8));
  EXPECT_NE(sums(1, 8), sums(3, 3));
}

TEST(DataParallel, ResultsWithRowsAreThisRanksRows) {
  const std::vector<float> xs = noise(11 * 2, 1);
  for (const int ranks : {1, 3})
    dist::run_ranks(ranks, [&](dist::Communicator& c) {
      const Tensor own = own_rows(c, xs, 2);
      auto f = dist::data_parallel([](Tensor x, double scale) { return std::vector<Tensor>{x * scale, sort(x, 0), sum(x)}; });
      const std::vector<Tensor> out = f(own, 2.0);
      EXPECT_EQ(out[0].to_vector<float>(), (own * 2).to_vector<float>());
      EXPECT_EQ(out[1].shape(), (Shape{11, 2})) << "a sort along the rows has all of them";
      EXPECT_EQ(out[2].shape(), Shape{});
    });
}

TEST(DataParallel, InsideOfAnotherOneItIsItsFunction) {
  const auto square_mean = [](Tensor x) { return mean(square(x)); };
  for (const int ranks : {1, 2, 3})
    dist::run_ranks(ranks, [&](dist::Communicator& c) {
      const auto inner = dist::data_parallel(square_mean);
      const auto outer = dist::data_parallel([&](Tensor x) { return add(inner(x), mean(x)); });
      const auto flat = dist::data_parallel([&](Tensor x) { return add(square_mean(x), mean(x)); });
      const Tensor x = own_rows(c, noise(20 * 3, 1), 3);
      EXPECT_EQ(outer(x).to_vector<float>(), flat(x).to_vector<float>()) << ranks << " ranks";
    });
}

TEST(DataParallelErrors, MatchTheirTexts) {
  const auto text_with = [](int ranks, const std::function<void(dist::Communicator&)>& body) -> std::string {
    try {
      dist::run_ranks(ranks, body);
    } catch (const std::exception& e) {
      return e.what();
    }
    return "no error";
  };
  const std::vector<float> xs = noise(12 * 2, 1);
  const auto mean_of = [](Tensor x) { return mean(x); };
  const std::vector<std::pair<const char*, std::string>> cases = {
      {"more ranks than shards", text_with(3, [&](dist::Communicator&) { dist::data_parallel(mean_of, {.shards = 2})(zeros({4, 2})); })},
      {"rows that are not this rank's",
       text_with(3, [&](dist::Communicator& c) { dist::data_parallel(mean_of)(zeros({4 + c.rank(), 2})); })},
      {"another dtype on one rank",
       text_with(2, [&](dist::Communicator& c) { dist::data_parallel(mean_of)(zeros({4, 2}, c.rank() ? DType::f64 : DType::f32)); })},
      {"another order of sums on one rank",
       text_with(2, [&](dist::Communicator& c) { dist::data_parallel(mean_of, {.reproducible = c.rank() == 0})(own_rows(c, xs, 2)); })},
      {"another graph on one rank", text_with(3,
                                              [&](dist::Communicator& c) {
                                                dist::data_parallel([&](Tensor x) {
                                                  return mean(c.rank() == 2 ? tanh(x * x) : abs(x * x));
                                                })(own_rows(c, xs, 2));
                                              })},
      {"a graph that goes on on one rank", text_with(2,
                                                     [&](dist::Communicator& c) {
                                                       dist::data_parallel([&](Tensor x) {
                                                         for (int i = 0; i <= c.rank(); ++i) x = exp(x);
                                                         return x;
                                                       })(own_rows(c, xs, 2));
                                                     })},
      {"another value on one rank", text_with(2,
                                              [&](dist::Communicator& c) {
                                                Variable w(full({2}, c.rank()), "w");
                                                dist::data_parallel([&](Tensor x) { return mean(x * w); })(own_rows(c, xs, 2));
                                              })},
      {"arguments with different numbers of rows", text_with(1,
                                                             [&](dist::Communicator&) {
                                                               dist::data_parallel([](Tensor x, Tensor y) { return sum(x) + sum(y); })(
                                                                   zeros({4}), zeros({3}));
                                                             })},
      {"no number of buckets", text_with(1, [&](dist::Communicator&) { dist::data_parallel(mean_of, {.buckets = -1})(zeros({4, 2})); })},
      {"an open length", text_with(1,
                                   [&](dist::Communicator&) {
                                     auto mean_of_rows = dist::data_parallel(mean_of);
                                     function([=](Tensor x) { return mean_of_rows(x); }, {TensorSpec{{any_length(), 2}}})(zeros({4, 2}));
                                   })},
      {"no rows at all", text_with(1, [&](dist::Communicator&) { dist::data_parallel(mean_of)(zeros({0, 2})); })},
      {"no argument with rows", text_with(1, [&](dist::Communicator&) { dist::data_parallel(mean_of)(zeros({})); })},
      {"a collective inside",
       text_with(1, [&](dist::Communicator&) { dist::data_parallel([](Tensor x) { return dist::all_reduce(x); })(zeros({2})); })},
      {"a tape outside", text_with(2,
                                   [&](dist::Communicator&) {
                                     Variable w(full({2}, 1), "w");
                                     GradientTape tape;
                                     const Tensor cost = dist::data_parallel([&](Tensor x) { return mean(x * w); })(zeros({4, 2}));
                                     tape.gradient(cost, w);
                                   })},
  };
  std::string all;
  for (const auto& [name, text] : cases) {
    // Lines of this file move.
    const std::string lines = std::regex_replace(text, std::regex("data_parallel_test.cpp:[0-9]+"), "data_parallel_test.cpp:N");
    all += std::string("== ") + name + "\n" + lines + "\n";
  }
  tests::expect_text_of_file(all, "tests/errors/data_parallel.txt");
}

}  // namespace
}  // namespace lamina
