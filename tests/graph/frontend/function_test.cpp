#include "graph/frontend/function.h"

#include <gtest/gtest.h>

#include "graph/frontend/device.h"
#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/random.h"
#include "graph/ops/ops.h"
#include "runtime/core/precision.h"

namespace lamina {
namespace {

size_t count(const std::vector<std::string>& ops, const std::string& word) {
  return size_t(std::count_if(ops.begin(), ops.end(), [&](auto& op) { return op.find(word) != std::string::npos; }));
}

TEST(Function, TracesAtTheFirstCallAndOncePerSignature) {
  int runs = 0;
  auto f = function([&](Tensor x) {
    ++runs;
    return x * x;
  });
  EXPECT_EQ(runs, 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f(scalar(3)).item<float>(), 9);
  EXPECT_EQ(runs, 1);
  f(scalar_i(3));
  f(ones({3}));
  f(ones({4}));
  f(ones({3, 1}));
  f(ones({4}) + 1);
  EXPECT_EQ(runs, 5);
  EXPECT_EQ(f.trace_count(), 5);
}

TEST(Function, PlainArgumentsAreKeyedByTypeAndValue) {
  auto f = function([](Tensor x, auto n) { return x * scalar(double(n)); });
  f(scalar(1), 1);
  f(scalar(2), 1);
  EXPECT_EQ(f.trace_count(), 1);
  f(scalar(2), 2);
  EXPECT_EQ(f.trace_count(), 2);
  f(scalar(2), 1.0);
  EXPECT_EQ(f.trace_count(), 3);
  f(scalar(2), true);
  EXPECT_EQ(f.trace_count(), 4);
  EXPECT_EQ(f(scalar(2), 2).item<float>(), 4);
  EXPECT_EQ(f.trace_count(), 4);
}

TEST(Function, ListsAreKeyedByTheirLength) {
  auto total = function([](const std::vector<Tensor>& parts, const std::string& how) {
    Tensor s = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) s = how == "sum" ? s + parts[i] : s * parts[i];
    return s;
  });
  const std::vector<Tensor> two{scalar(2), scalar(3)}, three{scalar(2), scalar(3), scalar(4)};
  EXPECT_EQ(total(two, std::string("sum")).item<float>(), 5);
  EXPECT_EQ(total(three, std::string("sum")).item<float>(), 9);
  EXPECT_EQ(total(three, std::string("product")).item<float>(), 24);
  EXPECT_EQ(total(two, std::string("sum")).item<float>(), 5);
  EXPECT_EQ(total.trace_count(), 3);
}

TEST(Function, ReturnsWhatItsBodyReturns) {
  Variable v(scalar(4));
  auto pair = function([](Tensor x) { return std::pair(x + 1, std::vector<Tensor>{x, x * 2}); });
  auto [one, list] = pair(scalar(3));
  EXPECT_EQ(one.item<float>(), 4);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1].item<float>(), 6);
  auto same = function([](Tensor x) { return x; });
  EXPECT_EQ(same(scalar(5)).item<float>(), 5);
  auto variable = function([&] { return v; });
  EXPECT_EQ(variable().item<float>(), 4);
  auto constant = function([](Tensor) { return scalar(7); });
  EXPECT_EQ(constant(scalar(0)).item<float>(), 7);
  auto nothing = function([&] { v.assign(1); });
  nothing();
  EXPECT_EQ(v.read().item<float>(), 1);
}

TEST(Function, CapturesVariablesByReference) {
  Variable v(scalar(2));
  auto f = function([&](Tensor x) { return x * v; });
  EXPECT_EQ(f(scalar(3)).item<float>(), 6);
  v.assign(5);
  EXPECT_EQ(f(scalar(3)).item<float>(), 15);
  EXPECT_EQ(f.trace_count(), 1);
}

TEST(Function, CapturesTensorsSmallAndLarge) {
  const Tensor small = tensor({1, 2}, {2}), large = ones({64, 64});
  auto f = function([&](Tensor x) {
    const Tensor product = sum(matmul(large, large)) * x;
    return product + small * tensor({1, 1}, {2});
  });
  EXPECT_EQ(f(scalar(1)).to_vector<float>(), (std::vector<float>{262145, 262146}));
  const ConcreteFunction& g = f.concrete(scalar(1));
  ASSERT_EQ(g.captures().size(), 2u) << "what the function itself made is a constant";
  EXPECT_TRUE(g.captures()[0].same(large) && g.captures()[1].same(small)) << "what it uses from outside is captured by reference";
  EXPECT_EQ(g.inputs().size(), 1u);
}

