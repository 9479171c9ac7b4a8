// Collectives of graphs between fake GPUs, one of each rank: the bits of the same graphs in host memory.
#include <random>

#include "graph/ops/collectives.h"
#include "graph/ops/ops.h"
#include "tests/cuda/ranks_fixture.h"
#include "tests/graph/compile/run.h"

namespace lamina::tests {
namespace {

using distributed::Communicator;
using ir::Graph;
using ir::Value;

class GraphCollectives : public cuda::CudaRanks {
 protected:
  // One collective after the other, each on the results of those before.
  static Graph graph(const Communicator& c, int64_t shards, DType dtype) {
    Graph g;
    const int64_t own = distributed::leaves_of(c, shards).size();
    const auto of = [&](const char* name) {
      return ops::CollectiveAttrs{.ranks = c.size(), .rank = c.rank(), .shards = shards, .name = name};
    };
    std::vector<Value> leaves;
    for (const int64_t n : {1, 257, 30, 0}) leaves.push_back(g.add_input({dtype, {own, n}}));
    const Value parts = g.add_input({dtype, {own, 2 * c.size(), 3}}), x = g.add_input({dtype, {5}});
    g.outputs = ops::all_reduce(g, leaves, of("gradients"));
    g.outputs.push_back(ops::all_reduce(g, {leaves[1]}, of("one"))[0]);
    g.outputs.push_back(ops::reduce_scatter(g, parts, of("parts")));
    auto from_last = of("x"), ring = of("ring");
    from_last.root = c.size() - 1;
    for (int64_t r = 0; r + 1 < c.size(); ++r) ring.routes.insert(ring.routes.end(), {r, r + 1});
    const Value last = ops::broadcast_from(g, x, from_last), passed = ops::send_receive(g, x, ring);
    g.outputs.insert(g.outputs.end(), {last, passed, ops::all_gather(g, passed, of("all"))});
    return g;
  }
  static std::vector<Tensor> inputs(const Graph& g, int rank) {
    std::mt19937 random(unsigned(rank) + 1);
    std::vector<Tensor> out;
    for (const Value v : g.inputs) {
      out.emplace_back(g.type(v));
      with_dtype(g.type(v).dtype, [&]<class T>() {
        for (int64_t i = 0; i < out.back().size(); ++i)
          static_cast<T*>(out.back().raw())[i] = T(std::ldexp(float(random() % 2001) - 1000, int(random() % 12) - 6));
      });
    }
    return out;
  }
};

TEST_F(GraphCollectives, HaveTheBitsOfTheHostForAnyNumberOfRanks) {
  for (const DType dtype : {DType::f32, DType::f16, DType::i32})
    for (int ranks = 1; ranks <= kGpus; ++ranks)
      for (unsigned seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(cat(ranks, " ranks, ", dtype, ", seed ", seed));
        cuda::FakeCuda::now().work.random.seed(seed);
        distributed::run_ranks(
            ranks,
            [&](Communicator& c) {
              const Graph g = graph(c, 5, dtype);
              const std::vector<Tensor> in = inputs(g, c.rank());
              const std::vector<Tensor> host = run_program(g, in, nullptr, {}),
                                        own = run_program(g, in, nullptr, {.device = cuda::gpu(c.rank())}, 2);
              EXPECT_TRUE(same_bits(own, host));
              const std::string text = program_text(g, {.device = cuda::gpu(c.rank())});
              EXPECT_EQ(text.find("copy"), std::string::npos) << "values leave the device:\n" << text;
            },
            kLate);
      }
  EXPECT_GT(fake().created, 0);
}

TEST_F(GraphCollectives, AFailedRankEndsThoseOfTheOthers) {
  std::atomic<int> told = 0;
  const auto body = [&](Communicator& c) {
    const Graph g = graph(c, 5, DType::f32);
    const std::vector<Tensor> in = inputs(g, c.rank());
    const compile::Options on_gpu{.device = cuda::gpu(c.rank())};
    run_program(g, in, nullptr, on_gpu);
    if (c.rank() == 1) throw std::runtime_error("a label is missing");
    try {
      run_program(g, in, nullptr, on_gpu);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::collective) << e.what();
      ++told;
      throw;
    }
  };
  EXPECT_THROW(distributed::run_ranks(3, body, kLate), std::exception);
  EXPECT_LE(told, 2);
  for (int r = 0; r < 3; ++r) take_error(r);
}

TEST_F(GraphCollectives, ARankThatComputesOnTheHostIsNamed) {
  std::atomic<int> told = 0;
  const auto body = [&](Communicator& c) {
    const Graph g = graph(c, 5, DType::f32);
    try {
      run_program(g, inputs(g, c.rank()), nullptr, {.device = c.rank() == 1 ? Device{} : cuda::gpu(c.rank())});
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("rank 1 is at all_reduce"), std::string::npos) << e.what();
      ++told;
      throw;
    }
  };
  EXPECT_THROW(distributed::run_ranks(3, body, kLate), Error);
  EXPECT_EQ(told, 3);
}

}  // namespace
}  // namespace lamina::tests
