// Collectives of tensors, with ranks as threads: eager, traced, in loops and branches, under vmap, with gradients, and the order that
// passes keep.
#include "graph/functions/collectives.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/frontend/vmap.h"
#include "graph/functions/control_flow.h"
#include "graph/functions/op_functions.h"
#include "graph/ops/ops.h"
#include "graph/passes/pipeline.h"
#include "runtime/dist/collectives.h"
#include "runtime/dist/threads.h"
#include "tests/graph/compile/run.h"

namespace lamina {
namespace d = distributed;
namespace {

using Elements = std::vector<float>;

const std::vector<int> kRanks{1, 2, 3, 4, 6, 8};

Elements elements(const Tensor& t) { return t.to_vector<float>(); }
float own(int rank, int i = 0) { return float(rank + 1) * 0.5f + float(i); }

// The same from eager calls and from a traced function.
template <class F>
void eager_and_traced(const std::vector<int>& ranks, F check) {
  for (const int n : ranks)
    d::run_ranks(n, [&](d::Communicator& c) {
      check(c, [](auto f, const Tensor& x) { return f(x); });
      check(c, [](auto f, const Tensor& x) { return function(f)(x); });
    });
}

TEST(Collectives, GiveEachRankWhatTheyPromise) {
  eager_and_traced(kRanks, [](d::Communicator& c, auto call) {
    const int n = c.size(), me = c.rank();
    const Tensor x = tensor({own(me), own(me, 1)}, {2});
    Elements sum(2), all;
    for (int r = 0; r < n; ++r)
      for (int i = 0; i < 2; ++i) sum[size_t(i)] += own(r, i), all.push_back(own(r, i));
    EXPECT_EQ(elements(call([](Tensor t) { return d::all_reduce(t, {}, "x"); }, x)), sum);
    const Tensor gathered = call([](Tensor t) { return d::all_gather(t, "x"); }, x);
    EXPECT_EQ(gathered.shape(), (Shape{n, 2}));
    EXPECT_EQ(elements(gathered), all);
    EXPECT_EQ(elements(call([&](Tensor t) { return d::broadcast(t, n - 1, "x"); }, x)), (Elements{own(n - 1), own(n - 1, 1)}));
    const Tensor rows = broadcast_to(reshape(x, {1, 2}), {n, 2});
    EXPECT_EQ(elements(call([](Tensor t) { return d::reduce_scatter(t, {}, "x"); }, rows)), sum);
    // Around a ring, the last rank sends to nobody.
    std::vector<std::pair<int64_t, int64_t>> routes;
    for (int r = 0; r + 1 < n; ++r) routes.emplace_back(r, r + 1);
    EXPECT_EQ(elements(call([&](Tensor t) { return d::send_receive(t, routes, "x"); }, x)),
              me ? (Elements{own(me - 1), own(me - 1, 1)}) : Elements(2));
  });
}

TEST(Collectives, SumOfShardsHasTheSameBitsForAnyNumberOfRanks) {
  constexpr int64_t count = 1000;
  std::mt19937 random(5);
  std::vector<Elements> leaves(8, Elements(count));
  for (Elements& leaf : leaves)
    for (float& v : leaf) v = std::uniform_real_distribution<float>(-1, 1)(random);
  Elements one;
  for (const int n : kRanks)
    d::run_ranks(n, [&](d::Communicator& c) {
      const d::Range mine = d::leaves_of(c, 8);
      Elements stacked;
      for (int64_t i = mine.begin; i < mine.end; ++i) stacked.insert(stacked.end(), leaves[size_t(i)].begin(), leaves[size_t(i)].end());
      const Elements sum = elements(d::all_reduce(tensor(stacked, {mine.size(), count}), 8, "leaves"));
      if (n == 1)
        one = sum;
      else
        EXPECT_EQ(std::memcmp(sum.data(), one.data(), count * 4), 0) << n << " ranks";
    });
}

TEST(Collectives, HaveTheGradientOfTheSumOfAllRanksTargets) {
  eager_and_traced({1, 2, 3}, [](d::Communicator& c, auto call) {
    const int n = c.size(), me = c.rank();
    const float weight = float(me + 1);
    float all_weights = 0;
    for (int r = 0; r < n; ++r) all_weights += float(r + 1);
    const Tensor x = tensor({1.f, 2.f}, {2}), rows = broadcast_to(reshape(x, {1, 2}), {n, 2});
    const auto gradient = [&](auto f, const Tensor& of) {
      return elements(call(
          [&](Tensor t) {
            GradientTape tape;
            tape.watch(t);
            return tape.gradient(sum(f(t)) * double(weight), t)[0];
          },
          of));
    };
    EXPECT_EQ(gradient([](Tensor t) { return d::all_reduce(t, {}, "x"); }, x), Elements(2, all_weights));
    EXPECT_EQ(gradient([](Tensor t) { return d::all_gather(t, "x"); }, x), Elements(2, all_weights));
    EXPECT_EQ(gradient([](Tensor t) { return d::broadcast(t, 0, "x"); }, x), Elements(2, me == 0 ? all_weights : 0));
    Elements scattered;
    for (int r = 0; r < n; ++r) scattered.insert(scattered.end(), 2, float(r + 1));
    EXPECT_EQ(gradient([](Tensor t) { return d::reduce_scatter(t, {}, "x"); }, rows), scattered);
    std::vector<std::pair<int64_t, int64_t>> routes;
    for (int r = 0; r + 1 < n; ++r) routes.emplace_back(r, r + 1);
    EXPECT_EQ(gradient([&](Tensor t) { return d::send_receive(t, routes, "x"); }, x), Elements(2, me + 1 < n ? weight + 1 : 0));
  });
}

TEST(Collectives, AreMappedByVmap) {
  for (const int n : {1, 3})
    d::run_ranks(n, [&](d::Communicator& c) {
      const Tensor x = tensor({own(c.rank()), 1.f, 2.f, 3.f, 4.f, own(c.rank(), 5)}, {3, 2});
      const auto same = [&](auto f) {
        const Tensor mapped = vmap(f)(x);
        for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(elements(gather(mapped, i, 0)), elements(f(gather(x, i, 0))));
      };
      same([](Tensor t) { return d::all_reduce(t); });
      same([](Tensor t) { return d::all_gather(t); });
      same([&](Tensor t) { return d::broadcast(t, n - 1); });
      same([&](Tensor t) { return d::send_receive(t, {{n - 1, 0}}); });
      same([&](Tensor t) { return d::reduce_scatter(broadcast_to(reshape(t, {1, 2}), {n, 2})); });
    });
}

TEST(Collectives, RunInLoopsAndBranches) {
  for (const int n : {1, 2, 4})
    d::run_ranks(n, [&](d::Communicator& c) {
      auto f = function([&](Tensor x) {
        const Tensor looped = scan([](Tensor sum, Tensor step) { return std::pair(d::all_reduce(sum, {}, "loop") + step, sum); }, x,
                                   tensor({0.f, 1.f, 2.f}, {3}))
                                  .first;
        return cond(sum(x) > 0, [&] { return d::all_reduce(looped, {}, "then"); }, [&] { return looped; });
      });
      float expected = 1;
      for (int i = 0; i < 3; ++i) expected = expected * float(n) + float(i);
      EXPECT_EQ(f(scalar(1.f)).item<float>(), expected * float(n));
      EXPECT_EQ(c.record().last().tensor, std::string("then"));
    });
}

// What no iteration changes is computed before the loop; exchanges beside it stay, also those of what iterations change.
TEST(Collectives, StayInLoopsThatOtherWorkLeaves) {
  for (const int n : {1, 2})
    d::run_ranks(n, [&](d::Communicator& c) {
      auto f = function([&](Tensor x) {
        return scan([&](Tensor sum, Tensor step) { return std::pair(d::all_reduce(sum * tanh(x * 2.0), {}, "loop") + step, sum); }, x,
                    tensor({0.f, 1.f, 2.f}, {3}))
            .first;
      });
      float expected = 0.5f;
      for (int i = 0; i < 3; ++i) expected = expected * std::tanh(1.f) * float(n) + float(i);
      f(scalar(0.5f));
      const int64_t before = c.record().last().sequence;
      EXPECT_NEAR(f(scalar(0.5f)).item<float>(), expected, 1e-5);
      EXPECT_EQ(c.record().last().sequence - before, 3);
    });
}

// Every pass and every plan keeps all collectives, also unused ones, in the order of the program.
TEST(Collectives, KeepTheirOrderUnderAllPasses) {
  using ops::Value;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    std::mt19937_64 random(seed);
    ir::Graph g;
    const Value x = g.add_input({DType::f32, {3}}), y = g.add_input({DType::f32, {3}});
    std::vector<Value> pool{x, y, ops::add(g, x, y)};
    std::vector<std::string> names;
    for (int i = 0; i < 12; ++i) {
      const Value v = pool[random() % pool.size()];
      names.push_back(cat("c", i));
      switch (random() % 3) {
        case 0: pool.push_back(ops::all_reduce(g, {ops::reshape(g, v, {1, 3})}, {.name = names.back()})[0]); break;
        case 1: pool.push_back(ops::broadcast_from(g, v, {.name = names.back()})); break;
        default: {
          auto body = std::make_shared<ir::Graph>();
          const Value in = body->add_input({DType::f32, {3}});
          body->outputs = {ops::broadcast_from(*body, ops::tanh(*body, in), {.name = names.back()})};
          pool.push_back(ops::scan(g, {v}, {}, {}, body, Dim(1)));
        }
      }
      pool.push_back(ops::mul(g, ops::sin(g, pool.back()), pool[random() % pool.size()]));
    }
    g.outputs = {pool[random() % pool.size()], pool.back()};
    for (const int streams : {1, 3}) {
      const ir::Graph optimized = passes::optimize(g).graph;
      const tests::Tensor value = tests::Tensor::of<float>({3}, {0.1f, 0.2f, 0.3f});
      std::ignore = tests::run_program(optimized, {value, value}, nullptr, {.streams = streams, .share_all_streams = streams > 1});
      std::vector<std::string> ran;
      for (const d::Entry& e : d::world().record().entries()) ran.push_back(e.tensor);
      ran.erase(ran.begin(), ran.end() - std::min<int64_t>(int64_t(names.size()), int64_t(ran.size())));
      EXPECT_EQ(ran, names) << "seed " << seed << ", " << streams << " streams";
    }
  }
}

TEST(Collectives, CallsThatDisagreeAreFoundBeforeDataMoves) {
  const auto error_of = [](auto body) {
    try {
      d::run_ranks(3, body);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::collective);
      return std::string(e.what());
    }
    return std::string();
  };
  const auto has = [](const std::string& text, const char* part) { EXPECT_NE(text.find(part), std::string::npos) << text; };
  has(error_of([](d::Communicator& c) { d::all_reduce(zeros({c.rank() == 1 ? 4 : 3}), {}, "w"); }),
      "rank 1 is at all_reduce of f32[4] 'w'");
  has(error_of([](d::Communicator& c) {
        auto f = function([&](Tensor x) { return c.rank() == 2 ? d::all_gather(x, "w") : d::all_reduce(x, {}, "w"); });
        f(zeros({3}));
      }),
      "rank 2 is at all_gather of f32[3] 'w'");
}

