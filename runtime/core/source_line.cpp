#include "runtime/core/source_line.h"

#include <map>
#include <vector>

#include "runtime/core/mutex.h"

namespace lamina {
namespace {
struct Table {
  Mutex mutex;
  std::map<std::pair<std::string, int>, uint32_t> ids;
  std::vector<std::string> texts{""};
};
Table& table() {
  static Table* t = new Table;  // outlives every static that may still throw at exit
  return *t;
}
}  // namespace

SourceLine source_line(const std::string& file, int line) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  auto [it, inserted] = t.ids.try_emplace({file, line}, uint32_t(t.texts.size()));
  if (inserted) t.texts.push_back(file + ":" + std::to_string(line));
  return {it->second};
}

std::string text(SourceLine line) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  return line.id < t.texts.size() ? t.texts[line.id] : "";
}

}  // namespace lamina
