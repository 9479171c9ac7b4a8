#include "kernels/cpu/section_thread.h"

#include <algorithm>

namespace lamina::kernels::cpu {
namespace {

char* moved(char* address, int64_t bytes) {  // also to where no memory is
  return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(address) + uintptr_t(bytes));
}

}  // namespace

void SectionThread::run(section::Ways::Way way, int thread, int threads, ThreadPool::Barrier& barrier) {
  const section::Ways* ways = table_.ways.get();
  bool stopped = false;
  const bool on_all = ways && threads == table_.threads;
  if (run_.chunk_memory && (threads == 1 || (on_all && way == section::Ways::chunked)))
    return run_chunks(*ways->in_chunks, thread, threads, barrier, stopped);
  if (ways && threads == 1 && ways->on_one) return run_stages(*ways->on_one, thread, barrier, stopped);
  if (on_all && way == section::Ways::staged && ways->on_all) return run_stages(*ways->on_all, thread, barrier, stopped);
  run_steps(0, int32_t(table_.steps.size()), thread, threads, barrier, stopped);
}

void SectionThread::run_steps(int32_t first, int32_t last, int thread, int threads, ThreadPool::Barrier& barrier, bool& stopped) {
  for (int32_t i = first; i < last; ++i) {
    const Step& step = table_.steps[size_t(i)];
    if (step.barrier_before && threads > 1) meet(barrier, stopped);
    const bool mine = step.partition != Partition::one || thread == step.owner % threads;
    i += run_guarded(i, threads == 1 && i + 1 < last ? i + 1 : -1, mine, stopped, [&] { run_step(step, thread, threads); }) - 1;
  }
}

void SectionThread::run_alone(int32_t i, bool& stopped) {
  run_guarded(i, -1, true, stopped, [&] { run_step(table_.steps[size_t(i)], 0, 1); });
}

template <class F>
void SectionThread::run_between(const section::Within& within, int thread, int threads, ThreadPool::Barrier& barrier, bool& stopped,
                                F&& f) {
  run_steps(0, within.first, thread, threads, barrier, stopped);
  meet(barrier, stopped);
  if (thread == 0)
    for (int32_t i : within.before) run_alone(i, stopped);
  meet(barrier, stopped);
  f();
  meet(barrier, stopped);
  if (thread == 0)
    for (int32_t i : within.after) run_alone(i, stopped);
  if (!within.after.empty()) meet(barrier, stopped);
  run_steps(within.last, int32_t(table_.steps.size()), thread, threads, barrier, stopped);
}

void SectionThread::run_stages(const section::Stages& stages, int thread, ThreadPool::Barrier& barrier, bool& stopped) {
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

void SectionThread::run_chunks(const section::Chunks& chunks, int thread, int threads, ThreadPool::Barrier& barrier, bool& stopped) {
  if (thread == 0) {
    const int64_t turns = (chunks.count + threads - 1) / threads;
    barrier.expect_waits(threads - double(chunks.rows) / double(turns * chunks.most_rows()));
  }
  std::vector<char*> addresses;
  run_guarded(chunks.first, -1, false, stopped, [&] { addresses = run_.data; });
  run_between(chunks, thread, threads, barrier, stopped, [&] {
    if (!stopped) data_ = addresses.data();
    char* const own = run_.chunk_memory + chunks.sums_bytes + thread * chunks.own_bytes;
    const auto updates = uint32_t(std::count_if(chunks.items.begin(), chunks.items.end(), [](const auto& item) { return item.sums >= 0; }));
    Signal& before = run_.done[size_t((thread + threads - 1) % threads)];  // of the thread with the chunk before
    for (int chunk = thread; chunk < chunks.count; chunk += threads) {
      const Range rows{chunks.begin(chunk), chunks.begin(chunk + 1)};
      for (const section::Chunks::Local& local : chunks.locals)  // so that a step finds these rows where it looks for them
        if (!stopped) data_[local.buffer] = moved(own + local.at, -rows.begin * local.row_bytes);
      uint32_t updates_before = chunk == 0 ? 0 : uint32_t((chunk - 1) / threads) * updates;
      for (const section::Chunks::Item& item : chunks.items) {
        const Step& step = table_.steps[size_t(item.step)];
        if (item.sums < 0) {
          run_guarded(item.step, -1, true, stopped, [&] { run_step(step, Partition::rows, chunk, chunks.count, rows); });
          continue;
        }
        if (chunk > 0) barrier.wait_until(before, ++updates_before);
        stopped = stopped || run_.failed();
        float* const sums = reinterpret_cast<float*>(run_.chunk_memory + item.sums);
        run_guarded(item.step, -1, true, stopped, [&] { add_to_sums(step, rows, sums, chunk == chunks.count - 1); });
        run_.done[size_t(thread)].advance();
      }
    }
    data_ = run_.data.data();
  });
}

}  // namespace lamina::kernels::cpu
