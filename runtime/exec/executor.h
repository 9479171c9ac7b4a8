// Executor: runs a Program. Thread-safe.
#pragma once
#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/mutex.h"
#include "runtime/exec/program.h"
#include "runtime/exec/variable.h"

namespace lamina::exec {

class LAMINA_API Executor {
 public:
  // `function` names its memory in errors; empty: it runs an op outside of functions.
  explicit Executor(std::shared_ptr<const Program> program, std::string function = "");
  ~Executor();
  Executor(const Executor&) = delete;
  // One buffer per input, in order, of the program's types and on its devices; one VariableState per VariableUse, in order.
  // Returns a buffer per output.
  std::vector<BufferRef> run(std::span<const BufferRef> inputs, std::span<VariableState* const> variables);
  const Program& program() const { return *program_; }
  // One line per stretch of instructions: that it runs as one device graph, or why not.
  std::string graphs() const;

 private:
  // A stretch: consecutive instructions that a device may run as one graph, without host work or other devices in between.
  struct Stretch {
    size_t begin = 0, end = 0;
    std::vector<int> streams;         // the device's first one, then those of the instructions
    std::vector<int> outer;           // of these, except the first: those used outside the stretch too
    std::vector<int> waits, signals;  // events shared with instructions outside: waited for, signalled
    std::string why_not;              // mutex_ must be held; why there is no graph
  };
  struct Frame;  // a concurrent call's arenas, and the views of slots with addresses
  class Call;    // a frame in use; its end releases the frame and the variables' locks
  Frame* take_frame();
  void give_back(Frame* frame);
  void destroy_streams() noexcept;
  static Buffer& written_buffer(Frame& frame, VariableState& variable, const VariableUse& use, size_t bytes);
  std::vector<BufferRef> run_locked(std::span<const BufferRef> inputs, std::span<VariableState* const> variables);
  void find_stretches();
  void find_streams_of_one_stretch();
  void launch_all(Frame& frame);
  void launch(Frame& frame, size_t instruction, Stream& stream);
  void launch_stretch(Frame& frame, size_t stretch);
  void launch_one_by_one(Frame& frame, size_t stretch, std::span<Stream> streams);
  void wait(Frame& frame, Stream& stream, int event);
  bool is_inside_a_graph(const Frame& frame, size_t stream) const;
  void fork(size_t stream, Event& event);
  void join(size_t stream, Event& event);

  std::shared_ptr<const Program> program_;
  const std::string function_;
  std::vector<std::vector<int>> slots_of_;  // per storage
  std::vector<Stream> streams_;
  std::vector<size_t> operand_of_;  // per instruction: its first operand in Frame::operands
  std::vector<size_t> signal_at_;   // per event: the instruction that signals it
  std::vector<Stretch> stretches_;
  std::vector<int> only_in_;  // per stream: the only stretch that uses it, or -1
  struct Crossing {           // a stream that copies from another device
    size_t stream = 0;
    Device from;
  };
  std::vector<Crossing> crossings_;
  bool asynchronous_ = false;  // all streams are of one backend, not the CPU's: the devices' default streams order calls, the host need not
  mutable Mutex mutex_;
  std::atomic<Frame*> stock_[8] = {};
};

}  // namespace lamina::exec
