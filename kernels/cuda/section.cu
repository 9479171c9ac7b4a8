#include "kernels/cuda/section.h"

#include <optional>

#include "kernels/cuda/section_infeed.h"
#include "kernels/cuda/section_kernel.h"
#include "kernels/section/rank_sums.h"
#include "kernels/sparse_cross_entropy.h"
#include "runtime/core/error.h"
#include "runtime/core/interrupt.h"
#include "runtime/device/backend.h"

namespace lamina::kernels::cuda {
LAMINA_KERNEL(256, 1) section_kernel(LAMINA_ARGUMENT resident::Arguments a) { resident::run_block<false>(a); }

namespace {

using section::BlockPlan;
using section::BlockSection;

Error describe(const Fault& f, const std::string&) {
  if (f.which == resident::kStopped)
    return Error(ErrorKind::collective, {.what = "a step of several ranks was stopped before, and cannot go on",
                                         .where = "",
                                         .why = "other ranks wait for what this one has not told them",
                                         .fix = "start the job again, from its last checkpoint"});
  if (f.which == resident::kBadLabel)
    return label_out_of_range(f.value, f.limit, f.place, "; nothing that depends on the loss has changed");
  return Error(ErrorKind::device, {.what = "a section waited too long for its other blocks and stopped",
                                   .where = cat("step ", f.value),
                                   .why = "they were not all running, or the GPU is shared and very busy",
                                   .fix = "run it again; report it if it happens on a GPU that nobody else uses"});
}

constexpr unsigned long long kLaunchNanoseconds = 100'000'000;  // longer launches leave and continue, so that Ctrl-C and errors are noticed

std::span<const char> as_bytes(const std::vector<uint32_t>& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint32_t)};
}

// Places of a block's ring. A GPU takes long to tell its properties.
int ring_on([[maybe_unused]] Device device) {
#if defined(__CUDACC__)
  return resident::places_within(size_t(backend_of(device).properties(device).shared_memory_per_block));
#else
  return resident::places_within(emulation::settings().shared_bytes);
#endif
}

// The section's state for a stream; for a recorded launch the recording's, which owns the memory.
BlockSection::OnDevice& on_device(const BlockSection& s, Stream& stream, BlockSection::OnDevice& recorded) {
  int ring = 0;
  for (BlockSection::OnDevice& d : s.copies) {
    if (d.stream == stream) return d;
    if (d.stream.device == stream.device) ring = d.ring;
  }
  Backend& backend = *stream.backend;
  const std::vector<uint32_t> zeros(size_t(resident::words_of_state(s.plan.program)), 0);
  BlockSection::OnDevice d{.stream = stream,
                           .ring = ring > 0 ? ring : ring_on(stream.device),
                           .program = nullptr,
                           .state = nullptr,
                           .state_bytes = zeros.size() * 4};
  if (void* state = backend.memory_of_recording(&s, as_bytes(zeros))) {
    d.state = static_cast<uint32_t*>(state);
    d.program = backend.memory_of_recording(&s.plan, s.plan.bytes);
    return recorded = d;
  }
  d.program = backend.allocate(stream, s.plan.bytes.size());
  backend.copy(stream, d.program, s.plan.bytes.data(), s.plan.bytes.size(), CopyKind::to_device);
  d.state = static_cast<uint32_t*>(backend.allocate(stream, d.state_bytes));
  backend.copy(stream, d.state, zeros.data(), d.state_bytes, CopyKind::to_device);
  backend.synchronize(stream);
  s.copies.push_back(d);
  return s.copies.back();
}

resident::Arguments arguments_of(const KernelCall& call, const BlockSection& s, const BlockSection::OnDevice& d, const Infeed* infeed) {
  resident::Arguments a;
  a.program = static_cast<const char*>(d.program);
  a.places = s.plan.program;
  a.state = d.state;
  a.faults = call.stream.backend->fault_site(call.stream, describe);
  for (size_t i = 0; i < s.plan.base_of.size(); ++i) {
    const BlockPlan::Base& base = s.plan.base_of[i];
    if (base.buffer < 0) {
      a.at[i] = base.constant;
      continue;
    }
    const View& v = size_t(base.buffer) < call.in.size() ? *call.in[size_t(base.buffer)] : *call.out[size_t(base.buffer) - call.in.size()];
    char* const ring = infeed ? infeed->ring_of(base.buffer) : nullptr;
    a.at[i] = (ring ? ring : static_cast<char*>(v.data)) - base.offset;
  }
  a.windows = d.windows;
  a.rank = s.ranks ? s.ranks->rank() : 0;
  a.launch = s.launches;
  a.clock = nullptr;
  a.most_nanoseconds = s.plan.may_be_long ? kLaunchNanoseconds : 0;
  a.goes_on = 0;
  a.ring = d.ring;
  return a;
}

// Before a launch with sums over ranks. All of a rank's launches come one after the other.
void begin_with_ranks(const BlockSection& s, Stream& stream, BlockSection::OnDevice& d) {
  section::require_roots(s.plan.steps, s.table->sums, s.ranks->rank());
  const std::vector<char*>& windows = s.ranks->begin(stream, s.plan.windows);
  for (BlockSection::OnDevice& other : s.copies)
    if (other.stream != stream) other.stream.backend->synchronize(other.stream);
  ++s.launches;
  if (d.windows) return;
  d.windows_bytes = windows.size() * sizeof(char*);
  d.windows = static_cast<char**>(stream.backend->allocate(stream, d.windows_bytes));
  stream.backend->copy(stream, d.windows, windows.data(), d.windows_bytes, CopyKind::to_device);
}