TEST(Collectives, AFailedExchangeBesideOtherWorkChangesNoVariable) {
  d::run_ranks(2, [&](d::Communicator& c) {
    const Tensor x = full({512, 512}, 1);  // large enough that work goes on beside the exchange
    Variable w(x * 3.0, "w");
    auto f = function([&](Tensor t) {
      const Tensor sum = d::all_reduce(t, {}, c.rank() ? "one" : "other");
      Tensor y = t;
      for (int i = 0; i < 3; ++i) y = tanh(matmul(y, t));
      w.assign(sum + y);
      return y;
    });
    try {
      f(x);
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::collective);
      EXPECT_NE(std::string(e.what()).find("ranks disagree about collective 1"), std::string::npos) << e.what();
    }
    EXPECT_EQ(elements(w.read()), Elements(512 * 512, 3));
  });
}

TEST(Collectives, BadCallsAreErrorsThatSayWhatToDo) {
  const auto error_of = [](auto body) {
    try {
      body();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto has = [](const std::string& text, const char* part) { EXPECT_NE(text.find(part), std::string::npos) << text; };
  has(error_of([] { d::all_reduce(zeros({7, 2}), 8); }), "of 8 shards it has 8");
  has(error_of([] { d::all_reduce(tensor(std::vector<uint8_t>{1}, {1}) > 0); }), "bool");
  has(error_of([] { d::broadcast(zeros({2}), 3); }), "rank 0 and root 3 of 1 ranks");
  has(error_of([] { d::send_receive(zeros({2}), {{0, 1}}); }), "are not pairs of ranks");
  has(error_of([] { d::reduce_scatter(zeros({})); }), "cannot be cut for 1 ranks");
  Tensor graph_for_one = zeros({2});
  auto f = function([](Tensor x) { return d::all_gather(x); });
  f(graph_for_one);
  has(error_of([&] { d::run_ranks(2, [&](d::Communicator&) { f(graph_for_one); }); }), "the graph is for 1 rank, the job has 2");
}

}  // namespace
}  // namespace lamina
