// A block's steps on their way to shared memory, ahead of the step that runs.
#pragma once
#include "kernels/cuda/section_block.h"

namespace lamina::kernels::cuda::resident {

// By one warp. While a step runs, it finds the addresses of the next step's operands, which have come; the operands of the step behind that
// one are on their way, and the step behind those. So no warp waits for a step. Behind the last step of the list it comes again.
class Ahead {
 public:
  LAMINA_DEVICE explicit Ahead(const Block& b)
      : steps_(b.launch().program), operands_(b.launch().program + b.launch().places.operands_at) {}
  // Brings the step at the position, for all threads behind the next barrier, with nothing known of those before it.
  LAMINA_DEVICE void begin(const Block& b, int position) {
    wait();
    asked_ = position, look(b), ask_step(b, b.current);
    wait(), ask(b, b.current);
    go_on(b, b.current);
  }
  // Completes a record.
  LAMINA_DEVICE void go_on(const Block& b, int which) {
    wait();
    Record& r = Block::record(which);
    const int l = int(lane()), here = r.here();
    BlockOperand operand{};
    if (l < here) operand = r.operands[l];
    const Address address = b.address(operand);  // its loads wait while ask() works
    ask(b, which + 1);
    if (l < here) r.addresses[l] = address;
  }
  // What is on its way has come.
  LAMINA_DEVICE static void wait() { commit_copies(), wait_copies<0>(), sync_warp(); }

 private:
  static constexpr int kPart = 16, kTimes = (Record::kOperands * int(sizeof(BlockOperand)) + kPart * int(kWarp) - 1) / (kPart * int(kWarp));
  static_assert(Record::kOperands <= int(kWarp) && sizeof(BlockStep) <= 4 * kWarp && sizeof(BlockOperand) % kPart == 0);

  LAMINA_DEVICE void look(const Block& b) { first_ = asked_, numbers_ = b.list[least(first_ + int(lane()), b.count - 1)]; }
  // The operands of a record whose step is there, and the step behind that one.
  LAMINA_DEVICE void ask(const Block& b, int which) {
    Record& r = Block::record(which);
    const int at = int(lane()) * kPart, bytes = r.here() * int(sizeof(BlockOperand)), chain = r.step.chain;
    const char* from = operands_ + r.step.first_in * (long long)sizeof(BlockOperand) + at;
    LAMINA_UNROLL
    for (int i = 0; i < kTimes; ++i)
      if (const int more = i * kPart * int(kWarp); at + more < bytes)
        copy_async<kPart>(reinterpret_cast<char*>(r.operands) + at + more, from + more);
    asked_ = least(asked_ + most(chain, 1), b.count - 1);
    ask_step(b, which + 1);
  }
  LAMINA_DEVICE void ask_step(const Block& b, int which) {
    int number;
    if (asked_ - first_ < int(kWarp)) [[likely]]
      number = shuffle(numbers_, unsigned(asked_ - first_));
    else
      look(b), number = shuffle(numbers_, 0);
    if (const int at = int(lane()) * 4; at < int(sizeof(BlockStep)))
      copy_async<4>(reinterpret_cast<char*>(&Block::record(which).step) + at, steps_ + number * (long long)sizeof(BlockStep) + at);
  }

  const char *steps_, *operands_;  // the launch's
  int asked_ = 0;                  // position of the step that was asked for last
  int first_ = 0, numbers_ = 0;    // the list from this position on: one number in each lane
};

}  // namespace lamina::kernels::cuda::resident
