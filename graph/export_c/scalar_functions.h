// C functions of single elements and of rows, by name: "lm_exp_f32". What a program's text calls is written out with what that calls.
#pragma once
#include <string>

#include "graph/ir/graph.h"

namespace lamina::c_text {

// The definitions that a text needs, in an order in which each stands before its users. Internal error for a name that there is not.
std::string needed_functions(const std::string& text);
// Whether there is a function of this name for this type.
bool has_function(const std::string& op, DType dtype);

}  // namespace lamina::c_text
