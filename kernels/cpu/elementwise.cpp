// Runs elementwise programs block by block: a block's registers fit the L1 cache, so even a long program reads and writes memory once.
// Contiguous operands are used in place; others are gathered into a block's scratch. Half types are floats inside.
#include "kernels/elementwise.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/elementwise_table.h"
#include "kernels/cpu/strided.h"
#include "kernels/known_codes.h"
#include "runtime/core/config.h"
#include "runtime/core/error.h"
#include "runtime/device/thread_pool.h"

namespace lamina::kernels {

DType ElementwiseCode::register_type(int r) const {
  size_t i = size_t(r);
  if (i < inputs.size()) return inputs[i];
  i -= inputs.size();
  if (i < constants.size()) return constants[i].first;
  return instructions.at(i - constants.size()).result;
}

std::string print(const ElementwiseCode& code) {
  std::string text;
  const size_t first = code.inputs.size() + code.constants.size();
  auto named = [&](int r) {
    size_t i = size_t(r);
    return i < code.inputs.size() ? cat("in", i) : i < first ? cat(code.constants[i - code.inputs.size()].second) : cat("t", i - first);
  };
  for (size_t i = 0; i < code.instructions.size(); ++i) {
    const auto& in = code.instructions[i];
    text += cat(i ? "; " : "", "t", i, ":", name(in.result), " = ", name(in.op), " ", named(in.a));
    if (operands(in.op) > 1) text += cat(" ", named(in.b));
    if (operands(in.op) > 2) text += cat(" ", named(in.c));
  }
  text += code.instructions.empty() ? "->" : " ->";
  for (int r : code.outputs) text += " " + named(r);
  return text;
}

int known_code(const ElementwiseCode& code) {
  const auto is = [&](const KnownCode& row) {
    if (code.instructions.size() != size_t(row.instructions) || code.inputs.size() != size_t(row.inputs) ||
        code.constants.size() != size_t(row.constants) || code.outputs.size() != size_t(row.outputs))
      return false;
    for (int i = 0; i < row.instructions; ++i) {
      const auto& in = code.instructions[size_t(i)];
      const KnownCode::Instruction& like = row.code[i];
      if (in.op != like.op || in.type != DType::f32 || in.a != like.a || (operands(in.op) > 1 && in.b != like.b)) return false;
    }
    return std::equal(code.outputs.begin(), code.outputs.end(), row.output);
  };
  for (int k = 0; k < kKnownCodes; ++k)
    if (is(known::kCodes[k])) return k;
  return -1;
}

namespace cpu {
namespace {

constexpr int64_t kBlock = 512, kSmallestBlock = 64;  // elements
constexpr size_t kScratch = 32 * 1024;                // bytes of a thread's L1 that registers may fill
constexpr int kFewRegisters = 96;
constexpr int64_t kLongRow = 128;  // at least this long, contiguous rows are not gathered

// The layout of one operand.
enum class Access : uint8_t {
  linear,    // contiguous
  repeated,  // one element for all
  strided,   // by Space::dims and `strides`
};
struct Source {
  char* data = nullptr;
  Access access = Access::linear;
  bool periodic = false;      // strided, but the same for every row
  int64_t strides[kMaxRank];  // set for a Space with axes
};
struct Space {
  int rank = 0;
  int64_t shape[kMaxRank];
  int64_t size = 0;
  bool linear = true;  // no operand is strided
};

Loop widen_loop(const ElementwiseTable& table, DType d) { return d == DType::f16 ? table.f16_to_f32 : table.bf16_to_f32; }
Loop narrow_loop(const ElementwiseTable& table, DType d) { return d == DType::f16 ? table.f32_to_f16 : table.f32_to_bf16; }

void fill(const ElementwiseTable& table, Compute type, char* to, int64_t n, const char* value) {
  static_assert(kComputes == 10);
  constexpr uint8_t by_size[] = {0, 0, 1, 2, 3, 2, 3, 1, 2, 3};
  table.fill[by_size[int(type)]](n, to, value, nullptr, nullptr);
}

void fill_constant(const ElementwiseTable& table, DType type, double value, char* to, int64_t n) {
  alignas(8) char element[8];
  with_dtype(type, [&]<class T>() {
    const lamina::compute_t<T> computed = element_of<T>(value);
    std::memcpy(element, &computed, sizeof computed);
  });
  fill(table, compute_of(type), to, n, element);
}

// One thread's run over a range of elements.
class Run {
 public:
  Run(const ElementwiseCode& code, const Source* in, const Source* out, const Space& space)
      : code_(code),
        table_(elementwise_table()),
        in_(in),
        out_(out),
        space_(space),
        first_constant_(int(code.inputs.size())),
        first_result_(first_constant_ + int(code.constants.size())),
        registers_(first_result_ + int(code.instructions.size())),
        known_(known_of(code, in)),
        numbers_(known_ < 0 ? 0 : known::kCodes[known_].numbers) {}

