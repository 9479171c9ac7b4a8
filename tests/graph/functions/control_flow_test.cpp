// cond, while_loop, scan, fori_loop: the same eagerly and traced, state, gradients of first and second order, and errors.
#include "graph/functions/control_flow.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/frontend/tape.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/random.h"
#include "tests/source_file.h"

namespace lamina {
namespace {

using Floats = std::vector<float>;

// Runs f eagerly and traced, and expects the same numbers.
Floats both(const std::function<Tensor(Tensor)>& f, const Tensor& x) {
  const Floats eager = f(x).to_vector<float>(), traced = function(f)(x).to_vector<float>();
  EXPECT_EQ(eager.size(), traced.size());
  for (size_t i = 0; i < std::min(eager.size(), traced.size()); ++i)
    EXPECT_NEAR(eager[i], traced[i], 1e-5 * (std::abs(eager[i]) + 1e-3)) << i;
  return eager;
}
// The derivative of f's sum at x, eagerly and traced, against differences.
void expect_gradient(const std::function<Tensor(Tensor)>& f, const std::vector<double>& at, const char* what, double tolerance = 1e-6) {
  const int64_t n = int64_t(at.size());
  auto tensor_at = [&](std::vector<double> values) { return tensor_from(values.data(), values.size(), {DType::f64, {n}}); };
  auto gradient = [&](Tensor x) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(sum(f(x)), x)[0];
  };
  const Tensor x = tensor_at(at);
  const std::vector<double> eager = gradient(x).to_vector<double>(), traced = function(gradient)(x).to_vector<double>();
  for (size_t i = 0; i < at.size(); ++i) {
    std::vector<double> up = at, down = at;
    const double step = 1e-5;
    up[i] += step, down[i] -= step;
    const double want = (sum(f(tensor_at(up))).item<double>() - sum(f(tensor_at(down))).item<double>()) / (2 * step);
    EXPECT_NEAR(traced[i], want, tolerance * std::max(1.0, std::abs(want))) << what << ", traced, " << i;
    EXPECT_NEAR(eager[i], want, tolerance * std::max(1.0, std::abs(want))) << what << ", eager, " << i;
  }
}
// First and second derivatives.
void expect_gradients(const std::function<Tensor(Tensor)>& f, const std::vector<double>& at, const char* what) {
  expect_gradient(f, at, what);
  expect_gradient(
      [f](Tensor x) {
        GradientTape tape;
        tape.watch(x);
        return tape.gradient(sum(f(x)), x)[0];
      },
      at, (std::string(what) + ", second order").c_str(), 1e-5);
}

TEST(Cond, TakesTheBranchThatTheConditionSays) {
  auto f = [](Tensor x) { return cond(sum(x) > 0.f, [&] { return x * 2; }, [&] { return x - 1; }); };
  EXPECT_EQ(both(f, tensor({1, 2}, {2})), (Floats{2, 4}));
  EXPECT_EQ(both(f, tensor({-1, -2}, {2})), (Floats{-2, -3}));
}

TEST(Cond, ReturnsStructures) {
  auto f = function([](Tensor x) {
    auto [a, b] = cond(sum(x) > 0.f, [&] { return std::pair(x, x + 1); }, [&] { return std::pair(x * 3, x); });
    return a * 10 + b;
  });
  EXPECT_EQ(f(scalar(1)).item<float>(), 12);
  EXPECT_EQ(f(scalar(-1)).item<float>(), -31);
}

TEST(SwitchCase, TakesTheBranchOfTheIndex) {
  auto f = [](Tensor index, Tensor x) {
    std::vector<std::function<Tensor()>> branches;
    for (int i = 0; i < 3; ++i) branches.push_back([x, i] { return x * i; });
    return switch_case(index, branches);
  };
  auto traced = function(f);
  for (int i = -1; i <= 3; ++i) {
    const float expected = float(2 * std::clamp(i, 0, 2));
    EXPECT_EQ(f(scalar_i(i), scalar(2)).item<float>(), expected);
    EXPECT_EQ(traced(scalar_i(i), scalar(2)).item<float>(), expected);
  }
  EXPECT_EQ(traced.trace_count(), 1);
  EXPECT_THROW(switch_case(scalar_i(0), std::vector<std::function<Tensor()>>{}), Error);
}

TEST(Loops, ForiLoopCountsInInt64WhereInt32DoesNotHoldItsBounds) {
  const auto body = [](Tensor i, Tensor) { return astype(i, DType::i64); };
  const auto last = [&](int64_t lower, int64_t upper) { return fori_loop(lower, upper, body, scalar_i(4, DType::i64)).item<int64_t>(); };
  EXPECT_EQ(last(int64_t{1} << 33, (int64_t{1} << 33) + 2), (int64_t{1} << 33) + 1);
  EXPECT_EQ(last(INT32_MAX - 1, int64_t{INT32_MAX} + 3), int64_t{INT32_MAX} + 2);
  EXPECT_EQ(last(INT64_MAX - 1, INT64_MAX), INT64_MAX - 1);
  EXPECT_EQ(last(INT64_MAX, INT64_MIN), 4);
  EXPECT_EQ(fori_loop(0, 2, [](Tensor i, Tensor) { return i; }, scalar_i(0)).dtype(), DType::i32);
  try {
    last(INT64_MIN, INT64_MAX);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.parts.what, "fori_loop: from -9223372036854775808 to 9223372036854775807");
    EXPECT_EQ(e.parts.where.substr(0, 22), "control_flow_test.cpp:");
  }
}

