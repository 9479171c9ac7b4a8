// CallSite: where in the user's program an op was called. It becomes a SourceLine only when something keeps it (a node, an error):
// an eager op that succeeds pays nothing for it.
#pragma once
#include <source_location>

#include "runtime/core/source_line.h"

namespace lamina {

class LAMINA_API CallSite {
 public:
  constexpr CallSite() = default;  // unknown here: line() asks the line finder
  constexpr CallSite(std::source_location at) : file_(at.file_name()), line_(at.line()) {}
  constexpr CallSite(SourceLine line) : kept_(line) {}
  SourceLine line() const;

 private:
  const char* file_ = nullptr;  // static storage, as source_location gives it
  uint32_t line_ = 0;
  SourceLine kept_;
};
inline std::string text(const CallSite& at) { return text(at.line()); }

// For language bindings: finds the line of the user's program that is running now on this thread, asked only when it is needed.
LAMINA_API void set_line_finder(SourceLine (*find)());

}  // namespace lamina