  void operator()(int64_t begin, int64_t end) {
    if (begin >= end) return;
    if (registers_ <= kFewRegisters) {
      char* pointers[kFewRegisters];
      int16_t written[kFewRegisters];
      return prepare(pointers, written, begin, end);
    }
    std::vector<char*> pointers(static_cast<size_t>(registers_));
    std::vector<int16_t> written(static_cast<size_t>(registers_));
    prepare(pointers.data(), written.data(), begin, end);
  }

 private:
  static constexpr int16_t kSlot = -1, kInLoop = -2;

  // The number of a known program with such inputs, or -1.
  static int known_of(const ElementwiseCode& code, const Source* in) {
    const int k = known_code(code);
    for (size_t i = 0; k >= 0 && i < code.inputs.size(); ++i)
      if (known::kCodes[k].numbers >> i & 1 && in[i].access != Access::repeated) return -1;
    return k;
  }

  bool needs_scratch(int input) const { return in_[input].access != Access::linear || is_half(code_.inputs[size_t(input)]); }

  // An instruction may write directly to output o's memory if no input there is needed later.
  bool direct(int o) const {
    int r = code_.outputs[size_t(o)];
    if (r < first_result_ || out_[o].access != Access::linear || is_half(code_.register_type(r))) return false;
    if (known_ >= 0) return true;  // its loop reads all inputs of an element before it writes
    for (int i = 0; i < first_constant_; ++i) {
      if (in_[i].data != out_[o].data || needs_scratch(i)) continue;
      for (size_t k = size_t(r - first_result_) + 1; k < code_.instructions.size(); ++k) {
        const auto& in = code_.instructions[k];
        if (in.a == i || (operands(in.op) > 1 && in.b == i) || (operands(in.op) > 2 && in.c == i)) return false;
      }
      for (int16_t other : code_.outputs)
        if (other == i) return false;
    }
    return true;
  }

  bool needs_slot(int r) const { return r < first_constant_ ? needs_scratch(r) && !(numbers_ >> r & 1) : written_[r] == kSlot; }

  void prepare(char** pointers, int16_t* written, int64_t begin, int64_t end) {
    reg_ = pointers, written_ = written;
    for (int r = 0; r < registers_; ++r) written_[r] = known_ < 0 ? kSlot : kInLoop, reg_[r] = nullptr;
    for (int16_t r : code_.outputs) written_[r] = kSlot;
    for (int o = 0; o < int(code_.outputs.size()); ++o)
      if (int16_t& w = written_[code_.outputs[size_t(o)]]; w < 0 && direct(o)) w = int16_t(o);
    int slots = 0, widest = 1;
    for (int r = 0; r < registers_; ++r)
      if (needs_slot(r)) ++slots, widest = std::max(widest, size_of(compute_of(code_.register_type(r))));
    if (slots == 0 && space_.linear) {
      block_ = end - begin;
      return blocks(begin, end);
    }
    block_ = std::clamp(int64_t(kScratch) / std::max(1, slots * widest) / 64 * 64, kSmallestBlock, kBlock);
    if (!space_.linear) {
      const int64_t inner = space_.shape[space_.rank - 1];
      long_rows_ = inner >= kLongRow;
      if (inner < block_) block_ = block_ / inner * inner;  // whole rows, so that periodic operands are gathered once
    }
    const size_t slot = (size_t(block_) * size_t(widest) + 63) / 64 * 64;
    alignas(64) char scratch[kScratch];
    if (slot * size_t(slots) <= sizeof scratch) {
      assign_slots(scratch, slot);
      return blocks(begin, end);
    }
    std::vector<char> more(slot * size_t(slots) + 64);
    assign_slots(reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(more.data()) + 63) & ~uintptr_t(63)), slot);
    blocks(begin, end);
  }

  void assign_slots(char* scratch, size_t slot) {
    for (int r = 0; r < registers_; ++r)
      if (needs_slot(r)) reg_[r] = scratch, scratch += slot;
  }

