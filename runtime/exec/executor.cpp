#include "runtime/exec/executor.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <new>
#include <optional>

#include "runtime/core/error.h"
#include "runtime/core/host_text.h"
#include "runtime/core/limits.h"
#include "runtime/device/memory.h"
#include "runtime/exec/order.h"
#include "runtime/exec/range_names.h"

namespace lamina::exec {

struct Executor::Frame {
  std::vector<BufferRef> arenas;       // per device of the program
  std::deque<memory::Holder> holders;  // of the arenas
  std::vector<View> views;             // per slot; addresses filled in
  std::vector<void*> bound;            // per storage: the address that its slots' views have
  std::vector<const View*> operands;   // of all instructions, one after the other: inputs, then outputs
  std::vector<Event> events;
  struct Crossed {
    Event before, after;  // on the device copied from, on the stream that copies
  };
  std::vector<Crossed> crossings;               // per Executor::crossings_
  std::vector<std::pair<size_t, Event>> sides;  // streams beside a GPU's default stream, each with a fork and a join event
  struct Graph {
    std::unique_ptr<LaunchGraph> graph;  // null: launched one by one
    std::vector<Stream> streams;
    std::function<void(std::span<Stream>)> launches;
  };
  std::vector<Graph> graphs;              // per stretch
  std::vector<void*> addresses;           // of the stretch being started
  std::vector<VariableState*> variables;  // of the last call that used this frame
  std::vector<VariableState*> locked;     // the written ones, in locking order
  std::vector<BufferRef> held;            // per variable, during a call
  struct Fresh {
    VariableState* variable;
    BufferRef buffer;  // replaces the variable's own
    bool first;        // it had no value
  };
  std::vector<Fresh> fresh;           // new buffers of variables that cannot be written in place, during a call
  std::vector<profiler::Name> names;  // per instruction, once a profiler has listened

