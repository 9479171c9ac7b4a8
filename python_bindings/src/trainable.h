// Records which layers' `trainable` a traced function has read. A graph is valid for those values: after a change the function is retraced,
// and changing back reuses the old graph.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "python_bindings/src/bindings.h"

namespace lamina::python {

class TrainableReads {
 public:
  // Part of the function's key. Empty while all values read are as at first.
  const std::string& key();
  std::string in_words();  // "as at first", "with hidden.trainable False"
  // While it lives, reads on this thread are recorded for this function.
  class Scope {
   public:
    explicit Scope(TrainableReads& reads);
    ~Scope();

   private:
    TrainableReads* before_;
  };
  // Passes the reads of a called function on to the function being traced.
  void pass_on() const;
  void add(nb::handle layer, bool value);

 private:
  struct Read {
    nb::object layer;  // a weak reference
    bool first;
  };
  bool changed(Read read) const;  // a copy, because Python code runs here, and other threads may add reads
  std::vector<Read> reads_;
  std::unordered_map<PyObject*, size_t> places_;  // by layer, which may have been freed
  std::string key_;
  uint64_t checked_ = 0;  // the change count for which key_ is valid
};

bool is_layer(PyObject* o);
int64_t layer_changes();  // how often a layer was made, or an attribute of one replaced

void bind_trainable(nb::module_& m);

}  // namespace lamina::python
