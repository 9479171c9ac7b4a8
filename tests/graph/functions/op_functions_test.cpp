#include "graph/functions/op_functions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/frontend/eager.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/shape_functions.h"

namespace lamina {
namespace {

using Floats = std::vector<float>;
Floats values(const Tensor& t) { return t.to_vector<float>(); }

TEST(Matmul, TreatsVectorsAsRowsAndColumns) {
  const Tensor a = tensor({1, 2, 3, 4}, {2, 2}), v = tensor({5, 6}, {2});
  EXPECT_EQ(values(matmul(a, v)), (Floats{17, 39}));
  EXPECT_EQ(matmul(a, v).rank(), 1);
  EXPECT_EQ(values(matmul(v, a)), (Floats{23, 34}));
  EXPECT_EQ(matmul(v, v).item<float>(), 61);
  EXPECT_EQ(matmul(v, v).rank(), 0);
  EXPECT_EQ(values(matmul(a, a, true, false)), (Floats{10, 14, 14, 20}));
  EXPECT_EQ(matmul(ones({3, 4, 2}), v).shape(), (Shape{3, 4}));
  EXPECT_THROW(matmul(scalar(1), a), Error);
}

TEST(Reshape, FillsInOneDimension) {
  const Tensor x = arange(24);
  EXPECT_EQ(reshape(x, {2, -1, 3}).shape(), (Shape{2, 4, 3}));
  EXPECT_EQ(reshape(x, {-1}).shape(), (Shape{24}));
  EXPECT_EQ(reshape(scalar(1), {-1, 1}).shape(), (Shape{1, 1}));
  EXPECT_THROW(reshape(x, {-1, -1}), Error);
  EXPECT_THROW(reshape(x, {5, -1}), Error);
  EXPECT_THROW(reshape(x, {0, -1}), Error);
  EXPECT_THROW(reshape(x, {-2, 12}), Error);
  EXPECT_EQ(flatten(reshape(x, {2, 3, 4}), 1).shape(), (Shape{2, 12}));
}

TEST(Shapes, AxesAreInsertedAndRemoved) {
  const Tensor x = ones({2, 1, 3});
  EXPECT_EQ(expand_dims(x, -1).shape(), (Shape{2, 1, 3, 1}));
  EXPECT_EQ(expand_dims(x, 0).shape(), (Shape{1, 2, 1, 3}));
  EXPECT_EQ(squeeze(x).shape(), (Shape{2, 3}));
  EXPECT_THROW(squeeze(x, {0}), Error);
  EXPECT_EQ(transpose(x).shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(stack({x, x, x}, 1).shape(), (Shape{2, 3, 1, 3}));
  EXPECT_EQ(stack({x, x}, -1).shape(), (Shape{2, 1, 3, 2}));
}

TEST(Index, FollowsPythonsRules) {
  const Tensor x = reshape(arange(24), {2, 3, 4});
  using P = IndexPart;
  auto ints = [](const Tensor& t) { return t.to_vector<int>(); };
  EXPECT_EQ(ints(index(x, {P::at(1), P::at(-1), P::range()})), (std::vector<int>{20, 21, 22, 23}));
  EXPECT_EQ(ints(index(x, {P::at(0), P::range({}, {}, -1), P::at(0)})), (std::vector<int>{8, 4, 0}));
  EXPECT_EQ(ints(index(x, {P::at(0), P::at(0), P::range(-3, -1)})), (std::vector<int>{1, 2}));
  EXPECT_EQ(ints(index(x, {P::at(0), P::at(0), P::range(3, 0, -2)})), (std::vector<int>{3, 1}));
  EXPECT_EQ(ints(index(x, {P::at(0), P::at(0), P::range(-1, -5, -1)})), (std::vector<int>{3, 2, 1, 0}));
  EXPECT_EQ(ints(index(x, {P::at(0), P::at(0), P::range(10, 20)})), (std::vector<int>{}));
  P rest, fresh;
  rest.kind = P::Kind::rest;
  fresh.kind = P::Kind::new_axis;
  EXPECT_EQ(index(x, {rest, P::at(0)}).shape(), (Shape{2, 3}));
  EXPECT_EQ(index(x, {fresh, P::at(0), rest, fresh}).shape(), (Shape{1, 3, 4, 1}));
  P rows;
  rows.kind = P::Kind::tensor;
  rows.indices = tensor({2, 0}, {2}, dtype::i32);
  EXPECT_EQ(ints(index(x, {P::at(0), rows, P::at(1)})), (std::vector<int>{9, 1}));
  for (int64_t bad : {2, -3}) {
    try {
      index(x, bad);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::index);
    }
  }
  EXPECT_THROW(index(x, {P::at(0), P::at(0), P::at(0), P::at(0)}), Error);
  EXPECT_THROW(index(x, {P::range({}, {}, 0)}), Error);
}

TEST(Slice, KeepsAxesThatAreNotNamed) { EXPECT_EQ(slice(ones({5, 4}), {1}, {-1}).shape(), (Shape{3, 4})); }

TEST(Argmin, HandlesExtremesOfEveryDtype) {
  EXPECT_EQ(argmin(tensor({3, 0, 255}, {3}, dtype::u8)).item<int>(), 1);
  EXPECT_EQ(argmin(tensor({0, -2147483648.0, 5}, {3}, dtype::i32)).item<int>(), 1);
  EXPECT_EQ(argmin(tensor({0, -INFINITY, -5}, {3})).item<int>(), 1);
  EXPECT_EQ(argmax(tensor({0, 7, 7}, {3})).item<int>(), 1);
}

TEST(Reductions, TakeAllAxesWhenNoneAreGivenAndNoneOfAnEmptyList) {
  const Tensor x = tensor({1, 2, 3, 4}, {2, 1, 2});
  EXPECT_EQ(sum(x).shape(), Shape{});
  EXPECT_EQ(sum(x, {}).shape(), Shape{});
  EXPECT_EQ(values(sum(x, Axes{})), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(values(var(x, Axes{})), (Floats{0, 0, 0, 0}));
  EXPECT_EQ(values(logsumexp(x, Axes{})), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(squeeze(x, Axes{}).shape(), (Shape{2, 1, 2}));
  EXPECT_EQ(squeeze(x).shape(), (Shape{2, 2}));
  EXPECT_EQ(values(flip(x, Axes{})), values(x));
  EXPECT_EQ(values(flip(x)), (Floats{4, 3, 2, 1}));
  EXPECT_EQ(transpose(x).shape(), (Shape{2, 1, 2}));
  EXPECT_THROW(transpose(x, Axes{}), Error);
}

TEST(Losses, AgreeWithEachOther) {
  const Tensor logits = tensor({1, -2, 0.5, 3, 0, -1}, {2, 3}), labels = tensor({2, 0}, {2}, dtype::i32), targets = one_hot(labels, 3);
  const Floats sparse = values(sparse_cross_entropy(logits, labels)), dense = values(softmax_cross_entropy(logits, targets)),
               probabilities = values(categorical_cross_entropy(softmax(logits), targets));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(sparse[i], dense[i], 1e-6);
    EXPECT_NEAR(sparse[i], probabilities[i], 1e-6);
  }
  const Floats sigmoid_loss = values(sigmoid_cross_entropy(tensor({0, 100, -100}, {3}), tensor({1, 1, 0}, {3})));
  EXPECT_NEAR(sigmoid_loss[0], std::log(2.0), 1e-6);
  EXPECT_NEAR(sigmoid_loss[1], std::exp(-100.0), 1e-44);
  EXPECT_NEAR(sigmoid_loss[2], std::exp(-100.0), 1e-44);
}

TEST(Eager, ProgramsAreKeptByOpTypesAndAttributes) {
  clear_eager_cache();
  const Tensor a = ones({3}), b = ones({3, 2});
  a + a;
  a + a * 1;
  EXPECT_EQ(eager_cache_size(), 2u);  // add [3] [3], mul [3] []
  sum(b);
  sum(b, {0});
  sum(b, {0});
  sum(b, {1});
  EXPECT_EQ(eager_cache_size(), 5u);
  ones({3}) + ones({3});
  EXPECT_EQ(eager_cache_size(), 5u);
}

TEST(Eager, ErrorsNameTheUsersLine) {
  const int line = __LINE__ + 2;
  try {
    matmul(ones({2, 3}), ones({2, 3}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("op_functions_test.cpp:" + std::to_string(line)), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("f32[2,3]"), std::string::npos) << e.what();
  }
}

TEST(Factories, CountTheirValues) {
  EXPECT_THROW(tensor({1, 2, 3}, {2, 2}), Error);
  EXPECT_EQ(values(arange(1.0, 2.0, 0.25, dtype::f32)), (Floats{1, 1.25, 1.5, 1.75}));
  EXPECT_EQ(arange(5, 0, -2).to_vector<int>(), (std::vector<int>{5, 3, 1}));
  EXPECT_EQ(arange(3, 3).size(), 0);
  EXPECT_THROW(arange(0, 3, 0), Error);
  EXPECT_EQ(ones_like(zeros({2}, dtype::i32)).dtype(), dtype::i32);
  EXPECT_EQ(zeros_like(zeros({2}, dtype::i32), dtype::f32).dtype(), dtype::f32);
}

// Every op function gives the same bits eagerly and traced, if passes that change rounding find nothing to do.
TEST(OpFunctions, TracedEqualsEager) {
  const Tensor x = tensor({0.5, -1.25, 2, 3.5, -0.75, 1}, {2, 3}), y = tensor({1.5, 0.25, -2, 0.5, 4, -1}, {2, 3});
  const std::vector<std::pair<const char*, std::function<Tensor(Tensor, Tensor)>>> cases = {
#define UNARY(name) {#name, [](Tensor a, Tensor) { return name(a); }},
      UNARY(abs) UNARY(cos) UNARY(exp) UNARY(neg) UNARY(relu) UNARY(sigmoid) UNARY(sign) UNARY(sin) UNARY(square) UNARY(tanh)
#undef UNARY
#define BINARY(name) {#name, [](Tensor a, Tensor b) { return name(a, b); }},
          BINARY(add) BINARY(div) BINARY(equal) BINARY(greater) BINARY(less_equal) BINARY(maximum) BINARY(minimum) BINARY(mul)
              BINARY(not_equal) BINARY(sub)
#undef BINARY
                  {"sum", [](Tensor a, Tensor) { return sum(a, {1}); }},
      {"mean", [](Tensor a, Tensor) { return mean(a, {0}, true); }},
      {"max", [](Tensor a, Tensor) { return max(a); }},
      {"argmax", [](Tensor a, Tensor) { return argmax(a, 0); }},
      {"matmul", [](Tensor a, Tensor b) { return matmul(a, b, false, true); }},
      {"where", [](Tensor a, Tensor b) { return where(a > b, a, b); }},
      {"astype", [](Tensor a, Tensor) { return astype(a, dtype::i32); }},
      {"concat", [](Tensor a, Tensor b) { return concat({a, b}, 1); }},
      {"stack", [](Tensor a, Tensor b) { return stack({a, b}, 1); }},
      {"slice", [](Tensor a, Tensor) { return slice(a, {0, 1}, {2, 3}); }},
      {"index", [](Tensor a, Tensor) { return index(a, -1); }},
      {"gather", [](Tensor a, Tensor) { return gather(a, tensor({1, 1, 0}, {3}, dtype::i32)); }},
      {"softmax", [](Tensor a, Tensor) { return softmax(a); }},
      {"log_softmax", [](Tensor a, Tensor) { return log_softmax(a, 0); }},
      {"one_hot", [](Tensor a, Tensor) { return one_hot(argmax(a, 0), 2); }},
      {"transpose", [](Tensor a, Tensor) { return transpose(a); }},
      {"broadcast_to", [](Tensor a, Tensor) { return broadcast_to(a, {4, 2, 3}); }},
      {"clip", [](Tensor a, Tensor) { return clip(a, -1, 1); }},
      {"sparse_cross_entropy", [](Tensor a, Tensor) { return sparse_cross_entropy(a, tensor({2, 0}, {2}, dtype::i32)); }},
  };
  for (auto& [name, f] : cases) {
    SCOPED_TRACE(name);
    const Tensor eager = f(x, y), traced = function(f)(x, y);
    EXPECT_EQ(eager.type(), traced.type());
    EXPECT_EQ(eager.to_vector<double>(), traced.to_vector<double>());
  }
}

}  // namespace
}  // namespace lamina
