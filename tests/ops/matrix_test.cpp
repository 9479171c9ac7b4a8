// Every op with every dtype, called by user functions eagerly and traced. A dtype that an op's shape rule refuses is an error with a
// reason, which is printed; an accepted one must run.
#include <gtest/gtest.h>

#include <cstdio>

#include "graph/frontend/eager.h"
#include "graph/frontend/typed_function.h"
#include "runtime/core/error.h"
#include "tests/ops/op_case.h"

namespace lamina {
namespace {

using Bits = tests::Tensor;

const std::vector<DType> kAll{DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64,
                              DType::i32, DType::i16, DType::i8,  DType::u8,   DType::boolean};

Bits bits_of(const Tensor& t) {
  Bits out(t.type());
  copy_to_host(out.raw(), t.buffer(), 0, out.byte_count());
  return out;
}

// A refusal must name the op and the tensor.
std::string general(const Error::Parts& parts, const std::string& op) {
  std::string reason = parts.why.empty() ? parts.what : parts.why;
  for (size_t at = reason.find(op); at != std::string::npos; at = reason.find(op, at + 2)) reason.replace(at, op.size(), "it");
  return reason;
}

struct Outcome {
  std::string refused;  // by the shape rule
  std::string wrong;
};

Outcome call(const ir::OpDef& op, const tests::OpCase& c, DType dtype) {
  const std::vector<tests::CaseInput> in = tests::inputs_as(c, dtype);
  std::vector<Bits> given;
  std::vector<Tensor> inputs;
  ir::Graph g;
  for (size_t i = 0; i < in.size(); ++i) {
    given.push_back(tests::random_tensor(in[i], 1000 + i));
    inputs.emplace_back(copy_from_host(default_device(), given.back().raw(), given.back().byte_count()),
                        std::make_shared<const TensorType>(in[i].type));
    g.add_input(in[i].type);
  }
  ir::Value first;
  try {
    first = g.add(op, c.attrs, g.inputs, c.regions);
  } catch (const Error& error) {
    return {general(error.parts, op.name), ""};
  }
  try {
    for (size_t r = 0; r < g[first].types.size(); ++r) g.outputs.push_back({first.node, int(r)});
    const std::vector<Bits> want = tests::evaluate(g, given);
    const std::vector<Tensor> eager = apply(op, c.attrs, inputs, {}, c.regions);
    const std::vector<Tensor> traced = function([&](std::vector<Tensor> x) { return apply(op, c.attrs, x, {}, c.regions); })(inputs);
    for (size_t r = 0; r < want.size(); ++r) {
      if (!bits_of(eager[r]).same_bits(want[r])) return {"", cat("result ", r, " of the eager call differs from the kernel's")};
      if (!(traced[r].type() == eager[r].type()))
        return {"", cat("result ", r, " is ", eager[r].type(), " eagerly, ", traced[r].type(), " traced")};
      // Optimised code may round differently: within the case's own tolerance.
      if (!bits_of(traced[r]).same_bits(want[r]))
        tests::expect_close(bits_of(traced[r]), want[r].values(), 2 * c.ulps, c.of_largest,
                            cat(op.name, ", ", c.name, ", ", dtype, ", traced"));
    }
    return {};
  } catch (const Error& error) {
    return {"", error.what()};
  }
}

// Not comparable in double precision: wrapping integers, inputs that must be sorted. The next test checks them.
const std::set<std::string> kByHand{"bitwise_not:u8", "neg:u8", "searchsorted:bool", "searchsorted:u8"};

std::vector<double> values_of(const char* op, const std::vector<std::vector<double>>& in, DType dtype, ir::AttrsRef attrs = nullptr) {
  ir::Graph g;
  std::vector<Bits> inputs;
  for (const std::vector<double>& values : in) {
    inputs.push_back(Bits::from({dtype, {int64_t(values.size())}}, values));
    g.add_input(inputs.back().type);
  }
  g.outputs = {g.add(ir::find_op(op), std::move(attrs), g.inputs)};
  return tests::evaluate(g, inputs)[0].values();
}

TEST(OpTable, UnsignedIntegersWrapAndSearchSupportsSmallDtypes) {
  using Values = std::vector<double>;
  EXPECT_EQ(values_of("neg", {{0, 1, 255}}, DType::u8), (Values{0, 255, 1}));
  EXPECT_EQ(values_of("bitwise_not", {{0, 1, 255}}, DType::u8), (Values{255, 254, 0}));
  EXPECT_EQ(values_of("searchsorted", {{3, 3, 200, 255}, {0, 3, 4, 200, 255}}, DType::u8), (Values{0, 0, 2, 2, 3}));
  EXPECT_EQ(values_of("searchsorted", {{0, 0, 1}, {0, 1}}, DType::boolean), (Values{0, 2}));
}

TEST(OpTable, EveryOpTakesEveryDtypeEagerlyAndTracedOrSaysWhyNot) {
  std::map<std::string, std::string> skips;  // reason -> ops and dtypes
  std::string unchecked;
  int ran = 0, refused = 0;
  for (const auto& [name, make] : tests::cases_of_ops()) {
    const ir::OpDef& op = ir::find_op(name);
    const std::vector<tests::OpCase> cases = make();
    // The smallest case with all inputs.
    const tests::OpCase* chosen = nullptr;
    auto takes_f32 = [](const tests::OpCase& c) {
      return std::any_of(c.in.begin(), c.in.end(), [](const tests::CaseInput& i) { return i.type.dtype == DType::f32; });
    };
    for (const tests::OpCase& c : cases)
      if (!chosen || (!takes_f32(*chosen) && takes_f32(c))) chosen = &c;
    for (DType dtype : kAll) {
      const Outcome out = call(op, *chosen, dtype);
      EXPECT_EQ(out.wrong, "") << name << ", " << chosen->name << ", " << dtype;
      if (out.refused.empty()) {
        ++ran;
        bool compared = !takes_f32(*chosen);
        for (const tests::OpCase& c : cases) compared = compared || std::find(c.dtypes.begin(), c.dtypes.end(), dtype) != c.dtypes.end();
        if (!compared && !kByHand.contains(cat(name, ':', dtype))) unchecked += cat(' ', name, ':', dtype);
      } else {
        ++refused;
        skips[out.refused] += cat(' ', name, ':', dtype);
      }
      if (!takes_f32(*chosen)) break;  // its dtypes are fixed, or attributes
    }
  }
  for (const auto& [reason, where] : skips) std::printf("refused: %s:%s\n", reason.c_str(), where.c_str());
  std::printf("%d ran eagerly and traced, %d refused for the reasons above\n", ran, refused);
  EXPECT_EQ(unchecked, "") << "dtypes that an op takes and no case compares with a reference";
}

}  // namespace
}  // namespace lamina
