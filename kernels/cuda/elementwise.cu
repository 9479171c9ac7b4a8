// Interprets elementwise programs: a thread runs all instructions on one element, in step with its warp. Its virtual registers are in local
// memory, which stays in L1. Memory-bound for programs of a few instructions.
#include "kernels/elementwise.h"

#include "kernels/cuda/element.h"
#include "kernels/elementwise_program.h"
#include "kernels/gpu_kernel.h"
#include "kernels/shared/scalar_ops.h"
#include "runtime/core/error.h"

namespace lamina::kernels::cuda {
namespace {

using Program = ElementwiseProgram;

// A register; f16 and bf16 are computed as floats, a bool is a u8.
union Word {
  unsigned long long bits;
  unsigned char u8;
  signed char i8;
  short i16;
  int i32;
  int64_t i64;
  float f32;
  double f64;
};
LAMINA_DEVICE unsigned char& member(Word& w, unsigned char) { return w.u8; }
LAMINA_DEVICE signed char& member(Word& w, signed char) { return w.i8; }
LAMINA_DEVICE short& member(Word& w, short) { return w.i16; }
LAMINA_DEVICE int& member(Word& w, int) { return w.i32; }
LAMINA_DEVICE int64_t& member(Word& w, int64_t) { return w.i64; }
LAMINA_DEVICE float& member(Word& w, float) { return w.f32; }
LAMINA_DEVICE double& member(Word& w, double) { return w.f64; }
template <class T>
LAMINA_DEVICE Word word(T v) {
  Word w;
  w.bits = 0;
  member(w, T()) = v;
  return w;
}
template <class T>
LAMINA_DEVICE T value(Word w) {
  return member(w, T());
}

template <ScalarOp op, class T>
constexpr bool takes() {
  constexpr Domain d = domain(op);
  constexpr bool floating = scalar::is_float<T>;
  if (d == Domain::floating) return floating;
  if (d == Domain::integer || d == Domain::bits) return !floating;
  if (d == Domain::boolean) return sizeof(T) == 1 && !scalar::is_signed<T>;
  return true;
}
template <ScalarOp op, class T>
LAMINA_DEVICE Word apply_one([[maybe_unused]] Word first, [[maybe_unused]] Word second, [[maybe_unused]] Word third) {
  if constexpr (!takes<op, T>()) {
    return first;  // refused by the shape rule
  } else if constexpr (op == ScalarOp::where) {
    return word(scalar::where(first.u8, value<T>(second), value<T>(third)));
  } else {
    [[maybe_unused]] const T a = value<T>(first), b = value<T>(second), c = value<T>(third);
#define ELEMENTWISE(name, operands, ...) \
  if constexpr (op == ScalarOp::name) return word(LAMINA_SCALAR_CALL(name, operands));
#include "kernels/shared/elementwise_ops.inc"
  }
}
template <class T>
LAMINA_DEVICE_CALL Word apply(ScalarOp op, Word a, Word b, Word c) {
  switch (op) {
#define ELEMENTWISE(name, ...) \
  case ScalarOp::name: return apply_one<ScalarOp::name, T>(a, b, c);
#include "kernels/shared/elementwise_ops.inc"
    case ScalarOp::cast: break;
  }
  return a;
}

template <class From>
LAMINA_DEVICE Word cast_from(Word x, DType to) {
  const From v = value<From>(x);
  switch (to) {
    case DType::boolean: return word(scalar::to_bool(v));
    case DType::u8: return word(scalar::cast<unsigned char>(v));
    case DType::i8: return word(scalar::cast<signed char>(v));
    case DType::i16: return word(scalar::cast<short>(v));
    case DType::i32: return word(scalar::cast<int>(v));
    case DType::i64: return word(scalar::cast<int64_t>(v));
    case DType::f64: return word(scalar::cast<double>(v));
    case DType::f32: return word(scalar::cast<float>(v));
    default: return word(scalar::cut_to_float(v));
  }
}

LAMINA_DEVICE Word execute(const Program::Instruction& in, Word a, Word b, Word c) {
#define LAMINA_EXECUTE(T) (in.op == ScalarOp::cast ? cast_from<T>(a, in.result) : apply<T>(in.op, a, b, c))
  Word r;
  switch (in.type) {
    case DType::boolean:
    case DType::u8: r = LAMINA_EXECUTE(unsigned char); break;
    case DType::i8: r = LAMINA_EXECUTE(signed char); break;
    case DType::i16: r = LAMINA_EXECUTE(short); break;
    case DType::i32: r = LAMINA_EXECUTE(int); break;
    case DType::i64: r = LAMINA_EXECUTE(int64_t); break;
    case DType::f64: r = LAMINA_EXECUTE(double); break;
    default: r = LAMINA_EXECUTE(float); break;
  }
#undef LAMINA_EXECUTE
  if (in.result == DType::f16) r = word(widen(narrow<f16>(r.f32)));
  if (in.result == DType::bf16) r = word(widen(narrow<bf16>(r.f32)));
  return r;
}

LAMINA_DEVICE Word read(const char* data, DType type, int64_t i) {
  switch (type) {
    case DType::boolean:
    case DType::u8:
    case DType::i8: return word(reinterpret_cast<const unsigned char*>(data)[i]);
    case DType::i16: return word(reinterpret_cast<const short*>(data)[i]);
    case DType::f16: return word(widen(reinterpret_cast<const f16*>(data)[i]));
    case DType::bf16: return word(widen(reinterpret_cast<const bf16*>(data)[i]));
    case DType::i32:
    case DType::f32: return word(reinterpret_cast<const int*>(data)[i]);
    default: return word(reinterpret_cast<const int64_t*>(data)[i]);
  }
}
LAMINA_DEVICE void write(char* data, DType type, int64_t i, Word w) {
  switch (type) {
    case DType::boolean:
    case DType::u8:
    case DType::i8: reinterpret_cast<unsigned char*>(data)[i] = w.u8; return;
    case DType::i16: reinterpret_cast<short*>(data)[i] = w.i16; return;
    case DType::f16: reinterpret_cast<f16*>(data)[i] = narrow<f16>(w.f32); return;
    case DType::bf16: reinterpret_cast<bf16*>(data)[i] = narrow<bf16>(w.f32); return;
    case DType::i32:
    case DType::f32: reinterpret_cast<int*>(data)[i] = w.i32; return;
    default: reinterpret_cast<int64_t*>(data)[i] = w.i64; return;
  }
}

struct Operand {
  char* data = nullptr;
  bool linear = true;  // whether element i of the result uses element i
  int64_t strides[kMaxRank] = {};
};
struct Call {
  Program program;
  Operand in[Program::kInputs], out[Program::kOutputs];
  int64_t size = 1;
  int rank = 0;
  int64_t shape[kMaxRank] = {};
  bool linear = true;  // whether all operands are linear
};
static_assert(sizeof(Call) <= 4096, "a kernel's arguments");

LAMINA_KERNEL(256) elementwise_program(Call call) {
  const Program& p = call.program;
  const int first_result = p.inputs + p.constants;
  for (int64_t i = first_element(); i < call.size; i += all_threads()) {
    int64_t index[kMaxRank];
    if (!call.linear) {
      int64_t rest = i;
      for (int a = call.rank - 1; a >= 0; --a) {
        const int64_t next = call.size <= 0x7fffffff ? int64_t(unsigned(rest) / unsigned(call.shape[a])) : rest / call.shape[a];
        index[a] = rest - next * call.shape[a];
        rest = next;
      }
    }
    auto place = [&](const Operand& o) {
      if (o.linear) return i;
      int64_t at = 0;
      for (int a = 0; a < call.rank; ++a) at += index[a] * o.strides[a];
      return at;
    };
    Word registers[Program::kInputs + Program::kInstructions];
    for (int k = 0; k < p.inputs; ++k) registers[k] = read(call.in[k].data, p.input_types[k], place(call.in[k]));
    auto get = [&](int r) {
      if (r < p.inputs) return registers[r];
      Word w;
      if (r < first_result)
        w.bits = p.constant_bits[r - p.inputs];
      else
        w = registers[r - p.constants];
      return w;
    };
    for (int k = 0; k < p.instructions; ++k) {
      const Program::Instruction& in = p.code[k];
      const Word a = get(in.a), b = in.operands > 1 ? get(in.b) : a, c = in.operands > 2 ? get(in.c) : a;
      registers[p.inputs + k] = execute(in, a, b, c);
    }
    for (int o = 0; o < p.outputs; ++o) write(call.out[o].data, p.output_types[o], place(call.out[o]), get(p.output_registers[o]));
  }
}

}  // namespace

void elementwise(Stream& stream, std::span<const View* const> in, std::span<const View* const> out, const ElementwiseCode& code) {
  if (out.empty()) return;
  Call call;
  if (!pack(code, call.program)) internal_error("an elementwise program is too long for the GPU's kernel");
  const View& full = *out[0];
  call.size = full.size();
  if (call.size == 0) return;
  const int operands = call.program.inputs + call.program.outputs;
  auto operand = [&](int k) -> Operand& { return k < call.program.inputs ? call.in[k] : call.out[k - call.program.inputs]; };
  auto view = [&](int k) -> const View& { return k < call.program.inputs ? *in[size_t(k)] : *out[size_t(k - call.program.inputs)]; };
  // Drops axes of length 1 and merges neighbours that form one stride in every operand.
  for (int a = 0; a < full.rank; ++a) {
    const int64_t length = full.shape[a];
    if (length == 1) continue;
    auto stride = [&](int k) {
      const View& v = view(k);
      const int own = a - (full.rank - v.rank);
      return own < 0 || v.shape[own] == 1 ? int64_t(0) : v.strides[own];
    };
    bool joins = call.rank > 0;
    for (int k = 0; k < operands && joins; ++k) joins = operand(k).strides[call.rank - 1] == stride(k) * length;
    if (!joins) ++call.rank;
    call.shape[call.rank - 1] = joins ? call.shape[call.rank - 1] * length : length;
    for (int k = 0; k < operands; ++k) operand(k).strides[call.rank - 1] = stride(k);
  }
  for (int k = 0; k < operands; ++k) {
    Operand& o = operand(k);
    o.data = view(k).as<char>();
    int64_t step = 1;
    for (int a = call.rank - 1; a >= 0; --a) {
      o.linear = o.linear && o.strides[a] == step;
      step *= call.shape[a];
    }
    call.linear = call.linear && o.linear;
  }
  launch<elementwise_program>(stream, over(call.size), call);
}

namespace {
const GpuKernels<&elementwise> registered;
}

}  // namespace lamina::kernels::cuda