  Frame() = default;
  Frame(const Frame&) = delete;
  ~Frame() {
    for (Event& event : events) event.backend->destroy_event(event);
    for (auto& [stream, event] : sides) event.backend->destroy_event(event);
    for (Crossed& c : crossings)
      for (Event* event : {&c.before, &c.after})
        if (event->backend) event->backend->destroy_event(*event);
  }
};

namespace {
// The CPU's only stream that has instructions, exchanges aside, runs on the caller's thread; several have a thread each, so that the caller
// starts all of them. A GPU's first stream fills and frees buffers.
bool is_default_stream(const Program& p, size_t s) {
  const Device device = p.streams[s].device;
  if (device.kind == DeviceKind::cpu)
    return std::all_of(p.instructions.begin(), p.instructions.end(), [&](const Instruction& i) {
      const bool exchange = is_exchange(p, i);
      return size_t(i.stream) == s ? !exchange : exchange || p.streams[size_t(i.stream)].device.kind != DeviceKind::cpu;
    });
  return s == 0 || (device.kind != DeviceKind::cpu && std::none_of(p.streams.begin(), p.streams.begin() + int64_t(s),
                                                                   [&](const StreamUse& u) { return u.device == device; }));
}
}  // namespace

Executor::Executor(std::shared_ptr<const Program> program, std::string function)
    : program_(std::move(program)), function_(std::move(function)) {
  slots_of_.resize(program_->storages.size());
  for (size_t s = 0; s < program_->slots.size(); ++s) slots_of_[size_t(program_->slots[s].storage)].push_back(int(s));
  find_stretches();
  streams_.reserve(program_->streams.size());
  try {
    for (size_t s = 0; s < program_->streams.size(); ++s) {
      Device device = program_->streams[s].device;
      streams_.push_back(is_default_stream(*program_, s) ? backend_of(device).default_stream(device)
                                                         : backend_of(device).create_stream(device));
    }
  } catch (...) {
    destroy_streams();
    throw;
  }
}

Executor::~Executor() {
  for (auto& place : stock_) {
    Frame* frame = place.exchange(nullptr);
    delete frame;
  }
  destroy_streams();
}

void Executor::destroy_streams() noexcept {
  for (size_t s = 0; s < streams_.size(); ++s) {
    if (is_default_stream(*program_, s)) continue;
    try {
      streams_[s].backend->destroy_stream(streams_[s]);
    } catch (...) {  // the device has failed, and this function cannot report it
    }
  }
}

Executor::Frame* Executor::take_frame() {
  for (auto& place : stock_)
    if (place.load(std::memory_order_relaxed))
      if (Frame* frame = place.exchange(nullptr, std::memory_order_acquire)) return frame;

  const Program& p = *program_;
  auto frame = std::make_unique<Frame>();
  for (size_t d = 0; d < p.devices.size(); ++d) {
    frame->arenas.push_back(p.arena_bytes[d] ? std::make_shared<Buffer>(p.devices[d], size_t(p.arena_bytes[d])) : nullptr);
    if (p.arena_bytes[d])
      frame->holders.emplace_back(function_.empty() ? "temporaries of ops" : cat("temporaries of '", function_, "'"), p.devices[d],
                                  p.arena_bytes[d]);
  }
  for (const Slot& slot : p.slots) {
    View view = slot.view;
    const Storage& storage = p.storages[size_t(slot.storage)];
    if (storage.kind == StorageKind::arena && storage.bytes)
      view.data = static_cast<char*>(frame->arenas[size_t(storage.index)]->data()) + storage.offset + slot.offset;
    if (storage.kind == StorageKind::constant) view.data = static_cast<char*>(p.constants[size_t(storage.index)]->data()) + slot.offset;
    frame->views.push_back(view);
  }
  frame->bound.resize(p.storages.size());
  for (const Instruction& instruction : p.instructions)
    for (auto* list : {&instruction.inputs, &instruction.outputs})
      for (int slot : *list) frame->operands.push_back(&frame->views[size_t(slot)]);
  std::vector<Device> event_devices(size_t(p.events), Device{});
  for (const Instruction& instruction : p.instructions)
    if (instruction.signal >= 0) event_devices[size_t(instruction.signal)] = p.streams[size_t(instruction.stream)].device;
  frame->events.reserve(event_devices.size());
  frame->sides.reserve(streams_.size());
  for (Device device : event_devices) frame->events.push_back(backend_of(device).create_event(device));
  for (size_t s = 0; s < streams_.size(); ++s)
    if (const Device device = streams_[s].device; device.kind != DeviceKind::cpu && !is_default_stream(p, s))
      frame->sides.emplace_back(s, backend_of(device).create_event(device));
  frame->crossings.reserve(crossings_.size());
  for (const Crossing& c : crossings_) {
    Frame::Crossed& made = frame->crossings.emplace_back();
    made.before = backend_of(c.from).create_event(c.from);
    made.after = backend_of(c.from).create_event(streams_[c.stream].device);
  }
  for (size_t s = 0; s < stretches_.size(); ++s) {
    const Device device = streams_[size_t(stretches_[s].streams[0])].device;
    Frame::Graph& g = frame->graphs.emplace_back();
    g.graph = backend_of(device).launch_graph(device);
    for (int stream : stretches_[s].streams) g.streams.push_back(streams_[size_t(stream)]);
    g.launches = [this, f = frame.get(), s](std::span<Stream> streams) { launch_one_by_one(*f, s, streams); };
  }
  frame->held.resize(p.variables.size());
  frame->fresh.reserve(p.variables.size());
  return frame.release();
}

void Executor::give_back(Frame* frame) {
  for (auto& place : stock_) {
    Frame* none = nullptr;
    if (!place.load(std::memory_order_relaxed) && place.compare_exchange_strong(none, frame, std::memory_order_release)) return;
  }
  delete frame;
}

namespace {
// Whether there are no other holders, so that the buffer may be written in place.
bool owned_alone(const BufferRef& buffer) {
  if (buffer.use_count() > 1 || buffer->foreign()) return false;
  // use_count() does not synchronise. Dropping another reference does: the last reader finished before it dropped its own.
  BufferRef(buffer).reset();
  return true;
}
}  // namespace

class Executor::Call {
 public:
  Call(Executor& executor, std::span<VariableState* const> variables) : executor_(executor), frame_(executor.take_frame()) {
    const Program& p = *executor.program_;
    try {
      if (frame_->variables.size() != variables.size() || !std::equal(variables.begin(), variables.end(), frame_->variables.begin())) {
        frame_->variables.clear();  // empty until the list of locks is complete
        frame_->locked.clear();
        frame_->locked.reserve(variables.size());
        for (size_t v = 0; v < variables.size(); ++v)
          if (p.variables[v].written) frame_->locked.push_back(variables[v]);
        // The same locking order in all programs prevents deadlock.
        std::sort(frame_->locked.begin(), frame_->locked.end());
        frame_->locked.erase(std::unique(frame_->locked.begin(), frame_->locked.end()), frame_->locked.end());
        frame_->variables.assign(variables.begin(), variables.end());
      }
      // Buffers that are only read are taken before holding any lock: taking one needs that Variable's lock, whose writer may want one of
      // ours.
      for (size_t v = 0; v < variables.size(); ++v)
        if (!p.variables[v].written) frame_->held[v] = read(*variables[v]);
    } catch (...) {
      for (BufferRef& held : frame_->held) held.reset();
      executor_.give_back(frame_);
      throw;
    }
    for (VariableState* variable : frame_->locked) variable->mutex.lock();
  }
  ~Call() {
    for (VariableState* variable : frame_->locked) variable->mutex.unlock();
    for (BufferRef& held : frame_->held) held.reset();
    frame_->fresh.clear();
    executor_.give_back(frame_);
  }
  Call(const Call&) = delete;
  Frame& frame() { return *frame_; }

