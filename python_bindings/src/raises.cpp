#include "python_bindings/src/raises.h"

#include <sstream>
#include <unordered_map>

namespace lamina::python {

const std::string& raised_by(const std::string& name) {
  static const auto sentences = [] {
    std::unordered_map<std::string, std::string> out;
    auto add = [&out](const char* names, const char* sentence) {
      std::istringstream words(names);
      for (std::string word; words >> word;) out[word] = std::string("Raises ") + sentence;
    };
#define RAISES(names, sentence) add(names, sentence);
#include "python_bindings/src/raises.inc"
#undef RAISES
    return out;
  }();
  static const std::string none;
  const auto found = sentences.find(name);
  return found == sentences.end() ? none : found->second;
}

}  // namespace lamina::python
