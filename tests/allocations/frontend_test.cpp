// Common uses of tensors, functions, tapes and models, with every allocation failing in turn.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <optional>

#include "include/lamina/lamina.h"
#include "tests/allocations/scenario.h"

namespace lamina::tests {
namespace {

Tensor numbers(int64_t rows, int64_t columns) { return reshape(arange(0, rows * columns, 1, DType::f32), {rows, columns}) * 0.01f; }

TEST(FailingAllocations, EagerOps) {
  survives_failing_allocations(
      repeating([] { return [x = numbers(3, 4), w = numbers(4, 5)] { return softmax(matmul(x, w) + 1.f, -1).to_vector<float>(); }; }));
}

TEST(FailingAllocations, EagerOpsThatWerePlannedBefore) {
  Scenario s = repeating([] { return [x = numbers(3, 4)] { return (x * x + 1.f).to_vector<float>(); }; });
  s.forget_eager_ops = false;
  survives_failing_allocations(s);
}

TEST(FailingAllocations, EagerOpsOnANewThread) {
  Scenario s = repeating([] { return [x = numbers(3, 4), w = numbers(4, 5)] { return matmul(x, w).to_vector<float>(); }; });
  s.on_a_new_thread = true;
  survives_failing_allocations(s);
}

TEST(FailingAllocations, TheFirstCallOfAFunction) {
  survives_failing_allocations(repeating([] {
    auto f = function([w = numbers(4, 4)](Tensor x, double scale) { return sum(relu(matmul(x, w) * scale - 0.1f)) + x; },
                      FunctionOptions{.name = "a_function_with_a_long_name", .argument_names = {"x"}, .signature = {}});
    return [f, x = numbers(2, 4)] { return f(x, 2.5).to_vector<float>(); };
  }));
}

TEST(FailingAllocations, ALaterCallOfAFunction) {
  survives_failing_allocations(repeating([] {
    auto f = function([w = numbers(4, 4)](Tensor x, Tensor y) { return std::vector<Tensor>{matmul(x, w) + y, sum(y)}; });
    auto run = [f, x = numbers(2, 4)] { return f(x, x)[0].to_vector<float>(); };
    run();
    return run;
  }));
}

TEST(FailingAllocations, AnotherTraceForNewArguments) {
  survives_failing_allocations(repeating([] {
    auto f = function([](Tensor x, int times) {
      for (int i = 0; i < times; ++i) x = x * 2;
      return x + 1;
    });
    f(numbers(2, 4), 1), f(numbers(2, 5), 1);
    return [f] {
      Floats out;
      for (int n = 1; n <= 3; ++n) {
        const Floats part = f(numbers(2, 3 + n), n).to_vector<float>();
        out.insert(out.end(), part.begin(), part.end());
      }
      return out;
    };
  }));
}

TEST(FailingAllocations, OneGraphForOpenLengths) {
  survives_failing_allocations(repeating([] {
    auto f = function([](Tensor x) { return softmax(x * 3 - 1, -1); }, std::vector<TensorSpec>{{{any_length(), Dim(4)}, DType::f32, "x"}});
    f(numbers(2, 4));
    return [f] { return f(numbers(7, 4)).to_vector<float>(); };
  }));
}

TEST(FailingAllocations, AGradientTape) {
  survives_failing_allocations(repeating([] {
    return [w = Variable(numbers(4, 4), "w"), x = numbers(2, 4)] {
      GradientTape tape;
      tape.watch(x);
      const Tensor y = sum(tanh(matmul(x, w)) * x);
      const std::vector<Tensor> g = tape.gradient(y, w, x);
      Floats out = g[0].to_vector<float>(), more = g[1].to_vector<float>();
      out.insert(out.end(), more.begin(), more.end());
      return out;
    };
  }));
}

// The same tape is used again: one op on it, or its gradient, fails.
TEST(FailingAllocations, OnePersistentTape) {
  Scenario s = repeating([] {
    auto tape = std::make_shared<GradientTape>(GradientTape::Options{.persistent = true});
    const Tensor x = numbers(2, 3);
    tape->watch(x);
    return [tape, x] { return tape->gradient(sum(x * x * x + exp(x)), x)[0].to_vector<float>(); };
  });
  survives_failing_allocations(s);
}

TEST(FailingAllocations, AGradientRequestedAgain) {
  survives_failing_allocations({.make = [] {
    struct State {
      GradientTape tape;
      Variable w{numbers(2, 3), "w"};
      Tensor y;
      Tensor got;
    };
    auto s = std::make_shared<State>();
    s->y = sum(s->w * s->w);
    return Work{[s] { s->got = s->tape.gradient(s->y, s->w)[0]; },
                [s]() -> std::string {
                  if (!s->got.defined()) s->got = s->tape.gradient(s->y, s->w)[0];
                  return s->got.to_vector<float>() == (numbers(2, 3) * 2.f).to_vector<float>() ? "" : "the gradient is something else";
                }};
  }});
}

TEST(FailingAllocations, StartingAndStoppingATape) {
  survives_failing_allocations(repeating([] {
    auto tape = std::make_shared<GradientTape>(GradientTape::Options{.persistent = true, .started = false});
    return [tape, x = numbers(1, 3)] {
      struct Stop {
        GradientTape& tape;
        ~Stop() { tape.stop(); }
      } stop{*tape};
      tape->reset();
      tape->start();
      tape->watch(x);
      return tape->gradient(sum(x * x), x)[0].to_vector<float>();
    };
  }));
}

Stepping training(bool traced, std::shared_ptr<optim::Optimizer> optimizer,
                  const std::function<std::vector<Floats>(std::vector<Floats>)>& rule, std::vector<Variable> others = {}) {
  Variable w(tensor({1, 2, 4}, {3}), "w");
  auto step = [w, optimizer](Tensor x) {
    GradientTape tape;
    const Tensor cost = sum(w * x);
    optimizer->apply_gradients(tape.gradient(cost, w), {w});
    return cost;
  };
  auto graph = function(step);
  const Tensor x = tensor({1, 0, 2}, {3});
  std::vector<Variable> variables{w};
  variables.insert(variables.end(), others.begin(), others.end());
  return {.step = [=] { traced ? graph(x) : step(x); }, .variables = variables, .rule = rule, .whole = traced};
}
std::vector<Floats> descended(std::vector<Floats> v) {
  for (size_t i = 0; i < 3; ++i) v[0][i] -= 0.5f * Floats{1, 0, 2}[i];
  return v;
}

TEST(FailingAllocations, AnEagerTrainingStep) {
  survives_failing_allocations(stepping([] { return training(false, std::make_shared<optim::SGD>(0.5), descended); }));
}
TEST(FailingAllocations, TheFirstTracedTrainingStep) {
  survives_failing_allocations(stepping([] { return training(true, std::make_shared<optim::SGD>(0.5), descended); }));
}
TEST(FailingAllocations, ALaterTracedTrainingStep) {
  survives_failing_allocations(stepping([] {
    Stepping s = training(true, std::make_shared<optim::SGD>(0.5), descended);
    s.step();
    return s;
  }));
}

// The optimizer makes its slots in the step that fails.
TEST(FailingAllocations, SlotsOfAnOptimizer) {
  survives_failing_allocations({.make = [] {
    auto optimizer = std::make_shared<optim::Adam>(0.1);
    auto s = std::make_shared<Stepping>(training(true, optimizer, {}));
    auto other = std::make_shared<Stepping>(training(true, std::make_shared<optim::Adam>(0.1), {}));
    const std::vector<Floats> before = values_of(s->variables);
    return Work{[s] { s->step(); },
                [=]() -> std::string {
                  if (values_of(s->variables) == before) s->step();
                  other->step();
                  if (values_of(s->variables) != values_of(other->variables)) return "the first step differs";
                  s->step(), other->step();
                  return values_of(s->variables) == values_of(other->variables) ? "" : "the second step differs";
                }};
  }});
}

TEST(FailingAllocations, Assignments) {
  survives_failing_allocations(stepping([] {
    Variable v(numbers(2, 3), "v");
    return Stepping{.step = [v] { v.assign(v * 2.f + numbers(1, 3)); },
                    .variables = {v},
                    .rule =
                        [](std::vector<Floats> x) {
                          for (size_t i = 0; i < 6; ++i) x[0][i] = x[0][i] * 2 + float(i % 3) * 0.01f;
                          return x;
                        }};
  }));
  survives_failing_allocations(stepping([] {
    Variable v(tensor({1, 2}, {2}), "v");
    return Stepping{.step = [v] { v.assign_add(2.f); },
                    .variables = {v},
                    .rule =
                        [](std::vector<Floats> x) {
                          x[0][0] += 2, x[0][1] += 2;
                          return x;
                        }};
  }));
}

// With other holders of the old values, a call copies before it writes: both Variables or none.
TEST(FailingAllocations, AssignmentsOfSharedBuffersInAFunction) {
  survives_failing_allocations(stepping([] {
    Variable a(tensor({1, 2}, {2}), "a"), b(tensor({3, 4}, {2}), "b");
    auto f = function([a, b](Tensor x) {
      a.assign(b + x);
      b.assign(a * 2.f);
    });
    return Stepping{.step =
                        [=] {
                          const Tensor held = a.read(), too = b.read();
                          f(ones({2}));
                        },
                    .variables = {a, b},
                    .rule =
                        [](std::vector<Floats> x) {
                          for (size_t i = 0; i < 2; ++i) x[0][i] = x[1][i] + 1, x[1][i] = x[0][i] * 2;
                          return x;
                        }};
  }));
}

TEST(FailingAllocations, TheFirstValueOfAVariable) {
  survives_failing_allocations({.make = [] {
    auto first = std::make_shared<Variable>(Variable::uninitialized({DType::f32, {Dim(2)}}, {}, "first", true));
    auto second = std::make_shared<Variable>(Variable::uninitialized({DType::f32, {Dim(2)}}, {}, "second", true));
    auto f = function([first = *first, second = *second](Tensor x) {
      first.assign(x * 2.f);
      second.assign(x * 3.f);
    });
    auto done = std::make_shared<bool>(false);
    return Work{[=] { f(ones({2})), *done = true; },
                [=]() -> std::string {
                  if (!*done)
                    for (const Variable& v : {*first, *second}) {
                      try {
                        if (const float x = v.read().to_vector<float>()[0]; x != 2 && x != 3)
                          return "a Variable has a value that nobody gave it";
                      } catch (const Error& e) {
                        if (e.kind != ErrorKind::state) return e.what();
                      }
                    }
                  f(ones({2}));
                  return first->read().to_vector<float>() == Floats{2, 2} && second->read().to_vector<float>() == Floats{3, 3}
                             ? ""
                             : "afterwards the values are others";
                }};
  }});
}

TEST(FailingAllocations, MakingVariables) {
  survives_failing_allocations(repeating([] {
    return [] {
      const Variable v(numbers(2, 3), "a name that does not fit the string itself"), w = per_model(numbers(2, 3), "per model");
      return (v + w.read()).to_vector<float>();
    };
  }));
  survives_failing_allocations({.make = [] {
    auto v = std::make_shared<Variable>(per_model(numbers(2, 3), "stacked"));
    return Work{[v] { v->stack(numbers(4, 3)); },
                [v]() -> std::string {
                  const Shape now = v->read().shape();
                  if (v->models() != now[0].number()) return "the number of models is not that of the values";
                  v->stack(numbers(5, 3));
                  return v->models() == 5 && v->read().to_vector<float>() == numbers(5, 3).to_vector<float>()
                             ? ""
                             : "afterwards it is stacked otherwise";
                }};
  }});
}

TEST(FailingAllocations, BranchesAndWhileLoops) {
  survives_failing_allocations(repeating([] {
    Variable v(scalar(0), "v");
    auto f = function([v](Tensor x, Tensor n) {
      const Tensor y = cond(sum(x) > 1.f, [&] { return x * 2.f; }, [&] { return x - 1.f; });
      const auto [i, z] = while_loop([&](Tensor i, Tensor) { return i < n; },
                                     [&](Tensor i, Tensor z) {
                                       v.assign_add(1.f);
                                       return std::tuple(i + 1, cond(i == 2, [&] { return z + y; }, [&] { return z * 1.5f; }));
                                     },
                                     std::tuple(scalar_i(0), x));
      return z;
    });
    return [f, x = numbers(2, 3)] { return f(x, scalar_i(5)).to_vector<float>(); };
  }));
}

TEST(FailingAllocations, ScansAndTheirGradients) {
  survives_failing_allocations(repeating([] {
    auto f = function([](Tensor x) {
      GradientTape tape;
      tape.watch(x);
      const auto [last, all] = scan([](Tensor s, Tensor row) { return std::pair(tanh(s * 0.5f + row), s * row); }, zeros({3}), x);
      return tape.gradient(sum(last) + sum(all), x)[0];
    });
    return [f, x = numbers(4, 3)] { return f(x).to_vector<float>(); };
  }));
}

TEST(FailingAllocations, EagerBranchesAndLoops) {
  survives_failing_allocations(repeating([] {
    return [x = numbers(2, 3)] {
      GradientTape tape;
      tape.watch(x);
      const Tensor y =
          fori_loop(0, 3, [](Tensor i, Tensor z) { return cond(i == 1, [&] { return z * 3.f; }, [&] { return z + 1.f; }); }, x);
      return tape.gradient(sum(y * y), x)[0].to_vector<float>();
    };
  }));
}

TEST(FailingAllocations, Vmap) {
  survives_failing_allocations(repeating([] {
    Variable w = per_model(numbers(3, 4), "w");
    auto f = vmap([w](Tensor x) { return sum(w * x); });
    auto traced = function([f](Tensor x) { return f(x) + f(x * 2.f); });
    return [=, x = numbers(3, 4)] {
      Floats out = f(x).to_vector<float>(), more = traced(x).to_vector<float>();
      out.insert(out.end(), more.begin(), more.end());
      return out;
    };
  }));
}

TEST(FailingAllocations, CheckpointsAndConcreteFunctions) {
  survives_failing_allocations(repeating([] {
    auto block = checkpoint([](Tensor x) { return tanh(x * 2.f) * x; });
    auto f = function([block](Tensor x) {
      GradientTape tape;
      tape.watch(x);
      return tape.gradient(sum(block(block(x))), x)[0];
    });
    return [f, x = numbers(2, 3)] {
      ConcreteFunction& c = f.concrete(x);
      return c.call(std::array{x}, {})[0].to_vector<float>();
    };
  }));
}

// Text goes to a target that stores it; a text may be missing only if the call has thrown.
class Kept final : public TextTarget {
 public:
  void write(std::string_view text) override { all += text; }
  std::string all;
};
TEST(FailingAllocations, PrintsAndChecks) {
  survives_failing_allocations({.make = [] {
    auto target = std::make_shared<Kept>();
    const PrintOptions options{.stream = new_text_stream(), .target = target};
    Variable v(scalar(1), "v");
    auto f = function([=](Tensor x) {
      print_format("before {}\n", {v.read()}, options);
      check(sum(x) > 0.f, "the sum {}", {sum(x)});
      v.assign_add(1.f);
      print_format("after {} {}\n", {v.read(), x}, options);
    });
    auto done = std::make_shared<bool>(false);
    return Work{[=] { f(ones({2})), *done = true; },
                [=]() -> std::string {
                  const float before = v.read().item<float>();
                  if (*done && (target->all != "before 1\nafter 2 [1 1]\n" || before != 2)) return "printed " + target->all;
                  if (!std::string("before 1\nafter 2 [1 1]\n").starts_with(target->all)) return "printed " + target->all;
                  target->all.clear();
                  f(ones({2}));
                  if (target->all != cat("before ", before, "\nafter ", before + 1, " [1 1]\n")) return "afterwards printed " + target->all;
                  try {
                    f(-ones({2}));
                  } catch (const Error& e) {
                    return e.kind == ErrorKind::assertion && v.read().item<float>() == before + 1 ? "" : e.what();
                  }
                  return "a check that fails is no error";
                }};
  }});
}

// The attempt's own text is not compared: a stream that runs out of memory inside cat() (runtime/core/error.h) truncates it.
TEST(FailingAllocations, Explanations) {
  survives_failing_allocations({.make = [] {
    auto f = function([w = numbers(4, 4)](Tensor x) { return relu(matmul(x, w) + 1.f); });
    const Tensor x = numbers(2, 4);
    return Work{[f, x] { (void)f.explain(x), (void)f.concrete(x).str(), (void)x.str(); },
                [f, x]() -> std::string {
                  if (f.explain(x).find("\npasses, ") == std::string::npos || f.concrete(x).outputs().size() != 1)
                    return "the explanation lacks its passes";
                  return x.str().find("[0.04 0.05 0.06 0.07]], shape=(2, 4), dtype=float32)") != std::string::npos
                             ? ""
                             : "the text of a tensor is " + x.str();
                }};
  }});
}

TEST(FailingAllocations, Errors) {
  survives_failing_allocations({.make = [] {
    auto fails = [](const std::function<void()>& f, ErrorKind kind) {
      try {
        f();
      } catch (const Error& e) {
        if (e.kind == kind && (e.parts.what.empty() || e.parts.why.empty())) throw std::logic_error("an error without its text");
        if (e.kind != kind) throw;
        return;
      }
      throw std::logic_error("no error");
    };
    auto all = [=] {
      fails([] { matmul(numbers(2, 3), numbers(2, 3)); }, ErrorKind::invalid_argument);
      fails([] { (void)(numbers(2, 3) + arange(3)); }, ErrorKind::type);
      auto f = function([](Tensor x) { return matmul(x, x); });
      fails([&] { f(numbers(2, 3)); }, ErrorKind::invalid_argument);
      fails([&] { GradientTape().gradient(arange(3), numbers(1, 1)); }, ErrorKind::type);
      fails([] { parse_device("cpu:x"); }, ErrorKind::not_found);
    };
    return Work{all, [all]() -> std::string { return all(), ""; }};
  }});
}

TEST(FailingAllocations, ExplicitGraphs) {
  survives_failing_allocations(repeating([] {
    return [] {
      Graph g;
      Tensor y;
      {
        auto building = g.building();
        const Tensor x = g.input({{2}, DType::f32, ""}, "x");
        const Variable b = g.variable(12.f, "b");
        y = x * 2.f + b;
        b.assign_add(1.f);
      }
      g.initialize();
      const Tensor in = tensor({1, 2}, {2});
      Floats out = g.run({y}, {{"x", in}})[0].to_vector<float>(), more = g.run({"assign", y}, {{"x", in}})[1].to_vector<float>();
      out.insert(out.end(), more.begin(), more.end());
      return out;
    };
  }));
  survives_failing_allocations(repeating([] {
    auto g = std::make_shared<Graph>("kept");
    Tensor y;
    {
      auto building = g->building();
      y = g->input({{2}, DType::f32, ""}, "x") * 2.f + g->variable(12.f, "b");
    }
    return [g, y] {
      g->initialize();
      return g->run({y}, {{"x", tensor({1, 2}, {2})}})[0].to_vector<float>();
    };
  }));
}

struct Tower : nn::Layer {
  nn::Dense& hidden = add<nn::Dense>(8, "relu");
  nn::Dense& head = add<nn::Dense>(3);
  Tensor call(const Tensor& x, bool) override { return head(hidden(x)); }
};
TEST(FailingAllocations, BuildingAModel) {
  survives_failing_allocations({.make = [] {
    auto net = std::make_shared<std::unique_ptr<Tower>>();
    return Work{[net] {
                  *net = std::make_unique<Tower>();
                  (**net)(numbers(2, 4));
                },
                [net]() -> std::string {
                  if (!*net) *net = std::make_unique<Tower>();
                  const Tensor y = (**net)(numbers(2, 4)), again = function([&](Tensor x) { return (**net)(x); })(numbers(2, 4));
                  if ((*net)->variables().size() != 4 || (*net)->count_params() != 4 * 8 + 8 + 8 * 3 + 3)
                    return "the model has other weights";
                  return y.shape() == Shape{2, 3} && again.shape() == y.shape() ? "" : "the model gives something else";
                }};
  }});
}

TEST(FailingAllocations, Draws) {
  survives_failing_allocations({.make = [] {
    random::set_seed(7);
    auto f = function([] { return random::uniform({3}, DType::f32, 0, 1, {}) + random::normal({3}, DType::f32, 0, 1, {}); });
    return Work{[f] { random::uniform({2}, DType::f32, 0, 1, {}), random::shuffle(arange(5)), f(); },
                [f]() -> std::string {
                  random::set_seed(3);
                  const Floats first = random::uniform({4}, DType::f32, 0, 1, {}).to_vector<float>(), traced = f().to_vector<float>();
                  random::set_seed(3);
                  const Floats again = random::uniform({4}, DType::f32, 0, 1, {}).to_vector<float>(), traced_again = f().to_vector<float>();
                  random::set_seed(3);
                  return first == again && traced == traced_again ? "" : "the same seed draws other numbers";
                }};
  }});
  survives_failing_allocations({.make = [] {
    random::set_seed(5);
    const random::State before = random::state();
    return Work{[] { random::set_seed(9); },
                [before]() -> std::string {
                  const random::State now = random::state();
                  const bool old = now == before, fresh = now == random::State{9, 0, 9, 0};
                  random::set_seed(5);
                  return old || fresh ? "" : "half of the seed was set";
                }};
  }});
}

// A section with products that need scratch, which a thread allocates once: on a new thread each time.
TEST(FailingAllocations, ScratchOfAThread) {
  Scenario s = repeating([] {
    const Tensor x = full({128, 64}, 0.1f), w = full({64, 64}, 0.01f);
    const Variable v(w, "v");
    auto f = function([v](Tensor x) {
      GradientTape tape;
      const Tensor y = relu(matmul(relu(matmul(x, v)), v));
      return tape.gradient(sum(y), v)[0];
    });
    f(x);
    return [f, x] { return f(x).to_vector<float>(); };
  });
  s.on_a_new_thread = true;
  survives_failing_allocations(s);
}

// Allocations fail on any thread, including the pool's.
TEST(FailingAllocations, ThreadsOfThePool) {
  Scenario s = repeating([] {
    const Tensor x = full({256, 128}, 0.1f), w = full({128, 128}, 0.01f);
    auto f = function([w](Tensor x) { return softmax(relu(matmul(relu(matmul(x, w)), w)), -1); });
    f(x);
    return [f, x] { return f(x).to_vector<float>(); };
  });
  s.threads = Threads::all;
  survives_failing_allocations(s);
}

// A traced body that catches the failure and retries in the same trace.
TEST(FailingAllocations, ABodyThatCatchesTheError) {
  survives_failing_allocations(repeating([] {
    Variable v(numbers(1, 4), "v");
    const Tensor large = numbers(2048, 4), small = numbers(1, 4);
    auto f = function([=](Tensor x) {
      auto body = [&] {
        GradientTape tape;
        tape.watch(x);
        const Tensor y = sum(large) + sum(x * small + v) * 2.f;
        const Tensor z = cond(y > 0.f, [&] { return y * x; }, [&] { return x + v; });
        return tape.gradient(sum(z), x)[0];
      };
      try {
        return body();
      } catch (const std::bad_alloc&) {
      } catch (const Error& e) {
        if (e.kind != ErrorKind::out_of_memory) throw;
      }
      return body();
    });
    return [f, x = numbers(1, 4)] { return f(x).to_vector<float>(); };
  }));
}

}  // namespace
}  // namespace lamina::tests
