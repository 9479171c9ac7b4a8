#include "kernels/elementwise_source.h"

#include <algorithm>
#include <cstring>

#include "runtime/core/error.h"

namespace lamina::kernels {
namespace {

const char* stored(DType d) { return is_half(d) ? "unsigned short" : computed_type(d); }

constexpr const char* kHalves =
    R"(__device__ __forceinline__ float from_f16(unsigned short h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
__device__ __forceinline__ unsigned short to_f16(float f) { unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
__device__ __forceinline__ float from_bf16(unsigned short h) { return __int_as_float(int(unsigned(h) << 16)); }
__device__ __forceinline__ unsigned short to_bf16(float f) {
  const unsigned x = unsigned(__float_as_int(f));
  return (x & 0x7fffffffu) > 0x7f800000u ? (x >> 16) | 0x40u : (x + 0x7fffu + ((x >> 16) & 1u)) >> 16;
}
)";

}  // namespace

const char* computed_type(DType d) {
  switch (d) {
    case DType::boolean:
    case DType::u8: return "unsigned char";
    case DType::i8: return "signed char";
    case DType::i16: return "short";
    case DType::i32: return "int";
    case DType::i64: return "long long";
    case DType::f64: return "double";
    default: return "float";
  }
}

std::string constant_text(DType type, double value) {
  if (type == DType::f64) {
    unsigned long long bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return cat("scalar::wide::value(", bits, "ull)");
  }
  if (is_floating(type)) {
    float number = float(value);
    if (type == DType::f16) number = f16(number);
    if (type == DType::bf16) number = bf16(number);
    unsigned bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    return cat("scalar::float_of(int(", bits, "u))");
  }
  if (type == DType::boolean) return value != 0 ? "1" : "0";
  return with_dtype(type, [&]<class T>() {
    const T number = T(value);
    return cat("(", computed_type(type), ")(", static_cast<unsigned long long>(static_cast<long long>(number)), "ull)");
  });
}

std::string expression_text(const ElementwiseCode::Instruction& in) {
  if (in.op == ScalarOp::cast)
    return in.result == DType::boolean ? cat("scalar::to_bool(r", in.a, ")")
           : is_half(in.result)        ? cat("scalar::cut_to_float(r", in.a, ")")
                                       : cat("scalar::cast<", computed_type(in.result), ">(r", in.a, ")");
  std::string value = cat("scalar::", name(in.op), "(r", in.a);
  if (operands(in.op) > 1) value += cat(", r", in.b);
  if (operands(in.op) > 2) value += cat(", r", in.c);
  return value + ")";
}

std::string elementwise_name(const ElementwiseCode& code) {
  std::string text = "fused";
  for (size_t i = 0; i < std::min<size_t>(6, code.instructions.size()); ++i) text += cat("_", name(code.instructions[i].op));
  if (code.instructions.size() > 6) text += cat("_and_", code.instructions.size() - 6, "_more");
  return text;
}

std::string elementwise_source(const ElementwiseCode& code, const ElementwiseLayout& layout, const std::string& kernel) {
  const int inputs = int(code.inputs.size()), constants = int(code.constants.size()), outputs = int(code.outputs.size());
  bool halves = false;
  for (DType d : code.inputs) halves = halves || is_half(d);
  for (const auto& in : code.instructions) halves = halves || is_half(in.result);
  std::string text = cat("// ", print(code), "\n#include \"kernels/shared/scalar_ops.h\"\nnamespace scalar = lamina::kernels::scalar;\n",
                         halves ? kHalves : "");
  if (layout.rank) text += "struct Space { long long shape[8]; long long strides[24][8]; };\n";
  text += cat("extern \"C\" __global__ void __launch_bounds__(256) ", kernel, "(");
  for (int k = 0; k < inputs; ++k) text += cat("const ", stored(code.inputs[size_t(k)]), "* in", k, ", ");
  for (int o = 0; o < outputs; ++o) text += cat(stored(code.register_type(code.outputs[size_t(o)])), "* out", o, ", ");
  text += cat("long long size", layout.rank ? ", const __grid_constant__ Space space" : "", ") {\n");
  text += "  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < size; i += gridDim.x * 256ll) {\n";
  if (layout.rank) {
    text += "    long long rest = i;\n";
    for (int a = layout.rank - 1; a >= 0; --a)
      text += a ? cat("    const long long i", a, " = rest % space.shape[", a, "]; rest /= space.shape[", a, "];\n")
                : std::string("    const long long i0 = rest;\n");
  }
  auto place = [&](Access access, int operand) {
    if (access == Access::linear) return std::string("i");
    if (access == Access::repeated) return std::string("0");
    std::string sum;
    for (int a = 0; a < layout.rank; ++a) sum += cat(a ? " + " : "", "i", a, " * space.strides[", operand, "][", a, "]");
    return sum;
  };
  auto widened = [](DType d, const std::string& from) {
    return d == DType::f16 ? "from_f16(" + from + ")" : d == DType::bf16 ? "from_bf16(" + from + ")" : from;
  };
  auto narrowed = [](DType d, const std::string& from) {
    return d == DType::f16 ? "to_f16(" + from + ")" : d == DType::bf16 ? "to_bf16(" + from + ")" : from;
  };
  for (int k = 0; k < inputs; ++k) {
    const DType d = code.inputs[size_t(k)];
    text += cat("    const ", computed_type(d), " r", k, " = ", widened(d, cat("in", k, "[", place(layout.in[size_t(k)], k), "]")), ";\n");
  }
  for (int c = 0; c < constants; ++c)
    text += cat("    const ", computed_type(code.constants[size_t(c)].first), " r", inputs + c, " = ",
                constant_text(code.constants[size_t(c)].first, code.constants[size_t(c)].second), ";\n");
  for (size_t k = 0; k < code.instructions.size(); ++k) {
    const auto& in = code.instructions[k];
    std::string value = expression_text(in);
    if (is_half(in.result)) value = widened(in.result, narrowed(in.result, value));
    text += cat("    const ", computed_type(in.result), " r", inputs + constants + int(k), " = ", value, ";\n");
  }
  for (int o = 0; o < outputs; ++o) {
    const int r = code.outputs[size_t(o)];
    text += cat("    out", o, "[", place(layout.out[size_t(o)], inputs + o), "] = ", narrowed(code.register_type(r), cat("r", r)), ";\n");
  }
  return text + "  }\n}\n";
}

}  // namespace lamina::kernels
