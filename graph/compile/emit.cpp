#include "graph/compile/emit.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "graph/compile/label.h"
#include "graph/compile/select.h"
#include "graph/ops/collectives.h"
#include "graph/ops/ops.h"
#include "kernels/section/block_section.h"
#include "kernels/section/stages.h"
#include "runtime/device/backend.h"

namespace lamina::compile {
namespace {

using exec::Instruction;
using exec::StorageKind;

class Emitter {
 public:
  Emitter(Lowered lowered, const ir::Graph& g, const Options& options, int threads)
      : in_(std::move(lowered)), g_(g), options_(options), threads_(threads) {}

  std::shared_ptr<const exec::Program> run() {
    program_->variables = in_.variables;
    program_->constants = in_.constants;
    program_->storages = in_.storages;
    program_->devices = in_.devices;
    program_->arena_bytes = in_.arena_bytes;
    program_->outputs = in_.output_types;
    program_->output_devices = in_.output_devices;
    for (size_t i = 0; i < g_.inputs.size(); ++i) {
      program_->inputs.push_back(g_.type(g_.inputs[i]));
      program_->input_devices.push_back(i < options_.input_devices.size() ? options_.input_devices[i] : options_.device);
    }
    for (Device device : in_.streams) program_->streams.push_back({device});
    for (const Group& group : in_.groups) {
      if (group.section)
        emit_section(group);
      else
        emit_single(group);
      Instruction& made = program_->instructions.back();
      made.alone = group.alone;
      for (const Work& w : std::span(in_.work).subspan(group.begin, group.end - group.begin)) {
        made.host_effect |= w.node >= 0 && on_host(g_[w.node]);
        made.flops += 2 * multiply_adds(w, g_);
        made.bytes += bytes_of(w);
      }
    }
    for (const Place& place : in_.outputs) program_->output_slots.push_back(slot(place));
    for (const ir::Node& n : g_.nodes()) program_->host_effects = program_->host_effects || on_host(n);
    if (program_->streams.size() > 1) add_events();
    return program_;
  }

 private:
  int first_stream_on(Device device) const { return int(std::find(in_.streams.begin(), in_.streams.end(), device) - in_.streams.begin()); }

  int slot(const Place& place) {
    auto key = std::tuple(place.storage, place.life, place.offset, place.view.dtype,
                          std::vector<int64_t>(place.view.shape, place.view.shape + place.view.rank),
                          std::vector<int64_t>(place.view.strides, place.view.strides + place.view.rank));
    auto [it, is_new] = slots_.try_emplace(std::move(key), int(program_->slots.size()));
    if (is_new) program_->slots.push_back({place.storage, place.offset, place.view});
    return it->second;
  }

  void emit_single(const Group& group) {
    const Work& work = in_.work[group.begin];
    if (work.infeed.chunk > 0) internal_error("a loop that is no section has inputs on the host");
    Instruction out;
    out.name = work.name;
    out.kernel = work.kernel;
    out.line = work.line;
    out.detail = (work.node >= 0 ? label(g_[work.node]) : work.name) + '\n';
    out.stream = group.stream;
    if (work.device.kind != DeviceKind::cpu && options_.sections) {
      const char* why = work.step ? why_in_no_section(work, options_) : work.why_no_step.empty() ? nullptr : work.why_no_step.c_str();
      if (why) out.why_in_no_section = why;
    }
    out.waits =
        work.device.kind == DeviceKind::gpu && work.node >= 0 && (ops::owns_programs(g_[work.node]) || ir::has_collective(g_[work.node]));
    if (!work.kernel) out.source_stream = first_stream_on(in_.storage_devices[size_t(work.inputs[0].storage)]);
    for (const Place& place : work.inputs) out.inputs.push_back(slot(place));
    for (const Place& place : work.outputs) out.outputs.push_back(slot(place));
    program_->instructions.push_back(std::move(out));
  }

