// A section's elementwise programs: compiled ones, and an interpreter of all others. Virtual registers are in shared memory, spaced so that
// a warp's 32 accesses hit 32 banks.
#pragma once
#include "kernels/cuda/four.h"
#include "kernels/cuda/section_elements.h"
#include "kernels/cuda/section_scalar.h"

namespace lamina::kernels::cuda::resident {

// A program of kernels/known_codes.h: all values are in registers.
template <int which>
struct Compiled {
  static constexpr KnownCode row = known::kCodes[which];
  unsigned inputs[row.inputs][kElements], constants[row.constants], results[row.instructions][kElements];

  template <int value>
  LAMINA_DEVICE unsigned get(int e) const {
    if constexpr (value < row.inputs)
      return inputs[value][e];
    else if constexpr (value < row.inputs + row.constants)
      return constants[value - row.inputs];
    else
      return results[value - row.inputs - row.constants][e];
  }
  template <int i = 0>
  LAMINA_DEVICE void calculate() {
    if constexpr (i < row.instructions) {
      constexpr KnownCode::Instruction in = row.code[i];
      LAMINA_UNROLL
      for (int e = 0; e < kElements; ++e) {
        const unsigned x = get<in.a>(e), y = get<in.b>(e);
        results[i][e] = unsigned(apply_one<in.op, float>(x, as<float>(x), as<float>(y), 0.0f));
      }
      calculate<i + 1>();
    }
  }
};

// One program with its operands: elements of matrices with n columns.
struct Code {
  LAMINA_DEVICE Code(const Block& b, int code, int first_in, int first_out, bool given, int n, int known)
      : known(known),
        operands(b.operands()),
        at(b.at),
        current(b.current),
        model(b.model),
        source(b.code(code)),
        source_words(least(section::kMostCodeWords, (b.launch().places.turns_at - b.launch().places.codes_at) / 4 - code)),
        first_in(first_in),
        first_out(first_out),
        given(given),
        n(n) {}
  int known;  // what its step says
  const BlockOperand* operands;
  char* const* at;
  int current, model;       // the block's
  const int* source;        // the program, in the plan
  int source_words;         // at most; others may follow it
  int first_in, first_out;  // first operands of the step for the program's inputs and outputs
  bool given;               // input 0 is passed in, and first_in is input 1
  int n;

  // Brings a program that is interpreted, and where its operands are, to shared memory, where chains have rows of the batch. All threads of
  // the block must call it, when all are done with the program before.
  LAMINA_DEVICE void bring() const {
    if (known == section::kInterpreted) bring_words();
  }
  LAMINA_CALLED_MEMBER void bring_words() const {
    constexpr int times = (section::kMostCodeWords + kThreads - 1) / kThreads;
    const int first = int(thread_index()), left = source_words - first;
    int word[times];
    LAMINA_UNROLL
    for (int i = 0; i < times; ++i) word[i] = i * kThreads < left ? source[first + i * kThreads] : 0;
    LAMINA_UNROLL
    for (int i = 0; i < times; ++i)
      if (i * kThreads < left) words()[first + i * kThreads] = word[i];
    const int ins = source[0] - int(given), outs = source[3];
    for (int i = first; i < ins + outs; i += kThreads) {
      const int operand = i < ins ? first_in + i : first_out + i - ins;
      ports()[i] = {address(operand), operands[operand].broadcast};
    }
    sync_block();
  }
  // An operand of the program: those of its inputs, but for the one that is given, then those of its outputs.
  struct alignas(16) Port {
    char* at;
    Broadcast broadcast;
  };
  static constexpr int kPortsAt = (section::kMostCodeWords + 3) / 4 * 4;
  LAMINA_DEVICE static int* words() { return dynamic_shared<int>() + kRowsAt; }
  LAMINA_DEVICE static Port* ports() { return reinterpret_cast<Port*>(words() + kPortsAt); }
  static_assert(kPortsAt + 2 * section::kMostRegisters * int(sizeof(Port)) / 4 <= 2 * kFewRows * kMostWidth && kRowsAt % 4 == 0);

  LAMINA_DEVICE static int inputs() { return words()[0]; }
  LAMINA_DEVICE static int constants() { return words()[1]; }
  LAMINA_DEVICE static int instructions() { return words()[2]; }
  LAMINA_DEVICE static int outputs() { return words()[3]; }
  LAMINA_DEVICE static int registers() { return words()[4]; }
  LAMINA_DEVICE static bool wide() { return words()[5] != 0; }
  // How many threads have registers at once.
  LAMINA_DEVICE static int threads() {
    const int floats = most(1, registers()) * kElements * (wide() ? 2 : 1);
    return most(int(kWarp), least(kThreads, kFreeFloats / floats / int(kWarp) * int(kWarp)));
  }

