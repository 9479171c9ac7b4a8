// Which layers' `trainable` a traced function has read. A graph belongs to what they were: after a change the function is traced again, and
// what was traced before is found again when it is changed back.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "python_bindings/src/bindings.h"

namespace lamina::python {

class TrainableReads {
 public:
  // Part of the function's key: empty while all that were read are as they were at first.
  const std::string& key();
  std::string in_words();  // "as at first", "with hidden.trainable False"
  // While one lives, reads on this thread are this function's.
  class Scope {
   public:
    explicit Scope(TrainableReads& reads);
    ~Scope();

   private:
    TrainableReads* before_;
  };
  // What a function that is called reads, the one that is being traced reads too.
  void pass_on() const;
  void add(nb::handle layer, bool value);

 private:
  struct Read {
    nb::object layer;  // a weak reference
    bool first;
  };
  bool changed(Read read) const;  // a copy: Python runs in it, and other threads may add reads
  std::vector<Read> reads_;
  std::unordered_map<PyObject*, size_t> places_;  // by layer, which may be gone
  std::string key_;
  uint64_t checked_ = 0;  // the count of changes for which key_ holds
};

void bind_trainable(nb::module_& m);

}  // namespace lamina::python
