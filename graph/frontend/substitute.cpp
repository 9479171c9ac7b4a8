#include "graph/frontend/substitute.h"

#include <utility>

namespace lamina {
namespace {
thread_local Substitute* innermost_substitute = nullptr;
}  // namespace

Substitute::Substitute(Variable of, std::function<Variable()> make) : of_(std::move(of)), make_(std::move(make)), before_(exchange(this)) {}
Substitute::~Substitute() { exchange(before_); }
Substitute* Substitute::current() { return innermost_substitute; }
Substitute* Substitute::exchange(Substitute* now) { return std::exchange(innermost_substitute, now); }
const Variable& Substitute::by() {
  if (!by_) by_ = make_();
  return *by_;
}

}  // namespace lamina
