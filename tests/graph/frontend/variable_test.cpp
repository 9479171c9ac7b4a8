#include "graph/frontend/variable.h"

#include <gtest/gtest.h>

#include <thread>

#include "graph/frontend/typed_function.h"
#include "graph/functions/op_functions.h"

namespace lamina {
namespace {

TEST(Variable, ReadIsASnapshot) {
  Variable v(tensor({1, 2}, {2}));
  const Tensor before = v.read();
  v.assign(tensor({5, 6}, {2}));
  v.assign_add(1);
  auto triple = function([&] { v.assign(v.read() * 3); });
  triple();
  EXPECT_EQ(before.to_vector<float>(), (std::vector<float>{1, 2}));
  const Tensor after = v.read();
  EXPECT_EQ(after.to_vector<float>(), (std::vector<float>{18, 21}));
  triple();
  EXPECT_EQ(after.to_vector<float>(), (std::vector<float>{18, 21}));
}

TEST(Variable, AssigningATensorDoesNotTieThemTogether) {
  const Tensor t = tensor({1, 2}, {2});
  Variable v(t), w(t);
  auto bump = function([&] { v.assign_add(1); });
  bump();
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(w.read().to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(v.read().to_vector<float>(), (std::vector<float>{2, 3}));
}

TEST(Variable, ActsAsATensorInOperators) {
  Variable b(scalar(12));
  EXPECT_EQ((matmul(tensor({10, 10, 11, 1}, {2, 2}), tensor({1, 0, 0, 1}, {2, 2})) + b).to_vector<float>(),
            (std::vector<float>{22, 22, 23, 13}));
  EXPECT_EQ((-b + b * 2 - 1).item<float>(), 11);
  EXPECT_EQ((1 - b).item<float>(), -11);
}

TEST(Variable, TakesWeakNumbers) {
  Variable v(zeros({3})), n(scalar_i(0)), w(1.5);
  v.assign(2.f);
  EXPECT_EQ(v.read().to_vector<float>(), (std::vector<float>{2, 2, 2}));
  n.assign_add(5);
  n.assign_sub(2);
  EXPECT_EQ(n.read().item<int>(), 3);
  EXPECT_EQ(w.dtype(), dtype::f32);
  EXPECT_THROW(n.assign(1.5), Error);
}

TEST(Variable, KeepsItsTypeAndShape) {
  Variable v(zeros({2, 3}), "w");
  for (auto& [value, kind] :
       {std::pair(zeros({3, 2}), ErrorKind::invalid_argument), std::pair(zeros({2, 3}, dtype::f64), ErrorKind::type)}) {
    try {
      v.assign(value);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, kind);
      EXPECT_NE(std::string(e.what()).find("'w'"), std::string::npos);
    }
  }
  EXPECT_THROW(v.assign_add(zeros({4, 2, 3})), Error);
  v.assign_add(ones({3}));
  EXPECT_EQ(sum(v).item<float>(), 6);
}

TEST(Variable, IsPrintedWithItsValue) {
  EXPECT_EQ(Variable(tensor({1, 2}, {2}), "w").str(), "lm.Variable([1. 2.], shape=(2,), dtype=float32, name=\"w\")");
}

TEST(Variable, OnlyFloatingOnesAreTrainable) {
  EXPECT_TRUE(Variable(scalar(1)).trainable());
  EXPECT_FALSE(Variable(scalar_i(1)).trainable());
  EXPECT_FALSE(Variable(scalar(1), "v", false).trainable());
}

TEST(Variable, AnUninitialisedOneSaysSo) {
  Variable v = Variable::uninitialized({dtype::f32, {2}}, Device{}, "late", true);
  try {
    v.read();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::state);
    EXPECT_NE(std::string(e.what()).find("'late'"), std::string::npos);
  }
  v.assign(ones({2}));
  EXPECT_EQ(sum(v).item<float>(), 2);
}

TEST(Variable, AssignAddLosesNothingAmongThreads) {
  Variable v(scalar_i(0));
  auto bump = function([&] { v.assign_add(1); });
  bump();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        if (t % 2)
          v.assign_add(1);
        else
          bump();
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(v.read().item<int>(), 801);
}

TEST(Variable, AnEagerOneDiesWithItsScope) {
  std::weak_ptr<VariableData> alive;
  {
    Variable v(scalar(12));
    alive = v.handle();
    EXPECT_EQ((ones({2}) + v).to_vector<float>(), (std::vector<float>{13, 13}));
  }
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace lamina
