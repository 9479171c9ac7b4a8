// Whether this thread's layers run in training mode. It is part of a traced function's key.
#pragma once
#include <utility>

namespace lamina::python {

inline thread_local bool training_flag = false;
// Whether the function being traced is converted by AutoGraph.
inline thread_local bool autograph_flag = false;
class AutographScope {
 public:
  explicit AutographScope(bool on) : before_(std::exchange(autograph_flag, on)) {}
  ~AutographScope() { autograph_flag = before_; }
  AutographScope(const AutographScope&) = delete;
  AutographScope& operator=(const AutographScope&) = delete;

 private:
  bool before_;
};

}  // namespace lamina::python
