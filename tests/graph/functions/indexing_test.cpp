#include "graph/functions/indexing.h"

#include <gtest/gtest.h>

#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/einsum.h"
#include "graph/functions/random.h"
#include "graph/functions/shape_functions.h"
#include "graph/functions/sorting.h"

namespace lamina {
namespace {

using P = IndexPart;
using Floats = std::vector<float>;
using Ints = std::vector<int>;

Floats floats(const Tensor& t) { return t.to_vector<float>(); }
Ints ints(const Tensor& t) { return t.to_vector<int>(); }

P places(const Tensor& t) {
  P part;
  part.kind = P::Kind::tensor;
  part.indices = t;
  return part;
}
Tensor mask(const std::vector<uint8_t>& values) { return astype(tensor(values), dtype::boolean); }

TEST(Indexing, BroadcastsSeveralIndexTensors) {
  const Tensor x = reshape(arange(24), {2, 3, 4}), a = tensor({0, 1}, {2}, dtype::i32), b = tensor({2, 0}, {2}, dtype::i32);
  EXPECT_EQ(ints(index(x, {places(a), places(b)})), (Ints{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(ints(index(x, {places(a), P::range(), places(b)})), (Ints{2, 6, 10, 12, 16, 20}));
  EXPECT_EQ(index(x, {P::range(), P::at(0), places(b)}).shape(), (Shape{2, 2}));
  EXPECT_EQ(index(x, {P::at(0), P::range(), places(b)}).shape(), (Shape{2, 3}));
}

TEST(Indexing, BoolTensorsCoverTheirAxes) {
  const Tensor x = reshape(arange(6), {2, 3});
  EXPECT_EQ(ints(index(x, {places(greater(x, 2))})), (Ints{3, 4, 5}));
  EXPECT_EQ(ints(index(x, {P::range(), places(mask({1, 0, 1}))})), (Ints{0, 2, 3, 5}));
  EXPECT_EQ(index(x, {places(less(x, 0))}).shape(), (Shape{0}));
  EXPECT_THROW(index(x, {places(mask({1, 0, 1}))}), Error);
  auto chosen = function([](Tensor t) { return index(t, {places(greater(t, 2))}); });
  try {
    chosen(x);
    FAIL() << "a length that is not known";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::invalid_argument);
  }
  const Tensor known = mask({1, 0, 1});
  EXPECT_EQ(ints(function([&](Tensor t) { return index(t, {P::range(), places(known)}); })(x)), (Ints{0, 2, 3, 5}));
}

TEST(At, ChangesACopy) {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(floats(at(x, {P::at(0)}).set(0)), (Floats{0, 0, 0, 4, 5, 6}));
  EXPECT_EQ(floats(at(x, {P::range(), P::at(-1)}).add(tensor({10, 20}, {2}))), (Floats{1, 2, 13, 4, 5, 26}));
  EXPECT_EQ(floats(at(x, {P::range(), P::range({}, {}, 2)}).mul(2)), (Floats{2, 2, 6, 8, 5, 12}));
  EXPECT_EQ(floats(at(x, {places(greater(x, 3))}).min(4.5)), (Floats{1, 2, 3, 4, 4.5, 4.5}));
  EXPECT_EQ(floats(at(x, {places(tensor({1, 1}, {2}, dtype::i32)), P::at(0)}).max(tensor({9, 7}, {2}))), (Floats{1, 2, 3, 9, 5, 6}));
  EXPECT_EQ(floats(at(x, {P::at(1)}).get()), (Floats{4, 5, 6}));
  EXPECT_EQ(floats(x), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_THROW(at(x, {P::at(2)}).set(0), Error);
  EXPECT_THROW(at(x, {P::at(0)}).set(ones({2})), Error);
  EXPECT_THROW(at(x, {P::at(0)}).set(scalar_i(1)), Error);
}

TEST(At, HasGradients) {
  const Tensor x = tensor({1, 2, 3}, {3}), v = tensor({5, 7}, {2});
  GradientTape tape;
  tape.watch(x), tape.watch(v);
  const Tensor y = sum(square(at(x, {places(tensor({2, 0}, {2}, dtype::i32))}).set(v)));
  const std::vector<Tensor> d = tape.gradient(y, std::vector<Tensor>{x, v});
  EXPECT_EQ(floats(d[0]), (Floats{0, 4, 0}));
  EXPECT_EQ(floats(d[1]), (Floats{10, 14}));
}

TEST(Sorting, FunctionsKeepOrder) {
  const Tensor x = tensor({3, 1, 2, 1}, {4});
  EXPECT_EQ(floats(sort(x)), (Floats{1, 1, 2, 3}));
  EXPECT_EQ(ints(argsort(x)), (Ints{1, 3, 2, 0}));
  EXPECT_EQ(ints(argsort(x, 0, true)), (Ints{0, 2, 1, 3}));
  const auto [values, where] = top_k(x, 2);
  EXPECT_EQ(floats(values), (Floats{3, 2}));
  EXPECT_EQ(ints(where), (Ints{0, 2}));
  EXPECT_EQ(ints(searchsorted(sort(x), 1.5)), (Ints{2}));
  const Unique u = unique(x);
  EXPECT_EQ(floats(u.values), (Floats{1, 2, 3}));
  EXPECT_EQ(ints(u.inverse), (Ints{2, 0, 1, 0}));
  EXPECT_EQ(ints(u.counts), (Ints{2, 1, 1}));
  EXPECT_EQ(floats(take_along_axis(x, argsort(x), 0)), floats(sort(x)));
  EXPECT_THROW(function([](Tensor t) { return unique(t).values; })(x), Error);
  EXPECT_EQ(floats(function([](Tensor t) { return unique(t, 4).values; })(x)), (Floats{1, 2, 3, 1}));
}

TEST(Einsum, ContractsDiagonalsAndChains) {
  const Tensor a = tensor({1, 2, 3, 4}, {2, 2}), v = tensor({5, 6}, {2});
  EXPECT_EQ(floats(einsum("ij,j->i", {a, v})), (Floats{17, 39}));
  EXPECT_EQ(einsum("ii", {a}).item<float>(), 5);
  EXPECT_EQ(floats(einsum("ij,jk,k", {a, a, v})), floats(matmul(a, matmul(a, v))));
  EXPECT_EQ(floats(einsum("ij,jk,k", a, a, v)), floats(matmul(a, matmul(a, v))));
  EXPECT_EQ(floats(outer(v, v)), (Floats{25, 30, 30, 36}));
  EXPECT_EQ(dot(v, v).item<float>(), 61);
  EXPECT_THROW(einsum("ij,jk", {a}), Error);
}

TEST(ShapeFunctions, CutAndPad) {
  const Tensor x = arange(6);
  EXPECT_EQ(ints(split(x, 3)[1]), (Ints{2, 3}));
  EXPECT_EQ(ints(split_sizes(x, {1, -1, 2})[1]), (Ints{1, 2, 3}));
  EXPECT_EQ(ints(roll(x, 2)), (Ints{4, 5, 0, 1, 2, 3}));
  EXPECT_EQ(ints(flip(x)), (Ints{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(ints(pad(tensor({1, 2, 3}, {3}), {{2, 3}}, PadMode::reflect)), (Ints{3, 2, 1, 2, 3, 2, 1, 2}));
  EXPECT_EQ(ints(repeat(arange(3), 2, 0)), (Ints{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(ints(tile(arange(3), {2})), (Ints{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(floats(eye(2, 3, 1)), (Floats{0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(floats(diag(tensor({1, 2}, {2}), 1)), (Floats{0, 1, 0, 0, 0, 2, 0, 0, 0}));
}

TEST(Draws, DoNotDependOnTracing) {
  auto all = [] {
    const Tensor p = random::bernoulli(0.5, {8}), c = random::categorical(tensor({0, 1}, {2}), {5}), o = random::permutation(7),
                 i = random::integers({4}, -3, 9);
    std::vector<int> out;
    for (const Tensor& t : {p, c, o, i})
      for (int v : t.to_vector<int>()) out.push_back(v);
    return out;
  };
  auto traced = function([](Tensor) {
    const Tensor p = random::bernoulli(0.5, {8}), c = random::categorical(tensor({0, 1}, {2}), {5}), o = random::permutation(7),
                 i = random::integers({4}, -3, 9);
    return std::tuple(p, c, o, i);
  });
  random::set_seed(5);
  const std::vector<int> eager = all();
  random::set_seed(5);
  const auto [p, c, o, i] = traced(scalar(0));
  std::vector<int> got;
  for (const Tensor& t : {p, c, o, i})
    for (int v : t.to_vector<int>()) got.push_back(v);
  EXPECT_EQ(got, eager);
}

}  // namespace
}  // namespace lamina
