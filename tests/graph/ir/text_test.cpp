#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "graph/ir/graph.h"
#include "graph/ops/ops.h"

namespace lamina::ir {
namespace {

void expect_round_trip(const Graph& g) {
  std::string text = print(g);
  Graph back = parse(text);
  EXPECT_EQ(print(back), text);
  EXPECT_TRUE(equal(g, back)) << text;
  EXPECT_EQ(hash(g), hash(back));
  verify(back);
}

Graph small() {
  Graph g;
  int w = g.add_resource({"dense/kernel", {DType::f32, {784, 64}}});
  Value x = g.add_input({DType::f32, {Dim::symbol("n"), 784}}, "x");
  Value h = ops::relu(g, ops::matmul(g, x, ops::read(g, w)));
  Value old = ops::read(g, w), rate = ops::scalar(g, DType::f32, 0.1);
  ops::assign(g, w, ops::mul(g, old, rate));
  g.outputs = {ops::softmax(g, h, -1), ops::sum(g, h, {0}, true)};
  return g;
}

TEST(GraphText, ReadsBack) { expect_round_trip(small()); }

TEST(GraphText, IsShortAndExact) {
  EXPECT_EQ(print(small()),
            "resource 0 \"dense/kernel\": f32[784,64]\n"
            "%0: f32[n,784] = input() {name=\"x\"}\n"
            "%1: f32[784,64] = read()\n"
            "%2: f32[n,64] = matmul(%0, %1)\n"
            "%3: f32[n,64] = relu(%2)\n"
            "%4: f32[784,64] = read()\n"
            "%5: f32[] = constant() {value=f32[]{0.1}}\n"
            "%6: f32[784,64] = mul(%4, %5)\n"
            "%7 = assign(%6) {type=f32[784,64]}\n"
            "%8: f32[n,64] = softmax(%3)\n"
            "%9: f32[1,64] = sum(%3) {axes=[0], keepdims=true}\n"
            "return %8, %9\n");
}

TEST(GraphText, KeepsRegionsDevicesAndSecondResults) {
  auto region = std::make_shared<Graph>();
  Value a = region->add_input({DType::f32, {4}});
  region->outputs = {ops::add(*region, a, a)};
  Graph g;
  Value x = g.add_input({DType::f32, {4}}, "a \"quoted\" name, with {brackets}");
  g.place.device = parse_device("null:h100:2");
  Value f = ops::fused_elementwise(g, region, {x});
  g.place = {};
  Value labels = g.add_input({DType::i32, {2}});
  Value loss = ops::sparse_cross_entropy(g, ops::reshape(g, f, {2, 2}), labels);
  g.outputs = {loss, {loss.node, 1}};
  expect_round_trip(g);
}

TEST(GraphText, KeepsEveryBitOfConstants) {
  Graph g;
  g.add_constant(Literal::of<float>({4}, {0.1f, -0.0f, INFINITY, NAN}));
  g.add_constant(Literal::of<double>({3}, {1e-320, 1.0 / 3, -INFINITY}));
  g.add_constant(Literal::filled({DType::boolean, {3}}, 1));
  g.add_constant(Literal::of<int64_t>({2}, {INT64_MIN, INT64_MAX}));
  g.add_constant(Literal::filled({DType::bf16, {100}}, 1.5));
  g.add_constant(Literal::filled({DType::f16, {0, 3}}, 1.5));
  g.add_constant(Literal{{DType::f32, {5}}, nullptr});
  std::vector<float> many(1000);
  std::mt19937 random(3);
  for (float& f : many) f = std::bit_cast<float>(uint32_t(random()));  // NaNs with payloads among them
  g.add_constant(Literal::of<float>({10, 100}, many));
  expect_round_trip(g);
}

TEST(GraphText, ShortTextsOfConstantsTakeLittleMemory) {
  const auto constant = [](const std::string& value) {
    return "%0: f32[20000000] = constant() {value=f32[20000000]{" + value + "}}\nreturn %0";
  };
  const Graph zeros = parse(constant("0..."));
  EXPECT_EQ(constant_value(zeros, zeros.outputs[0])->bytes, nullptr);
  EXPECT_EQ(print(zeros), constant("0...") + "\n");
  for (const char* bad : {"1...", "-0...", "1,2", "", "0x00"}) EXPECT_THROW(parse(constant(bad)), Error) << bad;
  const std::string none = "%0: bool[3] = constant() {value=bool[3]{false...}}\nreturn %0\n";
  EXPECT_EQ(print(parse(none)), none);
}

TEST(GraphText, RegionsAreCounted) {
  const std::string region = " [\n  %0: f32[2] = input()\n  return %0\n]", x = "%0: f32[2] = input()\n%1: f32[2] = ";
  parse(x + "checkpoint(%0)" + region + "\nreturn %1");
  for (const std::string& node : {"checkpoint(%0)" + region + region, std::string("checkpoint(%0)"), "tanh(%0)" + region})
    EXPECT_THROW(parse(x + node + "\nreturn %1"), Error) << node;
}

TEST(GraphText, ErrorsNameTheLine) {
  const char* good = "%0: f32[2] = input()\n%1: f32[2] = relu(%0)\nreturn %1\n";
  EXPECT_NO_THROW(parse(good));
  for (const char* bad : {
           "",
           "return",
           "%0: f32[2] = input()\n",
           "%0: f32[2] = inptu()\nreturn\n",
           "%1: f32[2] = input()\nreturn\n",
           "%0: f32[2] = input()\n%1: f32[3] = relu(%0)\nreturn %1\n",
           "%0: f32[2] = input()\n%1: f32[2] = relu(%1)\nreturn\n",
           "%0: f32[2] = input()\n%1: f32[2] = relu(%0) {slope=1}\nreturn %1\n",
           "%0: f32[2] = input() {name=\"x}\nreturn\n",
           "%0: f32[2] = constant() {value=f32[2]{1}}\nreturn\n",
           "%0: f32[2] = constant() {value=f32[2]{1,2,3}}\nreturn\n",
           "%0: f32[2] = constant() {value=f32[2]{0x00}}\nreturn\n",
           "%0: f32[2] = input()\nreturn %0.1\n",
           "%0: f32[2] = input()\nreturn %0 junk\nmore\n",
           "resource 1 \"w\": f32[2]\nreturn\n",
           "%0: f32[2] = read()\nreturn\n",
           "%0: f32[2] = input() @tpu:0\nreturn\n",
           "%0: u8[140737488355329] = input()\nreturn\n",
           "%0: f32[0,140737488355328,2] = input()\nreturn\n",
       }) {
    if (std::string(bad) == "return") {
      EXPECT_NO_THROW(parse(bad));  // the empty graph
      continue;
    }
    try {
      Graph g = parse(bad);
      verify(g);
      ADD_FAILURE() << "accepted: " << bad;
    } catch (const Error&) {
    }
  }
}

// Parsing a randomly damaged text returns a graph or throws an Error.
TEST(GraphText, DamagedTextIsParsedOrAnError) {
  std::string text = print(small());
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string bad = text;
    for (int k = 0; k < 1 + int(random() % 4); ++k) {
      size_t at = random() % bad.size();
      switch (random() % 3) {
        case 0: bad[at] = char(32 + random() % 95); break;
        case 1: bad.erase(at, 1 + random() % 9); break;
        default: bad.insert(at, bad.substr(random() % bad.size(), random() % 9)); break;
      }
      if (bad.empty()) bad = "x";
    }
    try {
      verify(parse(bad));
    } catch (const Error&) {
    }
  }
}

TEST(GraphHash, IsOfTheStructureOnly) {
  Graph a = small(), b = small();
  EXPECT_EQ(hash(a), hash(b));
  Graph c;
  c.place.line = source_line("x.py", 1);
  c.place.scope = "layer/";
  Value x = c.add_input({DType::f32, {2}}, "p");
  c.outputs = {ops::relu(c, x)};
  Graph d;
  Value y = d.add_input({DType::f32, {2}}, "q");
  d.outputs = {ops::relu(d, y)};
  EXPECT_EQ(hash(c), hash(d));
  EXPECT_TRUE(equal(c, d));
  Graph e;
  Value z = e.add_input({DType::f32, {2}}, "q");
  e.outputs = {ops::tanh(e, z)};
  EXPECT_NE(hash(d), hash(e));
  EXPECT_FALSE(equal(d, e));
}

TEST(Graph, SpecializesToConcreteLengths) {
  Graph g = small();
  TensorType x{DType::f32, {20, 784}};
  Graph concrete = specialize(g, bind_dims(g, std::vector{x}));
  verify(concrete);
  EXPECT_EQ(concrete.type(concrete.outputs[0]), (TensorType{DType::f32, {20, 64}}));
  TensorType wrong{DType::f32, {20, 783}};
  try {
    bind_dims(g, std::vector{wrong});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::signature);
    EXPECT_NE(std::string(e.what()).find("f32[n,784]"), std::string::npos);
  }
}

TEST(Verify, FindsStaleTypesAndStrangeValues) {
  Graph g = small();
  verify(g);
  Graph bad = small();
  bad.outputs.push_back({999, 0});
  EXPECT_THROW(verify(bad), Error);
  Graph wrong = small();
  const_cast<Node&>(wrong[2]).types[0].dtype = DType::f64;
  EXPECT_THROW(verify(wrong), Error);
  Graph resource = small();
  resource.resources.clear();
  EXPECT_THROW(verify(resource), Error);
}

}  // namespace
}  // namespace lamina::ir