TEST(Function, VariablesOfOneTypeShareAGraph) {
  auto bump = function([](Variable v) {
    v.assign_add(1);
    return v;
  });
  Variable a(scalar_i(0)), b(scalar_i(10)), c(zeros({2}, dtype::i32));
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(bump(a).item<int>(), i);
  EXPECT_EQ(bump(b).item<int>(), 11);
  EXPECT_EQ(a.read().item<int>(), 3);
  EXPECT_EQ(bump.trace_count(), 1);
  bump(c);
  EXPECT_EQ(bump.trace_count(), 2);
}

TEST(Function, AVariableGivenTwiceIsOneVariable) {
  auto f = function([](Variable a, Variable b) {
    a.assign_add(1);
    b.assign(b * 10);
    return a.read();
  });
  Variable x(scalar(1)), y(scalar(2));
  EXPECT_EQ(f(x, y).item<float>(), 2);
  EXPECT_EQ(f(x, x).item<float>(), 30);
  EXPECT_EQ(f.trace_count(), 2);
  EXPECT_EQ(f(y, x).item<float>(), 21);
  EXPECT_EQ(f.trace_count(), 2);
}

TEST(Function, AVariableBothGivenAndCapturedIsOneVariable) {
  Variable global(scalar(1)), other(scalar(100));
  auto f = function([&](Variable v) {
    v.assign_add(1);
    global.assign(global * 10);
    return v.read();
  });
  EXPECT_EQ(f(other).item<float>(), 101);
  EXPECT_EQ(global.read().item<float>(), 10);
  EXPECT_EQ(f(global).item<float>(), 110) << "the assignments are in program order, on one variable";
  EXPECT_EQ(f(global).item<float>(), 1110);
  EXPECT_EQ(f(other).item<float>(), 102);
  EXPECT_EQ(f.trace_count(), 2);
}

TEST(Function, EffectsHappenInProgramOrder) {
  Variable v(scalar(1));
  auto mixed = function([&](Tensor x) {
    v.assign(2.f);
    Tensor a = v.read();
    v.assign(3.f);
    Tensor b = v.read();
    v.assign_add(10.f);
    Tensor c = v.read();
    v.assign(x);
    return std::vector<Tensor>{a, b, c};
  });
  auto out = mixed(scalar(99));
  EXPECT_EQ(out[0].item<float>(), 2);
  EXPECT_EQ(out[1].item<float>(), 3);
  EXPECT_EQ(out[2].item<float>(), 13);
  EXPECT_EQ(v.read().item<float>(), 99);
}

TEST(Function, CalledFunctionsAreInlined) {
  int inner_runs = 0;
  Variable v(scalar(0));
  auto inner = function([&](Tensor x) {
    ++inner_runs;
    v.assign_add(x);
    return matmul(x * ones({2, 2}), ones({2, 2})) + v;
  });
  auto outer = function([&](Tensor x) {
    Tensor first = inner(x);
    return sum(first + inner(x * 2));
  });
  EXPECT_EQ(outer(scalar(1)).item<float>(), 4 * (2 + 1) + 4 * (4 + 3));
  EXPECT_EQ(outer(scalar(1)).item<float>(), 4 * (2 + 4) + 4 * (4 + 6));
  EXPECT_EQ(inner_runs, 1);
  const auto ops = outer.inspect(scalar(1)).traced;
  EXPECT_EQ(count(ops, "matmul"), 2u);
  EXPECT_EQ(count(ops, "call"), 0u);
  EXPECT_EQ(count(ops, "assign"), 2u);
}

TEST(Function, AnInnerFunctionCanUseTheOuterFunctionsValues) {
  auto outer = function([](Tensor x) {
    Tensor y = x * 2;
    auto inner = function([&](Tensor z) { return z + y; });
    return inner(scalar(1)) + inner(scalar(10));
  });
  EXPECT_EQ(outer(scalar(3)).item<float>(), 7 + 16);
}

