// The compiled kernel of a section, on the host: its source through the host's compiler, as this program was compiled, and loaded.
#pragma once
#include <string>

#include "kernels/cuda/section.h"

namespace lamina::tests {

// While one lives, launches of sections take their compiled kernels: all of them, or every second one.
class CompiledSections {
 public:
  enum class Which { all, every_second };
  explicit CompiledSections(Which which = Which::all);
  ~CompiledSections();
  CompiledSections(const CompiledSections&) = delete;
  // Launches of compiled kernels since the program began.
  static int launches();
};

// Why there are none, as where the program runs without the compiler that made it; "" where there are.
std::string why_no_compiled_sections();
// Compiles a section's kernel if no earlier run has: its file. Throws with what the compiler says.
std::string compile_for_host(const section::BlockPlan& plan);

}  // namespace lamina::tests
