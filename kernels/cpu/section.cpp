// The CPU interpreter of sections. Every thread walks the whole table and runs its share of each step, with barriers as planned.
#include "kernels/section/nested.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <optional>

#include "kernels/copy.h"
#include "kernels/cpu/dense.h"
#include "kernels/cpu/elementwise_calls.h"
#include "kernels/cpu/section_update.h"
#include "kernels/dropout.h"
#include "kernels/reduce.h"
#include "kernels/section/stages.h"
#include "kernels/softmax.h"
#include "kernels/sparse_cross_entropy.h"
#include "runtime/core/config.h"
#include "runtime/core/error.h"
#include "runtime/core/interrupt.h"
#include "runtime/core/mutex.h"
#include "runtime/device/thread_pool.h"

namespace lamina::kernels::cpu {
namespace {

using section::Broadcast;
using section::Operand;
using section::Partition;
using section::Step;
using section::StepKind;
using section::Table;

constexpr double kSectionFlopsPerThread = 1e6;  // about the cost of waking a thread

class Section {
 public:
  // names: of the steps while a profiler listens, else null.
  Section(const KernelCall& call, const Table& table, const profiler::Name* names = nullptr)
      : call_(call), table_(table), tiles_(tiles()), names_(names) {
    // Views are scattered in memory, so addresses that are used several times are cached.
    data_.reserve(call.in.size() + call.out.size());
    for (const View* v : call.in) data_.push_back(static_cast<char*>(v->data));
    for (const View* v : call.out) data_.push_back(static_cast<char*>(v->data));
  }

  // As `way` says, if there are the threads for it.
  void run(section::Ways::Way way, int thread, int threads, ThreadPool::Barrier& barrier) {
    const section::Ways* ways = table_.ways.get();
    const section::Stages* stages = nullptr;
    if (ways && (threads == 1 || way == section::Ways::staged)) stages = (threads == 1 ? ways->on_one : ways->on_all).get();
    bool stopped = false;
    if (stages && stages->threads == threads)
      run_stages(*stages, thread, barrier, stopped);
    else
      run_steps(0, int32_t(table_.steps.size()), thread, threads, barrier, stopped);
  }

  bool failed() const { return error_ != nullptr; }
  void rethrow() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  // Steps first to last - 1, shared among the threads.
  void run_steps(int32_t first, int32_t last, int thread, int threads, ThreadPool::Barrier& barrier, bool& stopped) {
    for (int32_t i = first; i < last; ++i) {
      const Step& step = table_.steps[size_t(i)];
      if (step.barrier_before && threads > 1) meet(barrier, stopped);
      const bool mine = step.partition != Partition::one || thread == step.owner % threads;
      i += run_guarded(i, threads == 1 && i + 1 < last ? i + 1 : -1, mine, thread, threads, stopped) - 1;
    }
  }

  void run_stages(const section::Stages& stages, int thread, ThreadPool::Barrier& barrier, bool& stopped) {
    const int threads = stages.threads, parts = stages.parts;
    if (thread == 0) barrier.expect_waits(stages.idle);
    run_steps(0, stages.first, thread, threads, barrier, stopped);
    meet(barrier, stopped);
    if (thread == 0)
      for (int32_t i : stages.before) run_guarded(i, -1, true, 0, 1, stopped);
    meet(barrier, stopped);
    for (size_t s = 0; s < stages.stages.size(); ++s) {
      const section::Stages::Stage& stage = stages.stages[s];
      if (stage.thread != thread) continue;
      for (int part = 0; part < parts; ++part) {
        if (s > 0) barrier.wait_until(parts_done_[s - 1], uint32_t(part + 1));
        stopped = stopped || failed_.load(std::memory_order_relaxed);
        for (int32_t i = stage.begin; i < stage.end; ++i) {
          const section::Stages::Item item = stages.items[size_t(i)];
          const int32_t next = parts == 1 && i + 1 < stage.end ? stages.items[size_t(i) + 1].step : -1;
          if (!item.whole)
            i += run_guarded(item.step, next, true, part, parts, stopped) - 1;
          else if (part == parts - 1)
            run_guarded(item.step, -1, true, 0, 1, stopped);
        }
        parts_done_[s].advance();
      }
      for (int32_t i = stage.end; i < stage.tail; ++i) run_guarded(stages.items[size_t(i)].step, -1, true, 0, 1, stopped);
    }
    meet(barrier, stopped);
    if (thread == 0)
      for (int32_t i : stages.after) run_guarded(i, -1, true, 0, 1, stopped);
    if (!stages.after.empty()) meet(barrier, stopped);
    run_steps(stages.last, int32_t(table_.steps.size()), thread, threads, barrier, stopped);
  }

