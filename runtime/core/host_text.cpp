#include "runtime/core/host_text.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <utility>
#include <vector>

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
  std::mutex mutex;
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
thread_local std::vector<Waiting> waiting;
thread_local int holds = 0;

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
  if (holds > 0) waiting.push_back({stream, target, std::move(text)});
  else write_now(stream, target, text);
}

TextHold::TextHold() { ++holds; }
void TextHold::release() {
  if (!std::exchange(held_, false) || --holds > 0) return;
  const std::vector<Waiting> all = std::exchange(waiting, {});
  for (const Waiting& one : all) write_now(one.stream, one.target, one.text);
}
TextHold::~TextHold() {
  try {
    release();
  } catch (...) {  // an error is on its way already
  }
}

}  // namespace lamina
