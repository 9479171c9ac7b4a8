// A Program as text: allocations, and each instruction with its operands.
#include <algorithm>

#include "runtime/core/error.h"
#include "runtime/exec/program.h"
#include "runtime/exec/range_names.h"

namespace lamina::exec {
namespace {

const char* name(StorageKind kind) {
  switch (kind) {
    case StorageKind::input: return "input";
    case StorageKind::variable: return "variable";
    case StorageKind::constant: return "constant";
    case StorageKind::arena: return "arena";
    case StorageKind::output: return "output";
  }
  return "?";
}

std::string slot_text(const Program& p, int index) {
  const Slot& slot = p.slots[size_t(index)];
  const Storage& storage = p.storages[size_t(slot.storage)];
  std::string s = cat(name(slot.view.dtype), '[');
  for (int i = 0; i < slot.view.rank; ++i) s += cat(i ? "," : "", slot.view.shape[i]);
  s += cat("] ", name(storage.kind));
  if (storage.kind == StorageKind::arena) return s + cat(storage.index ? cat(':', storage.index) : "", '+', storage.offset + slot.offset);
  s += cat(' ', storage.index);
  return slot.offset ? s + cat('+', slot.offset) : s;
}

// A device's streams are counted from 0.
std::string stream_text(const Program& p, int stream) {
  const Device device = p.streams[size_t(stream)].device;
  const auto of_device = [&](const StreamUse& s) { return s.device == device; };
  std::string s = cat(" on ", device);
  if (std::count_if(p.streams.begin(), p.streams.end(), of_device) > 1) s += cat(" stream ", stream_number(p, stream));
  return s;
}

}  // namespace

int stream_number(const Program& p, int stream) {
  return int(std::count_if(p.streams.begin(), p.streams.begin() + stream,
                           [&](const StreamUse& s) { return s.device == p.streams[size_t(stream)].device; }));
}

std::string print(const Program& p) {
  std::string s;
  for (size_t d = 0; d < p.devices.size(); ++d) s += cat("arena ", p.devices[d], ": ", p.arena_bytes[d], " bytes\n");
  for (size_t i = 0; i < p.inputs.size(); ++i) s += cat("input ", i, ": ", p.inputs[i], '\n');
  for (size_t v = 0; v < p.variables.size(); ++v)
    s += cat("variable ", v, " '", p.variables[v].name, "': ", p.variables[v].type, p.variables[v].written ? " written\n" : "\n");
  for (const Instruction& instruction : p.instructions) {
    s += instruction.name;
    if (p.streams.size() > 1) s += stream_text(p, instruction.stream);
    const bool section = instruction.section_steps > 0;
    if (!section) {
      for (size_t i = 0; i < instruction.inputs.size(); ++i) s += (i ? ", " : "(") + slot_text(p, instruction.inputs[i]);
      s += instruction.inputs.empty() ? "()" : ")";
      for (size_t i = 0; i < instruction.outputs.size(); ++i) s += (i ? ", " : " -> ") + slot_text(p, instruction.outputs[i]);
    } else {
      s += cat(": ", instruction.inputs.size(), " inputs, ", instruction.outputs.size(), " outputs");
    }
    for (int event : instruction.wait_for) s += cat(" wait ", event);
    if (instruction.signal >= 0) s += cat(" signal ", instruction.signal);
    if (instruction.line.known()) s += cat("  # ", text(instruction.line));
    const std::string_view label = label_of(instruction);
    if (!section && !label.empty() && label != instruction.name) s += cat(instruction.line.known() ? " " : "  # ", label);
    s += '\n';
    if (section && !label.empty()) s += cat("  layers: ", label, '\n');
    s += std::string_view(instruction.detail).substr(std::min(label.size() + 1, instruction.detail.size()));
    if (!instruction.why_in_no_section.empty()) s += cat("in no section: ", instruction.why_in_no_section, '\n');
  }
  for (size_t o = 0; o < p.outputs.size(); ++o) s += cat("output ", o, ": ", slot_text(p, p.output_slots[o]), '\n');
  return s;
}

}  // namespace lamina::exec
