// Sections with products in a precision other than float32: single steps against products of rounded operands in double, and whole training
// steps against the CPU.
#include "kernels/cuda/section_tensor_cores.cu"

#include <cmath>

#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/frontend/variable.h"
#include "graph/frontend/vmap.h"
#include "graph/functions/op_functions.h"
#include "graph/nn/optimizer.h"
#include "graph/ops/ops.h"
#include "runtime/core/half.h"
#include "tests/emulated/networks.h"
#include "tests/emulated/section_trial.h"

namespace lamina::kernels::cuda {
namespace {

using ir::Graph, ir::Value;
using tests::program_of;
using tests::Trial;

constexpr Precision kOthers[] = {Precision::tf32, Precision::tf32x3, Precision::bf16};

class InPrecision {
 public:
  explicit InPrecision(Precision precision) : before_(config::matmul_precision()) { config::set_matmul_precision(precision); }
  ~InPrecision() { config::set_matmul_precision(before_); }

 private:
  Precision before_;
};

// An operand as a product (or, in float32, a sum) uses it. 3xtf32 keeps it almost exactly.
double operand(float v, Precision precision) {
  if (precision == Precision::bf16) return float(bf16(v));
  if (precision == Precision::float32 || precision == Precision::tf32x3 || v == 0) return v;
  int exponent = 0;
  const double fraction = std::frexp(v, &exponent);
  return std::ldexp(std::round(std::ldexp(fraction, 11)), exponent - 11);
}
// Tolerance for a sum of `terms` products, relative to the sum of their sizes: a float rounding per instruction, and for 3xtf32 the dropped
// part.
double allowed(Precision precision, int terms) {
  return 0x1p-24 * (2 + terms / (precision == Precision::bf16 ? 16.0 : 8.0) * (precision == Precision::tf32x3 ? 4 : 1)) +
         (precision == Precision::tf32x3 ? 0x1p-21 : 0);
}

struct Sizes {
  int rows, k, n;
};
// Outputs: x w, dz w^T, x^T dz, and the sum of dz's rows. x, w and dz are Variables, so that they are among a trial's results.
Graph three_products(Sizes s, Precision precision) {
  Graph g;
  auto variable = [&](const char* name, Shape shape) { return ops::read(g, g.add_resource({name, {DType::f32, std::move(shape)}})); };
  const Value x = variable("x/w", {s.rows, s.k}), w = variable("w/w", {s.k, s.n}), dz = variable("dz/w", {s.rows, s.n});
  auto as_it_is = [](Shape shape) {
    Graph r;
    r.outputs = {r.add_input({DType::f32, std::move(shape)})};
    return std::make_shared<const Graph>(std::move(r));
  };
  const Value y = ops::dense(g, x, w, {}, section::Activation::none, 0, precision);
  const Value dx = ops::dense_grad_input(g, dz, w, {}, section::Activation::none, 0, precision);
  const Value dw = ops::dense_update(g, x, dz, {}, {}, as_it_is({s.k, s.n}), as_it_is({s.n}), precision);
  g.outputs = {y, dx, dw, {dw.node, 1}};
  return g;
}

// got[row, column] against the sum over k of a(row, k) b(k, column).
template <class A, class B>
void expect_product(const char* what, const std::vector<float>& got, int rows, int columns, int depth, Precision precision, const A& a,
                    const B& b) {
  ASSERT_EQ(got.size(), size_t(rows) * size_t(columns));
  const double bound = allowed(precision, depth);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) {
      double sum = 0, size = 0;
      for (int k = 0; k < depth; ++k) {
        const double term = operand(a(i, k), precision) * operand(b(k, j), precision);
        sum += term, size += std::fabs(term);
      }
      const double v = got[size_t(i) * size_t(columns) + size_t(j)];
      ASSERT_LE(std::fabs(v - sum), bound * size) << what << ", row " << i << ", column " << j << ": " << v << " for " << sum;
    }
}

void expect_products_of_rounded_operands(Sizes s, Precision precision, int blocks) {
  SCOPED_TRACE(cat(name(precision), ", ", s.rows, " rows, ", s.k, " x ", s.n, ", ", blocks, " blocks"));
  const auto program = tests::program_of(three_products(s, precision));
  ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  Trial trial(program);
  const auto plan = trial.plan(blocks);
  ASSERT_TRUE(plan->plan.tensor_cores);
  auto run = [&] {
    trial.run_blocks(*plan);
    const std::vector<float> x = trial.variable(0), w = trial.variable(1), dz = trial.variable(2);
    auto element = [](const std::vector<float>& m, int columns) {
      return [&m, columns](int i, int j) { return m[size_t(i * columns + j)]; };
    };
    auto transposed = [](auto of) { return [of](int i, int j) { return of(j, i); }; };
    expect_product("x w", trial.output(0), s.rows, s.n, s.k, precision, element(x, s.k), element(w, s.n));
    expect_product("dz w^T", trial.output(1), s.rows, s.k, s.n, precision, element(dz, s.n), transposed(element(w, s.n)));
    expect_product("x^T dz", trial.output(2), s.k, s.n, s.rows, precision, transposed(element(x, s.k)), element(dz, s.n));
    expect_product("sum of dz", trial.output(3), 1, s.n, s.rows, Precision::float32, [](int, int) { return 1.0f; }, element(dz, s.n));
  };
  if (races_are_checked())
    run();
  else
    in_every_order(run);
}

TEST(SectionOnTensorCores, MultipliesRoundedOperands) {
  std::vector<std::pair<Sizes, int>> cases{{{1, 1, 1}, 1}, {{3, 5, 7}, 2}, {{20, 16, 24}, 7}, {{9, 33, 17}, 2}};
  if (!races_are_checked())
    for (const auto& one : std::vector<std::pair<Sizes, int>>{
             {{37, 100, 10}, 1}, {{70, 64, 64}, 3}, {{20, 256, 256}, 9}, {{5, 300, 100}, 1}, {{130, 20, 200}, 2}})
      cases.push_back(one);
  for (Precision precision : kOthers)
    for (const auto& [sizes, blocks] : cases) expect_products_of_rounded_operands(sizes, precision, blocks);
}

// Precisions are really used: a coarser one has larger errors, and the plain kernel is not taken.
TEST(SectionOnTensorCores, EachPrecisionHasItsOwnError) {
  const Sizes s{8, 64, 32};
  Trial exact(program_of(three_products(s, Precision::float32)));
  const auto plan = exact.plan(2);
  EXPECT_FALSE(plan->plan.tensor_cores);
  exact.run_blocks(*plan);
  const auto want = exact.results();
  auto error = [&](Precision precision) {
    Trial trial(program_of(three_products(s, precision)));
    trial.run_blocks(*trial.plan(2));
    return tests::difference(want, trial.results());
  };
  const double tf32 = error(Precision::tf32), tf32x3 = error(Precision::tf32x3), bf16 = error(Precision::bf16);
  EXPECT_GT(bf16, 4 * tf32);
  EXPECT_GT(tf32, 100 * tf32x3);
  EXPECT_LT(tf32x3, 2e-6);
}

// A whole training step against the CPU's, which is float32. Each layer, forward and backward, and the update add at most two roundings of
// operands, relative to the sizes of the terms; these are a few times the result's.
double step_tolerance(Precision precision) {
  switch (precision) {
    case Precision::tf32: return 16 * 0x1p-11;
    case Precision::bf16: return 16 * 0x1p-8;
    default: return 1e-5;
  }
}

TEST(SectionOnTensorCores, TrainsASmallNet) {
  const Tensor x = tensor(std::vector<float>(size_t(10 * 40), 0.5f), {10, 40}), y = tensor(std::vector<float>(60, 1.0f), {10, 6});
  for (Precision precision : kOthers) {
    SCOPED_TRACE(name(precision));
    const InPrecision scope(precision);
    auto step = tests::small_net(std::make_shared<optim::SGD>(0.1, 0.9));
    const auto program = program_of(step.concrete(x, y).graph());
    ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
    Trial trial(program);
    int products = 0;
    for (const section::Step& s : trial.table().steps) {
      const bool product =
          s.kind == section::StepKind::dense || s.kind == section::StepKind::dense_grad_input || s.kind == section::StepKind::dense_update;
      EXPECT_EQ(s.precision, product ? precision : Precision::float32) << section::print(trial.table());
      products += product;
    }
    EXPECT_EQ(products, 5) << "two layers, one gradient of an input, two of weights";
    tests::expect_same(trial, {1, 6}, step_tolerance(precision));
  }
}

// Models of an ensemble, and layers of different precisions in one section.
TEST(SectionOnTensorCores, RunsEnsemblesAndMixedLayers) {
  const Variable first = per_model(tests::patterned({5, 12, 9}, 0.01f), "kernel"),
                 second = per_model(tests::patterned({5, 9, 9}, 0.01f), "kernel");
  const Tensor x = tensor(std::vector<float>(size_t(6 * 12), 0.5f), {6, 12});
  auto step = function([&](Tensor x) {
    return vmap(
        [&] {
          GradientTape tape;
          tape.watch(first), tape.watch(second);
          Tensor h;
          {
            const InPrecision scope(Precision::tf32);
            h = tanh(matmul(x, first));
          }
          const Tensor z = relu(matmul(h, second));  // float32
          Tensor cost;
          {
            const InPrecision scope(Precision::bf16);
            cost = mean(square(sigmoid(matmul(z, second))));
          }
          const auto gradients = tape.gradient(cost, std::vector<Variable>{first, second});
          first.assign_sub(gradients[0] * 0.1f), second.assign_sub(gradients[1] * 0.1f);
          return cost;
        },
        {.in_axes = {std::nullopt}})();
  });
  const auto program = program_of(step.concrete(x).graph());
  ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  const std::string text = program->instructions[0].detail;
  for (const char* part : {"dense tf32", "dense relu", "dense bf16", "replicas 5"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  Trial trial(program);
  tests::expect_same(trial, {1, 3}, step_tolerance(Precision::bf16));
}

}  // namespace
}  // namespace lamina::kernels::cuda
