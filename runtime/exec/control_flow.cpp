#include "runtime/exec/control_flow.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "runtime/core/error.h"
#include "runtime/core/interrupt.h"
#include "runtime/device/launch_memory.h"
#include "runtime/exec/range_names.h"

namespace lamina::exec {

SubProgram::SubProgram(std::shared_ptr<const Program> program) : program_(std::move(program)) {
  const Program& p = *program_;
  if (p.devices.size() != 1 || p.streams.size() != 1) internal_error("a region's program runs on several devices");
  for (size_t s = 0; s < p.slots.size(); ++s) {
    const Storage& storage = p.storages[size_t(p.slots[s].storage)];
    auto& lists = slots_of_[size_t(storage.kind)];
    if (lists.size() <= size_t(storage.index)) lists.resize(size_t(storage.index) + 1);
    lists[size_t(storage.index)].push_back(int(s));
  }
  names_ = range_names(p);
}

const std::vector<int>* SubProgram::slots_of(StorageKind kind, size_t index) const {
  const auto& lists = slots_of_[size_t(kind)];
  return index < lists.size() ? &lists[index] : nullptr;
}

SubProgram::Frame SubProgram::new_frame() const {
  const Program& p = *program_;
  Frame frame;
  for (const Slot& slot : p.slots) {
    frame.views.push_back(slot.view);
    const Storage& storage = p.storages[size_t(slot.storage)];
    if (storage.kind == StorageKind::constant)
      frame.views.back().data = static_cast<char*>(p.constants[size_t(storage.index)]->data()) + slot.offset;
  }
  for (const Instruction& instruction : p.instructions)
    for (auto* list : {&instruction.inputs, &instruction.outputs})
      for (int slot : *list) frame.operands.push_back(&frame.views[size_t(slot)]);
  return frame;
}

void SubProgram::bind(Frame& frame, StorageKind kind, size_t index, void* data) const {
  const std::vector<int>* slots = slots_of(kind, index);
  if (!slots) return;
  for (int s : *slots) {
    const Slot& slot = program_->slots[size_t(s)];
    const int64_t offset = kind == StorageKind::arena ? program_->storages[size_t(slot.storage)].offset : 0;
    frame.views[size_t(s)].data = static_cast<char*>(data) + offset + slot.offset;
  }
}

void SubProgram::advance(Frame& frame, StorageKind kind, size_t index, int64_t bytes) const {
  if (const std::vector<int>* slots = slots_of(kind, index))
    for (int s : *slots) frame.views[size_t(s)].data = static_cast<char*>(frame.views[size_t(s)].data) + bytes;
}

void SubProgram::run(const Frame& frame, Stream& stream) const {
  const View* const* operand = frame.operands.data();
  const bool named = profiler::listening();
  size_t number = 0;
  for (const Instruction& instruction : program_->instructions) {
    const profiler::Scope range(named ? &names_[number] : nullptr, int64_t(number));
    ++number;
    const KernelCall call{stream,
                          instruction.kernel.args.get(),
                          {operand, instruction.inputs.size()},
                          {operand + instruction.inputs.size(), instruction.outputs.size()},
                          instruction.line};
    try {
      if (stream.device.kind == DeviceKind::cpu)
        instruction.kernel.run(call);
      else
        stream.backend->launch(stream, instruction.kernel, call, instruction.name.c_str());
    } catch (const Error& e) {
      if (!instruction.line.known() || e.parts.where.find(text(instruction.line)) != std::string::npos) throw;
      throw e.at(text(instruction.line));
    }
    operand += instruction.inputs.size() + instruction.outputs.size();
  }
}

std::unique_ptr<FrameStock::Frames> FrameStock::take(const std::vector<SubProgram>& programs) const {
  {
    std::lock_guard lock(mutex_);
    if (!stock_.empty()) {
      auto frames = std::move(stock_.back());
      stock_.pop_back();
      return frames;
    }
  }
  auto frames = std::make_unique<Frames>();
  frames->reserve(programs.size());
  for (const SubProgram& program : programs) frames->push_back(program.new_frame());
  return frames;
}

void FrameStock::give_back(std::unique_ptr<Frames> frames) const {
  std::lock_guard lock(mutex_);
  try {
    stock_.push_back(std::move(frames));
  } catch (const std::bad_alloc&) {  // called by a destructor; the next call makes new frames
  }
}

namespace {

// Holds a set of frames.
class Frames {
 public:
  Frames(const FrameStock& stock, const std::vector<SubProgram>& programs) : stock_(stock), frames_(stock.take(programs)) {}
  ~Frames() { stock_.give_back(std::move(frames_)); }
  Frames(const Frames&) = delete;
  SubProgram::Frame& operator[](size_t i) { return (*frames_)[i]; }

