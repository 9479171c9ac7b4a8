// Docstrings of functions, with the sentence about what they raise.
#pragma once
#include <string>
#include <type_traits>

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace lamina::python {

// "Raises ..." of a public name without "lamina.", from raises.inc; empty if it has none there.
const std::string& raised_by(const std::string& name);

// A module whose functions get that sentence behind their docstrings.
class Functions {
 public:
  // prefix: "random." in lm.random.
  Functions(nb::module_& module, const char* prefix = "") : module_(module), prefix_(prefix) {}
  template <class F, class... Extra>
  Functions& def(const char* name, F&& f, const Extra&... extra) {
    std::string doc;
    (take(doc, extra), ...);
    if (const std::string& raises = raised_by(prefix_ + name); !raises.empty()) doc += "\n\n" + raises;
    module_.def(name, std::forward<F>(f), extra..., doc.c_str());  // the last docstring is the one that is kept
    return *this;
  }
  operator nb::module_&() { return module_; }

 private:
  template <class T>
  static void take(std::string& doc, const T& extra) {
    if constexpr (std::is_convertible_v<const T&, const char*>) doc = extra;
  }
  nb::module_& module_;
  std::string prefix_;
};

}  // namespace lamina::python
