// Output of text for people: lm.print writes through here.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "runtime/core/export.h"

namespace lamina {

// A destination of text. write() may throw; only one thread at a time calls it.
class LAMINA_API TextTarget {
 public:
  virtual ~TextTarget();
  virtual void write(std::string_view text) = 0;
};
using TextTargetRef = std::shared_ptr<TextTarget>;

enum class TextStream : int64_t { out = 1, err = 2 };  // other numbers are targets of callers

// C's stdout and stderr, flushed after each text, until a language binding replaces them.
LAMINA_API TextTargetRef standard_target(TextStream stream);
LAMINA_API void set_standard_targets(TextTargetRef out, TextTargetRef err);
// A number that no other target has.
LAMINA_API int64_t new_text_stream();

// Writes the text, or holds it back while this thread has a TextHold. Streams 1 and 2 go to the standard targets current at the time of
// writing.
LAMINA_API void write_text(int64_t stream, const TextTargetRef& target, std::string text);

// Holds back this thread's text while it lives. A target may need a lock (an interpreter's) whose holder waits for a Variable of this
// program.
class LAMINA_API TextHold {
 public:
  TextHold();
  ~TextHold();  // writes the rest; errors of targets are lost
  TextHold(const TextHold&) = delete;
  TextHold& operator=(const TextHold&) = delete;
  void release();  // writes the held text; throws the targets' errors

 private:
  bool held_ = true;
};

}  // namespace lamina
