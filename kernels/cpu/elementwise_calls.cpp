#include "kernels/cpu/elementwise_calls.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace lamina::kernels::cpu {
namespace {

constexpr int64_t kMostElements = 2048;  // larger operands are faster block by block through all instructions
constexpr int64_t kMostCopied = 16384;   // bytes; there is nothing to gain for more

template <class T>
void copy(int64_t n, void* out, const void* a, const void*, const void*) {
  if (n == 1) {  // a call would take longer
    *static_cast<T*>(out) = *static_cast<const T*>(a);
    return;
  }
  std::memcpy(out, a, size_t(n) * sizeof(T));
}
Loop copy_of(size_t width) {
  constexpr Loop loops[] = {copy<uint8_t>, copy<uint16_t>, copy<uint32_t>, copy<uint64_t>};
  return loops[width == 1 ? 0 : width == 2 ? 1 : width == 4 ? 2 : 3];
}
Loop fill_of(const ElementwiseTable& table, size_t width) { return table.fill[width == 1 ? 0 : width == 2 ? 1 : width == 4 ? 2 : 3]; }

// The loop of an instruction; null when it only copies.
Loop loop_of(const ElementwiseTable& table, const ElementwiseCode::Instruction& in) {
  if (in.op != ScalarOp::cast) return table.loops[int(in.op)][int(compute_of(in.type))];
  if (in.result == DType::boolean && in.type != DType::boolean) return table.to_bool[int(compute_of(in.type))];
  return table.casts[int(compute_of(in.type))][int(compute_of(in.result))];
}

// The loop of an operation and of the next one, which takes its result; null if there is none. `turned`: as second operand.
Loop pair_of(const ElementwiseTable& table, const ElementwiseCode::Instruction& first, const ElementwiseCode::Instruction& next,
             bool turned) {
  const auto number = [](ScalarOp op) { return std::find(std::begin(kPaired), std::end(kPaired), op) - std::begin(kPaired); };
  const auto p = number(first.op), q = number(next.op);
  const bool wide = first.type == DType::f64;
  if (p == std::ssize(kPaired) || q == std::ssize(kPaired) || (!wide && first.type != DType::f32) || next.type != first.type)
    return nullptr;
  return table.pairs[wide][p][q][turned];
}

}  // namespace

bool ElementwiseCalls::fits(const ElementwiseCode& code, int64_t n) {
  if (n <= 0 || n > kMostElements) return false;
  for (DType d : code.inputs)
    if (is_half(d)) return false;
  for (auto& [d, value] : code.constants)
    if (is_half(d)) return false;
  for (auto& in : code.instructions)
    if (is_half(in.type) || is_half(in.result) || (in.op != ScalarOp::cast && !loop_of(elementwise_table(), in))) return false;
  return true;
}

void ElementwiseCalls::call(Loop loop, int64_t n, const CallOperand& to, const CallOperand& a, const CallOperand& b, const CallOperand& c) {
  const uint32_t number = uint32_t(calls_.size());
  const CallOperand* operands[] = {&to, &a, &b, &c};
  for (uint32_t which = 0; which < 4; ++which)
    if (operands[which]->slice) moving_.push_back({number, which, operands[which]->slice});
  calls_.push_back({loop, n, {to.data, a.data, b.data, c.data}});
}

bool ElementwiseCalls::fits_copy(int64_t bytes) { return bytes > 0 && bytes <= kMostCopied; }

void ElementwiseCalls::add_copy(const CallOperand& in, const CallOperand& out, int64_t bytes) {
  const size_t width = bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : 1;
  call(copy_of(width), bytes / int64_t(width), out, in);
}