  void blocks(int64_t begin, int64_t end) {
    const int64_t longest = std::min(block_, end - begin);
    for (size_t c = 0; c < code_.constants.size() && known_ < 0; ++c)
      fill_constant(table_, code_.constants[c].first, code_.constants[c].second, reg_[size_t(first_constant_) + c], longest);
    for (int i = 0; i < first_constant_; ++i)
      if (in_[i].access == Access::repeated) repeat(i, longest);
    Cursor cursor;
    if (!space_.linear) cursor = Cursor(space_.rank, space_.shape, begin);
    for (int64_t at = begin; at < end;) {
      int64_t m = std::min(block_, end - at);
      if (long_rows_) m = std::min(m, cursor.inner - cursor.in_row);
      load(at, m, cursor);
      execute(at, m);
      store(at, m, cursor);
      at += m;
      if (!space_.linear && at < end) cursor.advance(m);
    }
  }

  void repeat(int i, int64_t n) {
    if (numbers_ >> i & 1) {
      reg_[i] = in_[i].data;
      return;
    }
    DType d = code_.inputs[size_t(i)];
    alignas(8) char element[8];
    if (is_half(d))
      widen_loop(table_, d)(1, element, in_[i].data, nullptr, nullptr);
    else
      std::memcpy(element, in_[i].data, lamina::size_of(d));
    fill(table_, compute_of(d), reg_[i], n, element);
  }

  void load(int64_t at, int64_t m, const Cursor& cursor) {
    const bool reuse = cursor.in_row == 0 && periodic_loaded_ >= m;
    for (int i = 0; i < first_constant_; ++i) {
      const Source& source = in_[i];
      if (source.access == Access::repeated) continue;
      const DType d = code_.inputs[size_t(i)];
      const size_t bytes = lamina::size_of(d);
      if (source.access == Access::linear) {
        char* from = source.data + size_t(at) * bytes;
        if (is_half(d))
          widen_loop(table_, d)(m, reg_[i], from, nullptr, nullptr);
        else
          reg_[i] = from;
      } else if (long_rows_ && source.strides[space_.rank - 1] == 1 && !is_half(d)) {
        reg_[i] = source.data + (cursor.row_offset(source.strides) + cursor.in_row) * int64_t(bytes);
      } else if (long_rows_ && source.strides[space_.rank - 1] == 0 && !is_half(d)) {
        fill(table_, compute_of(d), reg_[i], m, source.data + cursor.row_offset(source.strides) * int64_t(bytes));
      } else if (source.periodic && reuse) {
        continue;
      } else if (is_half(d)) {
        uint16_t halves[kBlock];
        gather(halves, source.data, bytes, source.strides, m, cursor);
        widen_loop(table_, d)(m, reg_[i], halves, nullptr, nullptr);
      } else {
        gather(reg_[i], source.data, bytes, source.strides, m, cursor);
      }
    }
    if (!reuse) periodic_loaded_ = cursor.in_row == 0 ? m : 0;
  }

  void execute_known(int64_t at, int64_t m) {
    const KnownCode& known = known::kCodes[known_];
    const float* in[std::size(KnownCode().code)];
    float constants[std::size(KnownCode().code)], *out[std::size(KnownCode().output)];
    for (int i = 0; i < known.inputs; ++i) in[i] = reinterpret_cast<const float*>(reg_[i]);
    for (int c = 0; c < known.constants; ++c) constants[c] = element_of<float>(code_.constants[size_t(c)].second);
    for (int o = 0; o < known.outputs; ++o) {
      char*& to = reg_[known.output[o]];
      if (written_[known.output[o]] >= 0) to = out_[o].data + size_t(at) * sizeof(float);
      out[o] = reinterpret_cast<float*>(to);
    }
    table_.known[known_](m, in, constants, out);
  }

