// check_numerics: returns its input, or throws.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/ops/ops.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

const OpCases cases{
    "check_numerics", [] {
      std::vector<OpCase> out;
      for (const Shape& shape : {Shape{5}, Shape{2, 3}, Shape{}, Shape{0, 4}}) {
        out.push_back({.name = cat("[", text(shape), "]"), .in = {{f32(shape)}}, .attrs = ir::make_attrs(ops::NumericsAttrs{"x"})});
        out.back().reference = [](const std::vector<Tensor>& in) { return std::vector<std::vector<double>>{in[0].values()}; };
        out.back().dtypes = kFloating;
        out.back().ulps = 0;
      }
      return out;
    }};

TEST(CheckNumerics, SaysHowManyElementsAreNotFiniteAndWhereTheFirstIs) {
  const float inf = std::numeric_limits<float>::infinity();
  ir::Graph g;
  g.add_input(f32({2, 3}));
  g.outputs = {ops::check_numerics(g, g.inputs[0], "the loss")};
  try {
    evaluate(g, {Tensor::of<float>({2, 3}, {1, 2, 3, 4, NAN, -inf})});
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::invalid_argument);
    EXPECT_EQ(e.parts.what, "check_numerics: the loss");
    EXPECT_EQ(e.parts.why, "1 NaN and 1 infinite of 6 elements, the first at [1, 1]: nan");
  }
}

}  // namespace
}  // namespace lamina::tests