  void meet(ThreadPool::Barrier& barrier, bool& stopped) {
    barrier.wait();
    stopped = stopped || failed_.load(std::memory_order_relaxed);
  }

  // Runs a step, and with it the one that this thread runs next (or -1), if they run as a pair; returns how many. After an error nothing
  // runs, but threads still meet: none may be left waiting.
  int run_guarded(int32_t i, int32_t next, bool mine, int thread, int threads, bool& stopped) {
    if (stopped) return 1;
    try {
      if (next >= 0 && table_.steps[size_t(i)].rows == 1 && run_pair(i, next)) return 2;
      const profiler::Scope range(mine && names_ ? names_ + i : nullptr, int64_t(i));
      run_step(table_.steps[size_t(i)], thread, threads);
    } catch (...) {
      stopped = true;
      fail(size_t(i));
    }
    return 1;
  }

  void fail(size_t step) {
    std::lock_guard lock(error_mutex_);
    failed_.store(true, std::memory_order_relaxed);
    if (error_ && failed_step_ <= step) return;  // keep the error of the earliest step, whichever thread came first
    failed_step_ = step;
    error_ = std::current_exception();
    if (step >= table_.lines.size() || !table_.lines[step].known()) return;
    try {
      std::rethrow_exception(error_);
    } catch (const Error& e) {
      error_ = std::make_exception_ptr(e.at(text(table_.lines[step])));
    } catch (...) {
    }
  }

  template <class T>
  T* in(const Step& s, int i) const {
    const Operand& o = table_.operands[size_t(s.first_in + i)];
    return reinterpret_cast<T*>(data_[size_t(o.buffer)]) + model * o.model_stride;
  }
  template <class T>
  T* out(const Step& s, int i) const {
    const Operand& o = table_.operands[size_t(s.first_out + i)];
    return reinterpret_cast<T*>(data_[size_t(o.buffer)]) + model * o.model_stride;
  }
  const View& view(int operand) const {
    const size_t buffer = size_t(table_.operands[size_t(operand)].buffer);
    return buffer < call_.in.size() ? *call_.in[buffer] : *call_.out[buffer - call_.in.size()];
  }

  static Range share(int64_t count, int thread, int threads) { return {count * thread / threads, count * (thread + 1) / threads}; }
  // Whole tiles of columns, so that tiles do not depend on the number of threads.
  Range columns(int64_t n, int thread, int threads) const {
    const int64_t panel = tiles_.panel_f32;
    Range r = share((n + panel - 1) / panel, thread, threads);
    return {std::min(n, r.begin * panel), std::min(n, r.end * panel)};
  }

  // One core runs a model's whole step, whose inputs from the previous step are in that core's cache.
  void run_models(const Step& s, int thread, int threads) {
    const Range mine = share(s.replicas, thread, threads);
    struct Back {
      ~Back() { model = 0; }
    } back;
    for (model = mine.begin; model < mine.end; ++model) run_step(s, Partition::one, 0, 1);
  }

  void run_step(const Step& s, int thread, int threads) {
    if (s.partition == Partition::models)
      run_models(s, thread, threads);
    else
      run_step(s, s.partition, thread, threads);
  }

