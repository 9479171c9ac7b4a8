// Recursions without end: each ends with an error that says so, and leaves everything usable.
#include <gtest/gtest.h>

#include <pthread.h>

#include <functional>
#include <memory>

#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/control_flow.h"
#include "graph/functions/op_functions.h"
#include "graph/nn/dense.h"
#include "graph/nn/sequential.h"

namespace lamina {
namespace {

std::string error_of(ErrorKind kind, const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, kind) << error.what();
    EXPECT_FALSE(error.parts.why.empty() || error.parts.fix.empty()) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

// Runs f on a thread with a stack of 1 MB, which a recursion fills soon.
void on_small_stack(const std::function<void()>& f) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, size_t{4} << 20);  // ThreadSanitizer keeps much of its own in it
  pthread_t thread;
  const auto run = [](void* what) -> void* {
    (*static_cast<const std::function<void()>*>(what))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&f)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

struct Calls : nn::Layer {
  using Layer::Layer;
  Layer* next = nullptr;
  Tensor call(const Tensor& x, bool) override { return (*next)(x) * 2.0; }
};

TEST(Recursion, OfLayersNamesTheWay) {
  const auto ends = [](int length) {
    std::vector<std::unique_ptr<Calls>> ring;
    for (int i = 0; i < length; ++i) ring.push_back(std::make_unique<Calls>(cat("layer_", i)));
    for (int i = 0; i < length; ++i) ring[size_t(i)]->next = ring[size_t((i + 1) % length)].get();
    const auto call = [&](Tensor x) { return (*ring[0])(x); };
    const auto traced = function(call);
    for (const std::string& text :
         {error_of(ErrorKind::state, [&] { call(ones({2})); }), error_of(ErrorKind::state, [&] { traced(ones({2})); })}) {
      EXPECT_NE(text.find("calls itself without end"), std::string::npos) << text;
      for (int i = 0; i < length; ++i) EXPECT_NE(text.find(cat("layer_", i)), std::string::npos) << text;
    }
  };
  for (int length = 1; length <= 3; ++length) on_small_stack([&] { ends(length); });
  EXPECT_EQ((ones({2}) + 1).to_vector<double>(), (std::vector<double>{2, 2}));
}

TEST(Recursion, OfLayersInsideEachOtherIsRefusedWhereItIsMade) {
  auto a = std::make_shared<nn::Sequential>(), b = std::make_shared<nn::Sequential>(), c = std::make_shared<nn::Sequential>();
  a->add(b), b->add(c);
  for (auto& inside : {a, b, c})
    EXPECT_NE(error_of(ErrorKind::invalid_argument, [&] { inside->add(a); }).find("inside itself"), std::string::npos);
  a->add(c);  // twice is no cycle
  b->add<nn::Dense>(3);
  EXPECT_EQ((*a)(ones({1, 2})).shape().back(), Dim(3));
}

bool always = true;  // else compilers see that there is no end
// Of few levels, each large: ThreadSanitizer keeps a copy of all calls for each object that it meets.
Tensor without_end(const Tensor& x) {
  volatile char room[8192];
  room[0] = 0;
  return always ? without_end(x * 2.0) + (1.0 + room[0]) : x;
}
Tensor without_end_of_branches(const Tensor& x) {
  volatile char room[8192];
  room[0] = 0;
  const auto first = [&]() -> std::vector<Tensor> { return {always ? without_end_of_branches(x * 2.0) + (1.0 + room[0]) : x}; };
  return control::cond(sum(x) > 0.0, first, [&]() -> std::vector<Tensor> { return {x}; })[0];
}

TEST(Recursion, OfOpsEndsOnEveryThread) {
  const auto all = [] {
    EXPECT_NE(error_of(ErrorKind::state, [] { without_end(ones({2})); }).find("nested too deep"), std::string::npos);
    EXPECT_NE(error_of(ErrorKind::state, [] { function([](Tensor x) { return without_end(x); })(ones({2})); }).find("nested too deep"),
              std::string::npos);
    error_of(ErrorKind::state, [] {
      const Tensor x = ones({2});
      GradientTape tape;
      tape.watch(x);
      without_end(x);
    });
    EXPECT_EQ(function([](Tensor x) { return x * 2.0; })(ones({1})).item<double>(), 2);
  };
  on_small_stack(all);
  EXPECT_NE(error_of(ErrorKind::state, [] { without_end(ones({2})); }).find("nested too deep"), std::string::npos);
}

TEST(Recursion, OfBranchesEnds) {
  on_small_stack([] {
    EXPECT_THROW(function([](Tensor x) { return without_end_of_branches(x); })(ones({2})), Error);
    EXPECT_THROW(without_end_of_branches(ones({2})), Error);
  });
}

TEST(Recursion, OfATracedFunctionWithOtherSignaturesEnds) {
  std::function<Tensor(Tensor, int)> again;
  const auto f = function([&](Tensor x, int n) { return again(x, n + 1) + 1.0; });
  again = [&](Tensor x, int n) { return f(x, n); };
  EXPECT_NE(error_of(ErrorKind::conversion, [&] { f(ones({2}), 0); }).find("calls itself more than 100 deep"), std::string::npos);
  const auto down = [&](auto& self, Tensor x, int n) -> Tensor { return n ? self(self, x * 2.0, n - 1) : x; };
  EXPECT_EQ(function([&](Tensor x, int n) { return down(down, x, n); })(ones({1}), 8).item<double>(), 256);
}

}  // namespace
}  // namespace lamina