TEST(Function, ALeakedSymbolicTensorIsRefusedByName) {
  Tensor leaked;
  auto f = function(
      [&](Tensor x) {
        leaked = x * 2;
        return x;
      },
      FunctionOptions{.name = "leaky", .argument_names = {}, .signature = {}, .trace_limit = 256});
  f(scalar(1));
  try {
    leaked + 1;
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::state);
    EXPECT_NE(std::string(e.what()).find("leaky"), std::string::npos) << e.what();
  }
  auto g = function([&](Tensor x) { return x + leaked; });
  EXPECT_THROW(g(scalar(1)), Error);
}

TEST(Function, OneGraphServesAllLengthsOfAnOpenDimension) {
  int runs = 0;
  auto mean_square = function(
      [&](Tensor x) {
        ++runs;
        EXPECT_FALSE(x.shape()[0].known());
        return mean(x * x, {0});
      },
      {{{any_length(), 2}, dtype::f32, "x"}});
  for (int64_t n : {1, 5, 3, 5})
    EXPECT_EQ(mean_square(full({n, 2}, double(n))).to_vector<float>(), (std::vector<float>{float(n * n), float(n * n)}));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(mean_square.concrete(ones({7, 2})).plan_count(), 3) << "5 was planned once";
  for (int64_t n = 1; n <= 70; ++n) mean_square(ones({n, 2}));
  EXPECT_EQ(mean_square.concrete(ones({7, 2})).plan_count(), 64);
  EXPECT_EQ(mean_square(full({1, 2}, 3)).to_vector<float>(), (std::vector<float>{9, 9})) << "planned again after it was dropped";
  EXPECT_EQ(runs, 1);
}

TEST(Function, NamedDimensionsMustAgree) {
  const Dim n = Dim::symbol("n");
  auto dot = function([](Tensor a, Tensor b) { return sum(a * b); }, {{{n}, dtype::f32, "a"}, {{n}, dtype::f32, "b"}});
  EXPECT_EQ(dot(ones({4}), ones({4})).item<float>(), 4);
  try {
    dot(ones({4}), ones({5}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::signature);
  }
}

TEST(Function, ASignatureMismatchNamesBothTypes) {
  auto f = function([](Tensor v) { return v * 2; }, {{{any_length()}, dtype::i32, "v"}});
  f(tensor({1, 2}, {2}, dtype::i32));
  for (const Tensor& bad : {tensor({1, 2}, {1, 2}, dtype::i32), tensor({1, 2}, {2})}) {
    try {
      f(bad);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::signature);
      const std::string text = e.what();
      EXPECT_NE(text.find("shape=(None,), dtype=int32"), std::string::npos) << text;
      EXPECT_NE(text.find(TensorSpec{bad.shape(), bad.dtype(), ""}.str()), std::string::npos) << text;
    }
  }
  EXPECT_EQ(f.trace_count(), 1);
}

TEST(Function, AnOpenDimensionCanBeInlined) {
  auto inner = function([](Tensor x) { return sum(x); }, {{{any_length()}, dtype::f32, "x"}});
  auto closed = function([&](Tensor x) { return inner(x) + inner(concat({x, x})); });
  EXPECT_EQ(closed(ones({3})).item<float>(), 9);
  auto open = function([&](Tensor x) { return inner(x) * 2; }, {{{any_length()}, dtype::f32, "x"}});
  EXPECT_EQ(open(ones({3})).item<float>(), 6);
  EXPECT_EQ(open(ones({5})).item<float>(), 10);
  EXPECT_EQ(open.trace_count(), 1);
}

TEST(Function, AFailedTraceLeavesNothingBehind) {
  bool fail = true;
  std::weak_ptr<VariableData> made;
  Variable v(scalar(1));
  auto f = function([&](Tensor x) {
    Variable local(scalar(3));
    made = local.handle();
    v.assign_add(x);
    if (fail) throw Error(ErrorKind::invalid_argument, {.what = "no", .where = "", .why = "", .fix = "try again"});
    made.reset();
    return x + v;
  });
  EXPECT_THROW(f(scalar(1)), Error);
  EXPECT_EQ(f.trace_count(), 0);
  EXPECT_TRUE(made.expired());
  EXPECT_TRUE(executing_eagerly());
  EXPECT_EQ(v.read().item<float>(), 1);
  auto ok = function([&](Tensor x) { return x + v; });
  EXPECT_EQ(ok(scalar(1)).item<float>(), 2);
}

