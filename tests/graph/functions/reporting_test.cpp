// print, check, explicit graphs and custom gradients from C++.
#include "graph/functions/reporting.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/frontend/explicit_graph.h"
#include "graph/frontend/tape.h"
#include "graph/functions/control_flow.h"
#include "graph/ops/ops.h"
#include "graph/passes/pipeline.h"

namespace lamina {
namespace {

// Captures standard output while it lives.
class Captured {
 public:
  Captured() { set_standard_targets(target_, standard_target(TextStream::err)); }
  ~Captured() { set_standard_targets(before_, standard_target(TextStream::err)); }
  std::string text() const { return target_->text; }

 private:
  struct Target final : TextTarget {
    std::string text;
    void write(std::string_view more) override { text += more; }
  };
  TextTargetRef before_ = standard_target(TextStream::out);
  std::shared_ptr<Target> target_ = std::make_shared<Target>();
};

TEST(Print, WritesTheValuesOfEachCallInProgramOrder) {
  Captured out;
  Variable v(scalar(1));
  auto f = function([&](Tensor x) {
    v.assign(2.f);
    print("first", v, x);
    v.assign(x);
    print("second", v, 7, "{}");
    return x;
  });
  f(scalar(3));
  f(scalar(4.5));
  EXPECT_EQ(out.text(), "first 2 3\nsecond 3 7 {}\nfirst 2 4.5\nsecond 4.5 7 {}\n");
}

TEST(Print, InALoopWritesEachIteration) {
  Captured out;
  auto f = function([](Tensor n) {
    return while_loop([&](Tensor i) { return i < n; },
                      [](Tensor i) {
                        print("i", i);
                        return i + 1;
                      },
                      scalar_i(0));
  });
  f(scalar_i(3));
  EXPECT_EQ(out.text(), "i 0\ni 1\ni 2\n");
  EXPECT_EQ(f.trace_count(), 1);
}

TEST(Print, SurvivesEveryPassAndIsNotRepeatedByAGradient) {
  for (const passes::Pass& off : passes::pipeline()) {
    passes::set_disabled_passes({off.name});
    Captured out;
    auto f = function([](Tensor x) {
      GradientTape tape;
      tape.watch(x);
      Tensor y = fori_loop(
          0, 2,
          [](Tensor i, Tensor y) {
            print("step", i);
            return y * y;
          },
          x);
      return tape.gradient(y, x)[0];
    });
    EXPECT_FLOAT_EQ(f(scalar(2)).item<float>(), 32) << off.name;
    EXPECT_EQ(out.text(), "step 0\nstep 1\n") << off.name;
  }
  passes::set_disabled_passes({});
}

TEST(Check, ThrowsItsMessageWithTheValues) {
  auto f = function([](Tensor x) {
    check(x > 0, "must be positive", {}, {{"x", x}});
    return x;
  });
  EXPECT_EQ(f(scalar(1)).item<float>(), 1);
  for (bool traced : {true, false}) {
    try {
      if (traced)
        f(scalar(-2));
      else
        check(scalar(-2) > 0, "must be positive", {}, {{"x", scalar(-2)}});
      FAIL() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::assertion);
      EXPECT_EQ(e.parts.what, "must be positive");
      EXPECT_EQ(e.parts.why, "x = -2");
      EXPECT_NE(e.parts.where.find("reporting_test.cpp:"), std::string::npos) << e.parts.where;
    }
  }
}

TEST(ExplicitGraph, ComputesOnlyWhatIsFetched) {
  Graph g;
  Tensor y, trap;
  std::optional<Variable> b;
  {
    auto building = g.building();
    Tensor x = g.input({{2}, DType::f32, ""}, "x");
    b = g.variable(12.f, "b");
    y = x * 2 + b->read();
    trap = check_numerics(x / 0.f, "never");
  }
  const Tensor x = tensor({1, 2}, {2});
  EXPECT_THROW(g.run({y}, {{"x", x}}), Error);
  g.initialize();
  EXPECT_EQ(g.run({y}, {{"x", x}})[0].to_vector<float>(), (std::vector<float>{14, 16}));
  b->assign(0.f);
  EXPECT_EQ(g.run({"add:0"}, {{"x:0", x}})[0].to_vector<float>(), (std::vector<float>{2, 4}));
  EXPECT_THROW(g.run({trap}, {{"x", x}}), Error);
  EXPECT_THROW(g.run({"ad"}, {{"x", x}}), Error);
}

TEST(CustomGradient, ReplacesTheDerivative) {
  auto clipped = [](Tensor x) {
    return control::custom_gradient(
        [](std::span<const Tensor> in) {
          return control::WithGradient{{in[0] * 3}, [](std::span<const Tensor> dy) { return std::vector<Tensor>{clip(dy[0], -1, 1)}; }};
        },
        {x}, std::source_location::current())[0];
  };
  auto slope = [&](Tensor x) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(sum(clipped(x) * 5), x)[0];
  };
  EXPECT_EQ(clipped(scalar(2)).item<float>(), 6);
  EXPECT_EQ(slope(scalar(2)).item<float>(), 1);
  EXPECT_EQ(function(slope)(scalar(2)).item<float>(), 1);
}

}  // namespace
}  // namespace lamina
