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
#include "runtime/device/launch_memory.h"
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
static_assert(section::Chunks::kBlock == kBiasBlock && section::Chunks::kMostRows == kLongSum);
static_assert(section::Chunks::kMost <= section::Stages::kMost);

// What the threads of a run share.
class Run {
 public:
  // names: of the steps while a profiler listens, else null.
  Run(const KernelCall& run_call, const Table& run_table, const profiler::Name* step_names = nullptr)
      : call(run_call), table(run_table), names(step_names) {
    // Views are scattered in memory, so addresses that are used several times are cached.
    data.reserve(call.in.size() + call.out.size());
    for (const View* v : call.in) data.push_back(static_cast<char*>(v->data));
    for (const View* v : call.out) data.push_back(static_cast<char*>(v->data));
  }

  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  void rethrow() {
    if (error_) std::rethrow_exception(error_);
  }
  // Keeps the current exception, if no earlier step has failed, whichever thread came first.
  void fail(size_t step) {
    std::lock_guard lock(mutex_);
    failed_.store(true, std::memory_order_relaxed);
    if (error_ && failed_step_ <= step) return;
    failed_step_ = step;
    error_ = std::current_exception();
    if (step >= table.lines.size() || !table.lines[step].known()) return;
    try {
      std::rethrow_exception(error_);
    } catch (const Error& e) {
      error_ = std::make_exception_ptr(e.at(text(table.lines[step])));
    } catch (...) {
    }
  }

  const KernelCall& call;
  const Table& table;
  const profiler::Name* const names;
  std::vector<char*> data;                          // the operands' addresses
  std::array<Signal, section::Stages::kMost> done;  // parts of each stage; or updates of each thread's chunks
  char* of_chunks = nullptr;  // memory for sums, then for each thread's local values and addresses; null: the table is not run so
  int64_t own_bytes(const section::Chunks& chunks) const {
    return chunks.own_bytes + (int64_t(data.size() * sizeof(char*)) + 63) / 64 * 64;
  }

 private:
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  std::exception_ptr error_;
  size_t failed_step_ = 0;
};

// A thread of a run.
class Section {
 public:
  explicit Section(Run& run) : run_(run), table_(run.table), tiles_(tiles()), data_(run.data.data()) {}

  // As `way` says, if there are the threads for it.
  void run(section::Ways::Way way, int thread, int threads, ThreadPool::Barrier& barrier) {
    const section::Ways* ways = table_.ways.get();
    bool stopped = false;
    const bool on_all = ways && threads == table_.threads;
    if (run_.of_chunks && (threads == 1 || (on_all && way == section::Ways::chunked)))
      return run_chunks(*ways->in_chunks, thread, threads, barrier, stopped);
    if (ways && threads == 1 && ways->on_one) return run_stages(*ways->on_one, thread, barrier, stopped);
    if (on_all && way == section::Ways::staged && ways->on_all) return run_stages(*ways->on_all, thread, barrier, stopped);
    run_steps(0, int32_t(table_.steps.size()), thread, threads, barrier, stopped);
  }

 private:
  // Steps first to last - 1, shared among the threads.
  void run_steps(int32_t first, int32_t last, int thread, int threads, ThreadPool::Barrier& barrier, bool& stopped) {
    for (int32_t i = first; i < last; ++i) {
      const Step& step = table_.steps[size_t(i)];
      if (step.barrier_before && threads > 1) meet(barrier, stopped);
      const bool mine = step.partition != Partition::one || thread == step.owner % threads;
      i += run_guarded(i, threads == 1 && i + 1 < last ? i + 1 : -1, mine, stopped, [&] { run_step(step, thread, threads); }) - 1;
    }
  }

  // All of a step, on this thread.
  void run_alone(int32_t i, bool& stopped) {
    run_guarded(i, -1, true, stopped, [&] { run_step(table_.steps[size_t(i)], 0, 1); });
  }

  // f() between what runs before and behind the stages or chunks.
  template <class Way, class F>
  void run_between(const Way& way, int thread, int threads, ThreadPool::Barrier& barrier, bool& stopped, F&& f) {
    run_steps(0, way.first, thread, threads, barrier, stopped);
    meet(barrier, stopped);
    if (thread == 0)
      for (int32_t i : way.before) run_alone(i, stopped);
    meet(barrier, stopped);
    f();
    meet(barrier, stopped);
    if (thread == 0)
      for (int32_t i : way.after) run_alone(i, stopped);
    if (!way.after.empty()) meet(barrier, stopped);
    run_steps(way.last, int32_t(table_.steps.size()), thread, threads, barrier, stopped);
  }