  void emit_section(const Group& group) {
    const size_t begin = group.begin, end = group.end;
    auto table = std::make_shared<section::TableWithLoops>();
    table->threads = threads_;
    // The instruction's operands: slots that are only read, then slots that are written.
    std::map<int, bool> written;
    for (size_t i = begin; i < end; ++i) {
      for (const Place& place : in_.work[i].inputs) written.try_emplace(slot(place), false);
      for (const Place& place : in_.work[i].outputs) written[slot(place)] = true;
    }
    Instruction out;
    for (auto& [s, is_written] : written) (is_written ? out.outputs : out.inputs).push_back(s);
    std::map<int, int> buffer_of;
    for (int s : out.inputs) buffer_of.emplace(s, int(buffer_of.size()));
    for (int s : out.outputs) buffer_of.emplace(s, int(buffer_of.size()));

    const std::set<size_t> spread = last_updates(begin, end);
    for (size_t i = begin; i < end; ++i) {
      const Work& work = in_.work[i];
      section::Step step = work.step->step;
      const bool one_model = work.device.kind != DeviceKind::cpu && step.kind == section::StepKind::dense_update && step.replicas == 1;
      if (spread.contains(i) || one_model) step.partition = section::Partition::tiles;
      if (work.owner >= 0) step.partition = section::Partition::one, step.owner = work.owner;
      std::vector<int> own;  // the node's operands as the instruction's
      for (auto* places : {&work.inputs, &work.outputs})
        for (const Place& place : *places) own.push_back(buffer_of.at(slot(place)));
      step.first_in = int32_t(table->operands.size());
      step.first_out = step.first_in + step.ins;
      for (section::Operand operand : work.step->operands) {
        operand.buffer = own.at(size_t(operand.buffer));
        table->operands.push_back(operand);
      }
      int32_t codes = int32_t(table->codes.size());
      if (work.nested) {
        step.code = int32_t(table->nested.size());
        table->nested.push_back(with_infeed(work));
      } else if (step.code >= 0) {
        step.code += codes;
      }
      if (step.code2 >= 0) step.code2 += codes;
      if (work.step->sum) {
        step.k = int32_t(table->sums.size());
        table->sums.push_back(*work.step->sum);
      }
      table->codes.insert(table->codes.end(), work.step->codes.begin(), work.step->codes.end());
      table->flops += work.step->flops;
      table->steps.push_back(step);
      table->lines.push_back(work.line);
    }
    if (options_.share_all_sections) table->flops = std::numeric_limits<double>::max();
    const std::string layers = name_steps(*table, std::span(in_.work).subspan(begin, end - begin), g_);
    std::vector<section::OperandRange> ranges;
    for (auto* list : {&out.inputs, &out.outputs})
      for (int s : *list) {
        ranges.push_back(range_of(s));
        const auto storage = size_t(program_->slots[size_t(s)].storage);
        const StorageKind kind = program_->storages[storage].kind;
        ranges.back().is_inner = kind == StorageKind::arena && in_.first_use[storage] >= int(begin) && in_.last_use[storage] < int(end);
        ranges.back().is_state = kind == StorageKind::variable;
      }
    section::place_barriers(*table, ranges);
    section::validate(*table, ranges, int(out.inputs.size()));

    Device device = in_.work[begin].device;
    out.name = cat("section of ", end - begin, " steps");
    out.detail = layers + '\n';
    if (device.kind == DeviceKind::cpu) section::place_ways(*table, ranges);
    if (!options_.inside) {
      out.detail += section::print(*table);
      if (const std::string ways = table->ways ? section::print(*table->ways) : ""; !ways.empty())
        out.detail += cat("or ", ways, ", as is faster\n");
      print_nested(*table, "", out.detail);
    }
    out.stream = group.stream;
    out.section_steps = int(end - begin);
    if (device.kind == DeviceKind::cpu) {
      out.kernel = {.run = kernels::cpu::run_section_with_loops, .args = std::move(table)};
    } else {
      const auto planned = shared_among_blocks(out, table, ranges, device);
      out.waits = planned->plan.may_be_long || !planned->plan.windows.empty();
      out.kernel = {.run = device.kind == DeviceKind::gpu ? section::block_runner()->run : in_.work[begin].kernel.run, .args = planned};
    }
    program_->instructions.push_back(std::move(out));
  }