  LAMINA_DEVICE char* address(int operand) const {
    Block b(at, nullptr, 0);
    b.current = current, b.model = model;
    return b.data<char>(operand);
  }
  // Of an operand that is broadcast in this way, for element i of the whole.
  LAMINA_DEVICE long long place(Broadcast broadcast, long long i) const {
    if (broadcast == Broadcast::full) return i;
    if (broadcast == Broadcast::scalar) return 0;
    const bool is_short = i <= 0x7fffffff;
    const long long row = is_short ? (long long)(unsigned(i) / unsigned(n)) : i / n;
    return broadcast == Broadcast::column ? row : i - row * n;
  }
  // Elements first, first + step, ... of this thread: `count` of them. The others repeat the last one, without its calls, and are not
  // stored.
  template <class Word>
  LAMINA_CALLED_MEMBER void run(int thread, int threads, long long first, long long step, int count, Four input0) const {
    Word* const all = reinterpret_cast<Word*>(Block::ring()) + thread;
    const auto own = [&](int r) { return all + r * kElements * threads; };
    const int *w = words() + section::kCodeHeader, *const constant = w + inputs();
    for (int i = 0; i < inputs(); ++i) {
      Word* const to = own(i);
      if (given && i == 0) {
        LAMINA_UNROLL
        for (int e = 0; e < kElements; ++e) to[e * threads] = Word(bits_of(input0.v[e]));
        continue;
      }
      char* const from = ports()[i - int(given)].at;
      const Broadcast broadcast = ports()[i - int(given)].broadcast;
      long long places[kElements];
      LAMINA_UNROLL
      for (int e = 0; e < kElements; ++e) places[e] = place(broadcast, first + least(e, count - 1) * step);
      switch (DType(w[i])) {
        case DType::boolean: load_elements<unsigned char>(from, places, to, threads); break;
        case DType::f64:
        case DType::i64: load_elements<long long>(from, places, to, threads); break;
        default:
          if constexpr (sizeof(Word) > 4) {
            load_elements<unsigned>(from, places, to, threads);
          } else {
            LAMINA_UNROLL
            for (int e = 0; e < kElements; ++e) copy_async<4>(to + e * threads, from + places[e] * 4);
          }
          break;
      }
    }
    commit_copies(), wait_copies<0>();
    // Of a register's number, or a constant's behind -1.
    const auto value_of = [&](int r) {
      Source<Word> s{r < 0 ? nullptr : own(r), 0};
      if (r < 0) {
        const int* c = constant + ~r * section::kCodeConstant;
        s.constant = Word(unsigned(c[1]) | (unsigned long long)unsigned(c[2]) << 32);
      }
      return s;
    };
    w = constant + constants() * section::kCodeConstant;
    for (int i = 0; i < instructions(); ++i, w += section::kCodeInstruction) {
      // Read once: behind each store to a register, shared memory would be read again.
      const int code = w[0], number_a = w[1], number_b = w[2], number_c = w[3];
      Word* const to = own(w[4]);
      const ScalarOp op = ScalarOp(code & 0xff);
      const DType type = DType(code >> 8 & 0xff), result = DType(code >> 16 & 0xff);
      const Source<Word> x = value_of(number_a), y = value_of(number_b);
      const auto each = [&](auto f) {
        float a[kElements], b[kElements];
        LAMINA_UNROLL
        for (int e = 0; e < kElements; ++e) a[e] = as<float>(x.get(e, threads)), b[e] = as<float>(y.get(e, threads));
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
        const Source<Word> z = value_of(number_c);
        Word value = 0;
        LAMINA_ROLLED
        for (int e = 0; e < kElements; ++e) {
          if (e < count) value = Word(calculate(op, type, result, x.get(e, threads), y.get(e, threads), z.get(e, threads)));
          to[e * threads] = value;
        }
      }
    }
    for (int i = 0; i < outputs(); ++i, w += section::kCodeOutput) {
      const Word* const from = own(w[0]);
      char* const to = ports()[inputs() - int(given) + i].at;
      switch (DType(w[1])) {
        case DType::boolean: store_elements<unsigned char>(to, from, threads, first, step, count); break;
        case DType::f64:
        case DType::i64: store_elements<long long>(to, from, threads, first, step, count); break;
        default: store_elements<unsigned>(to, from, threads, first, step, count); break;
      }
    }
  }
  // Where a compiled program's operands are. here: the record has all of the step's.
  template <int which, bool here>
  LAMINA_DEVICE void find(long long first, const unsigned* (&from)[known::kCodes[which].inputs],
                          bool (&is_number)[known::kCodes[which].inputs], float* (&to)[known::kCodes[which].outputs]) const {
    constexpr KnownCode row = known::kCodes[which];
    const Record& record = Block::record(current);
    const int before = record.step.first_in;
    LAMINA_UNROLL
    for (int i = 0; i < row.inputs; ++i) {
      if (i == 0 && given) continue;
      const int operand = first_in + i - (given ? 1 : 0);
      from[i] = reinterpret_cast<const unsigned*>(here ? record.addresses[operand - before].of<char>(model) : address(operand));
      is_number[i] = (here ? record.operands[operand - before] : operands[operand]).broadcast == Broadcast::scalar;
    }
    LAMINA_UNROLL
    for (int o = 0; o < row.outputs; ++o) {
      const int operand = first_out + o;
      to[o] = reinterpret_cast<float*>(here ? record.addresses[operand - before].of<char>(model) : address(operand)) + first;
    }
  }
  template <int which>
  LAMINA_DEVICE void run_compiled(long long first, long long step, int count, Four input0) const {
    constexpr KnownCode row = known::kCodes[which];
    Compiled<which> program;
    const int* const constant = source + section::kCodeHeader + row.inputs;
    LAMINA_UNROLL
    for (int k = 0; k < row.constants; ++k) program.constants[k] = unsigned(constant[k * section::kCodeConstant + 1]);
    // All addresses first: what finds the next one would wait for the loads before it.
    const unsigned* from[row.inputs] = {};
    float* to[row.outputs];
    bool is_number[row.inputs] = {};
    if (Block::record(current).has_all()) [[likely]]
      find<which, true>(first, from, is_number, to);
    else
      find<which, false>(first, from, is_number, to);
    LAMINA_UNROLL
    for (int i = 0; i < row.inputs; ++i) {
      LAMINA_UNROLL
      for (int e = 0; e < kElements; ++e) {
        if (i == 0 && given)
          program.inputs[0][e] = unsigned(bits_of(input0.v[e]));
        else
          program.inputs[i][e] = load_shared_between_blocks(from[i] + (is_number[i] ? 0 : first + least(e, count - 1) * step));
      }
    }
    program.calculate();
    store_compiled(program, to, step, count);
  }
  template <int o = 0, int which>
  LAMINA_DEVICE static void store_compiled(const Compiled<which>& program, float* const (&to)[known::kCodes[which].outputs], long long step,
                                           int count) {
    constexpr KnownCode row = known::kCodes[which];
    if constexpr (o < row.outputs) {
      constexpr int value = row.output[o];
      LAMINA_UNROLL
      for (int e = 0; e < kElements; ++e)
        if (e < count) to[o][e * step] = as<float>(program.template get<value>(e));
      store_compiled<o + 1>(program, to, step, count);
    }
  }
  template <int which = 0>
  LAMINA_DEVICE void run_one_of(long long first, long long step, int count, Four input0) const {
    if constexpr (which < kKnownCodes) {
      if (known == which)
        run_compiled<which>(first, step, count, input0);
      else
        run_one_of<which + 1>(first, step, count, input0);
    }
  }
  LAMINA_CALLED_MEMBER void run_known(long long first, long long step, int count, Four input0) const {
    if (count > 0) run_one_of(first, step, count, input0);
  }

  // Runs up to kElements elements per thread. All threads of the block must call it, behind bring().
  LAMINA_CALLED_MEMBER void elements(long long first, long long step, int count, Four input0) const {
    if (known != section::kInterpreted) return run_known(first, step, count, input0);
    const int together = threads(), turns = (kThreads + together - 1) / together, t = int(thread_index());
    for (int turn = 0; turn < turns; ++turn) {
      if (turns > 1) sync_block();  // the registers are reused by other threads
      if (count <= 0 || t / together != turn) continue;
      if (wide())
        run<unsigned long long>(t % together, together, first, step, count, input0);
      else
        run<unsigned>(t % together, together, first, step, count, input0);
    }
    if (turns > 1) sync_block();
  }
};

}  // namespace lamina::kernels::cuda::resident
