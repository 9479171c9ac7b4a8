// Copies in the section kernel, against the CPU interpreter: views, joins and paddings.
#include <gtest/gtest.h>

#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/shape_functions.h"
#include "tests/emulated/emulated_backend.h"
#include "tests/emulated/networks.h"
#include "tests/emulated/section_trial.h"

namespace lamina::kernels::cuda {
namespace {

using section::BlockSection;
using tests::expect_same;
using tests::patterned;
using tests::program_of;
using tests::Trial;

// Of the only instruction.
section::BlockPlan plan_on_gpu(const ir::Graph& g) {
  const tests::EmulatedGpu gpu;
  const auto program =
      compile::compile(passes::optimize(g).graph,
                       {.device = parse_device("gpu:0"), .input_devices = {}, .variable_devices = {}, .sections = true, .threads = 0});
  EXPECT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  return static_cast<const BlockSection*>(program->instructions[0].kernel.args.get())->plan;
}

// Copies of views of values by rows: columns in any order and step, broadcasts, rows backwards. Those that keep the rows are shared by
// rows, and then no block waits.
TEST(SectionCopies, OfViewsGoByRowsIfTheyKeepThem) {
  std::mt19937 random(3);
  const auto upto = [&](int64_t n) { return int64_t(random() % unsigned(n)); };
  int copies = 0;
  for (int time = 0; time < 40; ++time) {
    const int64_t rows = 2 + upto(12), a = 2 + upto(6), b = 2 + upto(6);
    const bool backwards = upto(4) == 0;
    auto f = function([&](Tensor x) {
      const Tensor whole = reshape(x * 2.0f, {rows, a, b});
      Tensor sum = zeros({rows, 1});
      for (int k = 0; k < 3; ++k) {
        Tensor view = whole;
        const int64_t first = upto(b), step = 1 + upto(2);
        view = slice(view, {0, 0, first}, {rows, a, b}, {1, 1, step});
        if (upto(2) == 0) view = transpose(view, {0, 2, 1});
        if (upto(3) == 0) view = flip(view, {1});
        if (backwards) view = flip(view, {0});
        const int64_t n = view.shape()[1].number() * view.shape()[2].number();
        const Tensor dense = reshape(view, {rows, n});
        sum = sum + max(dense + 1.0f, {1}, true);
      }
      return sum;
    });
    const ir::Graph& g = f.concrete(patterned({rows, a * b}, 0.01f)).graph();
    SCOPED_TRACE(cat("case ", time, ": ", rows, " rows of ", a, " x ", b, backwards ? ", backwards" : ""));
    const section::BlockPlan plan = plan_on_gpu(g);
    for (const section::BlockStep& s : plan.steps) {
      if (s.kind != section::StepKind::copy) continue;
      EXPECT_EQ(int(s.partition), int(section::Partition::rows)) << section::print(plan);
      ++copies;
    }
    EXPECT_EQ(plan.waits.empty(), !backwards || plan.spines == 1) << section::print(plan);
    Trial trial(program_of(g));
    expect_same(trial, {1, 3, 7}, 0);
  }
  EXPECT_GT(copies, 60);
}

// Joins and paddings along any axis, of views too. Those that keep the rows are shared by rows, and then no block waits.
TEST(SectionCopies, ToPartsOfAResultGoByRowsIfTheyKeepThem) {
  std::mt19937 random(5);
  const auto upto = [&](int64_t n) { return int64_t(random() % unsigned(n)); };
  const DType dtypes[] = {DType::f32, DType::f64, DType::f32, DType::boolean, DType::i64};
  int by_rows = 0, others = 0, zeroed = 0, backwards = 0;
  for (int time = 0; time < 120; ++time) {
    const int64_t rows = 2 + upto(12), a = 1 + upto(5), b = 1 + upto(5);
    const size_t axis = size_t(upto(3));
    const DType dtype = dtypes[time % 5];
    const bool pads = time % 2 != 0;
    auto f = function([&](Tensor x) {
      const Tensor whole = astype(reshape(x * 50.0f, {rows, a, b}), dtype);
      Tensor made;
      if (pads) {
        std::vector<std::pair<int64_t, int64_t>> widths(3);
        widths[axis] = {upto(3), 1 + upto(2)};
        if (upto(2) == 0) widths[2].first += upto(4);
        made = pad(upto(2) == 0 ? flip(whole, {1}) : whole, widths);
        if (const int64_t kind = upto(4); dtype == DType::f32 && kind > 1) {  // with zeros between, or backwards
          std::vector<int64_t> begin(3), step(3, 1);
          begin[axis] = upto(2), step[axis] = 2;
          GradientTape tape;
          tape.watch(whole);
          const Tensor seen = kind == 2 ? slice(whole, begin, {rows, a, b}, step) : flip(whole, {int(axis)});
          made = tape.gradient(sum(square(seen)), whole)[0];
          backwards += kind == 3;
        }
      } else {
        std::vector<Tensor> parts;
        for (int64_t k = 2 + upto(9); k > 0; --k) {
          Tensor part = whole;
          if (upto(2) == 0) {
            std::vector<int64_t> begin(3), end{rows, a, b};
            begin[axis] = upto(end[axis]);
            part = slice(part, begin, end);
          }
          parts.push_back(upto(3) == 0 ? flip(part, {int(axis)}) : part);
        }
        made = concat(parts, int(axis));
      }
      const int64_t n = made.shape()[0].number(), m = made.shape()[1].number() * made.shape()[2].number();
      return astype(reshape(made, {n, m}), DType::f32) + max(x, {0, 1}, true);
    });
    const ir::Graph& g = f.concrete(patterned({rows, a * b}, 0.01f)).graph();
    SCOPED_TRACE(cat("case ", time, ": ", rows, " rows of ", a, " x ", b, ", axis ", axis, ", ", dtype));
    const section::BlockPlan plan = plan_on_gpu(g);
    for (const section::BlockStep& s : plan.steps) {
      if (s.kind != section::StepKind::copy || (s.ins == 1 && !s.zeroed)) continue;
      ++(s.partition == section::Partition::rows ? by_rows : others);
      zeroed += s.zeroed;
    }
    Trial trial(program_of(g));
    expect_same(trial, {1, 3, 7}, 0);
  }
  EXPECT_GT(by_rows, 20);
  EXPECT_GT(others, 10);
  EXPECT_GT(zeroed, 20);
  EXPECT_GT(backwards, 5);
}

}  // namespace
}  // namespace lamina::kernels::cuda
