// Binds a Python callable's arguments to its parameters, so that f(x), f(x, 2), f(x, b=2) and f(b=2, a=x) are the same call.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "graph/frontend/function.h"
#include "python_bindings/src/bindings.h"

namespace lamina::python {

struct BoundArgument {
  nb::object value;
  std::string name;     // for messages
  std::string keyword;  // set if it must be passed by name
  bool is_default = false;
};

// As data: (name, whether it must be passed by name, is_default, described_argument(value)) for each.
nb::list described(std::span<const BoundArgument> arguments);

class CallBinding {
 public:
  explicit CallBinding(nb::handle callable);
  // One argument per parameter with defaults filled in, then the remaining ones. Throws signature.
  std::vector<BoundArgument> bind(const std::string& function, PyObject* const* args, Py_ssize_t count, PyObject* names) const;
  // Whether `count` positional arguments are the maximum.
  bool all_positional(Py_ssize_t count) const {
    return known_ && !has_rest_ && !has_keywords_ && keyword_only_.empty() && size_t(count) == positional_.size();
  }
  bool has_room(size_t arguments) const { return has_rest_ || has_keywords_ || arguments <= parameter_count(); }
  size_t parameter_count() const { return positional_.size() + keyword_only_.size() + has_rest_ + has_keywords_; }
  // Whether an argument may be passed by this name.
  bool takes(std::string_view name) const;

  // "f(x, rate=0.1)": the parameters, for an error.
  std::string signature(const std::string& function) const;

 private:
  struct Parameter {
    std::string name;
    nb::object fallback;  // invalid: required
    bool by_name = true;  // may be passed by name
  };
  bool known_ = false;  // false: the parameters are unknown; arguments are passed on as they are
  std::vector<Parameter> positional_, keyword_only_;
  bool has_rest_ = false, has_keywords_ = false;
};

// For an input_signature: converts numbers and lists to tensors of the specs' dtypes.
void convert_to_signature(const std::vector<TensorSpec>& signature, bool receives_self, std::vector<BoundArgument>& bound);

}  // namespace lamina::python