TEST(SwitchCase, ErrorsNameTheCallersLine) {
  const Tensor rank_1 = tensor({0, 1}, {2}, DType::i32);
  for (const auto& [index, kind] : {std::pair(rank_1, ErrorKind::invalid_argument), std::pair(scalar(0.5), ErrorKind::type)}) {
    try {
      switch_case<Tensor>(index, {[] { return ones({2}); }, [] { return ones({2}); }});
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, kind);
      EXPECT_EQ(e.parts.where.substr(0, 22), "control_flow_test.cpp:") << e.what();
    }
  }
}

TEST(Cond, NestsAndUsesValuesOfEveryLevel) {
  auto f = [](Tensor x) {
    Tensor y = x * 2;
    return cond(
        x > 0.f,
        [&] {
          Tensor z = y + 1;
          return cond(z > 5.f, [&] { return z * y + x; }, [&] { return z - x; });
        },
        [&] { return y; });
  };
  EXPECT_EQ(both(f, scalar(3)), Floats{7 * 6 + 3});
  EXPECT_EQ(both(f, scalar(1)), Floats{2});
  EXPECT_EQ(both(f, scalar(-1)), Floats{-2});
}

TEST(Cond, ABoolChoosesWhileTracing) {
  auto f = function([](Tensor x) { return cond(true, [&] { return x; }, [&] { return x * 2; }); });
  EXPECT_TRUE(f.inspect(scalar(1)).traced == std::vector<std::string>{"input"});
}

TEST(Cond, OnlyTheTakenBranchChangesVariables) {
  for (bool traced : {false, true}) {
    Variable v(scalar(1)), untouched(scalar(5));
    auto f = [&](Tensor x) {
      Tensor r = cond(
          x > 0.f,
          [&] {
            v.assign_add(x);
            return v.read() * untouched;
          },
          [&] { return x; });
      return r + v.read();
    };
    auto g = function(f);
    auto run = [&](double x) { return (traced ? g(scalar(x)) : f(scalar(x))).item<float>(); };
    EXPECT_EQ(run(2), 3 * 5 + 3);
    EXPECT_EQ(run(-2), -2 + 3);
    EXPECT_EQ(run(1), 4 * 5 + 4);
    EXPECT_EQ(v.read().item<float>(), 4);
  }
}

