#include "graph/export_c/rules.h"

#include <unordered_map>

#include "graph/ops/ops.h"

namespace lamina::c_text {

const Rule* rule_of(const ir::OpDef& op) {
  static const std::unordered_map<const ir::OpDef*, Rule>& all = *new std::unordered_map<const ir::OpDef*, Rule>([] {
    std::unordered_map<const ir::OpDef*, Rule> out;
    for (const auto& rules :
         {elementwise_rules(), product_rules(), reduction_rules(), movement_rules(), order_rules(), draw_rules(), image_rules()})
      for (const Rule& rule : rules) out.emplace(rule.op, rule);
    return out;
  }());
  const auto found = all.find(&op);
  return found == all.end() ? nullptr : &found->second;
}

const char* why_refused(const ir::OpDef& op) {
  if (&op == &ops::def::print) return "the C code has no output of text";
  if (&op == &ops::def::with_length) return "its length is known only when it runs, and the C code allocates nothing";
  return nullptr;
}

}  // namespace lamina::c_text
