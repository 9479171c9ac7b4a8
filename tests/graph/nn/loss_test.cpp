#include "graph/nn/loss.h"

#include <gtest/gtest.h>

#include "graph/frontend/tape.h"
#include "graph/functions/op_functions.h"
#include "tests/graph/nn/near.h"

namespace lamina::losses {
namespace {

using test::Doubles;
constexpr int kRows = 6, kClasses = 5;

Doubles softmax_rows(const Doubles& logits) {
  Doubles p(logits.size());
  for (size_t r = 0; r < logits.size(); r += kClasses) {
    double total = 0;
    for (size_t c = 0; c < kClasses; ++c) total += p[r + c] = std::exp(logits[r + c]);
    for (size_t c = 0; c < kClasses; ++c) p[r + c] /= total;
  }
  return p;
}
const Doubles kLogits = test::draws(kRows * kClasses, 1, -5, 5), kProbabilities = softmax_rows(kLogits),
              kSoftTargets = softmax_rows(test::draws(kRows * kClasses, 2));
const std::vector<int32_t> kLabels{0, 4, 2, 2, 1, 3};
const Shape kShape{kRows, kClasses};

Doubles sparse_reference() {
  Doubles out;
  for (size_t r = 0; r < kRows; ++r) out.push_back(-std::log(kProbabilities[r * kClasses + size_t(kLabels[r])]));
  return out;
}
double mean_of(const Doubles& v) {
  double s = 0;
  for (double x : v) s += x;
  return s / double(v.size());
}

TEST(SparseCrossEntropy, IsTheLogarithmOfTheLabelsProbability) {
  const Tensor labels = tensor(kLabels), logits = test::tensor_of(kLogits, kShape), p = test::tensor_of(kProbabilities, kShape);
  test::expect_near(sparse_categorical_crossentropy(labels, logits, true), sparse_reference(), 1e-6);
  test::expect_near(sparse_categorical_crossentropy(labels, p), sparse_reference(), 1e-5);
  EXPECT_NEAR(SparseCrossEntropy(true)(labels, logits).item<double>(), mean_of(sparse_reference()), 1e-6);
  test::expect_near(SparseCrossEntropy(true).per_sample(reshape(labels, {kRows, 1}), logits), sparse_reference(), 1e-6);
}

TEST(SparseCrossEntropy, ItsGradientIsProbabilityMinusLabel) {
  const Tensor logits = test::tensor_of(kLogits, kShape);
  GradientTape tape;
  tape.watch(logits);
  const Tensor cost = SparseCrossEntropy(true)(tensor(kLabels), logits);
  Doubles wanted = kProbabilities;
  for (size_t r = 0; r < kRows; ++r) wanted[r * kClasses + size_t(kLabels[r])] -= 1;
  for (double& v : wanted) v /= kRows;
  test::expect_near(tape.gradient(cost, logits)[0], wanted, 1e-6);
}

TEST(SparseCrossEntropy, TruncatesFractionalLabels) {
  const Tensor logits = tensor({0, 0, 0, 1, 0, 0}, {2, 3});
  const SparseCrossEntropy cost(true);
  EXPECT_EQ(cost(tensor({0.3, 0.99}, {2}), logits).item<float>(), cost(tensor(std::vector<int64_t>{0, 0}), logits).item<float>());
  EXPECT_NEAR(cost(tensor({0.3, 0.99}, {2}), logits).item<double>(), 0.8250285, 1e-6);
}

TEST(SparseCrossEntropy, RefusesALabelThatIsNoClass) {
  const SparseCrossEntropy cost(true);
  for (int bad : {7, 3, -1}) {
    const std::string error = test::error_of([&] { cost(tensor(std::vector<int32_t>{0, bad}), ones({2, 3})).item<float>(); });
    EXPECT_EQ(error.rfind("index out of range: ", 0), 0u) << error;
    EXPECT_NE(error.find(std::to_string(bad)), std::string::npos) << error;
  }
  EXPECT_EQ(test::error_of([&] { cost(ones({2, 3}), ones({2, 3})); }),
            "invalid argument: sparse_categorical_crossentropy: y_true f32[2,3] does not fit y_pred f32[2,3]");
}

TEST(CategoricalCrossEntropy, OfProbabilitiesAndOfLogits) {
  Doubles wanted;
  for (size_t r = 0; r < kRows; ++r) {
    double s = 0;
    for (size_t c = r * kClasses; c < (r + 1) * kClasses; ++c) s -= kSoftTargets[c] * std::log(kProbabilities[c]);
    wanted.push_back(s);
  }
  const Tensor targets = test::tensor_of(kSoftTargets, kShape);
  test::expect_near(categorical_crossentropy(targets, test::tensor_of(kProbabilities, kShape)), wanted, 1e-5);
  test::expect_near(categorical_crossentropy(targets, test::tensor_of(kLogits, kShape), true), wanted, 1e-6);
  EXPECT_NEAR(CategoricalCrossEntropy()(targets, test::tensor_of(kProbabilities, kShape)).item<double>(), mean_of(wanted), 1e-5);
  // A confident wrong prediction has a large but finite loss.
  EXPECT_NEAR(categorical_crossentropy(tensor({1, 0}, {1, 2}), tensor({0, 1}, {1, 2})).item<double>(), -std::log(1e-7), 1e-4);
}

TEST(BinaryCrossEntropy, OfProbabilitiesAndOfLogits) {
  const Doubles x = test::draws(12, 7, -4, 4), t = test::draws(12, 8, 0, 1);
  Doubles p, wanted;
  for (size_t i = 0; i < 12; ++i) p.push_back(1 / (1 + std::exp(-x[i])));
  for (size_t r = 0; r < 12; r += 4) {
    double s = 0;
    for (size_t i = r; i < r + 4; ++i) s -= t[i] * std::log(p[i]) + (1 - t[i]) * std::log(1 - p[i]);
    wanted.push_back(s / 4);
  }
  test::expect_near(binary_crossentropy(test::tensor_of(t, {3, 4}), test::tensor_of(p, {3, 4})), wanted, 1e-5);
  test::expect_near(binary_crossentropy(test::tensor_of(t, {3, 4}), test::tensor_of(x, {3, 4}), true), wanted, 1e-6);
}

TEST(MeanErrors, AverageOverTheLastAxis) {
  const Doubles a = test::draws(12, 5), b = test::draws(12, 6);
  Doubles squares(3), sizes(3);
  for (size_t i = 0; i < 12; ++i) squares[i / 4] += (a[i] - b[i]) * (a[i] - b[i]) / 4, sizes[i / 4] += std::abs(a[i] - b[i]) / 4;
  const Tensor ta = test::tensor_of(a, {3, 4}), tb = test::tensor_of(b, {3, 4});
  test::expect_near(mean_squared_error(ta, tb), squares, 1e-6);
  test::expect_near(mean_absolute_error(ta, tb), sizes, 1e-6);
  EXPECT_NEAR(Loss("mse")(ta, tb).item<double>(), mean_of(squares), 1e-6);
  EXPECT_NEAR(MeanAbsoluteError()(ta, tb).item<double>(), mean_of(sizes), 1e-6);
}

TEST(MeanErrors, DoNotBroadcastAColumnAgainstARow) {
  EXPECT_EQ(text(mse(ones({3}), zeros({3, 1})).type()), "f32[]");
  EXPECT_EQ(text(mse(ones({3, 1}), zeros({3, 1})).type()), "f32[3]");
  EXPECT_EQ(test::error_of([] { mse(ones({1, 3}), zeros({3, 1})); }),
            "invalid argument: mean_squared_error: y_true f32[1,3] does not fit y_pred f32[3,1]");
  EXPECT_EQ(test::error_of([] { mse(ones({3}), tensor(std::vector<int32_t>{1, 2, 3})); }),
            "type mismatch: mean_squared_error: y_pred is i32[3]");
}

TEST(Loss, IsFoundByName) {
  EXPECT_EQ(Loss("mean_absolute_error").name(), "mean_absolute_error");
  EXPECT_EQ(test::error_of([] { Loss("sparse_crossentropy"); }).rfind("not found: ", 0), 0u);
}

TEST(Huber, IsSquareNearTheTargetAndLinearFarAway) {
  const Tensor t = test::tensor_of({0, 0, 0, 0}, {2, 2}), p = test::tensor_of({0.5, -2, 3, 0}, {2, 2});
  test::expect_near(huber(t, p), {(0.125 + 1.5) / 2, 2.5 / 2}, 1e-6);
  test::expect_near(huber(t, p, 2), {(0.125 + 2) / 2, 4.0 / 2}, 1e-6);
  EXPECT_NEAR(Loss("huber")(t, p).item<double>(), (0.125 + 1.5 + 2.5) / 4, 1e-6);
  EXPECT_EQ(test::error_of([] { Huber(0); }), "invalid argument: huber: delta 0");
}

TEST(KLDivergence, ComparesDistributions) {
  const Tensor t = test::tensor_of(kSoftTargets, kShape), p = test::tensor_of(kProbabilities, kShape);
  Doubles want(kRows);
  for (size_t i = 0; i < kSoftTargets.size(); ++i) want[i / kClasses] += kSoftTargets[i] * std::log(kSoftTargets[i] / kProbabilities[i]);
  test::expect_near(kl_divergence(t, p), want, 1e-5);
  test::expect_near(kl_divergence(p, p) + 1.0, Doubles(kRows, 1), 1e-6);
}

TEST(Hinge, MeasuresTheDistanceToTheMargin) {
  const Tensor t = test::tensor_of({1, -1, 0, 1}, {2, 2}), p = test::tensor_of({0.25, 0.5, -3, 2}, {2, 2});
  test::expect_near(hinge(t, p), {(0.75 + 1.5) / 2, 0}, 1e-6);
}

TEST(CosineSimilarity, IsMinusTheCosine) {
  const Tensor t = test::tensor_of({1, 0, 3, 4, 0, 0}, {3, 2}), p = test::tensor_of({2, 0, -4, 3, 1, 1}, {3, 2});
  test::expect_near(cosine_similarity(t, p), {-1, 0, 0}, 1e-6);
  EXPECT_THROW(cosine_similarity(scalar(1), scalar(1)), Error);
}

}  // namespace
}  // namespace lamina::losses