TEST(Function, AVariableMadeOnTheFirstCallIsKept) {
  std::optional<Variable> b;
  int runs = 0;
  auto f = function([&](Tensor x) {
    ++runs;
    if (!b) b.emplace(scalar(12));
    b->assign_add(1);
    return x + *b;
  });
  EXPECT_EQ(f(scalar(0)).item<float>(), 13);
  EXPECT_EQ(f(scalar(0)).item<float>(), 14);
  EXPECT_EQ(b->read().item<float>(), 14);
  EXPECT_EQ(runs, 1);
}

TEST(Function, AVariableMadeOnEveryCallIsRefused) {
  auto f = function([](Tensor x) {
    Variable b(scalar(12));
    return x + b;
  });
  for (int i = 0; i < 2; ++i) {
    try {
      f(scalar(1));
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::invalid_argument);
      EXPECT_NE(std::string(e.what()).find("non-first call"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("function_test.cpp:"), std::string::npos) << e.what();
    }
  }
  EXPECT_EQ(f.trace_count(), 0);
}

TEST(Function, StateIsOnlyMadeOnTheFirstCall) {
  std::vector<Variable> kept;
  auto f = function([&](Tensor x) {
    kept.emplace_back(scalar(1));
    return x;
  });
  f(scalar(1));
  EXPECT_THROW(f(ones({2})), Error);
  EXPECT_EQ(f.trace_count(), 1);
}

TEST(Function, InitialValuesAreComputedOutsideOfTheGraph) {
  std::optional<Variable> w, from_variable, from_draw;
  Variable source(scalar(5));
  const Tensor big = full({64, 64}, 2);
  random::set_seed(3);
  const Tensor draw = random::uniform({2});
  random::set_seed(3);
  auto f = function([&](Tensor x) {
    if (!w) {
      w.emplace(zeros({2, 3}) + 1.5);
      source.assign(source * 2);
      from_variable.emplace(source + sum(big));
      from_draw.emplace(random::uniform({2}));
    }
    return sum(*w) + x;
  });
  EXPECT_EQ(f(scalar(1)).item<float>(), 10);
  EXPECT_EQ(from_variable->read().item<float>(), 10 + 64 * 64 * 2);
  EXPECT_EQ(from_draw->read().to_vector<float>(), draw.to_vector<float>());
  auto bad = function([&](Tensor x) {
    Variable v(x * 2);
    return x;
  });
  try {
    bad(scalar(1));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::invalid_argument);
    EXPECT_NE(std::string(e.what()).find("initial value depends on"), std::string::npos) << e.what();
  }
}

TEST(Function, TheEagerSwitchRunsTheBody) {
  int runs = 0;
  auto f = function([&](Tensor x) {
    ++runs;
    return x + 1;
  });
  f(scalar(1));
  config::run_functions_eagerly(true);
  EXPECT_EQ(f(scalar(1)).item<float>(), 2);
  EXPECT_EQ(f(scalar(2)).item<float>(), 3);
  EXPECT_EQ(runs, 3);
  f.concrete(ones({2}));
  EXPECT_EQ(runs, 4) << "asking for a graph traces";
  config::run_functions_eagerly(false);
  f(scalar(1));
  f(ones({2}));
  EXPECT_EQ(runs, 4);
}

