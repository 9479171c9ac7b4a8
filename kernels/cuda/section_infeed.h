// Host side of an infeed: stacked values that stay in host memory, whose slices are copied to the device in chunks while a section runs.
// The device has a ring of two chunks: the host fills one while iterations read the other. A chunk's memory is free for the chunk after
// next when all blocks have passed a barrier behind it. Both sides communicate through words of the launch's state (section_block.h), which
// the host reads and writes by copies on its own stream.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "kernels/cuda/section_block.h"
#include "kernels/section/block_section.h"
#include "runtime/device/backend.h"

namespace lamina::kernels::cuda {

class Infeed {
 public:
  // For one call of the section, before its first launch: nothing has been copied yet.
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

  // The ring with the slices of a section operand; null if the operand is not on the host.
  char* ring_of(int buffer) const {
    for (const section::BlockPlan::Stack& stack : plan_.stacks)
      if (stack.buffer == buffer) return static_cast<char*>(d_.rings) + stack.at;
    return nullptr;
  }

  // Before each launch: copies all that fits, including the chunk for which the previous launch may have left.
  void prepare() {
    look();
    left_ = 0;
    backend_.copy(d_.infeed_stream, words_ + resident::kLeft, &left_, sizeof left_, CopyKind::to_device);
    while (feed()) {
    }
    look();
  }
  // While the launch runs: copies until all slices are there or the launch has ended, and waits for the copies.
  void follow() {
    constexpr std::chrono::microseconds pause(20);  // less than a chunk's copy takes, and gives other copies a chance
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
    look();  // waits, so that the slices are there before they are announced; synchronize() would take reports of running kernels
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
inline bool host_sleeps = false;  // during a kernel, for tests
}
// An emulated launch is synchronous: while this lives, the host acts from within the launch.
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
