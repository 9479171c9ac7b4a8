// Weight: a Variable that a layer's build() creates. Using it before that is an error of kind state.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "graph/frontend/variable.h"
#include "runtime/core/error.h"

namespace lamina::nn {

class Weight {
 public:
  Weight& operator=(Variable made) {
    made_ = std::move(made);
    return *this;
  }
  explicit operator bool() const { return made_.has_value(); }
  const std::optional<Variable>& if_made() const { return made_; }
  const Variable& operator*() const {
    if (made_) return *made_;
    throw Error(ErrorKind::state, {.what = "a layer is used before its weights exist",
                                   .where = "",
                                   .why = "they are made at the layer's first call, which knows the input",
                                   .fix = "call the layer itself: layer(x), not layer.call(x)"});
  }
  const Variable* operator->() const { return &**this; }

 private:
  std::optional<Variable> made_;
};

// The fix for an input of another dtype than the weights'.
inline std::string take_dtype_of(DType weights) {
  return cat("use lm.astype(x, lm.", numpy_name(weights), "), or give the layer another dtype");
}

}  // namespace lamina::nn