TEST(Cond, Differentiates) {
  auto f = [](Tensor x) { return cond(sum(x) > 0., [&] { return x * x * x; }, [&] { return sin(x) * x; }); };
  expect_gradients(f, {0.5, 1.5, -0.25}, "first branch");
  expect_gradients(f, {-0.5, -1.5, 0.25}, "second branch");
}

TEST(WhileLoop, RunsNeverOnceAndOften) {
  for (int n : {0, 1, 7, 1000}) {
    auto f = [n](Tensor x) {
      auto [i, y] = while_loop([n](Tensor i, Tensor) { return i < n; }, [](Tensor i, Tensor y) { return std::pair(i + 1, y * 0.999f + 1); },
                               std::pair(scalar_i(0), x));
      return y + astype(i, DType::f32);
    };
    float want = 3;
    for (int i = 0; i < n; ++i) want = want * 0.999f + 1;
    EXPECT_NEAR(both(f, scalar(3))[0], want + float(n), 1e-5 * want) << n;
  }
}

TEST(WhileLoop, CarriedValuesCanSwap) {
  auto f = [](Tensor x) {
    auto [i, a, b] = while_loop([](Tensor i, Tensor, Tensor) { return i < 5; },
                                [](Tensor i, Tensor a, Tensor b) { return std::tuple(i + 1, b, a); }, std::tuple(scalar_i(0), x, x * 10));
    return a - b;
  };
  EXPECT_EQ(both(f, tensor({1, 2}, {2})), (Floats{9, 18}));
}

TEST(WhileLoop, ComputesFibonacciNumbers) {
  auto f = [](Tensor x) {
    return std::get<1>(while_loop([](Tensor i, Tensor, Tensor) { return i < 20; },
                                  [](Tensor i, Tensor a, Tensor b) { return std::tuple(i + 1, b, a + b); }, std::tuple(scalar_i(0), x, x)));
  };
  EXPECT_EQ(both(f, scalar(1)), Floats{10946});
}

TEST(WhileLoop, EndsAtTheMaximumOfIterations) {
  auto f = [](Tensor x) {
    return while_loop([](Tensor) { return scalar_b(true); }, [](Tensor y) { return y * 2; }, x, {.maximum_iterations = 4, .names = {}});
  };
  EXPECT_EQ(both(f, scalar(1)), Floats{16});
}

TEST(WhileLoop, AssignsVariablesAndDraws) {
  for (bool traced : {false, true}) {
    random::set_seed(7);
    Variable v(scalar(1)), factor(scalar(2));
    auto f = [&](Tensor n) {
      auto [i, total] = while_loop([&](Tensor i, Tensor) { return i < n; },
                                   [&](Tensor i, Tensor total) {
                                     v.assign(v * factor);
                                     return std::pair(i + 1, total + v.read() + random::uniform({}, DType::f32, 0, 1) * 0);
                                   },
                                   std::pair(scalar_i(0), scalar(0)));
      return total;
    };
    EXPECT_EQ((traced ? function(f)(scalar_i(3)) : f(scalar_i(3))).item<float>(), 2 + 4 + 8);
    EXPECT_EQ(v.read().item<float>(), 8);
  }
}

TEST(WhileLoop, DrawsMatchTheEagerLoop) {
  auto f = [](Tensor n) {
    return std::get<1>(while_loop([&](Tensor i, Tensor) { return i < n; },
                                  [](Tensor i, Tensor x) { return std::pair(i + 1, x * 0.5f + random::normal({3})); },
                                  std::pair(scalar_i(0), zeros({3}))));
  };
  random::set_seed(3);
  const Floats eager = f(scalar_i(4)).to_vector<float>();
  random::set_seed(3);
  EXPECT_EQ(function(f)(scalar_i(4)).to_vector<float>(), eager);
}

