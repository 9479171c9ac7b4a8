// Substitute: one Variable in the place of another, in calls of traced functions.
#pragma once
#include <functional>
#include <optional>

#include "graph/frontend/variable.h"

namespace lamina {

// While it lives, functions that this thread calls use the Variable that `make` gives, at the first use, in the place of `of`. Not while a
// function is traced: graphs hold the original.
class LAMINA_API Substitute {
 public:
  Substitute(Variable of, std::function<Variable()> make);
  ~Substitute();
  Substitute(const Substitute&) = delete;
  Substitute& operator=(const Substitute&) = delete;
  static Substitute* current();
  const Variable& of() const { return of_; }
  const Variable& by();

 private:
  friend class TraceScope;
  static Substitute* exchange(Substitute* now);
  Variable of_;
  std::function<Variable()> make_;
  std::optional<Variable> by_;
  Substitute* before_;
};

}  // namespace lamina