 private:
  Executor& executor_;
  Frame* frame_;
};

std::vector<BufferRef> Executor::run(std::span<const BufferRef> inputs, std::span<VariableState* const> variables) {
  const Program& p = *program_;
  if (inputs.size() != p.inputs.size() || variables.size() != p.variables.size())
    internal_error(cat("a program of ", p.inputs.size(), " inputs and ", p.variables.size(), " variables was run with ", inputs.size(),
                       " and ", variables.size()));
  std::optional<TextHold> hold;  // writes text after the variables' locks have been released
  if (p.host_effects && std::any_of(p.variables.begin(), p.variables.end(), [](const VariableUse& v) { return v.written; })) hold.emplace();
  std::vector<BufferRef> outputs = run_locked(inputs, variables);
  if (hold) hold->release();
  return outputs;
}

// The buffer that the call writes for a locked Variable: the Variable's own, or one in the list of fresh ones.
Buffer& Executor::written_buffer(Frame& frame, VariableState& variable, const VariableUse& use, size_t bytes) {
  const auto known =
      std::find_if(frame.fresh.begin(), frame.fresh.end(), [&](const Frame::Fresh& fresh) { return fresh.variable == &variable; });
  if (known != frame.fresh.end()) return *known->buffer;  // the same Variable passed twice
  if (!variable.buffer) {
    if (!use.written_first)
      throw Error(ErrorKind::state, {.what = cat("the variable '", variable.name, "' has no value yet"),
                                     .where = "",
                                     .why = "it was read before it was initialised",
                                     .fix = "assign it first"});
    return *frame.fresh.emplace_back(Frame::Fresh{&variable, std::make_shared<Buffer>(variable.device, bytes), true}).buffer;
  }
  if (owned_alone(variable.buffer)) return *variable.buffer;
  return *frame.fresh.emplace_back(Frame::Fresh{&variable, copy_to(variable.device, variable.buffer, bytes), false})
              .buffer;  // the old value still has readers
}

std::vector<BufferRef> Executor::run_locked(std::span<const BufferRef> inputs, std::span<VariableState* const> variables) {
  const Program& p = *program_;
  Call call(*this, variables);
  Frame& frame = call.frame();

  std::vector<BufferRef> outputs(p.outputs.size());
  for (size_t s = 0; s < p.storages.size(); ++s) {
    const Storage& storage = p.storages[s];
    void* data = nullptr;
    switch (storage.kind) {
      case StorageKind::arena:
      case StorageKind::constant: continue;
      case StorageKind::input: data = inputs[size_t(storage.index)]->data(); break;
      case StorageKind::output: {
        BufferRef& output = outputs[size_t(storage.index)];
        output = std::make_shared<Buffer>(p.output_devices[size_t(storage.index)], size_t(storage.bytes));
        data = output->data();
        break;
      }
      case StorageKind::variable: {
        VariableState& variable = *variables[size_t(storage.index)];
        const VariableUse& use = p.variables[size_t(storage.index)];
        data = (use.written ? written_buffer(frame, variable, use, size_t(storage.bytes)) : *frame.held[size_t(storage.index)]).data();
        break;
      }
    }
    if (std::exchange(frame.bound[s], data) == data) continue;  // views are scattered in memory
    for (int slot : slots_of_[s]) frame.views[size_t(slot)].data = static_cast<char*>(data) + p.slots[size_t(slot)].offset;
  }

  // All memory has been allocated: an out-of-memory call changes no Variable.
  for (Frame::Fresh& fresh : frame.fresh) fresh.variable->buffer = std::move(fresh.buffer);

  auto changed = [&] {
    for (size_t v = 0; v < variables.size(); ++v)
      if (p.variables[v].written) ++variables[v]->version;
  };
  try {
    launch_all(frame);
  } catch (...) {
    changed();  // assignments before the error are kept
    for (Frame::Fresh& fresh : frame.fresh)
      if (fresh.first) fresh.variable->buffer.reset();  // a first value may be unwritten: there is none
    throw;
  }

  for (size_t o = 0; o < outputs.size(); ++o) {
    const Storage& storage = p.storages[size_t(p.slots[size_t(p.output_slots[o])].storage)];
    switch (storage.kind) {
      case StorageKind::output: outputs[o] = outputs[size_t(storage.index)]; break;
      case StorageKind::input: outputs[o] = inputs[size_t(storage.index)]; break;
      case StorageKind::constant: outputs[o] = p.constants[size_t(storage.index)]; break;
      case StorageKind::variable: outputs[o] = frame.held[size_t(storage.index)]; break;
      case StorageKind::arena: internal_error("an output lies inside an arena");
    }
  }
  changed();
  return outputs;
}

namespace {
constexpr size_t kFewestForAGraph = 3;  // below this, a graph launch and its recording do not pay off
}

void Executor::find_stretches() {
  const Program& p = *program_;
  const size_t count = p.instructions.size();
  signal_at_.resize(size_t(p.events));
  size_t operands = 0;
  for (size_t i = 0; i < count; ++i) {
    const Instruction& instruction = p.instructions[i];
    operand_of_.push_back(operands);
    operands += instruction.inputs.size() + instruction.outputs.size();
    if (instruction.signal >= 0) signal_at_[size_t(instruction.signal)] = i;
  }
  operand_of_.push_back(operands);
  auto device = [&](size_t i) { return p.streams[size_t(p.instructions[i].stream)].device; };
  for (size_t begin = 0, end; begin < count; begin = end) {
    for (end = begin; end < count && p.instructions[end].kernel && !p.instructions[end].waits && device(end) == device(begin);) ++end;
    if (end - begin < kFewestForAGraph) {
      end = std::max(end, begin + 1);
      continue;
    }
    Stretch s{.begin = begin, .end = end, .streams = {}, .outer = {}, .waits = {}, .signals = {}, .why_not = {}};
    auto add = [](std::vector<int>& list, int value) {
      if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
    };
    // The stream of the device's buffers first, even if no instruction uses it.
    for (size_t t = 0; s.streams.empty(); ++t)
      if (p.streams[t].device == device(begin)) s.streams.push_back(int(t));
    for (size_t i = 0; i < count; ++i) {
      const bool inside = i >= begin && i < end;
      if (inside) add(s.streams, p.instructions[i].stream);
      for (int event : p.instructions[i].wait_for) {
        const size_t at = signal_at_[size_t(event)];
        const bool from_inside = at >= begin && at < end;
        if (inside && !from_inside) add(s.waits, event);
        if (!inside && from_inside) add(s.signals, event);
      }
    }
    stretches_.push_back(std::move(s));
  }
  find_streams_of_one_stretch();
}

void Executor::find_streams_of_one_stretch() {
  const Program& p = *program_;
  const auto stretch_of = [&](size_t i) {
    for (size_t s = 0; s < stretches_.size(); ++s)
      if (i >= stretches_[s].begin && i < stretches_[s].end) return int(s);
    return -1;
  };
  const Device first = p.streams.empty() ? Device{} : p.streams[0].device;
  asynchronous_ = first.kind != DeviceKind::cpu &&
                  std::all_of(p.streams.begin(), p.streams.end(), [&](const StreamUse& s) { return s.device.kind == first.kind; });
  for (const Instruction& i : p.instructions) {
    if (i.kernel || !asynchronous_) continue;
    const Crossing crossing{size_t(i.stream), p.streams[size_t(i.source_stream)].device};
    if (std::none_of(crossings_.begin(), crossings_.end(),
                     [&](const Crossing& c) { return c.stream == crossing.stream && c.from == crossing.from; }))
      crossings_.push_back(crossing);
  }
  constexpr int unused = -2;
  only_in_.assign(p.streams.size(), unused);
  for (size_t i = 0; i < p.instructions.size(); ++i) {
    int& only = only_in_[size_t(p.instructions[i].stream)];
    const int here = stretch_of(i);
    only = only == unused || only == here ? here : -1;
  }
  for (const Stretch& stretch : stretches_)  // others wait for events on it
    for (int event : stretch.signals) only_in_[size_t(p.instructions[signal_at_[size_t(event)]].stream)] = -1;
  for (int& only : only_in_) only = std::max(only, -1);
  for (size_t s = 0; s < stretches_.size(); ++s)
    for (size_t t = 1; t < stretches_[s].streams.size(); ++t)
      if (const int stream = stretches_[s].streams[t]; only_in_[size_t(stream)] != int(s)) stretches_[s].outer.push_back(stream);
}

// Ordered within the stretch's graph.
bool Executor::is_inside_a_graph(const Frame& frame, size_t stream) const {
  return only_in_[stream] >= 0 && frame.graphs[size_t(only_in_[stream])].graph;
}

// Joins a GPU's stream with the device's default stream: after the current work there, or the other way round.
void Executor::fork(size_t stream, Event& event) {
  Stream first = event.backend->default_stream(streams_[stream].device);
  event.backend->record(first, event);
  event.backend->wait(streams_[stream], event);
}
void Executor::join(size_t stream, Event& event) {
  Stream first = event.backend->default_stream(streams_[stream].device);
  event.backend->record(streams_[stream], event);
  event.backend->wait(first, event);
}

// Later work on the stream starts after the event. Backends do not share events, so between two of them the host waits.
void Executor::wait(Frame& frame, Stream& stream, int event) {
  Event& e = frame.events[size_t(event)];
  const Instruction& signals = program_->instructions[signal_at_[size_t(event)]];
  Stream& other = streams_[size_t(signals.stream)];
  const bool may_fail = is_exchange(*program_, signals) && other.device.kind == DeviceKind::cpu;  // then nothing uses its results
  if (e.backend == stream.backend && !may_fail) return stream.backend->wait(stream, e);
  other.backend->synchronize(other);
}

void Executor::launch(Frame& frame, size_t index, Stream& stream) {
  check_time_limit();
  const Instruction& instruction = program_->instructions[index];
  const View* const* operand = frame.operands.data() + operand_of_[index];
  const profiler::Scope range(profiler::listening() && !frame.names.empty() ? &frame.names[index] : nullptr, int64_t(index));
  KernelCall call{stream,
                  instruction.kernel.args.get(),
                  {operand, instruction.inputs.size()},
                  {operand + instruction.inputs.size(), instruction.outputs.size()},
                  instruction.line};
  try {
    if (instruction.kernel) return stream.backend->launch(stream, instruction.kernel, call, instruction.name.c_str());
    // A copy from another device.
    const View &from = *call.in[0], &to = *call.out[0];
    Device source = program_->streams[size_t(instruction.source_stream)].device;
    bool to_host = stream.device.kind == DeviceKind::cpu, from_host = source.kind == DeviceKind::cpu;
    CopyKind kind = to_host == from_host ? CopyKind::within_device : to_host ? CopyKind::to_host : CopyKind::to_device;
    Stream& carrier = to_host && !from_host ? streams_[size_t(instruction.source_stream)] : stream;
    if (&carrier != &stream) stream.backend->synchronize(stream);  // pending work may still use the memory to be written
    carrier.backend->copy(carrier, to.data, from.data, size_t(to.size()) * size_of(to.dtype), kind);
  } catch (const Error& e) {
    if (!instruction.line.known() || e.parts.where.find(text(instruction.line)) != std::string::npos) throw;
    throw e.at(text(instruction.line));
  }
}

// The stretch's instructions and inner events, on stand-in streams.
void Executor::launch_one_by_one(Frame& frame, size_t index, std::span<Stream> streams) {
  const Stretch& stretch = stretches_[index];
  for (size_t i = stretch.begin; i < stretch.end; ++i) {
    const Instruction& instruction = program_->instructions[i];
    const auto place = std::find(stretch.streams.begin(), stretch.streams.end(), instruction.stream);
    Stream& stream = streams[size_t(place - stretch.streams.begin())];
    for (int event : instruction.wait_for)
      if (const size_t at = signal_at_[size_t(event)]; at >= stretch.begin && at < stretch.end)
        stream.backend->wait(stream, frame.events[size_t(event)]);
    launch(frame, i, stream);
    if (instruction.signal >= 0) stream.backend->record(stream, frame.events[size_t(instruction.signal)]);
  }
}

void Executor::launch_stretch(Frame& frame, size_t index) {
  Stretch& stretch = stretches_[index];
  Frame::Graph& g = frame.graphs[index];
  // All waits for outside events come first and all signals to the outside last: other work is entirely earlier or later.
  for (int event : stretch.waits) wait(frame, g.streams[0], event);
  const auto is_outer = [&](size_t stream) {
    return std::find(stretch.outer.begin(), stretch.outer.end(), int(stream)) != stretch.outer.end();
  };
  for (auto& [stream, event] : frame.sides)
    if (is_outer(stream)) join(stream, event);
  frame.addresses.clear();
  for (size_t o = operand_of_[stretch.begin]; o < operand_of_[stretch.end]; ++o) frame.addresses.push_back(frame.operands[o]->data);
  const profiler::Range range(profiler::listening() ? cat("graph of ", stretch.end - stretch.begin, " launches") : "",
                              profiler::Kind::instruction);
  g.graph->run(g.streams, frame.addresses, g.launches);
  for (auto& [stream, event] : frame.sides)
    if (is_outer(stream)) fork(stream, event);
  for (int event : stretch.signals) {
    Stream& stream = streams_[size_t(program_->instructions[signal_at_[size_t(event)]].stream)];
    stream.backend->record(stream, frame.events[size_t(event)]);
  }
  if (std::string why = g.graph->why_not(); !why.empty()) {
    g.graph.reset();
    std::lock_guard lock(mutex_);
    stretch.why_not = std::move(why);
  }
}

void Executor::launch_all(Frame& frame) {
  const Program& p = *program_;
  if (profiler::listening() && frame.names.empty()) frame.names = range_names(p);
  try {
    for (auto& [s, event] : frame.sides)  // inputs and arenas are ready in the default stream's order
      if (!is_inside_a_graph(frame, s)) fork(s, event);
    for (size_t c = 0; c < crossings_.size(); ++c) {  // and so are those of the devices that a stream copies from
      Event& event = frame.crossings[c].before;
      Stream source = event.backend->default_stream(crossings_[c].from);
      event.backend->record(source, event);
      event.backend->wait(streams_[crossings_[c].stream], event);
    }
    size_t next = 0;  // stretch
    for (size_t i = 0; i < p.instructions.size();) {
      while (next < stretches_.size() && stretches_[next].begin < i) ++next;
      if (next < stretches_.size() && stretches_[next].begin == i && frame.graphs[next].graph) {
        launch_stretch(frame, next);
        i = stretches_[next].end;
        continue;
      }
      const Instruction& instruction = p.instructions[i];
      Stream& stream = streams_[size_t(instruction.stream)];
      for (int event : instruction.wait_for) wait(frame, stream, event);
      launch(frame, i, stream);
      if (instruction.signal >= 0) stream.backend->record(stream, frame.events[size_t(instruction.signal)]);
      ++i;
    }
    // Another caller may take the frame now. On asynchronous devices the default streams order the next call, and what frees or writes the
    // buffers, after this one.
    if (p.host_effects || (streams_.size() > 1 && !asynchronous_)) {
      for (Stream& stream : streams_) stream.backend->synchronize(stream);
    } else {
      for (auto& [s, event] : frame.sides)
        if (!is_inside_a_graph(frame, s)) join(s, event);
      for (size_t c = 0; c < crossings_.size(); ++c) {
        Event& event = frame.crossings[c].after;
        Stream source = event.backend->default_stream(crossings_[c].from);
        event.backend->record(streams_[crossings_[c].stream], event);
        event.backend->wait(source, event);
      }
    }
  } catch (...) {             // an Error, or an interrupt of a loop
    if (streams_.size() > 1)  // no stream may still use the frame
      for (Stream& stream : streams_) {
        try {
          stream.backend->synchronize(stream);
        } catch (...) {  // report the first error
        }
      }
    throw;
  }
}

std::string Executor::graphs() const {
  std::string out;
  std::lock_guard lock(mutex_);
  for (const Stretch& s : stretches_) {
    const Device device = streams_[size_t(s.streams[0])].device;
    if (!backend_of(device).launch_graph(device)) continue;
    const auto& instructions = program_->instructions;
    out += cat(device, ": the ", s.end - s.begin, " instructions from ", instructions[s.begin].name, " to ", instructions[s.end - 1].name,
               s.why_not.empty() ? cat(" are one ", backend_of(device).name(), " graph from the second call on\n")
                                 : cat(" are started one by one: ", s.why_not, "\n"));
  }
  return out;
}

}  // namespace lamina::exec
