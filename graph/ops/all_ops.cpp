// The table of all ops, made from ops.inc, and the search by name.
#include <unordered_map>

#include "graph/ops/ops.h"

namespace lamina::ir {

std::span<const OpDef* const> all_ops() {
  static constexpr const OpDef* kOps[] = {
#define OP(name) &ops::def::name,
#include "graph/ops/ops.inc"
#undef OP
  };
  return kOps;
}

const OpDef& find_op(std::string_view name) {
  // Never destroyed: other static objects may still look ops up while the process ends.
  static const auto& by_name = *new std::unordered_map<std::string_view, const OpDef*>([] {
    std::unordered_map<std::string_view, const OpDef*> map;
    for (const OpDef* op : all_ops()) map.emplace(op->name, op);
    return map;
  }());
  auto it = by_name.find(name);
  if (it != by_name.end()) return *it->second;
  std::vector<std::string> names;
  for (const OpDef* op : all_ops()) names.emplace_back(op->name);
  throw unknown_name("op", std::string(name), std::move(names));
}

}  // namespace lamina::ir
