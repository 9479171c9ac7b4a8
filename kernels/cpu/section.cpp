// The CPU interpreter of sections: the entry points, and loops and branches. section_thread.h has the steps.
#include <chrono>
#include <cstring>
#include <optional>

#include "kernels/cpu/elementwise_calls.h"
#include "kernels/cpu/section_thread.h"
#include "runtime/core/config.h"
#include "runtime/core/interrupt.h"
#include "runtime/device/launch_memory.h"

namespace lamina::kernels::cpu {
namespace {

using section::Broadcast;
using section::Operand;
using section::Step;
using section::StepKind;

constexpr double kSectionFlopsPerThread = 1e6;  // about the cost of waking a thread
constexpr int64_t kManyIterations = 8;

}  // namespace

// The table of a loop's body, or of a branch, with its buffers' addresses.
struct SectionThread::Inner {
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
    if (parts.size() != 1)  // some steps are no calls
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
      if (add_calls(s, first, last) || add_copy(s)) continue;
      parts.back().step = i;
      parts.emplace_back();
    }
    parts.back().step = table.steps.size();
  }
  // Adds a copy of a view without gaps to the last part's calls, if it is one.
  bool add_copy(const Step& s) {
    if (s.kind != StepKind::copy || s.ins != 1 || s.outs != 1) return false;
    const auto buffer = [&](int operand) { return size_t(program.table->operands[size_t(operand)].buffer); };
    const size_t from = buffer(s.first_in), to = buffer(s.first_out);
    const View &x = views[from], &y = views[to];
    const int64_t bytes = y.size() * int64_t(size_of(y.dtype));
    if (x.dtype != y.dtype || x.size() != y.size() || !is_contiguous(x) || !is_contiguous(y) || !ElementwiseCalls::fits_copy(bytes))
      return false;
    parts.back().calls.add_copy({.data = run_of->data[from], .slice = program.buffers[from].slice},
                                {.data = run_of->data[to], .slice = program.buffers[to].slice}, bytes);
    return true;
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
  std::optional<SectionRun> run_of;
  std::optional<SectionThread> section;
  std::vector<size_t> moving;
  struct Part {
    ElementwiseCalls calls;
    size_t step = 0;  // runs after them; the number of steps: none
  };
  std::vector<Part> parts;  // of a prepared loop
};

// One thread runs all of it.
void SectionThread::run_nested(const Step& s) {
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

namespace {

// A step's error is thrown when all threads have finished: no step after the next barrier runs, and none that writes a Variable
// (place_barriers, and places_of in stages.cpp). Other steps may have run.
void run_table(const KernelCall& call, const section::Table& table, const profiler::Name* names) {
  using Way = section::Ways::Way;
  struct Job {
    SectionRun run;
    Way way = section::Ways::shared;
    int threads = 1;  // that ran it
  } job{.run{call, table, names}};
  const int threads = std::min<int>(table.threads, 1 + int(std::min(table.flops / kSectionFlopsPerThread, 1024.0)));
  section::Ways* ways = threads > 1 && threads == table.threads ? table.ways.get() : nullptr;
  const auto began = std::chrono::steady_clock::now();
  if (ways) job.way = ways->next();
  const Way way = job.way;
  std::optional<LaunchMemory> memory;
  if (const section::Chunks* chunks = ways ? ways->in_chunks.get() : nullptr; chunks && (way == Way::chunked || way == Way::alone)) {
    try {
      memory.emplace(call.stream, size_t(chunks->sums_bytes + (way == Way::alone ? 1 : threads) * chunks->own_bytes));
      job.run.chunk_memory = static_cast<char*>(memory->data());
    } catch (const Error&) {  // other ways need none
      job.way = section::Ways::shared;
    }
  }
  const auto work = [](void* j, int thread, int count, ThreadPool::Barrier& barrier) {
    Job& of_all = *static_cast<Job*>(j);
    if (thread == 0) of_all.threads = count;
    SectionThread(of_all.run).run(of_all.way, thread, count, barrier);
  };
  if (threads == 1 || way == section::Ways::alone) {
    ThreadPool::NoBarrier barrier;
    work(&job, 0, 1, barrier);
  } else {
    ThreadPool::of(call.stream.device).run(threads, work, &job);
  }
  if (ways && !job.run.failed() && job.way == way && job.threads == (way == section::Ways::alone ? 1 : threads))
    ways->took(way, std::chrono::steady_clock::now() - began);
  job.run.rethrow();
}

}  // namespace

void run_section(const KernelCall& call) { run_table(call, *static_cast<const section::Table*>(call.args), nullptr); }

void run_section_with_loops(const KernelCall& call) {
  const auto& table = *static_cast<const section::TableWithLoops*>(call.args);
  run_table(call, table, profiler::listening() && !table.names.empty() ? table.names.data() : nullptr);
}

}  // namespace lamina::kernels::cpu
