#include "kernels/cuda/section.h"

#include "kernels/cuda/section_rows.h"
#include "kernels/cuda/section_turn.h"
#include "kernels/cuda/section_update.h"
#include "kernels/sparse_cross_entropy.h"
#include "runtime/core/error.h"
#include "runtime/core/interrupt.h"
#include "runtime/device/backend.h"

namespace lamina::kernels::cuda {
namespace resident {

// Each thread watches one counter. False when the launch is to end.
LAMINA_DEVICE bool wait_for_others(const Block& b, const BlockStep& s, int number) {
  const Arguments& a = b.arguments;
  const unsigned times = b.turns().begun[s.run];  // counters go on from one time to the next one
  const section::BlockWait* waits = reinterpret_cast<const section::BlockWait*>(a.program + a.places.waits_at) + s.first_wait;
  bool stopped = false;
  for (int w = int(thread_index()); w < s.waits; w += kThreads) {
    const unsigned* counter = a.state + waits[w].counter;
    if (!poll(a, counter, number, [&](unsigned value) { return int(value - unsigned(waits[w].until) * times) >= 0; })) stopped = true;
  }
  return !sync_block_or(stopped);
}

// False when the launch is to end.
LAMINA_DEVICE bool run_step(Block& b, const BlockStep& s) {
  bool good = true;
  const Rows models = b.models_of(s);
  for (b.model = models.begin; b.model < models.end; ++b.model) {
    switch (s.kind) {
      case StepKind::dense: product<false>(b, s); break;
      case StepKind::dense_grad_input: product<true>(b, s); break;
      case StepKind::dense_update: update(b, s); break;
      case StepKind::elementwise: elementwise(b, s); break;
      case StepKind::reduce: reduce(b, s); break;
      case StepKind::softmax:
      case StepKind::log_softmax: softmax(b, s); break;
      case StepKind::sparse_cross_entropy: good = cross_entropy(b, s); break;
      case StepKind::dropout: dropout(b, s); break;
      case StepKind::copy: copy(b, s); break;
      default: break;  // the planner takes no others
    }
    if (s.kind != StepKind::dense && s.kind != StepKind::dense_grad_input && b.model + 1 < models.end) sync_block();  // scratch memory
  }
  b.model = 0;
  if (s.kind != StepKind::dense && s.kind != StepKind::dense_grad_input) b.held_buffer = -1;
  if (s.kind != StepKind::sparse_cross_entropy) return true;
  if (!good && lane() == 0) atomic_cas(b.arguments.state + b.arguments.places.counters + kAbort, 0u, 1u);
  return !sync_block_or(!good);
}

LAMINA_DEVICE void run_block(const Arguments& a) {
  float* shared = dynamic_shared<float>();
  const int* starts = reinterpret_cast<const int*>(a.program + a.places.starts_at);
  const int begin = starts[block_index()], count = starts[block_index() + 1] - begin;
  const int* list = reinterpret_cast<const int*>(a.program + a.places.lists_at) + begin;
  for (int i = int(thread_index()); i < least(count, kCachedSteps) * kStepFloats; i += kThreads) {
    const int step = i / kStepFloats, word = i - step * kStepFloats;
    reinterpret_cast<unsigned*>(shared + kStepsAt)[i] = reinterpret_cast<const unsigned*>(a.program + list[step] * sizeof(BlockStep))[word];
  }
  sync_block();
  Block b(a, shared, list, count);
  begin_turns(b);
  bool first = a.goes_on != 0;
  if (first) {
    const int from = int(load_acquire(a.state + a.places.counters + kGoOn)) - 1;
    while (list[b.position] != from) ++b.position;
  } else {
    b.ask();
  }
  unsigned go_on = 0;
  while (b.position < count) {
    const BlockStep& s = b.step(b.position);
    const int number = list[b.position];
    if (s.kind == StepKind::loop) {
      if (!take_turn(b, s, number, first)) {
        go_on = b.turns().leaves ? unsigned(number) + 1 : 0;
        break;
      }
      first = false;
      continue;
    }
    if (s.waits > 0 && !wait_for_others(b, s, number)) break;
    if (!run_step(b, s)) break;
    b.sync();
    if (s.signal >= 0 && thread_index() == 0) add_release(a.state + s.signal, 1);
    ++b.position;
  }
  wait_copies<0>();
  // The last block to end leaves the counters as it found them, for the next launch.
  LAMINA_SHARED(unsigned, ended, 1);
  sync_block();
  if (thread_index() == 0) {
    fence_device();
    ended[0] = atomic_add(a.state + a.places.counters + kEnded, 1u);
  }
  sync_block();
  if (ended[0] + 1 != block_count()) return;
  for (int i = int(thread_index()); i < a.places.counters + kWordsOfALaunch; i += kThreads) store_release(a.state + i, 0);
  if (a.places.loops > 0) keep_turns(b, go_on);
}

}  // namespace resident

LAMINA_KERNEL(256, 1) section_kernel(LAMINA_ARGUMENT resident::Arguments a) { resident::run_block(a); }

namespace {

using section::BlockPlan;
using section::BlockSection;

Error describe(const Fault& f) {
  if (f.which == resident::kBadLabel) return label_out_of_range(f.value, f.limit, f.place, "; nothing that depends on the loss has changed");
  return Error(ErrorKind::device, {.what = "a section waited too long for its other blocks and stopped", .where = cat("step ", f.value), .why = "they were not all running, or the GPU is shared and very busy",
                                   .fix = "run it again; report it if it happens on a GPU that nobody else uses"});
}

constexpr unsigned long long kLaunchNanoseconds = 100'000'000;  // a launch that takes longer is left, so that Ctrl-C and errors are heard

const BlockSection::OnDevice& on_device(const BlockSection& s, Stream& stream) {
  for (BlockSection::OnDevice& d : s.copies)
    if (d.stream == stream) return d;
  Backend& backend = *stream.backend;
  const std::vector<uint32_t> zeros(size_t(s.plan.program.counters) + resident::kStateWords, 0);
  BlockSection::OnDevice d{.stream = stream, .program = nullptr, .state = nullptr, .state_bytes = zeros.size() * 4};
  d.program = backend.allocate(stream, s.plan.bytes.size());
  backend.copy(stream, d.program, s.plan.bytes.data(), s.plan.bytes.size(), CopyKind::to_device);
  d.state = static_cast<uint32_t*>(backend.allocate(stream, d.state_bytes));
  backend.copy(stream, d.state, zeros.data(), d.state_bytes, CopyKind::to_device);
  backend.synchronize(stream);
  s.copies.push_back(d);
  return s.copies.back();
}

const bool registered = [] {
  section::set_block_runner(run_section);
  return true;
}();

}  // namespace

void run_section(const KernelCall& call) {
  const auto& s = *static_cast<const BlockSection*>(call.args);
  std::lock_guard lock(s.mutex);
  const BlockSection::OnDevice& d = on_device(s, call.stream);
  const LaunchShape shape{.grid = {unsigned(s.plan.program.blocks)}, .threads = unsigned(section::kBlockThreads), .shared_bytes = resident::kSharedBytes, .cooperative = true};
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
    a.at[i] = static_cast<char*>(v.data) - base.offset;
  }
  a.most_nanoseconds = s.plan.may_be_long ? kLaunchNanoseconds : 0;
  a.goes_on = 0;
  if (!s.plan.may_be_long) return launch<section_kernel>(call.stream, shape, a);
  // Until it has come to its end nobody else may launch the section on this stream: the lock is kept.
  Backend& backend = *call.stream.backend;
  uint32_t* const word = d.state + s.plan.program.counters + resident::kGoOn;
  uint32_t go_on = 0;
  backend.copy(call.stream, word, &go_on, sizeof go_on, CopyKind::to_device);  // a run that was interrupted has left its own
  for (InterruptPoll interrupted;; interrupted()) {
    launch<section_kernel>(call.stream, shape, a);
    backend.copy(call.stream, &go_on, word, sizeof go_on, CopyKind::to_host);
    if (go_on == 0) return;
    a.goes_on = 1;
  }
}

}  // namespace lamina::kernels::cuda