TEST(Function, ThePrecisionIsPartOfTheSignatureAndAppliesToGradients) {
  const Variable w(ones({3, 4}), "w");
  auto f = function([&](Tensor x) {
    GradientTape tape;
    const Tensor cost = sum(square(matmul(x, w)));
    return tape.gradient(cost, w)[0];
  });
  const Tensor x = ones({2, 3});
  const std::vector<float> exact = f(x).to_vector<float>();
  for (Precision precision : {Precision::tf32, Precision::tf32x3, Precision::bf16}) {
    config::set_matmul_precision(precision);
    EXPECT_EQ(f(x).to_vector<float>(), exact) << "the CPU computes in float32";
    EXPECT_EQ(matmul(x, w).to_vector<float>(), std::vector<float>(8, 3.0f));
    int products = 0;
    for (const ir::Node& node : f.concrete(x).graph().nodes()) {
      if (node.op != &ops::def::matmul) continue;
      ++products;
      EXPECT_EQ(ir::attrs_of<ops::MatmulAttrs>(*node.attrs).precision, precision);
    }
    EXPECT_GE(products, 2) << "the product and its gradient by w";
  }
  EXPECT_EQ(f.trace_count(), 4) << "once for each name";
  auto doubles = function([](Tensor x) { return matmul(x, x); });
  const Tensor wide = ones({2, 2}, dtype::f64);
  for (const ir::Node& node : doubles.concrete(wide).graph().nodes()) {
    if (node.op != &ops::def::matmul) continue;
    EXPECT_EQ(ir::attrs_of<ops::MatmulAttrs>(*node.attrs).precision, Precision::float32) << "the names are about float32";
  }
  config::set_matmul_precision(Precision::float32);
  f(x);
  EXPECT_EQ(f.trace_count(), 4);
  for (const char* name : {"float32", "tf32", "3xtf32", "bf16"}) EXPECT_STREQ(lamina::name(parse_precision(name)), name);
  EXPECT_THROW(parse_precision("fp16"), Error);
}

TEST(Function, TheTraceLimitNamesTheCause) {
  auto f =
      function([](Tensor x) { return x; }, FunctionOptions{.name = "grow", .argument_names = {"x"}, .signature = {}, .trace_limit = 3});
  for (int64_t n = 1; n <= 3; ++n) f(ones({n}));
  try {
    f(ones({9}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::retrace);
    EXPECT_NE(std::string(e.what()).find("x was f32[3], now f32[9]"), std::string::npos) << e.what();
  }
  EXPECT_EQ(f(ones({2})).size(), 2) << "what is traced still runs";
}

TEST(Function, RecordsWhyItTracedAgain) {
  auto f =
      function([](Tensor x, int) { return x; }, FunctionOptions{.name = "f", .argument_names = {"x"}, .signature = {}, .trace_limit = 256});
  f(ones({2}), 1);
  f(ones({2}, dtype::f64), 1);
  f(ones({2}, dtype::f64), 2);
  const auto traces = f.untyped().traces();
  ASSERT_EQ(traces.size(), 3u);
  EXPECT_EQ(traces[0].signature, "x f32[2]");
  EXPECT_EQ(traces[0].cause, "");
  EXPECT_EQ(traces[1].cause, "x was f32[2], now f64[2]");
  EXPECT_EQ(traces[1].fix, "convert it before the call: lm.astype(x, lm.float32)");
  EXPECT_EQ(traces[2].cause, "argument 1 was 1, now 2");
  EXPECT_EQ(traces[2].fix, "pass it as a tensor: lm.constant(2)");
}

TEST(Function, EndlessRecursionIsRefused) {
  std::function<Tensor(Tensor)> call;
  auto f = function([&](Tensor x) { return call(x + 1); });
  call = [&](Tensor x) { return f(x); };
  try {
    f(scalar(1));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::conversion);
  }
}

TEST(Function, RecursionOverAPlainNumberEnds) {
  std::function<Tensor(Tensor, int)> call;
  auto f = function([&](Tensor x, int n) { return n == 0 ? x : call(x * 2, n - 1); });
  call = [&](Tensor x, int n) { return f(x, n); };
  EXPECT_EQ(f(scalar(1), 5).item<float>(), 32);
  EXPECT_EQ(f.trace_count(), 6);
}

TEST(ConcreteFunction, ChecksWhatItIsCalledWith) {
  auto f = function([](Tensor v) { return v - 1; });
  ConcreteFunction& whole = f.concrete(scalar_i(2));
  EXPECT_EQ(whole.call(std::array{scalar_i(2)})[0].item<int>(), 1);
  for (const Tensor& bad : {scalar(2), tensor({1, 2}, {2}, dtype::i32)}) {
    try {
      whole.call(std::array{bad});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::signature);
      EXPECT_NE(std::string(e.what()).find("int32"), std::string::npos);
    }
  }
  EXPECT_EQ(&whole, &f.concrete(scalar_i(9)));
  const std::string text = whole.str();
  EXPECT_NE(text.find("TensorSpec(shape=(), dtype=int32)"), std::string::npos) << text;
}

