// Interpreter of a section's elementwise programs. A thread's virtual registers are in shared memory, spaced so that a warp's 32 accesses
// hit 32 banks.
#pragma once
#include "kernels/cuda/four.h"
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
  if (type == DType::f32 && op == ScalarOp::div) return bits_of(as<float>(x) / as<float>(y));
  if (op == ScalarOp::cast) return convert(x, type, result);
  if (type == DType::f64) return apply<double>(op, x, y, z);
  if (type == DType::i64) return apply<long long>(op, x, y, z);
  if (type == DType::f32) return apply<float>(op, x, y, z);
  if (type == DType::i32) return apply<int>(op, x, y, z);
  return apply<scalar::Bool>(op, x, y, z);
}

// What a thread computes at once: the cost of reading an instruction is shared, and loads wait together.
inline constexpr int kElements = 4;

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
        memory(b.ring()),
        model(b.model),
        words(b.code(code)),
        first_in(first_in),
        first_out(first_out),
        given(given),
        n(n) {}
  const BlockOperand* operands;
  char* const* at;
  const long long* moved;
  float* memory;
  long long model;
  const int* words;
  int first_in, first_out;  // first operands of the step for the program's inputs and outputs
  bool given;               // input 0 is passed in, and first_in is input 1
  int n;

  LAMINA_DEVICE int inputs() const { return words[0]; }
  LAMINA_DEVICE int constants() const { return words[1]; }
  LAMINA_DEVICE int instructions() const { return words[2]; }
  LAMINA_DEVICE int outputs() const { return words[3]; }
  LAMINA_DEVICE int registers() const { return words[4]; }
  LAMINA_DEVICE bool wide() const { return words[5] != 0; }
  // How many threads have registers at once.
  LAMINA_DEVICE int threads() const {
    const int floats = most(1, registers()) * kElements * (wide() ? 2 : 1);
    return most(int(kWarp), least(kThreads, kFreeFloats / floats / int(kWarp) * int(kWarp)));
  }

  LAMINA_DEVICE char* address(int operand) const {
    const BlockOperand& o = operands[operand];
    return at[o.base] + o.offset + moved[o.mover] + model * o.model_stride * o.element_bytes;
  }
  // Of an operand that is broadcast in this way, for element i of the whole.
  LAMINA_DEVICE long long place(Broadcast broadcast, long long i) const {
    if (broadcast == Broadcast::full) return i;
    if (broadcast == Broadcast::scalar) return 0;
    const bool is_short = i <= 0x7fffffff;
    const long long row = is_short ? (long long)(unsigned(i) / unsigned(n)) : i / n;
    return broadcast == Broadcast::column ? row : i - row * n;
  }
  template <class T, class Word>
  LAMINA_DEVICE static void load(const char* from, const long long (&places)[kElements], Word* to, int stride) {
    T v[kElements];
    LAMINA_UNROLL
    for (int e = 0; e < kElements; ++e) v[e] = load_shared_between_blocks(reinterpret_cast<const T*>(from) + places[e]);
    LAMINA_UNROLL
    for (int e = 0; e < kElements; ++e) to[e * stride] = Word(v[e]);
  }

  // Elements first, first + step, ... of this thread: `count` of them. The others repeat the last one, and are not stored.
  template <class Word>
  LAMINA_CALLED_MEMBER void run(Word* all, int thread, int threads, long long first, long long step, int count, Four input0) const {
    const auto own = [&](int r) { return all + thread + r * kElements * threads; };
    const int *w = words + section::kCodeHeader, *const constant = w + inputs();
    for (int i = 0; i < inputs(); ++i) {
      Word* const to = own(i);
      if (given && i == 0) {
        LAMINA_UNROLL
        for (int e = 0; e < kElements; ++e) to[e * threads] = Word(bits_of(input0.v[e]));
        continue;
      }
      const int operand = first_in + i - (given ? 1 : 0);
      const char* from = address(operand);
      long long places[kElements];
      LAMINA_UNROLL
      for (int e = 0; e < kElements; ++e) places[e] = place(operands[operand].broadcast, first + least(e, count - 1) * step);
      switch (DType(w[i])) {
        case DType::boolean: load<unsigned char>(from, places, to, threads); break;
        case DType::f64:
        case DType::i64: load<long long>(from, places, to, threads); break;
        default: load<unsigned>(from, places, to, threads); break;
      }
    }
    w = constant + constants() * section::kCodeConstant;
    for (int i = 0; i < instructions(); ++i, w += section::kCodeInstruction) {
      const ScalarOp op = ScalarOp(w[0] & 0xff);
      const DType type = DType(w[0] >> 8 & 0xff), result = DType(w[0] >> 16 & 0xff);
      // A register's number, or a constant's behind -1.
      const auto get = [&](int r, int e) {
        if (r >= 0) return own(r)[e * threads];
        const int* c = constant + ~r * section::kCodeConstant;
        return Word(unsigned(c[1]) | (unsigned long long)unsigned(c[2]) << 32);
      };
      Word* const to = own(w[4]);
      const auto each = [&](auto f) {
        float a[kElements], b[kElements];
        LAMINA_UNROLL
        for (int e = 0; e < kElements; ++e) a[e] = as<float>(get(w[1], e)), b[e] = as<float>(get(w[2], e));
        LAMINA_UNROLL
        for (int e = 0; e < kElements; ++e) to[e * threads] = Word(bits_of(f(a[e], b[e])));
      };
      if (type == DType::f32 && op == ScalarOp::add) {
        each([](float a, float b) { return a + b; });
      } else if (type == DType::f32 && op == ScalarOp::sub) {
        each([](float a, float b) { return a - b; });
      } else if (type == DType::f32 && op == ScalarOp::mul) {
        each([](float a, float b) { return a * b; });
      } else {
        LAMINA_ROLLED
        for (int e = 0; e < kElements; ++e) to[e * threads] = Word(calculate(op, type, result, get(w[1], e), get(w[2], e), get(w[3], e)));
      }
    }
    for (int i = 0; i < outputs(); ++i, w += section::kCodeOutput) {
      const int operand = first_out + i, bytes = operands[operand].element_bytes;
      char* const to = address(operand);
      LAMINA_UNROLL
      for (int e = 0; e < kElements; ++e)
        if (e < count) store_bits(to + (first + e * step) * bytes, DType(w[1]), own(w[0])[e * threads]);
    }
  }

  // Runs up to kElements elements per thread. All threads of the block must call it.
  LAMINA_CALLED_MEMBER void elements(long long first, long long step, int count, Four input0) const {
    const int together = threads(), turns = (kThreads + together - 1) / together, t = int(thread_index());
    for (int turn = 0; turn < turns; ++turn) {
      if (turns > 1) sync_block();  // the registers are reused by other threads
      if (count <= 0 || t / together != turn) continue;
      if (wide())
        run(reinterpret_cast<unsigned long long*>(memory), t % together, together, first, step, count, input0);
      else
        run(reinterpret_cast<unsigned*>(memory), t % together, together, first, step, count, input0);
    }
    if (turns > 1) sync_block();
  }
};

}  // namespace lamina::kernels::cuda::resident
