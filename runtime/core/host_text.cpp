#include "runtime/core/host_text.h"

#include <atomic>
#include <cstdio>
#include <utility>
#include <vector>

#include "runtime/core/held_text.h"
#include "runtime/core/mutex.h"
#include "runtime/core/per_thread.h"

namespace lamina {
namespace {

class CFile final : public TextTarget {
 public:
  explicit CFile(std::FILE* file) : file_(file) {}
  void write(std::string_view text) override {
    std::fwrite(text.data(), 1, text.size(), file_);
    std::fflush(file_);
  }

 private:
  std::FILE* file_;
};

struct Standard {
  Mutex mutex;
  TextTargetRef out = std::make_shared<CFile>(stdout), err = std::make_shared<CFile>(stderr);
};
Standard& standard() {
  static Standard* s = new Standard;  // outlives threads that still print at exit
  return *s;
}

struct Waiting {
  int64_t stream;
  TextTargetRef target;
  std::string text;
};

}  // namespace

struct HeldText {
  Mutex mutex;  // workers of several streams may write for one call
  std::vector<Waiting> texts;
};

namespace {

HeldText& own() { return PerThread<HeldText>::get(); }
thread_local HeldText* held_here = nullptr;
thread_local int holds = 0;  // of own()

void write_now(int64_t stream, const TextTargetRef& target, const std::string& text) {
  (target ? target : standard_target(TextStream(stream)))->write(text);
}

}  // namespace

TextTarget::~TextTarget() = default;

TextTargetRef standard_target(TextStream stream) {
  std::lock_guard lock(standard().mutex);
  return stream == TextStream::err ? standard().err : standard().out;
}
void set_standard_targets(TextTargetRef out, TextTargetRef err) {
  std::lock_guard lock(standard().mutex);
  standard().out = std::move(out);
  standard().err = std::move(err);
}
int64_t new_text_stream() {
  static std::atomic<int64_t> next{3};
  return next++;
}

void write_text(int64_t stream, const TextTargetRef& target, std::string text) {
  if (!held_here) return write_now(stream, target, text);
  std::lock_guard lock(held_here->mutex);
  held_here->texts.push_back({stream, target, std::move(text)});
}

HeldText* held_text() { return held_here; }
HoldTextWith::HoldTextWith(HeldText* held) : before_(std::exchange(held_here, held ? held : held_here)) {}
HoldTextWith::~HoldTextWith() { held_here = before_; }

TextHold::TextHold() {
  if (holds++ == 0) held_here = &own();
}
void TextHold::release() {
  if (!std::exchange(held_, false) || --holds > 0) return;
  held_here = nullptr;
  std::vector<Waiting> all;
  {
    std::lock_guard lock(own().mutex);
    all.swap(own().texts);
  }
  for (const Waiting& one : all) write_now(one.stream, one.target, one.text);
}
TextHold::~TextHold() {
  try {
    release();
  } catch (...) {  // an exception is already in flight
  }
}

}  // namespace lamina
