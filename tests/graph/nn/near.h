// Compares tensors with references computed in double precision.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "graph/frontend/factories.h"
#include "runtime/core/error.h"

namespace lamina::test {

using Doubles = std::vector<double>;

// |got - wanted| <= tolerance * the largest |wanted|, element by element.
inline void expect_near(const Doubles& got, const Doubles& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  double scale = 0;
  for (double w : wanted) scale = std::max(scale, std::abs(w));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::isfinite(got[i])) << "element " << i;
    EXPECT_LE(std::abs(got[i] - wanted[i]), tolerance * scale) << "element " << i << " is " << got[i] << ", not " << wanted[i];
  }
}
inline void expect_near(const Tensor& got, const Doubles& wanted, double tolerance) {
  expect_near(got.to_vector<double>(), wanted, tolerance);
}

// n random numbers that f32 represents exactly, so that tensors of both precisions hold them.
inline Doubles draws(size_t n, uint32_t seed, double low = -1, double high = 1) {
  std::mt19937 engine(seed);
  Doubles out(n);
  for (double& v : out) v = float(low + (high - low) * double(engine()) / 4294967296.0);
  return out;
}
inline Tensor tensor_of(const Doubles& values, const Shape& shape, DType dtype = DType::f32) {
  if (dtype == DType::f64) return tensor(values, shape);
  return tensor(std::vector<float>(values.begin(), values.end()), shape);
}

inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return cat(name(e.kind), ": ", e.parts.what);
  }
  return "no error";
}

}  // namespace lamina::test