  // `s` is a step of the table, even if run with another partition, because the steps after it are inspected.
  void run_step(const Step& s, Partition partition, int thread, int threads) {
    if (partition == Partition::one) {
      if (thread != s.owner % threads) return;
      thread = 0, threads = 1;
    }
    const bool by_rows = partition != Partition::tiles;
    const Range all{0, s.rows}, rows = threads == 1 ? all : share(s.rows, thread, threads);
    switch (s.kind) {
      case StepKind::dense:
        dense(tiles_, in<const float>(s, 0), in<const float>(s, 1), s.has_bias ? in<const float>(s, 2) : nullptr, out<float>(s, 0),
              by_rows ? rows : all, by_rows || threads == 1 ? Range{0, s.n} : columns(s.n, thread, threads), s.k, s.n, s.activation,
              s.scalar, next_weights(s));
        break;
      case StepKind::dense_grad_input:
        dense_grad_input(tiles_, in<const float>(s, 0), in<const float>(s, 1), s.has_mask ? in<const float>(s, 2) : nullptr,
                         out<float>(s, 0), by_rows ? rows : all, by_rows || threads == 1 ? Range{0, s.k} : columns(s.k, thread, threads),
                         s.k, s.n, s.activation, s.scalar, next_transposed_weights(s));
        break;
      case StepKind::dense_update: run_update(s, thread, threads); break;
      case StepKind::elementwise: run_elementwise(s, thread, threads); break;
      case StepKind::reduce:
        if (s.reduced == Broadcast::column)
          reduce_matrix(s.reduction, s.reduced, in<const float>(s, 0) + rows.begin * s.n, out<float>(s, 0) + rows.begin, rows.size(), s.n);
        else if (thread == 0)
          reduce_matrix(s.reduction, s.reduced, in<const float>(s, 0), out<float>(s, 0), s.rows, s.n);
        break;
      case StepKind::softmax:
        softmax_rows(in<const float>(s, 0) + rows.begin * s.n, out<float>(s, 0) + rows.begin * s.n, rows.size(), s.n);
        break;
      case StepKind::log_softmax:
        log_softmax_rows(in<const float>(s, 0) + rows.begin * s.n, out<float>(s, 0) + rows.begin * s.n, rows.size(), s.n);
        break;
      case StepKind::sparse_cross_entropy: {
        const View& labels = view(s.first_in + 1);
        check_labels(labels, rows.begin, rows.size(), s.n);
        sparse_cross_entropy_rows(in<const float>(s, 0), labels, rows.begin, rows.size(), s.n, out<float>(s, 0), out<float>(s, 1));
        break;
      }
      case StepKind::dropout:
        dropout_run(in<const float>(s, 0) + rows.begin * s.n, in<const int64_t>(s, 1), s.scalar, out<float>(s, 0) + rows.begin * s.n,
                    s.k + rows.begin * s.n, rows.size() * s.n);
        break;
      case StepKind::copy: run_copy(s, thread, threads); break;
      case StepKind::loop:
      case StepKind::branch: run_nested(s); break;
    }
  }

  // Prefetches the weights of the next dense step, if they are as wide.
  const float* next_weights(const Step& s) const {
    const Step* next = &s + 1;
    return next != table_.steps.data() + table_.steps.size() && next->kind == StepKind::dense && next->n == s.n && next->k >= s.k
               ? in<const float>(*next, 1)
               : nullptr;
  }

  // The same for the next dense_grad_input, which may come after this layer's update.
  const float* next_transposed_weights(const Step& s) const {
    const Step *next = &s + 1, *end = table_.steps.data() + table_.steps.size();
    while (next != end && next->kind == StepKind::dense_update) ++next;
    return next != end && next->kind == StepKind::dense_grad_input && int64_t(next->k) * next->n >= int64_t(s.k) * s.n
               ? in<const float>(*next, 1)
               : nullptr;
  }

  // A layer's gradients for one row, if these two steps are that: the weights are then read once. Returns whether it ran them.
  bool run_pair(int32_t first, int32_t second) {
    const Step &g = table_.steps[size_t(first)], &u = table_.steps[size_t(second)];
    if (names_ || g.kind != StepKind::dense_grad_input || u.kind != StepKind::dense_update || g.rows != 1 || u.rows != 1 ||
        g.replicas != 1 || u.replicas != 1 || u.code < 0 || g.k != u.k || g.n != u.n)
      return false;
    const ElementwiseCode& code = table_.codes[size_t(u.code)];
    if (code.outputs.size() != 1) return false;
    CodeOperand extras[kMostOperands], result;
    gather(u.first_in + 2, u.extras, extras);
    gather(u.first_out, 1, &result);
    const auto descent = descent_of(code, extras);
    if (!descent || extras[descent->w].broadcast != Broadcast::full || result.data != extras[descent->w].data) return false;
    float* w = reinterpret_cast<float*>(result.data);
    const float* dz = in<const float>(g, 0);
    if (in<const float>(g, 1) != w || in<const float>(u, 1) != dz) return false;
    dense_row_backward(tiles_, in<const float>(u, 0), dz, w, g.has_mask ? in<const float>(g, 2) : nullptr, out<float>(g, 0), g.k, g.n,
                       g.activation, g.scalar, descent->rate);
    run_bias_update(u);
    return true;
  }

