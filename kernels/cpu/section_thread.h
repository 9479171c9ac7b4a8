// A thread of a section's run on the CPU, and what the threads share. Every thread walks the whole table and runs its share of each step,
// with barriers as planned; or its stages or chunks (kernels/section/stages.h).
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <vector>

#include "kernels/cpu/dense.h"
#include "kernels/cpu/section_update.h"
#include "kernels/section/nested.h"
#include "kernels/section/stages.h"
#include "runtime/core/error.h"
#include "runtime/core/mutex.h"
#include "runtime/device/thread_pool.h"

namespace lamina::kernels::cpu {

static_assert(section::Chunks::kBlock == kBiasBlock && section::Chunks::kMostRows == kLongSum);
static_assert(section::Chunks::kMost <= section::Stages::kMost);

// What the threads of a run share.
class SectionRun {
 public:
  // names: of the steps while a profiler listens, else null.
  SectionRun(const KernelCall& run_call, const section::Table& run_table, const profiler::Name* step_names = nullptr)
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
  // Keeps the current exception, if no earlier step has failed yet.
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
  const section::Table& table;
  const profiler::Name* const names;
  std::vector<char*> data;                          // the operands' addresses
  std::array<Signal, section::Stages::kMost> done;  // parts of each stage; or updates of each thread's chunks
  char* chunk_memory = nullptr;                     // for sums, then for each thread's local values; null: the table is not run in chunks

 private:
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  std::exception_ptr error_;
  size_t failed_step_ = 0;
};

// A thread of a run.
class SectionThread {
  using Broadcast = section::Broadcast;
  using Operand = section::Operand;
  using Partition = section::Partition;
  using Step = section::Step;
  using StepKind = section::StepKind;

 public:
  explicit SectionThread(SectionRun& run) : run_(run), table_(run.table), tiles_(tiles()), data_(run.data.data()) {}

  // As `way` says, if there are the threads for it.
  void run(section::Ways::Way way, int thread, int threads, ThreadPool::Barrier& barrier);

 private:
  // Steps first to last - 1, shared among the threads.
  void run_steps(int32_t first, int32_t last, int thread, int threads, ThreadPool::Barrier& barrier, bool& stopped);
  // All of a step, on this thread.
  void run_alone(int32_t i, bool& stopped);
  // f() between what runs before and behind the stages or chunks.
  template <class F>
  void run_between(const section::Within& within, int thread, int threads, ThreadPool::Barrier& barrier, bool& stopped, F&& f);
  void run_stages(const section::Stages& stages, int thread, ThreadPool::Barrier& barrier, bool& stopped);
  void run_chunks(const section::Chunks& chunks, int thread, int threads, ThreadPool::Barrier& barrier, bool& stopped);

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
  const View& view(int operand) const {  // of all rows: a local value's is elsewhere
    const size_t buffer = size_t(table_.operands[size_t(operand)].buffer), ins = run_.call.in.size();
    return buffer < ins ? *run_.call.in[buffer] : *run_.call.out[buffer - ins];
  }

  static Range share(int64_t count, int thread, int threads);
  // Whole tiles of columns, so that tiles do not depend on the number of threads.
  Range columns(int64_t n, int thread, int threads) const;
  // One core runs a model's whole step, whose inputs from the previous step are in that core's cache.
  void run_models(const Step& s, int thread, int threads);
  void run_step(const Step& s, int thread, int threads);
  // `rows`: this thread's, if the step is shared by rows. `s` is a step of the table, even if run with another partition, because the steps
  // after it are inspected.
  void run_step(const Step& s, Partition partition, int thread, int threads, Range rows);
  // Prefetches the weights of the next dense step, if they are as wide.
  const float* next_weights(const Step& s) const;
  // The same for the next dense_grad_input, which may come after this layer's update.
  const float* next_transposed_weights(const Step& s) const;
  // A layer's gradients for one row, if these two steps are that: the weights are then read once. Returns whether it ran them.
  bool run_pair(int32_t first, int32_t second);
  void run_update(const Step& s, int thread, int threads);
  void run_bias_update(const Step& s);
  // Adds these rows' part of the gradients to `sums`; with the last rows, the update.
  void add_to_sums(const Step& s, Range rows, float* sums, bool is_last);
  int weight_results(const Step& s) const;
  void gather_update(const Step& s, CodeOperand* ins, CodeOperand* outs) const;
  void gather_bias_update(const Step& s, CodeOperand* ins, CodeOperand* outs) const;
  UpdateOperands update_operands(const Step& s) const;
  void run_elementwise(const Step& s, int thread, int threads, Range rows);
  void run_copy(const Step& s, int thread, int threads);
  void copy_to_parts(const Step& s);
  void gather(int first, int count, CodeOperand* to) const;

  struct Inner;
  void run_nested(const Step& s);

  SectionRun& run_;
  const section::Table& table_;
  const Tiles& tiles_;
  char** data_;        // the operands' addresses
  int64_t model_ = 0;  // whose parts in(), out() and gather() return
};

}  // namespace lamina::kernels::cpu
