// Text that programs write for people: what lm.print makes goes through here to where it belongs.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "runtime/core/export.h"

namespace lamina {

// Where text goes. write() may throw; it is called by one thread at a time.
class LAMINA_API TextTarget {
 public:
  virtual ~TextTarget();
  virtual void write(std::string_view text) = 0;
};
using TextTargetRef = std::shared_ptr<TextTarget>;

enum class TextStream : int64_t { out = 1, err = 2 };  // other numbers are targets that a caller made

// C's stdout and stderr, flushed after each text, until a language binding puts its own in their places.
LAMINA_API TextTargetRef standard_target(TextStream stream);
LAMINA_API void set_standard_targets(TextTargetRef out, TextTargetRef err);
// A number that no other target has.
LAMINA_API int64_t new_text_stream();

// Writes the text, or keeps it while this thread has a TextHold. stream 1 and 2 go to the standard targets as they are when the text is
// written.
LAMINA_API void write_text(int64_t stream, const TextTargetRef& target, std::string text);

// While it lives, this thread's text waits: a target may need a lock (an interpreter's) whose holder waits for a Variable of this program.
class LAMINA_API TextHold {
 public:
  TextHold();
  ~TextHold();  // writes what is left; errors of targets are lost
  TextHold(const TextHold&) = delete;
  TextHold& operator=(const TextHold&) = delete;
  void release();  // writes what waits; throws what targets throw

 private:
  bool held_ = true;
};

}  // namespace lamina
