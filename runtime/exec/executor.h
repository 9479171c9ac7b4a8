// Executor: runs a Program. Safe to call from many threads at once.
#pragma once
#include <atomic>
#include <span>
#include <vector>

#include "runtime/exec/program.h"
#include "runtime/exec/variable.h"

namespace lamina::exec {

class LAMINA_API Executor {
 public:
  explicit Executor(std::shared_ptr<const Program> program);
  ~Executor();
  Executor(const Executor&) = delete;
  // One buffer per input, in order, of the program's types and on its devices; one VariableState per VariableUse, in order.
  // Returns a buffer per output.
  std::vector<BufferRef> run(std::span<const BufferRef> inputs, std::span<VariableState* const> variables);
  const Program& program() const { return *program_; }

 private:
  struct Frame;  // the arenas of one concurrent call and the slots' views with their addresses filled in
  class Call;    // a frame in use: gives it back, and the variables' locks, when it ends
  Frame* take_frame();
  void give_back(Frame* frame);
  std::vector<BufferRef> run_locked(std::span<const BufferRef> inputs, std::span<VariableState* const> variables);
  void launch_all(Frame& frame);

  std::shared_ptr<const Program> program_;
  std::vector<std::vector<int>> slots_of_;  // per storage
  std::vector<Stream> streams_;
  std::atomic<Frame*> stock_[8] = {};
};

}  // namespace lamina::exec