// The clock of a call's steps, if it is on.
class StepClock {
 public:
  StepClock(const BlockSection& s, Stream& stream) : section_(s), stream_(stream) {
    if (!profiler::step_clock_runs()) return;
    entries_.resize(section::clock_entries(s.plan));
    memory_.emplace(stream, int64_t(entries_.size()));
    stream.backend->copy(stream, memory_->data(), entries_.data(), bytes(), CopyKind::to_device);
  }
  StepClock(const StepClock&) = delete;
  section::BlockClock* memory() const { return memory_ ? memory_->data() : nullptr; }
  // After the call's last launch has been started.
  void read() {
    if (!memory_) return;
    stream_.backend->copy(stream_, entries_.data(), memory_->data(), bytes(), CopyKind::to_host);
    profiler::add_device_steps(section::times_of_steps(section_.plan, entries_));
  }

 private:
  size_t bytes() const { return entries_.size() * sizeof(section::BlockClock); }
  const BlockSection& section_;
  Stream& stream_;
  std::vector<section::BlockClock> entries_;
  std::optional<Scratch<section::BlockClock>> memory_;
};

// A launch error stays cudart's last error, which the backend reads when this function returns.
bool was_launched([[maybe_unused]] const Stream& stream) {
#if defined(__CUDACC__)
  return !lamina::cuda::launch_failed(stream);
#else
  return true;
#endif
}

void launch_kernel(Stream& stream, const BlockSection& s, const LaunchShape& shape, const resident::Arguments& a) {
  if (s.ranks)
    launch_of_ranks(stream, shape, a);
  else
    launch<section_kernel>(stream, shape, a);
}
void launch_with_infeed(Stream& stream, const BlockSection& s, const LaunchShape& shape, const resident::Arguments& a, Infeed& infeed) {
  infeed.prepare();
#if !defined(__CUDACC__)
  const HostTurns turns(infeed);
#endif
  launch_kernel(stream, s, shape, a);
  if (was_launched(stream)) infeed.follow();
}
// After an error: a launch that waits for slices leaves when none arrive, and until then reads the rings.
void wait_for_the_end(Stream& stream, BlockSection::OnDevice& d) {
  for (Stream* one : {&stream, &d.infeed_stream}) {
    try {
      one->backend->synchronize(*one);
    } catch (...) {  // the first error is thrown instead
    }
  }
}

int resident_blocks([[maybe_unused]] Device device) {
#if defined(__CUDACC__)
  return lamina::cuda::resident_blocks(device, reinterpret_cast<const void*>(section_kernel), section::kBlockThreads,
                                       resident::shared_bytes(ring_on(device)));
#else
  return int(emulation::settings().resident_blocks);
#endif
}

const bool registered = [] {
  static constexpr section::BlockRunner runner{run_section, resident_blocks};
  section::set_block_runner(&runner);
  return true;
}();

}  // namespace

void run_section(const KernelCall& call) {
  const auto& s = *static_cast<const BlockSection*>(call.args);
  std::lock_guard lock(s.mutex);
  BlockSection::OnDevice recorded;
  BlockSection::OnDevice& d = on_device(s, call.stream, recorded);
  if (s.ranks) begin_with_ranks(s, call.stream, d);
  std::optional<Infeed> infeed;
  if (s.plan.infeed.chunk > 0) infeed.emplace(s, d, call);
  resident::Arguments a = arguments_of(call, s, d, infeed ? &*infeed : nullptr);
  const LaunchShape shape{.grid = {unsigned(s.plan.program.blocks)},
                          .threads = unsigned(section::kBlockThreads),
                          .shared_bytes = resident::shared_bytes(a.ring),
                          .cooperative = true};
  StepClock clock(s, call.stream);
  a.clock = clock.memory();
  const auto start = [&] {
    if (infeed)
      launch_with_infeed(call.stream, s, shape, a, *infeed);
    else
      launch_kernel(call.stream, s, shape, a);
    if (!was_launched(call.stream)) return false;
    if (s.ranks) s.ranks->started(call.stream);
    return true;
  };
  if (!s.plan.may_be_long) {
    if (start()) clock.read();
    return;
  }
  // Holds the lock until the launch has ended, so that no other call launches the section on this stream.
  Backend& backend = *call.stream.backend;
  uint32_t* const word = d.state + s.plan.program.counters + resident::kGoOn;
  uint32_t go_on = 0;
  backend.copy(call.stream, word, &go_on, sizeof go_on, CopyKind::to_device);  // an interrupted run may have left another value
  try {
    for (InterruptPoll interrupted;; interrupted()) {
      if (!start()) return;
      backend.copy(call.stream, &go_on, word, sizeof go_on, CopyKind::to_host);
      if (go_on == 0) return clock.read();
      a.goes_on = 1;
    }
  } catch (...) {
    if (infeed) wait_for_the_end(call.stream, d);
    throw;
  }
}

}  // namespace lamina::kernels::cuda