  void execute(int64_t at, int64_t m) {
    if (known_ >= 0) return execute_known(at, m);
    for (size_t k = 0; k < code_.instructions.size(); ++k) {
      const auto& in = code_.instructions[k];
      const int r = first_result_ + int(k);
      if (int o = written_[r]; o >= 0) reg_[r] = out_[o].data + size_t(at) * lamina::size_of(in.result);
      const char *a = reg_[in.a], *b = reg_[in.b], *c = reg_[in.c];
      if (in.op == ScalarOp::cast) {
        Loop loop = in.result == DType::boolean && in.type != DType::boolean ? table_.to_bool[int(compute_of(in.type))]
                    : is_half(in.result)                                     ? table_.to_half[int(compute_of(in.type))]
                                         : table_.casts[int(compute_of(in.type))][int(compute_of(in.result))];
        if (loop)
          loop(m, reg_[r], a, nullptr, nullptr);
        else if (reg_[r] != a)
          std::memcpy(reg_[r], a, size_t(m) * size_t(size_of(compute_of(in.type))));
      } else {
        Loop loop = table_.loops[int(in.op)][int(compute_of(in.type))];
        loop(m, reg_[r], a, b, c);
      }
      if (is_half(in.result)) (in.result == DType::f16 ? table_.round_f16 : table_.round_bf16)(m, reg_[r], reg_[r], nullptr, nullptr);
    }
  }

  void store(int64_t at, int64_t m, const Cursor& cursor) {
    for (size_t o = 0; o < code_.outputs.size(); ++o) {
      const int r = code_.outputs[o];
      if (written_[r] == int(o)) continue;
      const DType d = code_.register_type(r);
      const size_t bytes = lamina::size_of(d);
      const char* from = reg_[r];
      const Source& sink = out_[o];
      if (sink.access == Access::strided) {
        uint16_t halves[kBlock];
        if (is_half(d)) {
          narrow_loop(table_, d)(m, halves, from, nullptr, nullptr);
          from = reinterpret_cast<const char*>(halves);
        }
        scatter(sink.data, from, bytes, sink.strides, m, cursor);
      } else {
        char* to = sink.data + size_t(at) * bytes;
        if (is_half(d))
          narrow_loop(table_, d)(m, to, from, nullptr, nullptr);
        else if (to != from)
          std::memcpy(to, from, size_t(m) * bytes);
      }
    }
  }

  const ElementwiseCode& code_;
  const ElementwiseTable& table_;
  const Source* in_;
  const Source* out_;
  const Space& space_;
  const int first_constant_, first_result_, registers_;
  const int known_;  // its number in known::kCodes, or -1
  const unsigned numbers_;
  char** reg_ = nullptr;        // where each register's block is
  int16_t* written_ = nullptr;  // per register: the output whose memory it uses, or kSlot, or kInLoop: only in a known program's loop
  int64_t block_ = kBlock;
  int64_t periodic_loaded_ = 0;  // number of loaded elements of periodic operands, from the start of a row
  bool long_rows_ = false;       // blocks end at row ends
};

// Drops axes of length 1 and merges neighbours that form one stride in every operand.
void collapse(std::span<const View* const> in, std::span<const View* const> out, Source* sources, Source* sinks, Space& space) {
  const View& full = *out[0];
  const size_t operands = in.size() + out.size();
  auto source = [&](size_t k) -> Source& { return k < in.size() ? sources[k] : sinks[k - in.size()]; };
  auto view = [&](size_t k) -> const View& { return k < in.size() ? *in[k] : *out[k - in.size()]; };
  for (int a = 0; a < full.rank; ++a) {
    const int64_t length = full.shape[a];
    if (length == 1) continue;
    auto stride = [&](size_t k) {
      const View& v = view(k);
      int own = a - (full.rank - v.rank);
      return own < 0 || v.shape[own] == 1 ? int64_t(0) : v.strides[own];
    };
    bool joins = space.rank > 0;
    for (size_t k = 0; k < operands && joins; ++k) joins = source(k).strides[space.rank - 1] == stride(k) * length;
    if (!joins) ++space.rank;
    space.shape[space.rank - 1] = joins ? space.shape[space.rank - 1] * length : length;
    for (size_t k = 0; k < operands; ++k) source(k).strides[space.rank - 1] = stride(k);
  }
  space.linear = true;
  for (size_t k = 0; k < operands; ++k) {
    Source& s = source(k);
    bool linear = true, repeated = k < in.size();
    int64_t step = 1;
    for (int a = space.rank - 1; a >= 0; --a) {
      linear = linear && s.strides[a] == step;
      repeated = repeated && s.strides[a] == 0;
      step *= space.shape[a];
    }
    s.access = linear ? Access::linear : repeated ? Access::repeated : Access::strided;
    s.periodic = true;
    for (int a = 0; a + 1 < space.rank; ++a) s.periodic = s.periodic && s.strides[a] == 0;
    if (s.access == Access::strided) space.linear = false;
  }
}

// Cost of an element, in loads of a cached float.
int64_t cost(const ElementwiseCode& code) {
  int64_t sum = int64_t(code.inputs.size() + code.outputs.size());
  for (const auto& in : code.instructions) sum += is_slow(in.op) ? 8 : 1;
  return sum;
}

struct ElementwiseWork {
  const ElementwiseCode& code;
  const Source* in;
  const Source* out;
  const Space& space;
};
void run_part(void* context, int thread, int threads, ThreadPool::Barrier&) {
  const ElementwiseWork& shared = *static_cast<const ElementwiseWork*>(context);
  constexpr int64_t unit = 1024;  // so that threads do not share a cache line of an output
  const int64_t units = (shared.space.size + unit - 1) / unit;
  Run run(shared.code, shared.in, shared.out, shared.space);
  run(units * thread / threads * unit, std::min(shared.space.size, units * (thread + 1) / threads * unit));
}

template <class T, size_t N>
class FewOrMany {  // a small-buffer array
 public:
  explicit FewOrMany(size_t n) : many_(n > N ? n : 0) {}
  T* data() { return many_.empty() ? few_ : many_.data(); }