  void run_stages(const section::Stages& stages, int thread, ThreadPool::Barrier& barrier, bool& stopped) {
    const int threads = stages.threads, parts = stages.parts;
    if (thread == 0) barrier.expect_waits(stages.idle);
    run_between(stages, thread, threads, barrier, stopped, [&] {
      for (size_t s = 0; s < stages.stages.size(); ++s) {
        const section::Stages::Stage& stage = stages.stages[s];
        if (stage.thread != thread) continue;
        for (int part = 0; part < parts; ++part) {
          if (s > 0) barrier.wait_until(run_.done[s - 1], uint32_t(part + 1));
          stopped = stopped || run_.failed();
          for (int32_t i = stage.begin; i < stage.end; ++i) {
            const section::Stages::Item item = stages.items[size_t(i)];
            const int32_t next = parts == 1 && i + 1 < stage.end ? stages.items[size_t(i) + 1].step : -1;
            if (item.whole && part == parts - 1)
              run_alone(item.step, stopped);
            else if (!item.whole)
              i += run_guarded(item.step, next, true, stopped, [&] { run_step(table_.steps[size_t(item.step)], part, parts); }) - 1;
          }
          run_.done[s].advance();
        }
        for (int32_t i = stage.end; i < stage.tail; ++i) run_alone(stages.items[size_t(i)].step, stopped);
      }
    });
  }

  void run_chunks(const section::Chunks& chunks, int thread, int threads, ThreadPool::Barrier& barrier, bool& stopped) {
    const int count = chunks.count();
    if (thread == 0) barrier.expect_waits(threads - double(count) / ((count + threads - 1) / threads));
    run_between(chunks, thread, threads, barrier, stopped, [&] {
      float* const sums = reinterpret_cast<float*>(run_.of_chunks);
      char* const own = run_.of_chunks + chunks.sums_bytes + thread * run_.own_bytes(chunks);
      data_ = reinterpret_cast<char**>(own + chunks.own_bytes);
      std::copy(run_.data.begin(), run_.data.end(), data_);
      const int before = (thread + threads - 1) % threads;
      for (int chunk = thread; chunk < count; chunk += threads) {
        const Range rows{int64_t(chunk) * chunks.chunk, std::min<int64_t>(chunks.rows, int64_t(chunk + 1) * chunks.chunk)};
        for (const section::Chunks::Local& local : chunks.locals)  // so that a step finds these rows where it looks for them
          data_[local.buffer] = own + local.at - rows.begin * local.row_bytes;
        uint32_t updates =
            uint32_t(chunk == 0 ? 0 : (chunk - 1) / threads * chunks.updates);  // that the thread of the chunk before has made
        for (const section::Chunks::Item& item : chunks.items) {
          const Step& step = table_.steps[size_t(item.step)];
          if (item.sums < 0) {
            run_guarded(item.step, -1, true, stopped, [&] { run_step(step, Partition::rows, chunk, count, rows); });
            continue;
          }
          if (chunk > 0) barrier.wait_until(run_.done[size_t(before)], ++updates);
          stopped = stopped || run_.failed();
          run_guarded(item.step, -1, true, stopped, [&] { add_to_sums(step, rows, sums + item.sums, chunk == count - 1); });
          run_.done[size_t(thread)].advance();
        }
      }
      data_ = run_.data.data();
    });
  }

  void meet(ThreadPool::Barrier& barrier, bool& stopped) {
    barrier.wait();
    stopped = stopped || run_.failed();
  }

  // Calls f, which runs step i, or runs it and the one that this thread runs next (or -1) as a pair; returns how many. After an error
  // nothing runs, but threads still meet: none may be left waiting.
  template <class F>
  int run_guarded(int32_t i, int32_t next, bool mine, bool& stopped, F&& f) {
    if (stopped) return 1;
    try {
      if (next >= 0 && table_.steps[size_t(i)].rows == 1 && run_pair(i, next)) return 2;
      const profiler::Scope range(mine && run_.names ? run_.names + i : nullptr, int64_t(i));
      f();
    } catch (...) {
      stopped = true;
      run_.fail(size_t(i));
    }
    return 1;
  }

