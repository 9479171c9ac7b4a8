// What holds state by reference stays usable after a move; empty std::functions and null names are refused.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "graph/frontend/explicit_graph.h"
#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/control_flow.h"
#include "graph/functions/image.h"
#include "graph/nn/dataset.h"
#include "graph/nn/dense.h"
#include "graph/nn/loss.h"
#include "graph/nn/shape_layers.h"
#include "graph/program/module.h"

namespace lamina {
namespace {

ErrorKind kind_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_FALSE(e.parts.fix.empty()) << e.what();
    return e.kind;
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::internal;
}

// clang-tidy's bugprone-use-after-move is about other types: here a move copies.
TEST(Handles, MovedFromOnesStayTheSame) {
  Variable v(ones({2}), "v");
  const Variable moved_v(std::move(v));
  v.assign(3);
  EXPECT_EQ(moved_v.read().to_vector<float>(), (std::vector<float>{3, 3}));
  EXPECT_TRUE(v.same(moved_v));

  auto f = function([](Tensor x) { return x + 1; });
  const auto moved_f = std::move(f);
  EXPECT_EQ(f(ones({2})).to_vector<int>(), (std::vector<int>{2, 2}));
  EXPECT_EQ(moved_f.trace_count(), 1);

  Graph g;
  const Graph moved_g(std::move(g));
  {
    auto building = g.building();
    g.input({{2}, DType::f32}, "x");
  }
  EXPECT_EQ(moved_g.operations(), std::vector<std::string>{"x"});

  data::Dataset feed = data::Dataset::range(3);
  const data::Dataset moved_feed = std::move(feed);
  EXPECT_EQ(feed.size(), 3);
  data::Dataset::Iterator first = feed.begin();
  const data::Dataset::Iterator moved_first = std::move(first);
  ++first;
  EXPECT_EQ((*first)[0].item<int>(), 1);
}

TEST(Handles, MovedFromTapesAndPassesSaySo) {
  GradientTape tape;
  const GradientTape moved(std::move(tape));
  const Tensor x = ones({2});
  EXPECT_EQ(kind_of([&] { tape.watch(x); }), ErrorKind::state);
  EXPECT_EQ(kind_of([&] { tape.start(); }), ErrorKind::state);
  EXPECT_EQ(kind_of([&] { tape.stop(); }), ErrorKind::state);
  EXPECT_EQ(kind_of([&] { tape.reset(); }), ErrorKind::state);
  EXPECT_EQ(kind_of([&] { tape.gradient(x, x); }), ErrorKind::state);
  EXPECT_EQ(kind_of([&] { tape.jacobian(x, std::array{Source(x)}); }), ErrorKind::state);
  EXPECT_EQ(kind_of([&] { tape.stop_recording(); }), ErrorKind::state);

  data::Dataset::Pass pass = data::Dataset::range(3).pass();
  data::Dataset::Pass moved_pass = std::move(pass);
  data::Dataset::Element element;
  EXPECT_EQ(kind_of([&] { pass.next(element); }), ErrorKind::state);
  EXPECT_EQ(kind_of([&] { pass.skip(1); }), ErrorKind::state);
  EXPECT_TRUE(moved_pass.next(element));
}

TEST(Handles, EmptyFunctionsAreRefused) {
  const Tensor x = ones({2, 2});
  const data::Dataset feed = data::Dataset::range(3);
  const std::vector<std::function<void()>> cases = {
      [&] { losses::Loss("mine", nullptr)(x, x); },
      [&] { losses::Loss("mine", nullptr).per_sample(x, x); },
      [&] { nn::Dense(1, {.kernel_initializer = nn::Initializer("mine", nullptr)})(x); },
      [&] { nn::Initializer("mine", nullptr).seeded(1); },
      [&] { nn::Lambda{nullptr}(x); },
      [&] { data::Dataset::from_generator(nullptr); },
      [&] { data::Dataset::from_generator([] { return data::Generator(); }).begin(); },
      [&] { feed.map(nullptr); },
      [&] { feed.filter(nullptr); },
      [&] { feed.interleave(nullptr); },
      [&] { switch_case<Tensor>(scalar_i(0), {nullptr}); },
      [&] { Module().add("f", Module::Graph{}); },
  };
  for (size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(kind_of(cases[i]), ErrorKind::invalid_argument) << i;
  const char* none = nullptr;
  const std::vector<std::function<void()>> names = {[&] { nn::Activation{none}; }, [&] { nn::Initializer{none}; },
                                                    [&] { losses::Loss{none}; }, [&] { ImagePadding{none}; }};
  for (size_t i = 0; i < names.size(); ++i) {
    try {
      names[i]();
      ADD_FAILURE() << i;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::not_found) << i;
    }
  }
}

TEST(Handles, MovedFromLossSaysSo) {
  losses::Loss loss("mse");
  const losses::Loss moved(std::move(loss));
  EXPECT_EQ(kind_of([&] { loss(ones({2}), ones({2})); }), ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace lamina