  void run_update(const Step& s, int thread, int threads) {
    const UpdateOperands u = update_operands(s);
    const int results = s.code >= 0 ? int(table_.codes[size_t(s.code)].outputs.size()) : 0;
    CodeOperand ins[kMostOperands], outs[kMostOperands];
    if (s.code >= 0) {
      gather(s.first_in + 2, s.extras, ins);
      gather(s.first_out, results, outs);
      update_weights(tiles_, u, table_.codes[size_t(s.code)], ins, outs, threads == 1 ? Range{0, s.k} : share(s.k, thread, threads));
    }
    if (thread == threads - 1) run_bias_update(s);  // the last thread's share of rows is never the largest
  }

  void run_bias_update(const Step& s) {
    if (!s.has_bias) return;
    const int results = s.code >= 0 ? int(table_.codes[size_t(s.code)].outputs.size()) : 0;
    CodeOperand ins[kMostOperands], outs[kMostOperands];
    gather(s.first_in + 2 + s.extras, s.ins - 2 - s.extras, ins);
    gather(s.first_out + results, s.outs - results, outs);
    update_bias(tiles_, update_operands(s), table_.codes[size_t(s.code2)], ins, outs);
  }

  UpdateOperands update_operands(const Step& s) const {
    return {.x = in<const float>(s, 0), .dz = in<const float>(s, 1), .rows = s.rows, .k = s.k, .n = s.n};
  }

  void run_elementwise(const Step& s, int thread, int threads) {
    CodeOperand ins[kMostOperands], outs[kMostOperands];
    gather(s.first_in, s.ins, ins);
    gather(s.first_out, s.outs, outs);
    const ElementwiseCode& code = table_.codes[size_t(s.code)];
    if (s.partition == Partition::tiles && threads > 1 && is_flat(ins, s.ins)) {
      constexpr int64_t grain = 64;
      const int64_t size = int64_t(s.rows) * s.n;
      const Range r = share((size + grain - 1) / grain, thread, threads);
      run_code(code, ins, outs, {std::min(size, r.begin * grain), std::min(size, r.end * grain)}, s.n);
    } else {
      const Range r = share(s.rows, thread, threads);
      run_code(code, ins, outs, {r.begin * s.n, r.end * s.n}, s.n);
    }
  }

  void run_copy(const Step& s, int thread, int threads) {
    View x = view(s.first_in), y = view(s.first_out);
    if (threads > 1) {
      if (y.rank == 0 || x.rank != y.rank) {
        if (thread != 0) return;
      } else {
        const Range r = share(y.shape[0], thread, threads);
        for (View* v : {&x, &y}) {
          v->data = static_cast<char*>(v->data) + r.begin * v->strides[0] * int64_t(size_of(v->dtype));
          v->shape[0] = r.size();
        }
      }
    }
    if (y.size() > 0) copy_elements(x, y);
  }

  void gather(int first, int count, CodeOperand* to) const {
    if (count >= kMostOperands) internal_error(cat("a section step has ", count, " operands"));
    for (int i = 0; i < count; ++i) {
      const Operand& o = table_.operands[size_t(first + i)];
      to[i] = {data_[size_t(o.buffer)], o.broadcast};
      if (model > 0) to[i].data += model * o.model_stride * int64_t(size_of(view(first + i).dtype));
    }
  }

  struct Inner;
  void run_nested(const Step& s);