TEST(WhileLoop, Differentiates) {
  for (int n : {0, 1, 2, 9, 21}) {
    auto f = [n](Tensor x) {
      Tensor w = x * 0.5;
      return std::get<1>(while_loop([n](Tensor i, Tensor) { return i < n; },
                                    [&](Tensor i, Tensor y) { return std::pair(i + 1, sin(y) * w + x); }, std::pair(scalar_i(0), x * x)));
    };
    expect_gradients(f, {0.3, -0.7}, cat(n, " iterations").c_str());
  }
}

TEST(WhileLoop, DifferentiatesWithAMaximum) {
  auto f = [](Tensor x) {
    return while_loop([](Tensor y) { return sum(y) < 10.; }, [](Tensor y) { return y * y + y; }, x,
                      {.maximum_iterations = 12, .names = {}});
  };
  expect_gradients(f, {0.6, 0.5}, "a maximum");
}

TEST(WhileLoop, DifferentiatesNestedLoops) {
  auto f = [](Tensor x) {
    return std::get<1>(while_loop([](Tensor i, Tensor) { return i < 3; },
                                  [&](Tensor i, Tensor y) {
                                    Tensor z =
                                        std::get<1>(while_loop([&](Tensor j, Tensor) { return j < i + 1; },
                                                               [&](Tensor j, Tensor z) { return std::pair(j + 1, sin(z) * x + y * 0.5); },
                                                               std::pair(scalar_i(0), y)));
                                    return std::pair(i + 1, z * 0.7);
                                  },
                                  std::pair(scalar_i(0), x)));
  };
  expect_gradients(f, {0.4, 1.1}, "nested");
}

TEST(Scan, CarriesAndStacks) {
  auto f = [](Tensor xs) {
    auto [last, sums] = scan([](Tensor total, Tensor x) { return std::pair(total + x, (total + x) * 10); }, scalar(100), xs);
    return concat({sums, expand_dims(last, 0)});
  };
  EXPECT_EQ(both(f, tensor({1, 2, 3}, {3})), (Floats{1010, 1030, 1060, 106}));
  EXPECT_EQ(both(f, tensor({5}, {1})), (Floats{1050, 105}));
  EXPECT_EQ(both(f, zeros({0})), Floats{100});
}

TEST(Scan, GoesBackwards) {
  auto f = [](Tensor xs) {
    return scan([](Tensor total, Tensor x) { return std::pair(total * 2 + x, total); }, scalar(0), xs,
                {.length = -1, .reverse = true, .names = {}})
        .second;
  };
  EXPECT_EQ(both(f, tensor({1, 2, 3}, {3})), (Floats{8, 3, 0}));
}

TEST(Scan, StacksInputsAndConstants) {
  auto f = [](Tensor xs) {
    auto [state, ys] = scan([](Tensor s, Tensor x) { return std::pair(s, std::tuple(x, s, zeros({2}) + 3)); }, tensor({7, 8}, {2}), xs);
    return concat({std::get<0>(ys), std::get<1>(ys), std::get<2>(ys), expand_dims(state, 0)});
  };
  EXPECT_EQ(both(f, tensor({1, 2, 3, 4}, {2, 2})), (Floats{1, 2, 3, 4, 7, 8, 7, 8, 3, 3, 3, 3, 7, 8}));
}

TEST(Scan, WorksOnALengthUnknownAtTraceTime) {
  auto f = function([](Tensor xs) { return scan([](Tensor t, Tensor x) { return std::pair(t + x, t); }, scalar(0), xs).first; },
                    {TensorSpec{{any_length()}, DType::f32, "xs"}});
  EXPECT_EQ(f(tensor({1, 2, 3}, {3})).item<float>(), 6);
  EXPECT_EQ(f(tensor({1, 2, 3, 4, 5}, {5})).item<float>(), 15);
  EXPECT_EQ(f.trace_count(), 1);
}

