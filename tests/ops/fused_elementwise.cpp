// fused_elementwise: regions equal their nodes run one by one, bit for bit.
#include <gtest/gtest.h>

#include "graph/ops/ops.h"
#include "graph/ops/region_code.h"
#include "runtime/core/config.h"
#include "runtime/core/error.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

using ir::Value;

template <class F>
ir::GraphRef region(const std::vector<TensorType>& in, F&& build) {
  ir::Graph g;
  std::vector<Value> x;
  for (const TensorType& t : in) x.push_back(g.add_input(t));
  g.outputs = build(g, x);
  return std::make_shared<const ir::Graph>(std::move(g));
}

OpCase of(const std::string& name, const std::vector<TensorType>& in, std::vector<Value> (*build)(ir::Graph&, const std::vector<Value>&)) {
  OpCase c{.name = name};
  for (const TensorType& t : in) c.in.push_back({t});
  c.regions = {region(in, build)};
  c.ulps = 8;
  c.of_largest = 1;
  return c;
}

std::vector<Value> momentum(ir::Graph& g, const std::vector<Value>& x) {  // weight, velocity, gradient, rate
  Value kept = ops::mul(g, x[1], ops::scalar(g, g.type(x[1]).dtype, 0.9)), step = ops::mul(g, x[2], x[3]), v = ops::sub(g, kept, step);
  return {ops::add(g, x[0], v), v};
}
std::vector<Value> gated(ir::Graph& g, const std::vector<Value>& x) {  // x, bias of a row, gate of a column
  Value z = ops::add(g, x[0], x[1]), on = ops::greater(g, z, ops::scalar(g, DType::f32, 0));
  Value y = ops::where(g, on, ops::tanh(g, z), ops::mul(g, z, x[2]));
  return {y, ops::astype(g, y, DType::i32), on};
}
std::vector<Value> swapped(ir::Graph&, const std::vector<Value>& x) { return {x[1], x[0], x[1]}; }
std::vector<Value> constant_only(ir::Graph& g, const std::vector<Value>& x) {
  return {ops::add(g, x[0], ops::scalar(g, DType::f32, 1)), ops::constant(g, ir::Literal::filled(f32({4}), 2.5))};
}

const OpCases kCases{"fused_elementwise", [] {
                       return std::vector<OpCase>{
                           of("momentum", {f32({64, 64}), f32({64, 64}), f32({64, 64}), f32({})}, momentum),
                           of("large momentum", {f32({300, 700}), f32({300, 700}), f32({300, 700}), f32({})}, momentum),
                           of("broadcasts", {f32({20, 10}), f32({10}), f32({20, 1})}, gated),
                           of("long rows", {f32({3, 1000}), f32({1000}), f32({3, 1})}, gated),
                           of("three axes", {f32({2, 3, 5}), f32({3, 5}), f32({3, 1})}, gated),
                           of("nothing", {f32({0, 10}), f32({10}), f32({0, 1})}, gated),
                           of("one number", {f32({}), f32({}), f32({})}, gated),
                           of("only inputs", {f32({6}), f32({6})}, swapped),
                           of("a constant output", {f32({4})}, constant_only),
                       };
                     }};

std::vector<Value> many(ir::Graph& g, const std::vector<Value>& x) {
  Value y = x[0];
  for (int i = 0; i < 150; ++i) y = ops::add(g, ops::mul(g, y, x[1]), ops::scalar(g, g.type(x[0]).dtype, 0.25 * (i % 3)));
  return {y};
}

TEST(FusedElementwise, EqualsItsNodesBitForBit) {
  const std::string isa = config::cpu_isa();
  for (const std::string& name : available_isas()) {
    config::set_cpu_isa(name);
    for (DType d : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      SCOPED_TRACE(cat(name, ", ", d));
      const TensorType full{d, {13, 77}}, row{d, {77}};
      for (auto build : {momentum, many}) {
        std::vector<TensorType> in{full, build == many ? row : full};
        if (build == momentum) in.push_back(full), in.push_back({d, {}});
        ir::GraphRef r = region(in, build);
        ir::Graph fused, plain;
        std::vector<Tensor> x;
        for (size_t i = 0; i < in.size(); ++i)
          fused.add_input(in[i]), plain.add_input(in[i]), x.push_back(random_tensor({in[i], -1, 1}, 7 + i));
        Value f = ops::fused_elementwise(fused, r, fused.inputs);
        for (size_t o = 0; o < r->outputs.size(); ++o) fused.outputs.push_back({f.node, int(o)});
        plain.outputs = build(plain, plain.inputs);
        const auto got = evaluate(fused, x), want = evaluate(plain, x);
        for (size_t o = 0; o < got.size(); ++o) EXPECT_TRUE(got[o].same_bits(want[o])) << "output " << o;
      }
    }
  }
  config::set_cpu_isa(isa);
}

TEST(FusedElementwise, PrintsItsProgram) {
  const std::vector<TensorType> in{f32({4}), f32({4}), f32({4}), f32({})};
  EXPECT_EQ(kernels::print(ops::code_of("fused_elementwise", *region(in, momentum))),
            "t0:f32 = mul in1 0.9; t1:f32 = mul in2 in3; t2:f32 = sub t0 t1; t3:f32 = add in0 t2 -> t3 t2");
}

TEST(FusedElementwise, RefusesARegionThatDoesNotFit) {
  ir::Graph g;
  Value x = g.add_input(f32({3}));
  EXPECT_THROW(ops::fused_elementwise(g, region({f32({4}), f32({4})}, swapped), {x, x}), Error);
  EXPECT_THROW(ops::fused_elementwise(g, region({f32({3}), f32({3})}, swapped), {x}), Error);
  EXPECT_THROW(ops::fused_elementwise(g, region({f32({1}), f32({3})}, swapped), {x, x}), Error);
}

TEST(FusedElementwise, TakesOnlyElementwiseNodes) {
  ir::GraphRef r =
      region({f32({3, 3})}, [](ir::Graph& g, const std::vector<Value>& x) { return std::vector<Value>{ops::matmul(g, x[0], x[0])}; });
  EXPECT_THROW(ops::code_of("fused_elementwise", *r), Error);
}

}  // namespace
}  // namespace lamina::tests
