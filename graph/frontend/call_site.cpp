#include "graph/frontend/call_site.h"

#include <atomic>
#include <cstring>

namespace lamina {
namespace {
std::atomic<SourceLine (*)()> finder{nullptr};
}

SourceLine CallSite::line() const {
  if (kept_.known()) return kept_;
  if (file_ && *file_) {
    const char* slash = std::strrchr(file_, '/');
    return source_line(slash ? slash + 1 : file_, int(line_));
  }
  SourceLine (*find)() = finder.load(std::memory_order_relaxed);
  return find ? find() : SourceLine{};
}

void set_line_finder(SourceLine (*find)()) { finder = find; }

}  // namespace lamina
