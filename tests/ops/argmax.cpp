// argmax along one axis.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/ops/ops.h"
#include "runtime/core/error.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

std::vector<double> first_largest(const Tensor& x, int axis) {
  const std::vector<int64_t> shape = numbers(x.type.shape);
  const size_t a = size_t(axis < 0 ? axis + int(shape.size()) : axis);
  int64_t inner = 1, outer = 1;
  for (size_t i = 0; i < shape.size(); ++i) (i < a ? outer : i > a ? inner : inner) *= i == a ? 1 : shape[i];
  std::vector<double> out;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t j = 0; j < inner; ++j) {
      int64_t best = 0;
      for (int64_t k = 1; k < shape[a]; ++k)
        if (x.at((o * shape[a] + k) * inner + j) > x.at((o * shape[a] + best) * inner + j)) best = k;
      out.push_back(double(best));
    }
  return out;
}

const OpCases kCases{"argmax", [] {
                       const std::vector<DType> any{DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8,
                                                    DType::i8,  DType::i16, DType::i32, DType::i64,  DType::boolean};
                       struct Row {
                         Shape shape;
                         int axis;
                         bool keepdims;
                       };
                       std::vector<OpCase> cases;
                       for (const auto& [shape, axis, keepdims] : std::vector<Row>{{{5}, 0, false},
                                                                                   {{20, 10}, -1, false},
                                                                                   {{20, 10}, 0, true},
                                                                                   {{2, 3, 4}, 1, false},
                                                                                   {{1, 1}, 1, true},
                                                                                   {{0, 3}, 1, false},
                                                                                   {{300, 1000}, 1, false},
                                                                                   {{300, 1000}, 0, false}}) {
                         OpCase c{.name = cat("[", text(shape), "] along ", axis),
                                  .in = {{f32(shape), -9, 9}},
                                  .attrs = ir::make_attrs(ops::ArgmaxAttrs{axis, keepdims})};
                         c.reference = [axis = axis](const std::vector<Tensor>& in) {
                           return std::vector<std::vector<double>>{first_largest(in[0], axis)};
                         };
                         c.dtypes = size_of(shape).number() > 1000 ? std::vector<DType>{DType::f32} : any;
                         cases.push_back(std::move(c));
                       }
                       return cases;
                     }};

TEST(Argmax, TakesTheFirstLargestAndTheFirstNan) {
  ir::Graph g;
  g.outputs = {ops::argmax(g, g.add_input(f32({3, 4})), 1)};
  const float nan = std::nanf("");
  EXPECT_EQ(evaluate(g, {Tensor::of<float>({3, 4}, {1, 5, 5, 2, 1, nan, 9, nan, -3, -2, -2, -9})})[0].values(),
            (std::vector<double>{1, 1, 1}));
}

TEST(Argmax, RefusesAnEmptyAxis) {
  ir::Graph g;
  EXPECT_THROW(ops::argmax(g, g.add_input(f32({3, 0})), 1), Error);
  EXPECT_THROW(ops::argmax(g, g.add_input(f32({3})), 1), Error);
  EXPECT_THROW(ops::argmax(g, g.add_input(f32({})), 0), Error);
}

}  // namespace
}  // namespace lamina::tests
