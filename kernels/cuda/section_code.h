// Interpreter of a section's elementwise programs. A thread's virtual registers are in shared memory, spaced so that a warp's 32 accesses
// hit 32 banks.
#pragma once
#include "kernels/cuda/section_block.h"
#include "kernels/shared/scalar_ops.h"

namespace lamina::kernels::cuda::resident {

#if defined(__CUDA_ARCH__)
LAMINA_DEVICE double double_of(unsigned long long bits) { return __longlong_as_double((long long)bits); }
LAMINA_DEVICE unsigned long long bits_of_double(double v) { return (unsigned long long)__double_as_longlong(v); }
#else
LAMINA_DEVICE double double_of(unsigned long long bits) { return __builtin_bit_cast(double, bits); }
LAMINA_DEVICE unsigned long long bits_of_double(double v) { return __builtin_bit_cast(unsigned long long, v); }
#endif
// A number's bits: 4 bytes for f32, i32 and bool, 8 for i64 and f64.
template <class T>
LAMINA_DEVICE T as(unsigned long long bits) {
  if constexpr (scalar::is_float<T> && sizeof(T) == 8)
    return double_of(bits);
  else if constexpr (scalar::is_float<T>)
    return scalar::float_of(int(unsigned(bits)));
  else
    return T(bits);
}
template <class T>
LAMINA_DEVICE unsigned long long bits_of(T v) {
  if constexpr (scalar::is_float<T> && sizeof(T) == 8)
    return bits_of_double(v);
  else if constexpr (scalar::is_float<T>)
    return unsigned(scalar::bits_of(v));
  else if constexpr (sizeof(T) == 8)
    return (unsigned long long)v;
  else
    return unsigned(v);
}

template <ScalarOp op, class T>
LAMINA_DEVICE unsigned long long apply_one([[maybe_unused]] unsigned long long x, [[maybe_unused]] T a, [[maybe_unused]] T b,
                                           [[maybe_unused]] T c) {
  constexpr DType type = scalar::is_float<T> ? (sizeof(T) == 4 ? DType::f32 : DType::f64)
                         : sizeof(T) == 1    ? DType::boolean
                         : sizeof(T) == 4    ? DType::i32
                                             : DType::i64;
  if constexpr (op == ScalarOp::cast || !section::block_computes(op, type)) {
    return 0;
  } else if constexpr (op == ScalarOp::where) {
    return bits_of(scalar::where(scalar::Bool(x), b, c));
  } else {
#define ELEMENTWISE(name, operands, ...) \
  if constexpr (op == ScalarOp::name) return bits_of(LAMINA_SCALAR_CALL(name, operands));
#include "kernels/shared/elementwise_ops.inc"
  }
}
template <class T>
LAMINA_CALLED unsigned long long apply(ScalarOp op, unsigned long long x, unsigned long long y, unsigned long long z) {
  const T a = as<T>(x), b = as<T>(y), c = as<T>(z);
  switch (op) {
#define ELEMENTWISE(name, ...) \
  case ScalarOp::name: return apply_one<ScalarOp::name, T>(x, a, b, c);
#include "kernels/shared/elementwise_ops.inc"
    case ScalarOp::cast: break;
  }
  return 0;
}
template <class From>
LAMINA_DEVICE unsigned long long convert(From v, DType to) {
  switch (to) {
    case DType::boolean: return bits_of(scalar::to_bool(v));
    case DType::i32: return bits_of(scalar::cast<int>(v));
    case DType::i64: return bits_of(scalar::cast<long long>(v));
    case DType::f64: return bits_of(scalar::cast<double>(v));
    default: return bits_of(scalar::cast<float>(v));
  }
}
LAMINA_CALLED unsigned long long convert(unsigned long long x, DType from, DType to) {
  switch (from) {
    case DType::boolean: return convert(scalar::Bool(x), to);
    case DType::i32: return convert(as<int>(x), to);
    case DType::i64: return convert(as<long long>(x), to);
    case DType::f64: return convert(as<double>(x), to);
    default: return convert(as<float>(x), to);
  }
}
LAMINA_CALLED unsigned long long calculate(ScalarOp op, DType type, DType result, unsigned long long x, unsigned long long y,
                                           unsigned long long z) {
  if (type == DType::f32) {  // the type of most optimizer arithmetic
    const float a = as<float>(x), b = as<float>(y);
    switch (op) {
      case ScalarOp::add: return bits_of(a + b);
      case ScalarOp::sub: return bits_of(a - b);
      case ScalarOp::mul: return bits_of(a * b);
      case ScalarOp::div: return bits_of(a / b);
      case ScalarOp::sqrt: return bits_of(scalar::sqrt(a));
      case ScalarOp::cast: return convert(x, type, result);
      default: return apply<float>(op, x, y, z);
    }
  }
  if (op == ScalarOp::cast) return convert(x, type, result);
  if (type == DType::f64) return apply<double>(op, x, y, z);
  if (type == DType::i64) return apply<long long>(op, x, y, z);
  if (type == DType::i32) return apply<int>(op, x, y, z);
  return apply<scalar::Bool>(op, x, y, z);
}

LAMINA_DEVICE unsigned long long load_bits(const char* p, DType t) {
  switch (t) {
    case DType::boolean: return load_shared_between_blocks(reinterpret_cast<const unsigned char*>(p));
    case DType::f64:
    case DType::i64: return (unsigned long long)load_shared_between_blocks(reinterpret_cast<const long long*>(p));
    default: return load_shared_between_blocks(reinterpret_cast<const unsigned*>(p));
  }
}
LAMINA_DEVICE void store_bits(char* p, DType t, unsigned long long v) {
  switch (t) {
    case DType::boolean: *reinterpret_cast<unsigned char*>(p) = (unsigned char)v; break;
    case DType::f64:
    case DType::i64: *reinterpret_cast<long long*>(p) = (long long)v; break;
    default: *reinterpret_cast<unsigned*>(p) = unsigned(v); break;
  }
}

// One program with its operands: elements of matrices with n columns.
struct Code {
  LAMINA_DEVICE Code(const Block& b, int code, int first_in, int first_out, bool given, int n)
      : operands(b.operands()),
        at(b.arguments.at),
        moved(b.turns().moved),
        scratch(b.scratch()),
        model(b.model),
        words(b.code(code)),
        first_in(first_in),
        first_out(first_out),
        given(given),
        n(n) {}
  const BlockOperand* operands;
  char* const* at;
  const long long* moved;
  float* scratch;
  long long model;
  const int* words;
  int first_in, first_out;  // first operands of the step for the program's inputs and outputs
  bool given;               // input 0 is passed in, and first_in is input 1
  int n;

