// Graphs that were damaged in one place: each is refused with an Error, or is a graph that can be run.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "graph/frontend/concrete_function.h"
#include "graph/frontend/device.h"
#include "graph/frontend/factories.h"
#include "tests/graph/damage.h"
#include "tests/graph/random_graph.h"
#include "tests/source_file.h"

namespace lamina {
namespace {

// Bytes of all values; what is larger than a test should take is not run.
double size_of_all(const ir::Graph& g) {
  double sum = 0;
  for (const ir::Node& node : g.nodes()) {
    for (const TensorType& t : node.types) {
      double bytes = double(size_of(t.dtype));
      for (const Dim d : t.shape) bytes *= d.known() ? double(d.number()) : 1e18;
      sum += bytes;
    }
    for (const ir::GraphRef& region : node.regions) sum += size_of_all(*region);
  }
  return sum;
}
bool has_op(const ir::Graph& g, std::string_view name) {
  for (const ir::Node& node : g.nodes()) {
    if (node.op->name == name) return true;
    for (const ir::GraphRef& region : node.regions)
      if (has_op(*region, name)) return true;
  }
  return false;
}

void run(ir::Graph g) {
  auto trace = std::make_shared<Trace>("hostile", Device{});
  const size_t arguments = g.inputs.size();
  std::vector<Tensor> inputs;
  for (const ir::Value v : g.inputs) inputs.push_back(zeros(g.type(v).shape, g.type(v).dtype));
  for (const ir::Resource& r : g.resources) trace->variables.emplace_back(Operand(zeros(r.type.shape, r.type.dtype), CallSite()), r.name);
  trace->graph = std::move(g);
  auto f = std::make_shared<ConcreteFunction>(trace, "hostile", arguments, std::vector<int>{}, nullptr, 0.0);
  for (const Tensor& t : f->call(inputs))
    if (t.size() > 0) t.to(Device{}).data();
}

// Three in four are changes of a node, after which the types of what follows are those that shape rules give, as far as they accept it. The
// others are changes of a word of the text.
TEST(HostileGraphs, AreRefusedOrRun) {
  const int count = tests::random_graph_count(1500, 60'000);
  const uint64_t first = tests::random_graph_seed(90000);
  int refused = 0, large = 0, ran = 0, failed = 0;
  ir::Graph good;
  for (int i = 0; i < count; ++i) {
    const uint64_t seed = first + uint64_t(i);
    if (i % 50 == 0) good = tests::random_graph(seed, {.least_nodes = 5, .most_nodes = 25, .gradients = i % 100 == 0}).graph;
    tests::Random random(seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::string bad;
    try {
      bad = i % 4 ? ir::print(tests::with_one_change(good, random), true) : tests::with_one_token_changed(ir::print(good, true), random);
      ir::Graph g = ir::parse(bad);
      ir::verify(g);
      EXPECT_EQ(ir::print(ir::parse(ir::print(g, true)), true), ir::print(g, true));
      if (size_of_all(g) > 64e6 || has_op(g, "while_loop")) {  // a loop may have no end
        ++large;
        continue;
      }
      try {
        run(std::move(g));
        ++ran;
      } catch (const Error& error) {
        EXPECT_NE(error.kind, ErrorKind::internal) << error.what() << "\n" << bad;
        ++failed;
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  std::printf("%d damaged graphs from seed %s: %d refused, %d ran, %d ended with an error, %d too large to run or with a loop\n", count,
              std::to_string(first).c_str(), refused, ran, failed, large);
  EXPECT_GT(refused, count / 5);
  EXPECT_GT(ran, count / 5);
}

// What the fuzz targets begin with, among it what they found.
TEST(HostileGraphs, SeedsOfFuzzTargetsAreRefusedOrRun) {
  std::ifstream in(tests::source_file("tests/fuzz/graphs.txt"));
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  int accepted = 0, refused = 0;
  for (size_t at = 0; at < all.size();) {
    const size_t begin = all.find('\n', at) + 1, end = std::min(all.find("== ", begin), all.size());
    SCOPED_TRACE(all.substr(at, begin - at));
    const std::string text = all.substr(begin, end - begin);
    at = end;
    try {
      ir::Graph g = ir::parse(text);
      ir::verify(g);
      ++accepted;
      EXPECT_EQ(ir::print(ir::parse(ir::print(g, true)), true), ir::print(g, true));
      if (size_of_all(g) < 1e6 && !has_op(g, "while_loop")) run(std::move(g));
    } catch (const Error& error) {
      EXPECT_NE(error.kind, ErrorKind::internal) << error.what();
      ++refused;
    }
  }
  std::printf("%d seeds are graphs, %d are refused\n", accepted, refused);
  EXPECT_GT(accepted, 60);
}

TEST(HostileGraphs, LongLinesAreCutInErrors) {
  try {
    ir::parse("%0: f32[2] = input() {name=\"" + std::string(1'000'000, 'a'));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 2000u);
  }
}

TEST(HostileGraphs, LengthsOfManyTermsAreRefusedAtOnce) {
  std::string product = "a", sum = "a0", wide = "%0: f32[";
  for (int i = 1; i < 8000; ++i) product += "*a";
  for (int i = 1; i < 20000; ++i) sum += cat("+a", i);
  for (int axis = 0; axis < 8; ++axis) {
    for (int i = 0; i < 10; ++i) wide += cat(i ? "+" : axis ? "," : "", 'a', axis, '_', i);
  }
  for (const std::string& text : {"%0: f32[" + product + "] = input()\nreturn %0", "%0: f32[" + sum + "] = input()\nreturn %0",
                                  wide + "] = input()\n%1: f32[1] = reshape(%0) {shape=[1]}\nreturn %1"})
    EXPECT_THROW(ir::parse(text), Error);
}

}  // namespace
}  // namespace lamina