 private:
  T few_[N];
  std::vector<T> many_;
};

constexpr int64_t kElementwiseWorthThreads = 256 * 1024;  // of cost: some 20 microseconds

}  // namespace

void elementwise(Stream& stream, std::span<const View* const> in, std::span<const View* const> out, const ElementwiseCode& code) {
  if (out.empty()) return;
  Space space;
  space.size = out[0]->size();
  if (space.size == 0) return;
  FewOrMany<Source, 6> sources(in.size()), sinks(out.size());
  bool simple = true;
  for (size_t i = 0; i < in.size() && simple; ++i) {
    Source& s = sources.data()[i];
    s.data = in[i]->as<char>();
    const int64_t size = in[i]->size();
    simple = (size == space.size && is_contiguous(*in[i])) || size == 1;
    s.access = size == space.size ? Access::linear : Access::repeated;
  }
  for (size_t o = 0; o < out.size(); ++o) {
    sinks.data()[o].data = out[o]->as<char>();
    simple = simple && is_contiguous(*out[o]);
  }
  if (!simple) {
    for (size_t i = 0; i < in.size(); ++i) sources.data()[i].data = in[i]->as<char>();
    collapse(in, out, sources.data(), sinks.data(), space);
  }
  ElementwiseWork shared{code, sources.data(), sinks.data(), space};
  if (space.size > 2048) {
    const int64_t work = space.size * cost(code);
    if (work >= kElementwiseWorthThreads && config::threads() > 1) {
      const int threads = int(std::min<int64_t>(config::threads(), work / (kElementwiseWorthThreads / 2)));
      return ThreadPool::of(stream.device).run(threads, run_part, &shared);
    }
  }
  Run(code, sources.data(), sinks.data(), space)(0, space.size);
}

void elementwise_matrix(const ElementwiseCode& code, const void* const* in, const MatrixSteps* steps, void* const* out, int64_t n,
                        int64_t begin, int64_t end) {
  FewOrMany<Source, 6> sources(code.inputs.size()), sinks(code.outputs.size());
  Space space;
  space.rank = 2, space.shape[0] = (end + n - 1) / n, space.shape[1] = n, space.size = end;
  for (size_t i = 0; i < code.inputs.size(); ++i) {
    Source& s = sources.data()[i];
    s.data = static_cast<char*>(const_cast<void*>(in[i]));
    s.strides[0] = steps[i].row ? steps[i].column ? n : 1 : 0, s.strides[1] = steps[i].column;
    s.access = steps[i].row && steps[i].column ? Access::linear : steps[i].row || steps[i].column ? Access::strided : Access::repeated;
    s.periodic = !steps[i].row;
    if (s.access == Access::strided) space.linear = false;
  }
  for (size_t o = 0; o < code.outputs.size(); ++o) sinks.data()[o].data = static_cast<char*>(out[o]);
  Run(code, sources.data(), sinks.data(), space)(begin, end);
}

const ElementwiseTable& elementwise_table() {
#ifdef LAMINA_HAS_AVX
  const std::string& isa = config::cpu_isa();
  if (isa.size() == 4) return avx2::elementwise_table;
  if (isa[0] == 'a') return avx512::elementwise_table;
#endif
  return scalar::elementwise_table;
}

}  // namespace cpu
}  // namespace lamina::kernels
