// The table of all ops by name, made from ops.inc, and the search in it.
#include <algorithm>
#include <string_view>
#include <vector>

#include "graph/ops/ops.h"

namespace lamina::ir {

std::span<const OpDef* const> all_ops() {
  // Never destroyed: other static objects may still look ops up while the process ends.
  static const auto& sorted = *new std::vector<const OpDef*>([] {
    std::vector<const OpDef*> ops{
#define OP(name) &ops::def::name,
#include "graph/ops/ops.inc"
    };
    std::ranges::sort(ops, {}, [](const OpDef* op) { return std::string_view(op->name); });
    return ops;
  }());
  return sorted;
}

const OpDef& find_op(std::string_view name) {
  const auto all = all_ops();
  const auto it = std::ranges::lower_bound(all, name, {}, [](const OpDef* op) { return std::string_view(op->name); });
  if (it != all.end() && (*it)->name == name) return **it;
  std::vector<std::string> names;
  for (const OpDef* op : all) names.emplace_back(op->name);
  throw unknown_name("op", std::string(name), std::move(names));
}

}  // namespace lamina::ir
