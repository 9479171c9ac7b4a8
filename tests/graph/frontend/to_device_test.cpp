// Tensor::to: eagerly, in traced functions, and through gradients. The test program has two CPU devices.
#include <gtest/gtest.h>

#include "graph/frontend/device.h"
#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/frontend/variable.h"
#include "graph/frontend/vmap.h"
#include "graph/functions/op_functions.h"
#include "runtime/core/error.h"

namespace lamina {
namespace {

const Device kFirst = parse_device("cpu:0"), kSecond = parse_device("cpu:1");
using Floats = std::vector<float>;

TEST(ToDevice, MovesResultsOfATracedFunction) {
  auto f = function([](Tensor x) {
    const Tensor there = (x * 2.0f).to(kSecond);
    EXPECT_EQ(there.device(), kSecond);
    EXPECT_EQ(there.to(kSecond).device(), kSecond);
    return std::tuple(there, there.to(kFirst) + 1.0f, x.to(kFirst));
  });
  for (int i = 0; i < 2; ++i) {
    auto [there, back, same] = f(tensor({1.0f, 2.0f}, {2}));
    EXPECT_EQ(there.device(), kSecond);
    EXPECT_EQ(back.device(), kFirst);
    EXPECT_EQ(same.device(), kFirst);
    EXPECT_EQ(there.to_vector<float>(), (Floats{2, 4}));
    EXPECT_EQ(back.to_vector<float>(), (Floats{3, 5}));
    EXPECT_EQ(same.to_vector<float>(), (Floats{1, 2}));
  }
}

TEST(ToDevice, MovesViewsAndStackedTensors) {
  auto f = function([](Tensor x) { return transpose(x, {1, 0}).to(kSecond); });
  const Tensor moved = f(tensor({1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}, {2, 3}));
  EXPECT_EQ(moved.device(), kSecond);
  EXPECT_EQ(moved.to_vector<float>(), (Floats{1, 4, 2, 5, 3, 6}));
  auto stacked = function([](Tensor x) { return vmap([](Tensor row) { return row.to(kSecond) * 3.0f; })(x); });
  EXPECT_EQ(stacked(tensor({1.0f, 2.0f, 3.0f, 4.0f}, {2, 2})).to_vector<float>(), (Floats{3, 6, 9, 12}));
}

TEST(ToDevice, GradientsFlowBack) {
  const Tensor x = tensor({1.0f, -2.0f}, {2});
  const auto gradient = [](const Tensor& at) {
    GradientTape tape;
    tape.watch(at);
    const Tensor there = at.to(kSecond);
    return tape.gradient(sum(there * there * there), at)[0];
  };
  const Tensor eager = gradient(x);
  EXPECT_EQ(eager.to_vector<float>(), (Floats{3, 12}));
  auto traced = function(gradient);
  const Tensor found = traced(x);
  EXPECT_EQ(found.to_vector<float>(), (Floats{3, 12}));
  EXPECT_EQ(found.device(), kFirst) << "where x is";
}

// Callers that replay the function's ops: a tape around the call, and vmap outside of functions.
TEST(ToDevice, WorksInReplayedFunctions) {
  const Tensor x = tensor({1.0f, 2.0f}, {2}), w = tensor({5.0f, 7.0f}, {2}).to(kSecond);
  auto f = function([](Tensor x) { return (x * 2.0f).to(kSecond); });
  {
    GradientTape tape;
    tape.watch(x);
    const Tensor there = f(x);
    EXPECT_EQ(there.device(), kSecond);
    EXPECT_EQ(tape.gradient(sum(there * w), x)[0].to_vector<float>(), (Floats{10, 14}));
  }
  const Tensor rows = vmap([](Tensor row) { return row.to(kSecond) * 3.0f; })(tensor({1.0f, 2.0f, 3.0f, 4.0f}, {2, 2}));
  EXPECT_EQ(rows.to_vector<float>(), (Floats{3, 6, 9, 12}));
}

// Also for a tensor from outside, while a tape inside of the function watches it.
TEST(ToDevice, GradientsFlowBackToCapturedTensors) {
  const Tensor w = tensor({5.0f, 7.0f}, {2});
  auto f = function([&](Tensor x) {
    GradientTape tape;
    tape.watch(w);
    return tape.gradient(sum(w.to(kSecond) * x.to(kSecond)), w)[0];
  });
  for (int i = 0; i < 2; ++i) EXPECT_EQ(f(tensor({1.0f, 2.0f}, {2})).to_vector<float>(), (Floats{1, 2}));
}

TEST(ToDevice, MovesVariables) {
  const Variable there(tensor({1.0f, 2.0f}, {2}).to(kSecond), "v"), here(tensor({3.0f, 4.0f}, {2}), "u");
  auto f = function([&](Tensor x) {
    const Tensor fetched = there.read().to(kFirst);
    const DeviceScope second(kSecond);
    return std::tuple(fetched, here.read().to(kSecond), x);
  });
  auto [fetched, sent, x] = f(tensor({0.0f}, {1}));
  EXPECT_EQ(fetched.device(), kFirst);
  EXPECT_EQ(sent.device(), kSecond);
  EXPECT_EQ(fetched.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(sent.to_vector<float>(), (Floats{3, 4}));
}

// Transfers made by an op itself are not recorded on tapes.
TEST(ToDevice, InternalCopiesAreNotRecordedOnTapes) {
  const Tensor x = tensor({1.0f, 2.0f}, {2});
  GradientTape tape;
  tape.watch(x);
  const DeviceScope second(kSecond);
  const Tensor y = x * 3.0f;
  EXPECT_EQ(y.device(), kSecond);
  EXPECT_EQ(tape.gradient(sum(y), x)[0].to_vector<float>(), (Floats{3, 3}));
}

TEST(ToDevice, RefusesADeviceThatIsNotThere) {
  auto f = function([](Tensor x) { return x.to(parse_device("cpu:77")); });
  try {
    f(tensor({1.0f}, {1}));
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(int(e.kind), int(ErrorKind::device)) << e.what();
  }
  Tensor kept;
  auto leaks = function([&](Tensor x) { return kept = x * 2.0f; });
  leaks(tensor({1.0f}, {1}));
  try {
    kept.to(kSecond);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("finished trace"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace lamina
