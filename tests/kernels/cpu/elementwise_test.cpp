// The elementwise interpreter: every operand layout gives the bits of the contiguous one.
#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "kernels/cpu/elementwise_table.h"
#include "kernels/known_codes.h"
#include "runtime/core/config.h"
#include "runtime/core/error.h"
#include "tests/kernels/cpu/known_program.h"
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace lamina::kernels {
namespace {

ElementwiseCode binary(ScalarOp op, DType type = DType::f32) {
  return {
      .inputs = {type, type}, .constants = {}, .instructions = {{op, type, gives_bool(op) ? DType::boolean : type, 0, 1}}, .outputs = {2}};
}

std::vector<float> numbers(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> out(n);
  for (float& v : out) v = std::uniform_real_distribution<float>(-2, 2)(random);
  return out;
}
View view(std::vector<float>& data, std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t offset = 0) {
  View v;
  v.data = data.data() + offset;
  v.rank = int32_t(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) v.shape[i] = shape[i], v.strides[i] = strides[i];
  return v;
}
void run(const ElementwiseCode& code, std::vector<View> in, std::vector<View> out) {
  std::vector<const View*> ins, outs;
  for (const View& v : in) ins.push_back(&v);
  for (const View& v : out) outs.push_back(&v);
  Stream stream;
  cpu::elementwise(stream, ins, outs, code);
}

// One element at a time through the same interpreter.
float one(const ElementwiseCode& code, std::vector<float> in) {
  float out = 0;
  std::vector<const void*> pointers;
  for (float& v : in) pointers.push_back(&v);
  const std::vector<cpu::MatrixSteps> steps(in.size(), {true, true});
  void* to = &out;
  cpu::elementwise_matrix(code, pointers.data(), steps.data(), &to, 1, 0, 1);
  return out;
}

#if defined(__SSE2__)
TEST(ElementwiseKernel, ActivationsOfSmallValuesMultiplyNoSubnormalNumbers) {
  std::vector<float> x;
  for (int power = -100; power <= 1; ++power)
    for (float m : {1.0f, 1.17f, 1.5003f, 1.99f}) x.push_back(std::ldexp(m, power)), x.push_back(std::ldexp(-m, power));
  const std::vector<float> dy(x.size(), 1.25f);
  std::vector<float> y(x.size());
  for (ScalarOp op : {ScalarOp::tanh, ScalarOp::sigmoid, ScalarOp::silu, ScalarOp::gelu, ScalarOp::gelu_tanh, ScalarOp::elu,
                      ScalarOp::tanh_grad, ScalarOp::sigmoid_grad, ScalarOp::silu_grad, ScalarOp::gelu_grad, ScalarOp::gelu_tanh_grad}) {
    const bool is_gradient = op != ScalarOp::elu && operands(op) == 2;
    ElementwiseCode code{.inputs = {DType::f32}, .constants = {}, .instructions = {{op, DType::f32, DType::f32, 0}}, .outputs = {1}};
    if (operands(op) == 2) code = binary(op);
    std::vector<const void*> pointers = {is_gradient ? dy.data() : x.data()};
    if (operands(op) == 2) pointers.push_back(is_gradient ? x.data() : dy.data());
    const std::vector<cpu::MatrixSteps> steps(pointers.size(), {true, true});
    void* to = y.data();
    constexpr unsigned subnormal_operand = 2, subnormal_result = 16;  // flags of the processor
    _mm_setcsr(_mm_getcsr() & ~0x3fu);
    cpu::elementwise_matrix(code, pointers.data(), steps.data(), &to, 1, 0, int64_t(x.size()));
    EXPECT_EQ(_mm_getcsr() & (subnormal_operand | subnormal_result), 0u) << name(op);
  }
}
#endif

TEST(ElementwiseKernel, ReadsAndWritesViewsOfAnyStrides) {
  const ElementwiseCode code = binary(ScalarOp::sub);
  for (auto [rows, n] : std::vector<std::pair<int64_t, int64_t>>{{3, 5}, {7, 64}, {2, 700}, {40, 128}, {200, 3}, {1, 1}, {1, 9}, {9, 1}}) {
    std::vector<float> a = numbers(size_t(4 * rows * n), 1), b = numbers(size_t(4 * rows * n), 2), c(size_t(4 * rows * n), -7.0f);
    struct Layout {
      const char* name;
      int64_t row, column;
    };
    for (Layout x : {Layout{"plain", n, 1},
                     {"transposed", 1, rows},
                     {"spread", 2 * n, 2},
                     {"a row", 0, 1},
                     {"a column", 1, 0},
                     {"one number", 0, 0},
                     {"backwards", -n, -1}})
      for (Layout y : {Layout{"plain", n, 1}, {"transposed", 1, rows}, {"spread", 2 * n, 2}}) {
        SCOPED_TRACE(cat(rows, " x ", n, ", ", x.name, " to ", y.name));
        const int64_t start = x.row < 0 ? rows * n - 1 : 0;
        std::fill(c.begin(), c.end(), -7.0f);
        run(code, {view(a, {rows, n}, {n, 1}), view(b, {rows, n}, {x.row, x.column}, start)}, {view(c, {rows, n}, {y.row, y.column})});
        std::vector<float> want(c.size(), -7.0f);
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < n; ++j)
            want[size_t(i * y.row + j * y.column)] = a[size_t(i * n + j)] - b[size_t(start + i * x.row + j * x.column)];
        EXPECT_EQ(c, want);
      }
  }
}

TEST(ElementwiseKernel, AnOutputMayBeAnInput) {
  // t0 = a + b -> a's memory, t1 = a * b must still see the old a.
  ElementwiseCode code{.inputs = {DType::f32, DType::f32},
                       .constants = {},
                       .instructions = {{ScalarOp::add, DType::f32, DType::f32, 0, 1}, {ScalarOp::mul, DType::f32, DType::f32, 0, 1}},
                       .outputs = {2, 3}};
  for (int64_t n : {1, 5, 512, 3000}) {
    std::vector<float> a = numbers(size_t(n), 3), b = numbers(size_t(n), 4), sum(a), product(a);
    for (size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i], product[i] = a[i] * b[i];
    run(code, {view(a, {n}, {1}), view(b, {n}, {1})}, {view(a, {n}, {1}), view(b, {n}, {1})});
    EXPECT_EQ(a, sum);
    EXPECT_EQ(b, product);
  }
}

TEST(ElementwiseKernel, ExchangesTwoArrays) {
  const ElementwiseCode code{.inputs = {DType::f32, DType::f32},
                             .constants = {},
                             .instructions = {{ScalarOp::neg, DType::f32, DType::f32, 1}, {ScalarOp::neg, DType::f32, DType::f32, 0}},
                             .outputs = {2, 3}};
  std::vector<float> a = numbers(1000, 5), b = numbers(1000, 6);
  std::vector<float> want_a(b), want_b(a);
  for (float& v : want_a) v = -v;
  for (float& v : want_b) v = -v;
  run(code, {view(a, {1000}, {1}), view(b, {1000}, {1})}, {view(a, {1000}, {1}), view(b, {1000}, {1})});
  EXPECT_EQ(a, want_a);
  EXPECT_EQ(b, want_b);
}

TEST(ElementwiseKernel, OneResultMayBeWrittenTwice) {
  ElementwiseCode code = binary(ScalarOp::mul);
  code.outputs = {2, 2, 0};
  std::vector<float> a = numbers(700, 7), b = numbers(700, 8), x(700), y(700), z(700);
  run(code, {view(a, {700}, {1}), view(b, {700}, {1})}, {view(x, {700}, {1}), view(y, {700}, {1}), view(z, {700}, {1})});
  EXPECT_EQ(x, y);
  EXPECT_EQ(z, a);
  EXPECT_EQ(x[500], a[500] * b[500]);
}

TEST(ElementwiseKernel, VectorsMatchSingleElements) {
  const std::string isa = config::cpu_isa();
  std::vector<std::string> isas{"scalar"};
  if (config::best_cpu_isa() != "scalar") isas.push_back("avx2");
  if (config::best_cpu_isa() == "avx512") isas.push_back("avx512");
  for (ScalarOp op :
       {ScalarOp::exp, ScalarOp::log, ScalarOp::tanh, ScalarOp::sigmoid, ScalarOp::rsqrt, ScalarOp::sin, ScalarOp::relu, ScalarOp::sign}) {
    ElementwiseCode code{.inputs = {DType::f32}, .constants = {}, .instructions = {{op, DType::f32, DType::f32, 0}}, .outputs = {1}};
    std::vector<float> x(4099), first;
    std::mt19937 random(9);
    for (float& v : x) {
      uint32_t bits = uint32_t(random());  // any float: NaN, infinity and subnormal among them
      std::memcpy(&v, &bits, 4);
    }
    for (const std::string& name : isas) {
      config::set_cpu_isa(name);
      std::vector<float> y(x.size()), alone;
      run(code, {view(x, {4099}, {1})}, {view(y, {4099}, {1})});
      for (float v : x) alone.push_back(one(code, {v}));
      for (size_t i = 0; i < x.size(); ++i)
        EXPECT_TRUE(std::isnan(y[i]) ? std::isnan(alone[i]) : y[i] == alone[i]) << kernels::name(op) << "(" << x[i] << ") on " << name;
      if (first.empty()) first = y;
      for (size_t i = 0; i < x.size(); ++i)
        EXPECT_TRUE(std::isnan(y[i]) ? std::isnan(first[i]) : y[i] == first[i]) << kernels::name(op) << "(" << x[i] << ") on " << name;
    }
  }
  config::set_cpu_isa(isa);
}

TEST(ElementwiseKernel, RunsRepeatOperandsWithStepZero) {
  const ElementwiseCode code{.inputs = {DType::f32, DType::f32},
                             .constants = {{DType::f32, 3.0}},
                             .instructions = {{ScalarOp::mul, DType::f32, DType::f32, 1, 2}, {ScalarOp::sub, DType::f32, DType::f32, 0, 3}},
                             .outputs = {4}};
  for (int64_t n : {1, 7, 600}) {
    std::vector<float> a = numbers(size_t(n), 10), want;
    const float rate = 0.25f;
    for (float v : a) want.push_back(v - rate * 3.0f);
    const void* in[] = {a.data(), &rate};
    const cpu::MatrixSteps steps[] = {{true, true}, {false, false}};
    void* out[] = {a.data()};
    cpu::elementwise_matrix(code, in, steps, out, n, 0, n);
    EXPECT_EQ(a, want);
  }
}

// A rate as one number runs the compiled program; as an array of equal numbers, the interpreter.
#if defined(__SSE2__)
TEST(ElementwiseKernel, UpdatesTakeSubnormalNumbersAsZeroUnlessTheirSignCounts) {
  for (const KnownCode& known : known::kCodes) {
    SCOPED_TRACE(known.name);
    const ElementwiseCode code = code_of(known, {0.5, 0.5, 0.5});
    const std::vector<std::vector<float>> in(code.inputs.size(), std::vector<float>(40, 0x1p-130f));
    std::vector<std::vector<float>> out(code.outputs.size(), std::vector<float>(40, 7.0f));
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const auto& values : in) from.push_back(values.data());
    for (auto& values : out) to.push_back(values.data());
    std::vector<cpu::MatrixSteps> steps(in.size(), {true, true});
    for (size_t i = 0; i < steps.size(); ++i)
      if (known.numbers >> i & 1) steps[i] = {false, false};
    const unsigned before = _mm_getcsr() & 0x8040;
    cpu::elementwise_matrix(code, from.data(), steps.data(), to.data(), 40, 0, 40);
    EXPECT_EQ(_mm_getcsr() & 0x8040, before);
    const float moment = out[0][0];
    EXPECT_EQ(moment, std::string(known.name) == "Lion" ? 0x1p-130f : 0.0f);
  }
}
#endif

