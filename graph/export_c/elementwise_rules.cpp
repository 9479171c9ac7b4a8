#include "graph/export_c/rules.h"
#include "graph/export_c/scalar_functions.h"
#include "graph/ops/ops.h"

namespace lamina::c_text {

using ir::Node;

std::string scalar_call(const ir::OpDef& op, DType type, DType result, const std::vector<std::string>& operands) {
  if (&op == &ops::def::astype) {
    const std::string& a = operands[0];
    if (type == result) return a;
    if (result == DType::boolean) return cat("(uint8_t)(", a, " != 0)");
    if (is_floating(type) && !is_floating(result)) return cat("lm_to_", suffix(result), "_", suffix(type), "(", a, ")");
    return cat("(", c_type(result), ")", a);
  }
  if (!has_function(op.name, type))
    throw Error(ErrorKind::invalid_argument, {.what = cat("export_c: ", op.name, " of ", numpy_name(type), " has no C form"),
                                              .where = "",
                                              .why = "C's arithmetic has no such type",
                                              .fix = "convert it with astype"});
  std::string out = cat("lm_", op.name, "_", suffix(type), "(");
  for (size_t i = 0; i < operands.size(); ++i) out += (i ? ", " : "") + operands[i];
  return out + ")";
}

std::vector<std::string> write_region(Writer& w, const ir::Graph& region, const std::vector<std::string>& inputs) {
  std::vector<std::string> values(size_t(region.size()));
  for (size_t i = 0; i < inputs.size(); ++i) values[size_t(region.inputs[i].node)] = inputs[i];
  for (int n = 0; n < region.size(); ++n) {
    const Node& node = region[n];
    std::string& value = values[size_t(n)];
    if (!value.empty()) continue;
    if (const ir::Literal* literal = ir::constant_value(region, {n, 0})) {
      value = number(literal->type.dtype, literal->bytes ? literal->bytes->data() : nullptr);
      continue;
    }
    std::vector<std::string> operands;
    for (ir::Value v : node.inputs) operands.push_back(values[size_t(v.node)]);
    value = cat("v", n);
    w("const ", c_type(node.types[0].dtype), " ", value, " = ",
      scalar_call(*node.op, region.type(node.inputs.back()).dtype, node.types[0].dtype, operands), ";");
  }
  std::vector<std::string> out;
  for (ir::Value v : region.outputs) out.push_back(values[size_t(v.node)]);
  return out;
}

std::vector<uint8_t> used_inputs(const ir::Graph& region) {
  std::vector<uint8_t> used(size_t(region.size()));
  for (const Node& node : region.nodes())
    for (ir::Value v : node.inputs) used[size_t(v.node)] = 1;
  for (ir::Value v : region.outputs) used[size_t(v.node)] = 1;
  std::vector<uint8_t> out;
  for (ir::Value v : region.inputs) out.push_back(used[size_t(v.node)]);
  return out;
}

void write_copy(Writer& w, const Operand& x, const Operand& to) {
  const std::vector<int64_t> shape = shape_of(to.view);
  const Writer::Nest nest = w.loops(shape, {strides_for(x.view, shape), strides_for(to.view, shape)});
  w(to[nest.at[1]], " = ", scalar_call(ops::def::astype, x.dtype(), to.dtype(), {x[nest.at[0]]}), ";");
  w.close(nest);
}

namespace {

void write_elementwise(Writer& w, const Node& node) {
  const std::vector<int64_t> shape = shape_of(w.out[0].view);
  std::vector<std::vector<int64_t>> strides;
  for (const auto* list : {&w.in, &w.out})
    for (const Operand& o : *list) strides.push_back(strides_for(o.view, shape));
  const Writer::Nest nest = w.loops(shape, strides);
  const bool fused = node.op == &ops::def::fused_elementwise;
  const std::vector<uint8_t> used = fused ? used_inputs(*node.regions[0]) : std::vector<uint8_t>(w.in.size(), 1);
  std::vector<std::string> inputs;
  for (size_t i = 0; i < w.in.size(); ++i) {
    inputs.push_back(cat("x", i));
    if (used[i]) w("const ", c_type(w.in[i].dtype()), " x", i, " = ", w.in[i][nest.at[i]], ";");
  }
  std::vector<std::string> results;
  if (fused)
    results = write_region(w, *node.regions[0], inputs);
  else
    results = {scalar_call(*node.op, w.in.back().dtype(), w.out[0].dtype(), inputs)};
  for (size_t o = 0; o < results.size(); ++o) w(w.out[o][nest.at[w.in.size() + o]], " = ", results[o], ";");
  w.close(nest);
}

}  // namespace

std::vector<Rule> elementwise_rules() {
  std::vector<Rule> out{{&ops::def::fused_elementwise, write_elementwise}};
  for (const ir::OpDef* op : ir::all_ops())
    if (op->scalar_op >= 0) out.push_back({op, write_elementwise});
  return out;
}

}  // namespace lamina::c_text