  template <class T>
  T* in(const Step& s, int i) const {
    const Operand& o = table_.operands[size_t(s.first_in + i)];
    return reinterpret_cast<T*>(data_[o.buffer]) + model_ * o.model_stride;
  }
  template <class T>
  T* out(const Step& s, int i) const {
    const Operand& o = table_.operands[size_t(s.first_out + i)];
    return reinterpret_cast<T*>(data_[o.buffer]) + model_ * o.model_stride;
  }
  View view(int operand) const {
    const size_t buffer = size_t(table_.operands[size_t(operand)].buffer), ins = run_.call.in.size();
    View out = buffer < ins ? *run_.call.in[buffer] : *run_.call.out[buffer - ins];
    out.data = data_[buffer];
    return out;
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
      int64_t& model;
      ~Back() { model = 0; }
    } back{model_};
    for (model_ = mine.begin; model_ < mine.end; ++model_) run_step(s, Partition::one, 0, 1, {0, s.rows});
  }

  void run_step(const Step& s, int thread, int threads) {
    if (s.partition == Partition::models)
      run_models(s, thread, threads);
    else
      run_step(s, s.partition, thread, threads, share(s.rows, thread, threads));
  }

  // `rows`: this thread's, if the step is shared by rows. `s` is a step of the table, even if run with another partition, because the steps
  // after it are inspected.
  void run_step(const Step& s, Partition partition, int thread, int threads, Range rows) {
    const Range all{0, s.rows};
    if (partition == Partition::one) {
      if (thread != s.owner % threads) return;
      thread = 0, threads = 1, rows = all;
    }
    const bool by_rows = partition != Partition::tiles;
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
      case StepKind::elementwise: run_elementwise(s, thread, threads, rows); break;
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
        const View labels = view(s.first_in + 1);
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
    if (run_.names || g.kind != StepKind::dense_grad_input || u.kind != StepKind::dense_update || g.rows != 1 || u.rows != 1 ||
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
    CodeOperand ins[kMostOperands], outs[kMostOperands];
    if (s.code >= 0) {
      gather_update(s, ins, outs);
      update_weights(tiles_, update_operands(s), table_.codes[size_t(s.code)], ins, outs,
                     threads == 1 ? Range{0, s.k} : share(s.k, thread, threads));
    }
    if (thread == threads - 1) run_bias_update(s);  // the last thread's share of rows is never the largest
  }

  void run_bias_update(const Step& s) {
    if (!s.has_bias) return;
    CodeOperand ins[kMostOperands], outs[kMostOperands];
    gather_bias_update(s, ins, outs);
    update_bias(tiles_, update_operands(s), table_.codes[size_t(s.code2)], ins, outs);
  }

  // Adds these rows' part of the gradients to `sums`; with the last rows, the update.
  void add_to_sums(const Step& s, Range rows, float* sums, bool is_last) {
    const UpdateOperands u = update_operands(s);
    float* blocks = sums + u.k * u.n;
    add_dense_gradients(tiles_, u.x, u.dz, rows, u.k, u.n, s.code >= 0 ? sums : nullptr, s.has_bias ? blocks : nullptr);
    if (!is_last) return;
    CodeOperand ins[kMostOperands], outs[kMostOperands];
    if (s.code >= 0) {
      gather_update(s, ins, outs);
      update_by(tiles_, sums, table_.codes[size_t(s.code)], ins, outs, {0, u.k * u.n}, u.n);
    }
    if (!s.has_bias) return;
    float* db = thread_scratch(Scratch::strip, u.n);
    add_bias_blocks(blocks, u.rows, u.n, db);
    gather_bias_update(s, ins, outs);
    update_by(tiles_, db, table_.codes[size_t(s.code2)], ins, outs, {0, u.n}, u.n);
  }

  int weight_results(const Step& s) const { return s.code >= 0 ? int(table_.codes[size_t(s.code)].outputs.size()) : 0; }
  void gather_update(const Step& s, CodeOperand* ins, CodeOperand* outs) const {
    gather(s.first_in + 2, s.extras, ins);
    gather(s.first_out, weight_results(s), outs);
  }
  void gather_bias_update(const Step& s, CodeOperand* ins, CodeOperand* outs) const {
    gather(s.first_in + 2 + s.extras, s.ins - 2 - s.extras, ins);
    gather(s.first_out + weight_results(s), s.outs - weight_results(s), outs);
  }

  UpdateOperands update_operands(const Step& s) const {
    return {.x = in<const float>(s, 0), .dz = in<const float>(s, 1), .rows = s.rows, .k = s.k, .n = s.n};
  }

  void run_elementwise(const Step& s, int thread, int threads, Range rows) {
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
      run_code(code, ins, outs, {rows.begin * s.n, rows.end * s.n}, s.n);
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
      to[i] = {data_[o.buffer], o.broadcast};
      if (model_ > 0) to[i].data += model_ * o.model_stride * int64_t(size_of(view(first + i).dtype));
    }
  }

  struct Inner;
  void run_nested(const Step& s);

  Run& run_;
  const Table& table_;
  const Tiles& tiles_;
  char** data_;        // the operands' addresses
  int64_t model_ = 0;  // whose parts in(), out() and gather() return
};

