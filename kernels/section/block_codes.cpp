#include "kernels/section/block_codes.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "kernels/section/block_table.h"

namespace lamina::section {
namespace {

using kernels::ElementwiseCode;

bool has_type(DType t) { return t == DType::f32 || t == DType::f64 || t == DType::i32 || t == DType::i64 || t == DType::boolean; }

// Where the values of a code are: in as few registers as its instructions need at once.
struct Registers {
  explicit Registers(const ElementwiseCode& c) : inputs_(int(c.inputs.size())), constants_(int(c.constants.size())) {
    const int given = inputs_ + constants_, values = given + int(c.instructions.size());
    std::vector<int> last(size_t(values), -1);  // instruction that reads the value last
    for (size_t i = 0; i < c.instructions.size(); ++i) {
      const auto& in = c.instructions[i];
      const int count = kernels::operands(in.op);
      last[size_t(in.a)] = int(i);
      if (count > 1) last[size_t(in.b)] = int(i);
      if (count > 2) last[size_t(in.c)] = int(i);
    }
    for (int r : c.outputs) last[size_t(r)] = values;
    of_.resize(size_t(values));
    std::vector<int> free;
    for (int i = 0; i < inputs_; ++i) of_[size_t(i)] = i;
    count = inputs_;
    for (int i = 0; i < int(c.instructions.size()); ++i) {
      for (int v = 0; v < given + i; ++v)
        if (last[size_t(v)] == i && !is_constant(v)) free.push_back(of_[size_t(v)]);
      if (free.empty()) free.push_back(count++);
      of_[size_t(given + i)] = free.back();
      free.pop_back();
    }
  }
  int count = 0;
  int of(int value) const { return is_constant(value) ? ~(value - inputs_) : of_[size_t(value)]; }

 private:
  bool is_constant(int value) const { return value >= inputs_ && value < inputs_ + constants_; }
  int inputs_, constants_;
  std::vector<int> of_;
};

}  // namespace

const char* why_not_on_blocks(const ElementwiseCode& code) {
  constexpr const char* types = "an elementwise code of a type other than f32, f64, i32, i64 and bool";
  for (DType t : code.inputs)
    if (!has_type(t)) return types;
  for (const auto& [t, value] : code.constants)
    if (!has_type(t)) return types;
  for (const auto& i : code.instructions) {
    if (!has_type(i.type) || !has_type(i.result)) return types;
    if (!block_computes(i.op, i.type)) return "an operation on whole numbers, bools or doubles that the section kernel does not have";
  }
  if (std::max(code.inputs.size() + code.constants.size() + code.instructions.size(), code.outputs.size()) > size_t(kMostRegisters))
    return "more than 48 values in one elementwise code";
  return nullptr;
}

namespace {
bool is_loss_gradient(const ElementwiseCode& code) {
  using kernels::ScalarOp;
  if (code.inputs != std::vector<DType>{DType::i32, DType::i32, DType::f32} || code.constants.size() != 1 ||
      code.constants[0].first != DType::f32 || code.instructions.size() != 4 || code.outputs != std::vector<int16_t>{7})
    return false;
  const auto& [hit, number, difference, product] =
      std::tie(code.instructions[0], code.instructions[1], code.instructions[2], code.instructions[3]);
  return hit.op == ScalarOp::equal && hit.type == DType::i32 && hit.a == 0 && hit.b == 1 && number.op == ScalarOp::cast && number.a == 4 &&
         number.result == DType::f32 && difference.op == ScalarOp::sub && difference.a == 2 && difference.b == 5 &&
         product.op == ScalarOp::mul && product.type == DType::f32 && product.a == 6 && product.b == 3;
}
}  // namespace

int8_t known(const ElementwiseCode& code) {
  if (is_loss_gradient(code)) return kLossGradient;
  if (code.inputs == std::vector{DType::f32} && code.instructions.empty() && code.outputs == std::vector<int16_t>{0}) return kStored;
  const auto is_float = [](const auto& of) { return of.result == DType::f32; };
  const bool all =
      std::ranges::count(code.inputs, DType::f32) == std::ptrdiff_t(code.inputs.size()) && std::ranges::all_of(code.instructions, is_float);
  return all ? int8_t(kernels::known_code(code)) : kInterpreted;
}

void append_code(const ElementwiseCode& c, std::vector<int32_t>& to) {
  auto word = [&](int64_t v) { to.push_back(int32_t(v)); };
  bool wide = false;
  auto see = [&](DType t) { wide = wide || size_of(t) == 8; };
  for (DType t : c.inputs) see(t);
  for (const auto& [t, value] : c.constants) see(t);
  for (const auto& i : c.instructions) see(i.type), see(i.result);
  const Registers registers(c);
  word(int64_t(c.inputs.size())), word(int64_t(c.constants.size())), word(int64_t(c.instructions.size())), word(int64_t(c.outputs.size())),
      word(registers.count), word(wide);
  for (DType t : c.inputs) word(int64_t(t));
  for (const auto& [t, value] : c.constants) {
    uint64_t bits = 0;
    if (t == DType::f32) {
      const float f = float(value);
      std::memcpy(&bits, &f, 4);
    } else if (t == DType::f64) {
      std::memcpy(&bits, &value, 8);
    } else {
      bits = t == DType::boolean ? uint64_t(value != 0) : uint64_t(int64_t(value));
    }
    word(int64_t(t)), word(int64_t(uint32_t(bits))), word(int64_t(uint32_t(bits >> 32)));
  }
  for (size_t i = 0; i < c.instructions.size(); ++i) {
    const auto& in = c.instructions[i];
    word(int64_t(in.op) | int64_t(in.type) << 8 | int64_t(in.result) << 16);
    const int count = kernels::operands(in.op);
    for (int o = 0; o < 3; ++o) word(registers.of(o == 1 && count > 1 ? in.b : o == 2 && count > 2 ? in.c : in.a));
    word(registers.of(int(c.inputs.size() + c.constants.size() + i)));
  }
  for (int16_t r : c.outputs) word(registers.of(r)), word(int64_t(c.register_type(r)));
}

}  // namespace lamina::section