TEST(ElementwiseKernel, KnownProgramsHaveTheInterpretersBits) {
  for (int k = 0; k < kKnownCodes; ++k) {
    const ElementwiseCode code = code_of(known::kCodes[k], {0.9, 0.03, 1e-7});
    EXPECT_EQ(known_code(code), k);
    for (int64_t n : {1, 5, 64, 700, 3000}) {
      SCOPED_TRACE(cat(known::kCodes[k].name, ", ", n));
      const auto updated = [&](bool as_arrays, bool in_place, int row_of) {
        std::vector<std::vector<float>> inputs, outputs(code.outputs.size(), std::vector<float>(size_t(2 * n)));
        std::vector<View> in, out;
        for (uint32_t i = 0; i < code.inputs.size(); ++i) {
          inputs.push_back(numbers(size_t(2 * n), i));
          for (float& v : inputs.back()) v = i == 0 ? v : std::abs(v);  // sums of squares are not negative
          const bool number = known::kCodes[k].numbers >> i & 1, row = int(i) == row_of;
          if (number) std::fill(inputs.back().begin(), inputs.back().end(), 0.25f);
          if (row) std::copy_n(inputs.back().begin(), n, inputs.back().begin() + n);
          const int64_t step = number && !as_arrays ? 0 : 1;
          in.push_back(view(inputs[i], {2, n}, {step * (row && !as_arrays ? 0 : n), step}));
        }
        for (size_t o = 0; o < outputs.size(); ++o) {  // over the moments and w, if these are arrays
          const size_t over = o + 1 == outputs.size() ? inputs.size() - 1 : o + 1;
          const bool covers = in_place && !(known::kCodes[k].numbers >> over & 1) && int(over) != row_of;
          out.push_back(view(covers ? inputs[over] : outputs[o], {2, n}, {n, 1}));
        }
        run(code, in, out);
        for (size_t o = 0; o < outputs.size(); ++o) std::memcpy(outputs[o].data(), out[o].data, outputs[o].size() * sizeof(float));
        return outputs;
      };
      const auto wanted = updated(true, false, -1);
      EXPECT_EQ(updated(false, false, -1), wanted);
      EXPECT_EQ(updated(false, true, -1), wanted) << "in place";
      const auto of_row = updated(true, false, 0);
      EXPECT_EQ(updated(false, false, 0), of_row) << "the gradient has one row";
      EXPECT_EQ(updated(false, true, 0), of_row) << "in place, the gradient has one row";
    }
  }
}