  // Elementwise steps on a GPU whose results are assigned, or summed over ranks, and not read in the section. They have no batch's rows in
  // common and none waits for them, so each gets blocks of its own.
  std::set<size_t> last_updates(size_t begin, size_t end) const {
    std::set<size_t> found;
    if (options_.inside) return found;
    std::set<int> read, summed;  // storages, by later steps; by those that end in a sum over ranks
    for (size_t i = end; i-- > begin;) {
      const Work& work = in_.work[i];
      const section::Step& step = work.step->step;
      const auto all_in = [&](const std::set<int>& set, bool is) {
        return std::all_of(work.outputs.begin(), work.outputs.end(), [&](const Place& to) { return set.contains(to.storage) == is; });
      };
      const bool spreads = work.device.kind != DeviceKind::cpu && step.kind == section::StepKind::elementwise &&
                           step.partition != section::Partition::models && all_in(read, false);
      const bool in_sum = step.kind == section::StepKind::all_reduce || (spreads && !work.is_update && all_in(summed, true));
      if (spreads && (work.is_update || in_sum)) found.insert(i);
      for (const Place& from : work.inputs) (in_sum ? summed : read).insert(from.storage);
    }
    return found;
  }

  static std::shared_ptr<const section::Nested> with_infeed(const Work& work) {
    if (work.infeed.chunk == 0) return work.nested;
    auto out = std::make_shared<section::Nested>(*work.nested);
    out->infeed = work.infeed;
    return out;
  }

  // The loops and branches, indexed by their numbers in the enclosing table.
  static void print_nested(const section::TableWithLoops& table, const std::string& outer, std::string& out) {
    for (size_t n = 0; n < table.nested.size(); ++n) {
      const std::string number = cat(outer, n);
      const section::Nested& nested = *table.nested[n];
      for (size_t p = 0; p < nested.programs.size(); ++p) {
        const char* part = nested.kind == section::Nested::Kind::scan     ? ""
                           : nested.kind == section::Nested::Kind::branch ? (p ? ", where false" : ", where true")
                           : p                                            ? ", the body"
                                                                          : ", the condition";
        out += cat("inside of ", number, ", a ", section::describe(nested), part, ":\n", section::print(*nested.programs[p].table));
        print_nested(*nested.programs[p].table, number + '.', out);
      }
    }
  }

  std::shared_ptr<const section::BlockSection> shared_among_blocks(Instruction& out, std::shared_ptr<const section::TableWithLoops> table,
                                                                   const std::vector<section::OperandRange>& ranges, Device device) {
    constexpr int for_others = 4;  // multiprocessors left to concurrent kernels, such as collectives
    const DeviceProperties card = backend_of(device).properties(device);
    const int resident = device.kind == DeviceKind::gpu ? section::block_runner()->resident_blocks(device) : card.multiprocessors;
    if (resident == 0)
      throw Error(ErrorKind::device, {.what = "a section has no room on this GPU",
                                      .where = text(device),
                                      .why = "not one block of the section kernel fits on a multiprocessor",
                                      .fix = "run it on another GPU, or on 'cpu'"});
    const int all = std::min(card.multiprocessors, resident);
    const int blocks = all > 2 * for_others ? all - for_others : all;
    std::vector<View> views;
    for (auto* list : {&out.inputs, &out.outputs})
      for (int s : *list) views.push_back(program_->slots[size_t(s)].view);
    auto section = std::make_shared<section::BlockSection>();
    section->plan = section::plan_blocks(*table, ranges, views, blocks);
    if (!table->sums.empty()) section->ranks = ops::memory_of(table->sums);
    section->table = std::move(table);
    out.detail += section::print(section->plan);
    return section;
  }

