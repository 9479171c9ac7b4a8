#include "runtime/exec/range_names.h"

#include "runtime/core/error.h"

namespace lamina::exec {

std::string_view label_of(const Instruction& instruction) {
  return std::string_view(instruction.detail).substr(0, instruction.detail.find('\n'));
}

std::string behind(SourceLine line) {
  if (!line.known()) return "";
  const std::string place = text(line);
  const size_t folder = place.rfind('/');
  return ' ' + (folder == std::string::npos ? place : place.substr(folder + 1));
}

std::vector<profiler::Name> range_names(const Program& program) {
  std::vector<profiler::Name> out;
  out.reserve(program.instructions.size());
  for (const Instruction& instruction : program.instructions) {
    const std::string label(label_of(instruction));
    std::string text = instruction.section_steps == 0 ? (label.empty() ? instruction.name : label) + behind(instruction.line)
                                                      : instruction.name + (label.empty() ? "" : ": ") + label;
    out.emplace_back(profiler::Kind::instruction, std::move(text),
                     profiler::Lane{program.streams[size_t(instruction.stream)].device, stream_number(program, instruction.stream)});
  }
  return out;
}

}  // namespace lamina::exec