TEST(ElementwiseKernel, OtherProgramsAreNotKnown) {
  const KnownCode& adam = known::kCodes[2];
  EXPECT_EQ(known_code(code_of(adam, {0.9, 0.03, 1e-7})), 2);
  for (size_t i = 0; i < size_t(adam.instructions); ++i) {
    ElementwiseCode code = code_of(adam, {0.9, 0.03, 1e-7});
    code.instructions[i].a = code.instructions[i].a == 0 ? 1 : 0;
    EXPECT_EQ(known_code(code), -1) << i;
    code = code_of(adam, {0.9, 0.03, 1e-7});
    code.instructions[i].op = ScalarOp::maximum;
    EXPECT_EQ(known_code(code), -1) << i;
    code = code_of(adam, {0.9, 0.03, 1e-7});
    code.instructions[i].type = DType::f64;
    EXPECT_EQ(known_code(code), -1) << i;
  }
  ElementwiseCode code = code_of(adam, {0.9, 0.03, 1e-7});
  std::swap(code.outputs[0], code.outputs[1]);
  EXPECT_EQ(known_code(code), -1);
  code.outputs.pop_back();
  EXPECT_EQ(known_code(code), -1);
}

TEST(ElementwiseKernel, ConvertsHalfTypesAsTheStorageTypesDo) {
  const std::string isa = config::cpu_isa();
  for (const std::string& name : std::vector<std::string>{"scalar", config::best_cpu_isa()}) {
    config::set_cpu_isa(name);
    const cpu::ElementwiseTable& table = cpu::elementwise_table();
    std::vector<uint16_t> halves(65536), back(65536);
    std::vector<float> floats(65536);
    for (size_t i = 0; i < halves.size(); ++i) halves[i] = uint16_t(i);
    table.f16_to_f32(65536, floats.data(), halves.data(), nullptr, nullptr);
    for (size_t i = 0; i < halves.size(); ++i)
      ASSERT_TRUE(std::isnan(floats[i]) ? std::isnan(f16_value(uint16_t(i))) : floats[i] == f16_value(uint16_t(i))) << i;
    table.bf16_to_f32(65536, floats.data(), halves.data(), nullptr, nullptr);
    for (size_t i = 0; i < halves.size(); ++i) ASSERT_TRUE(std::isnan(floats[i]) || floats[i] == bf16_value(uint16_t(i))) << i;
    std::mt19937 random(11);
    for (float& f : floats) {
      uint32_t bits = random() & 1 ? uint32_t(random()) : 0x38000000 + uint32_t(random() % 0x10000000);
      std::memcpy(&f, &bits, 4);
    }
    table.f32_to_f16(65536, back.data(), floats.data(), nullptr, nullptr);
    for (size_t i = 0; i < back.size(); ++i) ASSERT_EQ(back[i], f16_bits(floats[i])) << floats[i] << " on " << name;
    table.f32_to_bf16(65536, back.data(), floats.data(), nullptr, nullptr);
    for (size_t i = 0; i < back.size(); ++i) ASSERT_EQ(back[i], bf16_bits(floats[i])) << floats[i] << " on " << name;
    std::vector<float> rounded(65536);
    table.round_f16(65536, rounded.data(), floats.data(), nullptr, nullptr);
    for (size_t i = 0; i < back.size(); ++i)
      ASSERT_TRUE(std::isnan(floats[i]) || rounded[i] == f16_value(f16_bits(floats[i]))) << floats[i];
  }
  config::set_cpu_isa(isa);
}

TEST(ElementwiseKernel, EveryOperationHasALoopForItsTypes) {
  const cpu::ElementwiseTable& table = cpu::elementwise_table();
  for (int i = 0; i < kScalarOps; ++i) {
    const ScalarOp op = ScalarOp(i);
    if (op == ScalarOp::cast) continue;
    for (DType d : kDTypes) {
      if (is_rare(d)) continue;  // only converted
      const Domain where = domain(op);
      const bool takes = where == Domain::any || (where == Domain::boolean && d == DType::boolean) ||
                         (where == Domain::numeric && d != DType::boolean) || (where == Domain::floating && is_floating(d));
      EXPECT_TRUE(!takes || table.loops[i][int(cpu::compute_of(d))]) << name(op) << " of " << d;
    }
  }
}

}  // namespace
}  // namespace lamina::kernels