  // The bytes that a slot may touch.
  section::OperandRange range_of(int s) const {
    const exec::Slot& slot = program_->slots[size_t(s)];
    const exec::Storage& storage = program_->storages[size_t(slot.storage)];
    const bool in_arena = storage.kind == StorageKind::arena;
    return section::range_of(slot.view, in_arena ? -1 - storage.index : slot.storage, slot.offset + (in_arena ? storage.offset : 0));
  }

  // An instruction waits for the last instruction of each other stream that touched the same bytes, if either writes, unless something that
  // it waits for already implies it.
  void add_events() {
    struct Access {
      section::OperandRange range;
      int instruction;
      bool write;
    };
    std::vector<Access> accesses;
    const size_t streams = program_->streams.size();
    std::vector<std::vector<int>> ended(streams,
                                        std::vector<int>(streams, -1));  // after a stream's last instruction: per stream, the last ended
    std::vector<std::vector<int>> ended_after;                           // per instruction, the same
    int last_host_effect = -1;
    for (size_t i = 0; i < program_->instructions.size(); ++i) {
      Instruction& instruction = program_->instructions[i];
      const size_t own = size_t(instruction.stream);
      std::map<int, int> last_of;  // per other stream
      const auto after = [&](int other) {
        if (const int stream = program_->instructions[size_t(other)].stream; stream != instruction.stream)
          last_of.try_emplace(stream, -1).first->second = std::max(last_of[stream], other);
      };
      auto touch = [&](int s, bool write) {
        section::OperandRange range = range_of(s);
        for (const Access& a : accesses)
          if (a.range.space == range.space && a.range.begin < range.end && range.begin < a.range.end && (write || a.write))
            after(a.instruction);
      };
      for (int s : instruction.inputs) touch(s, false);
      for (int s : instruction.outputs) touch(s, true);
      for (int s : instruction.inputs) accesses.push_back({range_of(s), int(i), false});
      for (int s : instruction.outputs) accesses.push_back({range_of(s), int(i), true});
      for (size_t other = 0; other < i; ++other)
        if ((in_.groups[i].alone || in_.groups[other].alone) && !in_.groups[i].exchange && !in_.groups[other].exchange &&
            program_->streams[own].device == program_->streams[size_t(program_->instructions[other].stream)].device)
          after(int(other));
      if (instruction.host_effect)  // in program order on all devices
        if (const int before = std::exchange(last_host_effect, int(i)); before >= 0) after(before);
      for (auto& [stream, other] : last_of) {
        bool known = ended[own][size_t(stream)] >= other;
        for (auto& [third, by] : last_of) known = known || (third != stream && ended_after[size_t(by)][size_t(stream)] >= other);
        if (known) continue;
        int& signal = program_->instructions[size_t(other)].signal;
        if (signal < 0) signal = program_->events++;
        instruction.wait_for.push_back(signal);
      }
      for (auto& [stream, other] : last_of)
        for (size_t t = 0; t < streams; ++t) ended[own][t] = std::max(ended[own][t], ended_after[size_t(other)][t]);
      ended[own][own] = int(i);
      ended_after.push_back(ended[own]);
    }
  }

  Lowered in_;
  const ir::Graph& g_;
  const Options& options_;
  const int threads_;
  std::shared_ptr<exec::Program> program_ = std::make_shared<exec::Program>();
  std::map<std::tuple<int, int, int64_t, DType, std::vector<int64_t>, std::vector<int64_t>>, int> slots_;
};

}  // namespace

std::shared_ptr<const exec::Program> emit_program(Lowered lowered, const ir::Graph& g, const Options& options, int threads) {
  return Emitter(std::move(lowered), g, options, threads).run();
}

}  // namespace lamina::compile