TEST(Scan, Differentiates) {
  auto f = [](Tensor x) {
    auto [last, ys] = scan(
        [&](Tensor s, Tensor slice) {
          Tensor next = sin(s) * slice + sum(x);
          return std::pair(next, next * s);
        },
        x * 2, stack({x, x * x, x + 1}));
    return last * sum(ys, {0});
  };
  expect_gradients(f, {0.3, -0.8}, "scan");
}

TEST(Scan, DifferentiatesACondInALoopInAScan) {
  auto f = [](Tensor x) {
    return scan(
               [&](Tensor s, Tensor slice) {
                 Tensor t = fori_loop(
                     0, 2,
                     [&](Tensor i, Tensor t) {
                       return cond(sum(t) > astype(i, DType::f64), [&] { return sin(t) * slice; }, [&] { return t * t + x; });
                     },
                     s);
                 return std::pair(t, sum(t));
               },
               x, stack({x, x * 3}))
        .first;
  };
  expect_gradients(f, {0.9, 0.4}, "nested");
}

TEST(Scan, ATrainingStepInItsBodyIsTheStepInALoop) {
  auto make = [] { return std::pair(Variable(tensor({1, -1}, {2}), "w"), Variable(scalar(0), "b")); };
  const Tensor xs = tensor({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}), targets = tensor({1, 0, 2, 5}, {4});
  auto step = [](Variable& w, Variable& b, Tensor x, Tensor target) {
    GradientTape tape;
    Tensor loss = (sum(x * w) + b - target) * (sum(x * w) + b - target);
    auto g = tape.gradient(loss, w, b);
    w.assign_sub(g[0] * 0.01f);
    b.assign_sub(g[1] * 0.01f);
    return loss;
  };
  auto [w, b] = make();
  Floats losses;
  for (int64_t i = 0; i < 4; ++i) losses.push_back(step(w, b, index(xs, i), index(targets, i)).item<float>());
  auto [w2, b2] = make();
  auto epoch = function([&](Tensor xs, Tensor targets) {
    return scan([&](std::vector<Tensor> none, std::pair<Tensor, Tensor> x) { return std::pair(none, step(w2, b2, x.first, x.second)); },
                std::vector<Tensor>(), std::pair(xs, targets))
        .second;
  });
  const Floats scanned = epoch(xs, targets).to_vector<float>();
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(scanned[i], losses[i], 1e-5 * losses[i]);
  for (int i = 0; i < 2; ++i) EXPECT_NEAR(w2.read().to_vector<float>()[size_t(i)], w.read().to_vector<float>()[size_t(i)], 1e-5);
  EXPECT_NEAR(b2.read().item<float>(), b.read().item<float>(), 1e-5);
}

TEST(ForiLoop, CountsFromLowerToUpper) {
  auto f = [](Tensor x) { return fori_loop(2, 5, [](Tensor i, Tensor y) { return y * 10 + astype(i, DType::f32); }, x); };
  EXPECT_EQ(both(f, scalar(0)), Floats{234});
  auto none = [](Tensor x) { return fori_loop(5, 2, [](Tensor, Tensor y) { return y * 10; }, x); };
  EXPECT_EQ(both(none, scalar(3)), Floats{3});
}

TEST(ControlFlow, AVariableFromOutsideGetsItsGradientThroughALoop) {
  Variable w(scalar(2), "w");
  auto f = [&](Tensor x) {
    GradientTape tape;
    Tensor y = fori_loop(0, 3, [&](Tensor, Tensor y) { return y * w; }, x);
    return tape.gradient(y, w)[0];
  };
  EXPECT_NEAR(both(f, scalar(5))[0], 5 * 3 * 4, 1e-4);
}

// The parts of an error message, and its line.
template <class F>
void expect_error(ErrorKind kind, const char* what, F f) {
  try {
    function(f)(scalar(1));
    ADD_FAILURE() << "no error: " << what;
  } catch (const Error& e) {
    EXPECT_EQ(int(e.kind), int(kind)) << e.what();
    EXPECT_NE(e.parts.what.find(what), std::string::npos) << e.what();
    EXPECT_NE(e.parts.where.find("control_flow_test.cpp"), std::string::npos) << e.what();
    EXPECT_FALSE(e.parts.why.empty() || e.parts.fix.empty()) << e.what();
  }
}