// The table of a loop's body, or of a branch, with its buffers' addresses.
struct Section::Inner {
  Inner(Stream& stream, const section::InnerProgram& program)
      : program(program), views(program.buffers.size()), operands(views.size()), call{stream, program.table.get(), {}, {}} {
    for (size_t i = 0; i < views.size(); ++i) views[i] = program.buffers[i].view, operands[i] = &views[i];
    call.in = operands;
    run_of.emplace(call, *program.table);
    section.emplace(*run_of);
  }
  void bind(char* const* addresses, int64_t slice) {
    for (size_t i = 0; i < views.size(); ++i) {
      const section::InnerBuffer& b = program.buffers[i];
      if (b.operand >= 0) move(i, addresses[b.operand] + b.offset + slice * b.slice);
      if (b.slice) moving.push_back(i);
    }
  }
  void advance(int64_t slices) {
    for (size_t i : moving) move(i, run_of->data[i] + slices * program.buffers[i].slice);
    for (Part& part : parts) part.calls.advance(slices);
  }
  void move(size_t buffer, char* to) { views[buffer].data = run_of->data[buffer] = to; }
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
      run_of->fail(i);
      run_of->rethrow();
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
            {run_of->data[size_t(o.buffer)], !full, b.operand < 0 || (b.operand >= first && b.operand < last && b.slice == 0), b.slice});
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
  std::optional<Run> run_of;
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
    at[size_t(i)] = data_[table_.operands[size_t(i < s.ins ? s.first_in + i : s.first_out + i - s.ins)].buffer];
  char* const* results = at.data() + s.ins;
  if (nested.kind == section::Nested::Kind::branch) {
    Inner branch(run_.call.stream, nested.programs[*at[0] ? 0 : 1]);
    branch.bind(at.data(), 0);
    return branch.run();
  }
  InterruptPoll interrupted;
  const size_t carried = nested.carried_bytes.size();
  for (size_t i = 0; i < carried; ++i) std::memcpy(results[i], at[i], size_t(nested.carried_bytes[i]));
  if (nested.kind == section::Nested::Kind::while_loop) {
    Inner condition(run_.call.stream, nested.programs[0]), body(run_.call.stream, nested.programs[1]);
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
  Inner body(run_.call.stream, nested.programs[0]);
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
  Run run(call, table, names);
  const int threads = std::min<int>(table.threads, 1 + int(std::min(table.flops / kSectionFlopsPerThread, 1024.0)));
  section::Ways* ways = threads > 1 && threads == table.threads ? table.ways.get() : nullptr;
  const section::Ways::Way way = ways ? ways->next() : section::Ways::shared;
  std::optional<LaunchMemory> memory;
  if (ways && ways->in_chunks && (way == section::Ways::chunked || way == section::Ways::alone)) try {
      memory.emplace(call.stream, size_t(ways->in_chunks->sums_bytes + threads * run.own_bytes(*ways->in_chunks)));
      run.of_chunks = static_cast<char*>(memory->data());
    } catch (const Error&) {  // the other ways need none
    }
  struct Job {
    Run& run;
    section::Ways::Way way;
    int threads;  // that ran it
  } job{run, way, 1};
  const auto work = [](void* j, int thread, int count, ThreadPool::Barrier& barrier) {
    auto& [shared, own_way, ran] = *static_cast<Job*>(j);
    if (thread == 0) ran = count;
    Section(shared).run(own_way, thread, count, barrier);
  };
  const auto began = std::chrono::steady_clock::now();
  if (threads == 1 || way == section::Ways::alone) {
    ThreadPool::NoBarrier barrier;
    work(&job, 0, 1, barrier);
  } else {
    ThreadPool::of(call.stream.device).run(threads, work, &job);
  }
  if (ways && !run.failed() && job.threads == (way == section::Ways::alone ? 1 : threads))
    ways->took(way, std::chrono::steady_clock::now() - began);
  run.rethrow();
}

}  // namespace

void run_section(const KernelCall& call) { run_table(call, *static_cast<const Table*>(call.args), nullptr); }

void run_section_with_loops(const KernelCall& call) {
  const auto& table = *static_cast<const section::TableWithLoops*>(call.args);
  run_table(call, table, profiler::listening() && !table.names.empty() ? table.names.data() : nullptr);
}

}  // namespace lamina::kernels::cpu