  inline static thread_local int64_t model = 0;  // the model whose parts in(), out() and gather() return
  const KernelCall& call_;
  const Table& table_;
  const Tiles& tiles_;
  const profiler::Name* const names_;
  std::vector<char*> data_;
  std::array<Signal, section::Stages::kMost> parts_done_;
  std::atomic<bool> failed_{false};
  Mutex error_mutex_;
  std::exception_ptr error_;
  size_t failed_step_ = 0;
};

// The table of a loop's body, or of a branch, with its buffers' addresses.
struct Section::Inner {
  Inner(Stream& stream, const section::InnerProgram& program)
      : program(program), views(program.buffers.size()), operands(views.size()), call{stream, program.table.get(), {}, {}} {
    for (size_t i = 0; i < views.size(); ++i) views[i] = program.buffers[i].view, operands[i] = &views[i];
    call.in = operands;
    section.emplace(call, *program.table);
  }
  void bind(char* const* addresses, int64_t slice) {
    for (size_t i = 0; i < views.size(); ++i) {
      const section::InnerBuffer& b = program.buffers[i];
      if (b.operand >= 0) move(i, addresses[b.operand] + b.offset + slice * b.slice);
      if (b.slice) moving.push_back(i);
    }
  }
  void advance(int64_t slices) {
    for (size_t i : moving) move(i, section->data_[i] + slices * program.buffers[i].slice);
    for (Part& part : parts) part.calls.advance(slices);
  }
  void move(size_t buffer, char* to) { views[buffer].data = section->data_[buffer] = to; }
  void run() {
    const std::vector<Step>& steps = program.table->steps;
    size_t i = 0;
    try {
      if (parts.empty())
        for (; i < steps.size(); ++i) section->run_step(steps[i], 0, 1);
      for (const Part& part : parts) {
        part.calls.run();
        if (part.step == steps.size()) break;
        section->run_step(steps[i = part.step], 0, 1);
      }
    } catch (...) {
      section->fail(i);
      section->rethrow();
    }
  }
  // For loops with many iterations: precomputes what iterations have in common. Operands of steps first to last - 1 must not move.
  void prepare(int first, int last) {
    const section::TableWithLoops& table = *program.table;
    parts.emplace_back();
    for (size_t i = 0; i < table.steps.size(); ++i) {
      const Step& s = table.steps[i];
      if (add_calls(s, first, last)) continue;
      parts.back().step = i;
      parts.emplace_back();
    }
    parts.back().step = table.steps.size();
  }
  // Adds an elementwise step to the last part's calls, if they can run it.
  bool add_calls(const Step& s, int first, int last) {
    const section::TableWithLoops& table = *program.table;
    const int64_t n = int64_t(s.rows) * s.n;
    if (s.kind != StepKind::elementwise || !ElementwiseCalls::fits(table.codes[size_t(s.code)], n)) return false;
    bool flat = true;
    auto take = [&](int from, int count) {
      std::vector<CallOperand> out;
      for (int k = from; k < from + count; ++k) {
        const Operand& o = table.operands[size_t(k)];
        const section::InnerBuffer& b = program.buffers[size_t(o.buffer)];
        const bool full = o.broadcast == Broadcast::full || (o.broadcast == Broadcast::row && s.rows == 1) ||
                          (o.broadcast == Broadcast::column && s.n == 1);
        flat = flat && (full || o.broadcast == Broadcast::scalar);
        out.push_back(
            {section->data_[size_t(o.buffer)], !full, b.operand < 0 || (b.operand >= first && b.operand < last && b.slice == 0), b.slice});
      }
      return out;
    };
    const std::vector<CallOperand> in = take(s.first_in, s.ins), out = take(s.first_out, s.outs);
    if (flat) parts.back().calls.add(table.codes[size_t(s.code)], in, out, n);
    return flat;
  }