TEST(ControlFlow, RefusesBranchesAndBodiesThatDoNotMatch) {
  expect_error(ErrorKind::type, "result is f32[] in the first branch and i32[] in the second",
               [](Tensor x) { return cond(x > 0.f, [&] { return x; }, [&] { return scalar_i(1); }); });
  expect_error(ErrorKind::invalid_argument, "result is f32[] in the first branch and f32[2] in the second",
               [](Tensor x) { return cond(x > 0.f, [&] { return x; }, [&] { return zeros({2}); }); });
  expect_error(ErrorKind::invalid_argument, "one branch returns 1 tensors, the other 2",
               [](Tensor x) { return cond(x > 0.f, [&] { return std::vector{x}; }, [&] { return std::vector{x, x}; })[0]; });
  expect_error(ErrorKind::type, "the condition is f32[]", [](Tensor x) { return cond(x, [&] { return x; }, [&] { return x; }); });
  expect_error(ErrorKind::invalid_argument, "the condition is bool[2]",
               [](Tensor x) { return cond(zeros({2}) > 1.f, [&] { return x; }, [&] { return x; }); });
  expect_error(ErrorKind::invalid_argument, "the loop variable starts as f32[] and becomes f32[2]",
               [](Tensor x) { return while_loop([](Tensor y) { return sum(y) > 0.f; }, [](Tensor y) { return y + zeros({2}); }, x); });
  expect_error(ErrorKind::type, "loop variable 1 starts as f32[] and becomes i32[]", [](Tensor x) {
    return std::get<1>(while_loop([](Tensor i, Tensor) { return i < 3; }, [](Tensor i, Tensor) { return std::pair(i + 1, i); },
                                  std::pair(scalar_i(0), x)));
  });
  expect_error(ErrorKind::type, "the condition is f32[]",
               [](Tensor x) { return while_loop([](Tensor y) { return y; }, [](Tensor y) { return y; }, x); });
  expect_error(ErrorKind::invalid_argument, "scan: it has no length", [](Tensor x) {
    return scan([](Tensor s, std::vector<Tensor>) { return std::pair(s, s); }, x, std::vector<Tensor>()).first;
  });
  expect_error(ErrorKind::invalid_argument, "f32[] has no slices",
               [](Tensor x) { return scan([](Tensor s, Tensor) { return std::pair(s, s); }, x, x).first; });
  expect_error(ErrorKind::invalid_argument, "3 slices", [](Tensor x) {
    return scan([](Tensor s, std::pair<Tensor, Tensor>) { return std::pair(s, s); }, x, std::pair(zeros({2}), zeros({3}))).first;
  });
  Variable v(scalar(0), "v");
  expect_error(ErrorKind::invalid_argument, "the condition assigns the variable 'v'", [&](Tensor x) {
    return while_loop(
        [&](Tensor y) {
          v.assign(y);
          return y < 3.f;
        },
        [](Tensor y) { return y + 1; }, x);
  });
}

TEST(ControlFlow, AValueOfABranchDoesNotLeaveIt) {
  expect_error(ErrorKind::state, "a value of the finished trace of 'a branch of", [](Tensor x) {
    Tensor kept;
    Tensor y = cond(x > 0.f, [&] { return kept = x + 1; }, [&] { return x; });
    return y + kept;
  });
}

TEST(ControlFlow, AnErrorWhileRunningNamesTheLineInTheBody) {
  expect_error(ErrorKind::index, "",
               [](Tensor x) { return fori_loop(0, 9, [](Tensor i, Tensor y) { return y + gather(zeros({4}), i); }, x); });
}

}  // namespace
}  // namespace lamina