void ElementwiseCalls::add(const ElementwiseCode& code, const std::vector<CallOperand>& in, const std::vector<CallOperand>& out,
                           int64_t n) {
  const ElementwiseTable& table = elementwise_table();
  const size_t inputs = code.inputs.size(), first_result = inputs + code.constants.size();
  std::vector<CallOperand> registers(first_result + code.instructions.size());
  auto memory = [&](DType d) {
    scratch_.emplace_back(size_t(n) * lamina::size_of(d) + 64);
    return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(scratch_.back().data()) + 63) & ~uintptr_t(63));
  };
  for (size_t i = 0; i < inputs; ++i) {
    registers[i] = in[i];
    if (!in[i].scalar || n == 1) continue;
    const Loop fill = fill_of(table, lamina::size_of(code.inputs[i]));
    registers[i] = {.data = memory(code.inputs[i])};
    if (in[i].fixed)
      fill(n, registers[i].data, in[i].data, nullptr, nullptr);
    else
      call(fill, n, registers[i], in[i]);
  }
  for (size_t c = 0; c < code.constants.size(); ++c) {
    auto [d, value] = code.constants[c];
    alignas(8) char element[8] = {};
    with_dtype(d, [&]<class T>() {
      if constexpr (!std::is_same_v<T, f16> && !std::is_same_v<T, bf16>) {
        const T x = element_of<T>(value);
        std::memcpy(element, &x, sizeof(T));
      }
    });
    registers[inputs + c] = {.data = memory(d)};
    fill_of(table, lamina::size_of(d))(n, registers[inputs + c].data, element, nullptr, nullptr);
  }
  // A result may be computed directly in an output's memory unless an input or another output there is read later.
  auto last_read = [&](size_t r) {
    int last = -1;
    for (size_t k = 0; k < code.instructions.size(); ++k) {
      const auto& i = code.instructions[k];
      if (size_t(i.a) == r || (operands(i.op) > 1 && size_t(i.b) == r) || (operands(i.op) > 2 && size_t(i.c) == r)) last = int(k);
    }
    return std::find(code.outputs.begin(), code.outputs.end(), int16_t(r)) == code.outputs.end() ? last : int(code.instructions.size());
  };
  auto direct = [&](size_t o) {
    const size_t r = size_t(code.outputs[o]);
    if (r < first_result || registers[r].data) return false;
    for (size_t i = 0; i < inputs; ++i)
      if (in[i].data == out[o].data && registers[i].data == in[i].data && last_read(i) > int(r - first_result)) return false;
    return true;
  };
  for (size_t o = 0; o < out.size(); ++o)
    if (direct(o)) registers[size_t(code.outputs[o])] = out[o];
  const CallOperand none;
  for (size_t k = 0; k < code.instructions.size(); ++k) {
    const auto& i = code.instructions[k];
    const size_t result = first_result + k;
    if (k + 1 < code.instructions.size() && last_read(result) == int(k) + 1) {  // the next one may compute both
      const auto& next = code.instructions[k + 1];
      const bool as_first = size_t(next.a) == result, as_second = operands(next.op) > 1 && size_t(next.b) == result;
      if (const Loop loop = as_first != as_second ? pair_of(table, i, next, as_second) : nullptr) {
        CallOperand& to = registers[result + 1];
        if (!to.data) to = {.data = memory(next.result)};
        call(loop, n, to, registers[size_t(i.a)], registers[size_t(i.b)], registers[size_t(as_first ? next.b : next.a)]);
        ++k;
        continue;
      }
    }
    CallOperand& to = registers[result];
    if (!to.data) to = {.data = memory(i.result)};
    const Loop loop = loop_of(table, i);
    call(loop ? loop : copy_of(lamina::size_of(i.result)), n, to, registers[size_t(i.a)],
         operands(i.op) > 1 ? registers[size_t(i.b)] : none, operands(i.op) > 2 ? registers[size_t(i.c)] : none);
  }
  for (size_t o = 0; o < out.size(); ++o) {
    const CallOperand& from = registers[size_t(code.outputs[o])];
    if (from.data != out[o].data) call(copy_of(lamina::size_of(code.register_type(code.outputs[o]))), n, out[o], from);
  }
}

}  // namespace lamina::kernels::cpu
