// The host's side of an infeed: stacked values that stay on the host, whose slices come to the device in chunks while a section runs. The
// device has a ring of two chunks. While iterations read one, the host fills the other; a chunk's memory is free for the one after the next
// when all blocks have met behind it. What the two sides say to each other are words of the launch's state (section_block.h), which the
// host reads and writes by copies on a stream of its own.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "kernels/cuda/section_block.h"
#include "kernels/section/blocks.h"
#include "runtime/device/backend.h"

namespace lamina::kernels::cuda {

class Infeed {
 public:
  // Of one call of the section. Before its first launch, which is not on the way yet: nothing has come.
  Infeed(const section::BlockSection& s, section::BlockSection::OnDevice& d, const KernelCall& call)
      : plan_(s.plan.infeed), d_(d), backend_(*call.stream.backend) {
    if (!d.infeed_stream.backend) d.infeed_stream = backend_.create_stream(call.stream.device);
    if (!d.rings) d.rings = backend_.allocate(d.infeed_stream, size_t(plan_.bytes));
    words_ = d.state + s.plan.program.counters;
    for (const section::BlockPlan::Stack& stack : plan_.stacks)
      stacks_.push_back(static_cast<const char*>(call.in[size_t(stack.buffer)]->data));
    const uint32_t nothing[] = {0, 0, 0};
    backend_.copy(d_.infeed_stream, words_ + resident::kCome, nothing, sizeof nothing, CopyKind::to_device);
  }

  // Where the kernel finds the slices of an operand of the section, or null: they are not the host's.
  char* ring_of(int buffer) const {
    for (const section::BlockPlan::Stack& stack : plan_.stacks)
      if (stack.buffer == buffer) return static_cast<char*>(d_.rings) + stack.at;
    return nullptr;
  }

  // Before each launch: all that there is room for has come, with it what the launch before may have left for.
  void prepare() {
    look();
    left_ = 0;
    backend_.copy(d_.infeed_stream, words_ + resident::kLeft, &left_, sizeof left_, CopyKind::to_device);
    while (feed()) {
    }
    look();
  }
  // While the launch runs, until all slices have come or it has ended; then no copy is on its way.
  void follow() {
    constexpr std::chrono::microseconds pause(20);  // less than a chunk's copy takes. Others want to copy as well
    while (come_ < plan_.slices && left_ == 0)
      if (!feed()) std::this_thread::sleep_for(pause);
    look();
  }
  // Copies the next chunk if there is room for it.
  bool feed() {
    if (come_ == plan_.slices) return false;
    const int64_t number = come_ / plan_.chunk;
    const auto is_full = [&] { return number >= 2 && taken_ < (number - 1) * plan_.chunk; };
    if (is_full()) look();
    if (is_full()) return false;
    const int64_t slices = std::min<int64_t>(plan_.chunk, plan_.slices - come_);
    for (size_t i = 0; i < stacks_.size(); ++i) {
      const section::BlockPlan::Stack& stack = plan_.stacks[i];
      backend_.copy(d_.infeed_stream, static_cast<char*>(d_.rings) + stack.at + number % 2 * plan_.chunk * stack.slice,
                    stacks_[i] + come_ * stack.slice, size_t(slices * stack.slice), CopyKind::to_device);
    }
    look();  // waits for the copies: the slices are there before that is said. synchronize() would take the reports of kernels that still
             // run
    come_ += slices;
    const auto come = uint32_t(come_);
    backend_.copy(d_.infeed_stream, words_ + resident::kCome, &come, sizeof come, CopyKind::to_device);
    return true;
  }

 private:
  void look() {
    uint32_t words[2] = {};
    static_assert(resident::kLeft == resident::kTaken + 1);
    backend_.copy(d_.infeed_stream, words, words_ + resident::kTaken, sizeof words, CopyKind::to_host);
    taken_ = words[0], left_ = words[1];
  }

  const section::BlockPlan::InfeedPlan& plan_;
  section::BlockSection::OnDevice& d_;
  Backend& backend_;
  uint32_t* words_;
  std::vector<const char*> stacks_;  // per stack of the plan: on the host
  int64_t come_ = 0, taken_ = 0;
  uint32_t left_ = 0;
};

#if !defined(__CUDACC__)
namespace emulation {
inline bool host_sleeps = false;  // while a kernel runs, for tests
}
// An emulated launch has ended when it returns: while this lives the host has its turns within it.
class HostTurns {
 public:
  explicit HostTurns(Infeed& infeed) {
    if (emulation::host_sleeps) return;
    current() = &infeed;
    emulation::host_turn = [] {
      while (current()->feed()) {
      }
    };
  }
  ~HostTurns() { emulation::host_turn = nullptr; }
  HostTurns(const HostTurns&) = delete;

 private:
  static Infeed*& current() {
    static Infeed* value = nullptr;
    return value;
  }
};
#endif

}  // namespace lamina::kernels::cuda
