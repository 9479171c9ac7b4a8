// CallSite: the place in the user's program where an op was called. It becomes a SourceLine only when a node or an error keeps it, so a
// successful eager op pays nothing for it.
#pragma once
#include <source_location>

#include "runtime/core/source_line.h"

namespace lamina {

class LAMINA_API CallSite {
 public:
  constexpr CallSite() = default;  // unknown: line() asks the line finder
  constexpr CallSite(std::source_location at) : file_(at.file_name()), line_(at.line()) {}
  constexpr CallSite(SourceLine line) : kept_(line) {}
  SourceLine line() const;

 private:
  const char* file_ = nullptr;  // a string literal, as source_location provides it
  uint32_t line_ = 0;
  SourceLine kept_;
};
inline std::string text(const CallSite& at) { return text(at.line()); }

// Call it before what may call itself through a user's code. Throws state when the thread's stack runs out.
LAMINA_API void check_stack(const CallSite& at);

// For language bindings: a function that finds the user's line running on this thread. Called only when the line is needed.
LAMINA_API void set_line_finder(SourceLine (*find)());

}  // namespace lamina