TEST(ConcreteFunction, InspectionListsOpsByName) {
  auto f = function([](Tensor v) { return v + (scalar(2) * scalar(3) + scalar(4)); });
  const Inspection seen = f.inspect(ones({1}));
  EXPECT_EQ(count(seen.traced, "mul"), 1u);
  EXPECT_EQ(count(seen.traced, "constant"), 3u);
  EXPECT_EQ(count(seen.optimized, "mul"), 0u);
  EXPECT_EQ(count(seen.optimized, "add"), 1u);
}

TEST(ConcreteFunction, ExplainListsGraphPassesAndProgram) {
  Variable w(ones({3, 4}), "w"), b(zeros({4}), "b");
  auto f = function([&](Tensor x) { return relu(matmul(x, w) + b); },
                    FunctionOptions{.name = "layer", .argument_names = {"x"}, .signature = {}, .trace_limit = 256});
  EXPECT_NE(f.explain(ones({2, 3})).find("no plan yet"), std::string::npos);
  f(ones({2, 3}));
  const std::string text = f.explain(ones({2, 3}));
  for (const char* part : {"ConcreteFunction layer", "x: TensorSpec(shape=(2, 3), dtype=float32)", "Variable w", "graph as traced",
                           "fuse_dense", "dense: 1", "compiled in", "run 1 time"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(FunctionOptions, LimitsThatAreNoneAreRefused) {
  for (const FunctionOptions& bad :
       {FunctionOptions{.trace_limit = 0}, FunctionOptions{.trace_limit = -1}, FunctionOptions{.memory_budget = -1}}) {
    try {
      function([](Tensor x) { return x; }, bad);
      ADD_FAILURE() << bad.trace_limit;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::invalid_argument);
    }
  }
  EXPECT_EQ(function([](Tensor x) { return x; }, {.trace_limit = 1})(ones({2})).size(), 2);
  EXPECT_EQ(function([](Tensor x) { return x; }, {.name = "f"})(ones({2})).size(), 2);
}

TEST(Function, ErrorsAndTracesNameTheLineOfTheCall) {
  const auto line_of = [](const std::function<void()>& f) {
    try {
      f();
    } catch (const Error& e) {
      return e.parts.where;
    }
    return std::string("no error");
  };
  const auto here = [](int line) { return cat("function_test.cpp:", line); };
  const auto fixed = function([](Tensor x) { return x; }, {{{3}, dtype::f32, "x"}});
  EXPECT_NE(line_of([&] { fixed(ones({2})); }).find(here(__LINE__)), std::string::npos);
  const auto limited = [](auto f) {
    return function(std::move(f), FunctionOptions{.name = "f", .argument_names = {}, .signature = {}, .trace_limit = 1});
  };
  const auto of_two = limited([](const Tensor& x, double rate) { return x * rate; });
  of_two(ones({1}), 1.0);
  EXPECT_NE(line_of([&] { of_two(ones({1}), 2.0); }).find(here(__LINE__)), std::string::npos);
  EXPECT_NE(text(of_two.untyped().traces()[0].line).find(here(__LINE__ - 2)), std::string::npos);
}

Tensor doubled(Tensor x) { return x * 2.0; }

TEST(Function, KindsOfCallablesAndConvertedArgumentsAreCalledAsTheyAre) {
  EXPECT_EQ(function(doubled)(scalar(2)).item<double>(), 4);
  EXPECT_EQ(function(std::function<Tensor(Tensor)>(doubled))(scalar(2)).item<double>(), 4);
  EXPECT_EQ(function([](const auto& x) { return x * 2.0; })(scalar(2)).item<double>(), 4);
  EXPECT_EQ(function([](Tensor x) noexcept { return x; })(scalar(2)).item<double>(), 2);
  const auto scaled = function([](Tensor x, double by) { return x * by; });
  EXPECT_EQ(scaled(scalar(2), 3).item<double>(), 6);  // an int where a double stands
  EXPECT_EQ(scaled(scalar(2), 3.0f).item<double>(), 6);
  Variable v(5.0);
  EXPECT_EQ(function([](Tensor x) { return x + 1; })(v).item<double>(), 6);
  EXPECT_EQ(function([] { return scalar(7); })().item<double>(), 7);
}

}  // namespace
}  // namespace lamina