 private:
  const FrameStock& stock_;
  std::unique_ptr<FrameStock::Frames> frames_;
};

size_t bytes_of(const View& v) { return size_t(v.size()) * size_of(v.dtype); }
char* scratch_of(const KernelCall& call, size_t results) {
  return call.out.size() > results ? static_cast<char*>(call.out[results]->data) : nullptr;
}

// The host also runs loops of other devices: it must wait for the condition's value.
bool on_host(const KernelCall& call) { return call.stream.device.kind == DeviceKind::cpu; }
template <class T>
T value_at(const KernelCall& call, const void* data) {
  T value{};
  if (on_host(call))
    std::memcpy(&value, data, sizeof value);
  else
    call.stream.backend->copy(call.stream, &value, data, sizeof value, CopyKind::to_host);
  return value;
}
void set_bytes(const KernelCall& call, void* to, const void* from, size_t bytes, CopyKind kind) {
  if (bytes == 0) return;
  if (on_host(call))
    std::memcpy(to, from, bytes);
  else
    call.stream.backend->copy(call.stream, to, from, bytes, kind);
}
void set_zero(const KernelCall& call, void* to, size_t bytes) {
  if (on_host(call))
    std::memset(to, 0, bytes);
  else
    set_bytes(call, to, std::vector<std::byte>(bytes).data(), bytes, CopyKind::to_device);
}

void start_carried(const KernelCall& call, size_t carried) {
  for (size_t i = 0; i < carried; ++i)
    if (call.in[i]->data != call.out[i]->data)
      set_bytes(call, call.out[i]->data, call.in[i]->data, bytes_of(*call.in[i]), CopyKind::within_device);
}

}  // namespace

void run_cond(const KernelCall& call) {
  const auto& args = *static_cast<const CondArgs*>(call.args);
  const size_t taken = value_at<uint8_t>(call, call.in[0]->data) ? 0 : 1;
  const SubProgram& branch = args.programs[taken];
  Frames frames(args.stock, args.programs);
  const size_t results = branch.program().outputs.size();
  for (size_t i = 1; i < call.in.size(); ++i) branch.bind(frames[taken], StorageKind::input, i - 1, call.in[i]->data);
  for (size_t i = 0; i < results; ++i) branch.bind(frames[taken], StorageKind::output, i, call.out[i]->data);
  branch.bind(frames[taken], StorageKind::arena, 0, scratch_of(call, results));
  branch.run(frames[taken], call.stream);
}

void run_while_loop(const KernelCall& call) {
  const auto& args = *static_cast<const LoopArgs*>(call.args);
  const SubProgram &condition = args.programs[0], &body = args.programs[1];
  Frames frames(args.stock, args.programs);
  char* scratch = scratch_of(call, args.carried + 1);
  for (size_t program = 0; program < 2; ++program) {
    const SubProgram& p = args.programs[program];
    for (size_t i = 0; i < args.carried; ++i) p.bind(frames[program], StorageKind::variable, i, call.out[i]->data);
    for (size_t i = args.carried; i < call.in.size(); ++i) p.bind(frames[program], StorageKind::input, i - args.carried, call.in[i]->data);
    p.bind(frames[program], StorageKind::arena, 0, scratch + kConditionBytes);
  }
  condition.bind(frames[0], StorageKind::output, 0, scratch);
  start_carried(call, args.carried);
  int64_t done = 0;
  InterruptPoll interrupted;
  for (; args.maximum < 0 || done < args.maximum; ++done, interrupted()) {
    condition.run(frames[0], call.stream);
    if (!value_at<uint8_t>(call, scratch)) break;
    body.run(frames[1], call.stream);
  }
  set_bytes(call, call.out[args.carried]->data, &done, sizeof done, CopyKind::to_device);
}

void run_scan(const KernelCall& call) {
  const auto& args = *static_cast<const ScanArgs*>(call.args);
  const SubProgram& body = args.programs[0];
  const size_t ys = args.slice_bytes.size() - args.stacked, results = args.carried + ys;
  int64_t count = args.length;
  if (args.counted)
    count = std::clamp<int64_t>(value_at<int64_t>(call, call.in[args.carried + args.stacked + args.captures]->data), 0, args.length);
  start_carried(call, args.carried);
  for (size_t i = 0; i < ys && count < args.length; ++i) {
    const int64_t slice = args.slice_bytes[args.stacked + i];
    set_zero(call, static_cast<char*>(call.out[args.carried + i]->data) + count * slice, size_t((args.length - count) * slice));
  }
  if (count == 0) return;
  Frames frames(args.stock, args.programs);
  SubProgram::Frame& frame = frames[0];
  const int64_t start = args.reverse ? count - 1 : 0, step = args.reverse ? -1 : 1;
  for (size_t i = 0; i < args.carried; ++i) body.bind(frame, StorageKind::variable, i, call.out[i]->data);
  for (size_t i = 0; i < args.stacked; ++i)
    body.bind(frame, StorageKind::input, i, static_cast<char*>(call.in[args.carried + i]->data) + start * args.slice_bytes[i]);
  for (size_t i = 0; i < args.captures; ++i)
    body.bind(frame, StorageKind::input, args.stacked + i, call.in[args.carried + args.stacked + i]->data);
  for (size_t i = 0; i < ys; ++i)
    body.bind(frame, StorageKind::output, i,
              static_cast<char*>(call.out[args.carried + i]->data) + start * args.slice_bytes[args.stacked + i]);
  body.bind(frame, StorageKind::arena, 0, scratch_of(call, results));
  InterruptPoll interrupted;
  for (int64_t done = 0;;) {
    body.run(frame, call.stream);
    if (++done == count) break;
    interrupted();
    for (size_t i = 0; i < args.stacked; ++i) body.advance(frame, StorageKind::input, i, step * args.slice_bytes[i]);
    for (size_t i = 0; i < ys; ++i) body.advance(frame, StorageKind::output, i, step * args.slice_bytes[args.stacked + i]);
  }
}

namespace {

constexpr size_t kMostLengthPlans = 16;

// The length rounded up to three significant bits: few plans, and at most a quarter more memory than needed.
int64_t capacity_for(int64_t length) {
  if (length <= 8) return std::max<int64_t>(length, 1);
  const int64_t unit = int64_t(std::bit_floor(uint64_t(length)) >> 2);
  return (length + unit - 1) / unit * unit;
}

std::shared_ptr<const LengthPlan> plan_for(const LengthArgs& args, int64_t capacity) {
  std::lock_guard lock(args.mutex);
  auto& plans = args.plans;
  auto at = std::find_if(plans.begin(), plans.end(), [&](auto& plan) { return plan->capacity == capacity; });
  if (at == plans.end()) {
    if (plans.size() == kMostLengthPlans) plans.pop_back();
    plans.push_back(args.plan(capacity));
    at = plans.end() - 1;
  }
  std::rotate(plans.begin(), at, at + 1);
  return plans.front();
}

}  // namespace

void run_with_length(const KernelCall& call) {
  const auto& args = *static_cast<const LengthArgs*>(call.args);
  const std::shared_ptr<const LengthPlan> plan = plan_for(args, capacity_for(value_at<int64_t>(call, call.in[0]->data)));
  const SubProgram& program = plan->programs[0];
  SubProgram::Frame frame = program.new_frame();
  const LaunchMemory arena(call.stream, size_t(std::max<int64_t>(program.arena_bytes(), 1)));
  for (size_t i = 1; i < call.in.size(); ++i) program.bind(frame, StorageKind::input, i - 1, call.in[i]->data);
  for (size_t i = 0; i < call.out.size(); ++i) program.bind(frame, StorageKind::output, i, call.out[i]->data);
  program.bind(frame, StorageKind::arena, 0, arena.data());
  program.run(frame, call.stream);
}

}  // namespace lamina::exec