  const section::InnerProgram& program;
  std::vector<View> views;
  std::vector<const View*> operands;
  KernelCall call;
  std::optional<Section> section;
  std::vector<size_t> moving;
  struct Part {
    ElementwiseCalls calls;
    size_t step = 0;  // runs after them; the number of steps: none
  };
  std::vector<Part> parts;  // of a prepared loop
};
constexpr int64_t kManyIterations = 8;

// One thread runs all of it.
void Section::run_nested(const Step& s) {
  const section::Nested& nested = *static_cast<const section::TableWithLoops&>(table_).nested[size_t(s.code)];
  std::vector<char*> at(size_t(s.ins + s.outs));
  for (int i = 0; i < s.ins + s.outs; ++i)
    at[size_t(i)] = data_[size_t(table_.operands[size_t(i < s.ins ? s.first_in + i : s.first_out + i - s.ins)].buffer)];
  char* const* results = at.data() + s.ins;
  if (nested.kind == section::Nested::Kind::branch) {
    Inner branch(call_.stream, nested.programs[*at[0] ? 0 : 1]);
    branch.bind(at.data(), 0);
    return branch.run();
  }
  InterruptPoll interrupted;
  const size_t carried = nested.carried_bytes.size();
  for (size_t i = 0; i < carried; ++i) std::memcpy(results[i], at[i], size_t(nested.carried_bytes[i]));
  if (nested.kind == section::Nested::Kind::while_loop) {
    Inner condition(call_.stream, nested.programs[0]), body(call_.stream, nested.programs[1]);
    condition.bind(at.data(), 0);
    body.bind(at.data(), 0);
    const char* go_on = at.back();
    int64_t done = 0;
    for (; done != nested.limit; ++done, interrupted()) {
      if (done == kManyIterations) condition.prepare(int(carried), s.ins), body.prepare(int(carried), s.ins);
      condition.run();
      if (!*go_on) break;
      body.run();
    }
    *reinterpret_cast<int64_t*>(results[carried]) = done;
    return;
  }
  int64_t count = nested.limit;
  if (nested.count >= 0) count = std::clamp<int64_t>(*reinterpret_cast<const int64_t*>(at[size_t(nested.count)]), 0, nested.limit);
  for (size_t i = 0; i < nested.stacked_bytes.size() && count < nested.limit; ++i)
    std::memset(results[carried + i] + count * nested.stacked_bytes[i], 0, size_t((nested.limit - count) * nested.stacked_bytes[i]));
  if (count == 0) return;
  Inner body(call_.stream, nested.programs[0]);
  body.bind(at.data(), nested.reverse ? count - 1 : 0);
  if (count > kManyIterations) body.prepare(int(carried), s.ins);
  for (int64_t done = 0;;) {
    body.run();
    if (++done == count) return;
    interrupted();
    body.advance(nested.reverse ? -1 : 1);
  }
}

// A step's error is thrown when all threads have finished: no step after the next barrier runs. A label out of range is therefore found
// before any weight changes, because the update needs the loss. Independent steps may have run.
void run_table(const KernelCall& call, const Table& table, const profiler::Name* names) {
  Section section(call, table, names);
  const int threads = std::min<int>(table.threads, 1 + int(std::min(table.flops / kSectionFlopsPerThread, 1024.0)));
  section::Ways* ways = threads == table.threads ? table.ways.get() : nullptr;
  const section::Ways::Way way = ways ? ways->next() : section::Ways::shared;
  struct Run {
    Section& section;
    section::Ways::Way way;
    int threads;  // that ran it
  } run{section, way, 1};
  const auto job = [](void* r, int thread, int count, ThreadPool::Barrier& barrier) {
    auto& [section, way, ran] = *static_cast<Run*>(r);
    if (thread == 0) ran = count;
    section.run(way, thread, count, barrier);
  };
  const auto began = std::chrono::steady_clock::now();
  if (threads == 1 || way == section::Ways::alone) {
    ThreadPool::NoBarrier barrier;
    job(&run, 0, 1, barrier);
  } else {
    ThreadPool::of(call.stream.device).run(threads, job, &run);
  }
  if (ways && !section.failed() && run.threads == (way == section::Ways::alone ? 1 : threads))
    ways->took(way, std::chrono::steady_clock::now() - began);
  section.rethrow();
}

}  // namespace

void run_section(const KernelCall& call) { run_table(call, *static_cast<const Table*>(call.args), nullptr); }

void run_section_with_loops(const KernelCall& call) {
  const auto& table = *static_cast<const section::TableWithLoops*>(call.args);
  run_table(call, table, profiler::listening() && !table.names.empty() ? table.names.data() : nullptr);
}

}  // namespace lamina::kernels::cpu
