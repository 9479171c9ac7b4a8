#include "graph/frontend/call_site.h"

#include <atomic>
#include <cstring>

#include "runtime/core/error.h"
#include "runtime/core/stack.h"

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

void check_stack(const CallSite& at) {
  if (stack_runs_out()) [[unlikely]]
    throw Error(ErrorKind::state, {.what = "calls are nested too deep: the thread's stack is nearly full",
                                   .where = text(at),
                                   .why = "functions or layers call themselves or each other, and each call takes some of the stack",
                                   .fix = "end the recursion, or use a loop"});
}

void set_line_finder(SourceLine (*find)()) { finder = find; }

}  // namespace lamina
