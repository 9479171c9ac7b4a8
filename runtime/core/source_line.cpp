#include "runtime/core/source_line.h"

#include <map>
#include <vector>

#include "runtime/core/mutex.h"

namespace lamina {
namespace {
struct LineTable {
  Mutex mutex;
  std::map<std::pair<std::string, int>, uint32_t> ids;
  std::vector<std::string> texts{""};
};
LineTable& lines() {
  static LineTable* t = new LineTable;  // outlives statics that may throw at exit
  return *t;
}
}  // namespace

SourceLine source_line(const std::string& file, int line) {
  LineTable& t = lines();
  std::lock_guard lock(t.mutex);
  auto [it, inserted] = t.ids.try_emplace({file, line}, uint32_t(t.texts.size()));
  if (inserted) t.texts.push_back(file + ":" + std::to_string(line));
  return {it->second};
}

std::string text(SourceLine line) {
  LineTable& t = lines();
  std::lock_guard lock(t.mutex);
  return line.id < t.texts.size() ? t.texts[line.id] : "";
}

}  // namespace lamina
