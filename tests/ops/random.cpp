// random_uniform and random_normal. Their distributions are in tests/kernels/random_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "graph/ops/ops.h"
#include "kernels/shared/philox.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

// Element i of model m's draw, from its Philox block.
Reference drawn(const ops::RandomAttrs& a, bool normal) {
  return [=](const std::vector<Tensor>& in) {
    const int64_t models = in[0].size() / 2, n = models ? size_of(a.type.shape).number() / models : 0;
    const DType dtype = a.type.dtype;
    std::vector<double> y;
    for (int64_t m = 0; m < models; ++m)
      for (int64_t i = 0; i < n; ++i) {
        const int64_t per_block = dtype == DType::f64 ? 2 : 4;
        const philox::Block b = philox::draw(in[0].data<int64_t>()[2 * m], in[0].data<int64_t>()[2 * m + 1], i / per_block);
        const int64_t at = i % per_block;
        if (normal) {
          double u1, u2;
          if (dtype == DType::f64)
            u1 = 1 - philox::unit53(b.word[0], b.word[1]), u2 = philox::unit53(b.word[2], b.word[3]);
          else
            u1 = (double(b.word[at / 2 * 2]) + 1) * 0x1p-32, u2 = double(philox::unit24(b.word[at / 2 * 2 + 1]));
          const double radius = std::sqrt(-2 * std::log(u1)), angle = 2 * std::numbers::pi * u2;
          y.push_back(a.a + a.b * radius * (at % 2 ? std::sin(angle) : std::cos(angle)));
        } else {
          const double u = dtype == DType::f64 ? philox::unit53(b.word[2 * at], b.word[2 * at + 1]) : double(philox::unit24(b.word[at]));
          y.push_back(a.a + u * (a.b - a.a));
        }
      }
    return std::vector<std::vector<double>>{y};
  };
}

std::vector<OpCase> cases_of(bool normal) {
  std::vector<OpCase> out;
  auto add = [&](TensorType type, Shape state, double a, double b) {
    const ops::RandomAttrs attrs{type, a, b};
    out.push_back({.name = cat(type, " state [", text(state), "] ", a, " ", b),
                   .in = {{i64(state), 0, 0, {17, 3, -5, 8}}},
                   .attrs = ir::make_attrs(attrs)});
    out.back().reference = drawn(attrs, normal);
    out.back().ulps = normal ? 8 : 4, out.back().of_largest = 1;  // the angle of a normal pair is rounded
  };
  for (DType d : kFloating) {
    add({d, {37}}, {2}, 0, 1);
    add({d, {5, 7}}, {2}, -3, 2);
    add({d, {3, 11}}, {3, 2}, 0, 1);
    add({d, {}}, {2}, 0, 1);
    add({d, {0, 4}}, {2}, 0, 1);
  }
  return out;
}

const OpCases uniform_cases{"random_uniform", [] { return cases_of(false); }};
const OpCases normal_cases{"random_normal", [] { return cases_of(true); }};

}  // namespace
}  // namespace lamina::tests
