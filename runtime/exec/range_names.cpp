#include "runtime/exec/range_names.h"

#include "kernels/section/nested.h"
#include "runtime/core/error.h"

namespace lamina::exec {

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
    std::string text;
    if (instruction.section_steps > 0) {
      const auto& table = *static_cast<const section::TableWithLoops*>(instruction.kernel.args.get());
      text = instruction.name + (table.layers.empty() ? "" : ": ") + table.layers;
    } else {
      text = (instruction.detail.empty() ? instruction.name : instruction.detail) + behind(instruction.line);
    }
    out.emplace_back(profiler::Kind::instruction, std::move(text));
  }
  return out;
}

}  // namespace lamina::exec
