// How each op is written: the body of its C function.
#pragma once
#include <string>
#include <vector>

#include "graph/export_c/writer.h"

namespace lamina::c_text {

// Temporary memory of a function.
struct Scratch {
  DType dtype = DType::f32;
  int64_t elements = 0;
};
struct Rule {
  const ir::OpDef* op;
  void (*write)(Writer&, const ir::Node&);
  Scratch (*scratch)(const ir::Node&, const ir::KernelRequest&) = nullptr;  // null: none
};
// Null for an op that is taken apart, is a view, or is refused.
const Rule* rule_of(const ir::OpDef& op);
// Why programs with this op are refused; null: they are not.
const char* why_refused(const ir::OpDef& op);

// The rules by family, each in its file.
std::vector<Rule> elementwise_rules(), product_rules(), reduction_rules(), movement_rules(), order_rules(), draw_rules(), image_rules();

// The nodes of an elementwise region, as constants of one element; `inputs` are expressions. Returns the outputs' expressions.
std::vector<std::string> write_region(Writer& w, const ir::Graph& region, const std::vector<std::string>& inputs);
std::vector<uint8_t> used_inputs(const ir::Graph& region);
// One elementwise op of these operands.
std::string scalar_call(const ir::OpDef& op, DType type, DType result, const std::vector<std::string>& operands);
// x's elements, in order, at `to`, converted to its type.
void write_copy(Writer& w, const Operand& x, const Operand& to);

}  // namespace lamina::c_text