  LAMINA_DEVICE int inputs() const { return words[0]; }
  LAMINA_DEVICE int constants() const { return words[1]; }
  LAMINA_DEVICE int instructions() const { return words[2]; }
  LAMINA_DEVICE int outputs() const { return words[3]; }
  LAMINA_DEVICE bool wide() const { return words[4] != 0; }
  LAMINA_DEVICE int registers() const { return inputs() + constants() + instructions(); }
  // How many threads have registers at once.
  LAMINA_DEVICE int threads() const {
    return most(int(kWarp), least(kThreads, kScratchFloats / (registers() * (wide() ? 2 : 1)) / int(kWarp) * int(kWarp)));
  }

  LAMINA_DEVICE char* address(int operand, int row, int column) const {
    const BlockOperand& o = operands[operand];
    const long long place = o.broadcast == Broadcast::full     ? (long long)row * n + column
                            : o.broadcast == Broadcast::row    ? column
                            : o.broadcast == Broadcast::column ? row
                                                               : 0;
    return at[o.base] + o.offset + moved[o.mover] + (model * o.model_stride + place) * o.element_bytes;
  }

  template <class Word>
  LAMINA_CALLED_MEMBER void run(Word* memory, int thread, int threads, int row, int column, float input0) const {
    Word* const r = memory + thread;
    const int* w = words + kCodeHeaderWords;
    int next = 0;
    if (given) r[0] = Word(bits_of(input0)), next = 1;
    for (int i = next; i < inputs(); ++i) r[i * threads] = Word(load_bits(address(first_in + i - next, row, column), DType(w[i])));
    w += inputs();
    for (int i = 0; i < constants(); ++i, w += section::kCodeConstant)
      r[(inputs() + i) * threads] = Word(unsigned(w[1]) | (unsigned long long)unsigned(w[2]) << 32);
    int to = inputs() + constants();
    for (int i = 0; i < instructions(); ++i, ++to, w += section::kCodeInstruction) {
      const ScalarOp op = ScalarOp(w[0] & 0xff);
      const int count = kernels::operands(op);
      const Word a = r[w[1] * threads], b = count > 1 ? r[w[2] * threads] : Word(0), c = count > 2 ? r[w[3] * threads] : Word(0);
      r[to * threads] = Word(calculate(op, DType(w[0] >> 8 & 0xff), DType(w[0] >> 16 & 0xff), a, b, c));
    }
    for (int i = 0; i < outputs(); ++i, w += section::kCodeOutput)
      store_bits(output_address(i, row, column), DType(w[1]), r[w[0] * threads]);
  }
  LAMINA_DEVICE char* output_address(int i, int row, int column) const {
    const BlockOperand& o = operands[first_out + i];
    return at[o.base] + o.offset + moved[o.mover] + (model * o.model_stride + (long long)row * n + column) * o.element_bytes;
  }
  static constexpr int kCodeHeaderWords = section::kCodeHeader;

  // Runs one element per thread, if `active`. All threads of the block must call it.
  LAMINA_CALLED_MEMBER void element(int row, int column, float input0, bool active) const {
    const int together = threads(), turns = (kThreads + together - 1) / together, t = int(thread_index());
    for (int turn = 0; turn < turns; ++turn) {
      if (turns > 1) sync_block();  // the registers are reused by other threads
      if (!active || t / together != turn) continue;
      if (wide())
        run(reinterpret_cast<unsigned long long*>(scratch), t % together, together, row, column, input0);
      else
        run(reinterpret_cast<unsigned*>(scratch), t % together, together, row, column, input0);
    }
    if (turns > 1) sync_block();
  }
};

}  // namespace lamina::kernels::cuda::resident
