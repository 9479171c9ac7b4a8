// Runs the Programs of cond, while_loop, scan and with_length inside of one instruction. Its operands are the node's inputs and results,
// then, if needed, an extra result as temporary memory.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "runtime/core/mutex.h"
#include "runtime/device/profiler.h"
#include "runtime/exec/program.h"

namespace lamina::exec {

// A Program whose storages are bound to given addresses instead of allocated: its arena is at a given address, and a loop's carried value
// is a variable of the Program, which reads it and assigns it in place. One device, no copies between devices.
class SubProgram {
 public:
  explicit SubProgram(std::shared_ptr<const Program> program);
  struct Frame {
    std::vector<View> views;            // per slot
    std::vector<const View*> operands;  // of all instructions, concatenated
  };
  Frame new_frame() const;
  void bind(Frame& frame, StorageKind kind, size_t index, void* data) const;
  void advance(Frame& frame, StorageKind kind, size_t index, int64_t bytes) const;
  void run(const Frame& frame, Stream& stream) const;

  const Program& program() const { return *program_; }
  int64_t arena_bytes() const { return program_->arena_bytes[0]; }

 private:
  const std::vector<int>* slots_of(StorageKind kind, size_t index) const;
  std::shared_ptr<const Program> program_;
  std::vector<std::vector<int>> slots_of_[5];  // per kind and index
  std::vector<profiler::Name> names_;          // per instruction
};

// Frames of one instruction's programs, reused between runs: one set per concurrent run.
class FrameStock {
 public:
  using Frames = std::vector<SubProgram::Frame>;
  std::unique_ptr<Frames> take(const std::vector<SubProgram>& programs) const;
  void give_back(std::unique_ptr<Frames> frames) const;

 private:
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<Frames>> stock_;
};

struct CondArgs {
  std::vector<SubProgram> programs;  // inputs: the captures; outputs: the results
  FrameStock stock;
};
struct LoopArgs {
  std::vector<SubProgram> programs;  // condition (output: a bool), body (variables: the carried values); inputs: the captures
  size_t carried = 0;
  int64_t maximum = -1;
  FrameStock stock;
};
struct ScanArgs {
  std::vector<SubProgram> programs;  // the body; variables: the carried values; inputs: slices, then captures; outputs: ys
  size_t carried = 0, stacked = 0, captures = 0;
  int64_t length = 0;
  bool reverse = false, counted = false;
  std::vector<int64_t> slice_bytes;  // of each stacked value, then of each y
  FrameStock stock;
};
// The region of with_length, planned for lengths up to `capacity`.
struct LengthPlan {
  int64_t capacity = 0;
  std::vector<SubProgram> programs;
};
struct LengthArgs {
  std::function<std::shared_ptr<const LengthPlan>(int64_t capacity)> plan;
  mutable Mutex mutex;
  mutable std::vector<std::shared_ptr<const LengthPlan>> plans;  // most recently used first
};

void run_cond(const KernelCall& call);         // args: CondArgs
void run_while_loop(const KernelCall& call);   // args: LoopArgs
void run_scan(const KernelCall& call);         // args: ScanArgs
void run_with_length(const KernelCall& call);  // args: LengthArgs

inline constexpr int64_t kConditionBytes = 64;  // at the start of a while_loop's temporary memory: the condition

}  // namespace lamina::exec
