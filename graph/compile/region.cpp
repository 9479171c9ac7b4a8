#include "graph/compile/region.h"

#include <algorithm>

#include "runtime/exec/region.h"

namespace lamina::compile {
namespace {

using exec::SubProgram;
using ir::Graph;
using ir::Value;

// The region with its first inputs as variables, which it reads and, unless it only looks at them, assigns its first outputs to. So a carried
// value is made in place wherever memory planning would make a Variable's new value in place.
Graph with_variables(const Graph& region, size_t carried, bool assigned) {
  Graph g;
  std::vector<Value> in;
  for (size_t i = 0; i < region.inputs.size(); ++i) {
    const TensorType& type = region.type(region.inputs[i]);
    if (i >= carried) in.push_back(g.add_input(type));
    else in.push_back(ops::read(g, g.add_resource({cat("carried ", i), type})));
  }
  std::vector<Value> out = ops::inline_region(g, region, in);
  for (size_t i = 0; assigned && i < carried; ++i) {
    g.place = {g[out[i]].line, "", {}};
    ops::assign(g, int(i), out[i]);
  }
  g.outputs.assign(out.begin() + (assigned ? int64_t(carried) : 0), out.end());
  return g;
}

SubProgram program_of(const Graph& region, size_t carried, bool assigned, Device device, const Options& options) {
  for (const ir::Node& node : region.nodes())
    if (node.device && *node.device != device)
      throw Error(ErrorKind::device, {.what = cat(node.op->name, ": it stands on ", *node.device, ", the loop or branch around it on ", device), .where = text(node.line),
                                      .why = "all of a loop or branch runs on one device", .fix = "place the whole loop there, or move this out of it"});
  Options inner{.device = device, .input_devices = {}, .variable_devices = {}, .sections = options.sections, .threads = options.threads, .own_outputs = true};
  return SubProgram(compile(with_variables(region, carried, assigned), inner));
}

int64_t arena_of(const std::vector<SubProgram>& programs) {
  int64_t bytes = 0;
  for (const SubProgram& program : programs) bytes = std::max(bytes, program.arena_bytes());
  return bytes;
}

RegionKernel cond(const ir::Node& node, Device device, const Options& options) {
  auto args = std::make_shared<exec::CondArgs>();
  for (const ir::GraphRef& region : node.regions) args->programs.push_back(program_of(*region, 0, false, device, options));
  const int64_t scratch = arena_of(args->programs);
  return {{exec::run_cond, std::move(args)}, scratch};
}

RegionKernel while_loop(const ir::Node& node, Device device, const Options& options) {
  const auto& attrs = ir::attrs_of<ops::LoopAttrs>(*node.attrs);
  auto args = std::make_shared<exec::LoopArgs>();
  args->carried = size_t(attrs.carried);
  args->maximum = attrs.maximum;
  for (size_t i = 0; i < 2; ++i) args->programs.push_back(program_of(*node.regions[i], args->carried, i == 1, device, options));
  const int64_t scratch = exec::kConditionBytes + arena_of(args->programs);
  return {{exec::run_while_loop, std::move(args)}, scratch};
}

RegionKernel scan(const ir::Node& node, Device device, const Options& options) {
  const auto& attrs = ir::attrs_of<ops::ScanAttrs>(*node.attrs);
  const Graph& body = *node.regions[0];
  auto args = std::make_shared<exec::ScanArgs>();
  args->carried = size_t(attrs.carried);
  args->stacked = size_t(attrs.stacked);
  args->captures = body.inputs.size() - args->carried - args->stacked;
  args->length = attrs.length[0].number();
  args->reverse = attrs.reverse;
  args->counted = attrs.counted;
  for (size_t i = args->carried; i < args->carried + args->stacked; ++i) args->slice_bytes.push_back(byte_size(body.type(body.inputs[i])));
  for (size_t i = args->carried; i < body.outputs.size(); ++i) args->slice_bytes.push_back(byte_size(body.type(body.outputs[i])));
  args->programs.push_back(program_of(body, args->carried, true, device, options));
  const int64_t scratch = arena_of(args->programs);
  return {{exec::run_scan, std::move(args)}, scratch};
}

RegionKernel with_length(const ir::Node& node, Device device, const Options& options) {
  auto args = std::make_shared<exec::LengthArgs>();
  args->plan = [region = node.regions[0], symbol = ir::attrs_of<ops::LengthAttrs>(*node.attrs).symbol, device, options](int64_t capacity) {
    auto plan = std::make_shared<exec::LengthPlan>();
    plan->capacity = capacity;
    plan->programs.push_back(program_of(ir::specialize(*region, {{symbol, capacity}}), 0, false, device, options));
    return plan;
  };
  return {{exec::run_with_length, std::move(args)}, 0};
}

}  // namespace

RegionKernel compile_regions(const ir::Node& node, std::span<const TensorType>, Device device, const Options& options) {
  RegionKernel out;
  if (node.op == &ops::def::cond) out = cond(node, device, options);
  else if (node.op == &ops::def::while_loop) out = while_loop(node, device, options);
  else if (node.op == &ops::def::scan) out = scan(node, device, options);
  else out = with_length(node, device, options);
  if (device.kind != DeviceKind::cpu) out.kernel = {};  // planned, and run by the device's own kernel
  return out;
}

}  // namespace lamina::compile
