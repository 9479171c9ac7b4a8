#include "graph/compile/select.h"

#include <algorithm>

#include "graph/compile/control_flow.h"
#include "graph/ir/rewriter.h"
#include "graph/ops/kernel_call.h"
#include "kernels/section/block_section.h"
#include "runtime/core/config.h"
#include "runtime/device/library_work.h"

namespace lamina::compile {
namespace {

using ir::Node;
using ir::Value;

// The kernel of the null device: does nothing.
Kernel null_kernel() {
  return {.run = [](const KernelCall&) {}, .args = nullptr};
}

// A section with one step, as an instruction; operands are numbered as the node's: inputs, then results.
Kernel section_kernel(const ir::SectionStep& step) {
  auto table = std::make_shared<section::Table>();
  section::Step s = step.step;
  s.first_in = 0, s.first_out = s.ins;
  table->steps = {s};
  table->operands = step.operands;
  table->codes = step.codes;
  table->flops = step.flops;
  return {.run = kernels::cpu::run_section, .args = std::move(table)};
}

bool is_empty(const TensorType& type) { return size_of(type.shape) == Dim(0); }
bool any_empty(std::span<const TensorType> types) { return std::any_of(types.begin(), types.end(), is_empty); }

// Whether all results of the node are empty and it has no effect.
bool makes_nothing(const Node& node) {
  return node.op->effect == ir::Effect::none && !on_host(node) && !node.types.empty() && !runs_nothing(node) &&
         std::all_of(node.types.begin(), node.types.end(), is_empty);
}

[[noreturn]] void no_kernel(const Node& node, Device device) {
  std::string types;
  for (const TensorType& t : node.types) types += (types.empty() ? "" : ", ") + text(t);
  const char* reason = device.kind == DeviceKind::cpu ? node.op->no_cpu : node.op->no_cuda;
  throw Error(ErrorKind::device, {.what = cat(node.op->name, ": there is no kernel for ", types, " on ", device),
                                  .where = text(node.line),
                                  .why = reason ? reason : "this combination of types is not supported",
                                  .fix = device.kind == DeviceKind::cpu ? "convert the inputs with astype"
                                                                        : "place it on the CPU: with lm.device(\"cpu:0\")"});
}

}  // namespace

const char* why_in_no_section(const ir::SectionStep& step, const section::Nested* nested, Device device) {
  if (device.kind == DeviceKind::gpu && !section::block_runner()) return "this build has no section kernel for GPUs";
  // A section's product runs on the blocks that have its rows, a product of its own on the whole card, and begins later. By the model
  // (graph/cost/predict.cpp) steps of layers of 64, 128 and 256 take equally long both ways at twice what the library is for.
  const section::Step& s = step.step;
  if ((section::is_product(s.kind) || s.kind == section::StepKind::dense_update) &&
      double(s.rows) * s.k * s.n >= std::max(2 * kLeastMultiplyAdds, least_multiply_adds(Setting::cublaslt)))
    return "its product is large enough for cuBLASLt";
  return section::why_not_on_blocks(step.codes, step.step, nested);
}

bool on_host(const Node& node) { return ir::has_host_effect(node) || ir::has_collective(node); }

bool runs_nothing(const Node& node) {
  static const ir::OpDef &input = ir::find_op("input"), &constant = ir::find_op("constant");
  return node.op == &input || node.op == &constant || node.op->effect == ir::Effect::read || node.op->alias;
}

ir::SectionStep copy_step(const TensorType&) {
  ir::SectionStep s;
  s.step.kind = section::StepKind::copy;
  s.step.ins = 1, s.step.outs = 1, s.step.first_out = 1;
  s.operands = {{.buffer = 0}, {.buffer = 1}};
  return s;
}

Kernel copy_kernel(Device device, const TensorType& type) {
  if (device.kind == DeviceKind::null) return null_kernel();
  if (device.kind == DeviceKind::cpu) return section_kernel(copy_step(type));
  return ops::bind<ops::copy<ops::On::gpu>>();
}

Selection select_kernels(const ir::Graph& g, const Options& options) {
  Selection out;
  out.graph.resources = g.resources;
  // Print and check run on the CPU; values are copied there.
  const Device host = options.device.kind == DeviceKind::gpu ? Device{} : options.device;
  auto device_of = [&](const Node& node) {
    if (node.device && node.device != kAutomatic) return *node.device;  // a region's nodes on kAutomatic stay with the node that owns it
    return node.op->effect == ir::Effect::host ? host : options.device;
  };

  auto emit = [&](auto&& self, ir::Rewriter& to, int n, int depth) -> void {
    const Node& node = to.from[n];
    const std::vector<Value> in = to[node.inputs];
    Device device = device_of(node);
    std::vector<TensorType> types;
    for (Value v : in) types.push_back(out.graph.type(v));
    Selected selected{.device = device, .kernel = {}, .step = {}, .nested = {}, .why_no_step = {}, .scratch_bytes = 0};
    if (makes_nothing(node)) {  // empty results, which no kernel writes
      for (size_t r = 0; r < node.types.size(); ++r) {
        to.map({n, int(r)}, out.graph.add_constant({node.types[r], nullptr}));
        out.nodes.push_back(selected);
      }
      return;
    }
    if (!runs_nothing(node) && node.op->effect != ir::Effect::write) {
      ir::KernelRequest request{*node.attrs, types, node.types, node.regions};
      TextKernel text = options.writer ? options.writer(node, request) : TextKernel{};
      // Section steps must touch bytes; ops with empty operands use their own kernels.
      const bool no_step = any_empty(types) || any_empty(node.types);
      ir::SectionStep step;
      if (!no_step && !options.writer && node.op->section && node.op->section(request, step)) selected.step = std::move(step);
      // Only a GPU's section exchanges sums; within a loop, the host does.
      if (selected.step && selected.step->sum && (device.kind == DeviceKind::cpu || options.inside || !options.sections))
        selected.step.reset();
      if (ops::owns_programs(node)) {
        ControlFlowKernel programs = compile_control_flow(node, types, device, options);
        selected.kernel = std::move(programs.kernel);
        selected.scratch_bytes = programs.scratch_bytes;
        selected.nested = no_step ? nullptr : programs.nested;
        selected.why_no_step = std::move(programs.why_no_step);
        if (selected.nested) selected.step = nested_step(*selected.nested, node);
      }
      if (options.writer) {
        if (text.kernel) selected.kernel = std::move(text.kernel), selected.scratch_bytes = text.scratch_bytes;
      } else if (device.kind == DeviceKind::cpu) {
        if (node.op->cpu) selected.kernel = node.op->cpu(request);
        if (!selected.kernel && selected.step) selected.kernel = section_kernel(*selected.step);
      } else if (device.kind == DeviceKind::gpu) {
        const bool exchanges = selected.step && selected.step->sum && !why_in_no_section(*selected.step, nullptr, device);
        if (node.op->cuda && !exchanges) selected.kernel = node.op->cuda(request);  // all ranks exchange this sum alike
      } else {
        selected.kernel = null_kernel();
      }
      const bool in_section = device.kind == DeviceKind::gpu && options.sections && selected.step &&
                              !why_in_no_section(*selected.step, selected.nested.get(), device);
      if (!selected.kernel && !in_section && node.op->decompose && depth < 8) {
        ir::Graph trial;  // the decomposition, with placeholder inputs
        for (size_t i = 0; i < types.size(); ++i) trial.add_input(types[i]);
        trial.place = {node.line, node.scope, node.device};
        std::vector<Value> results = node.op->decompose(trial, *node.attrs, trial.inputs, node.regions);
        ir::Rewriter inside(trial, out.graph);
        for (size_t i = 0; i < in.size(); ++i) inside.map(trial.inputs[i], in[i]);
        for (int i = int(in.size()); i < trial.size(); ++i) self(self, inside, i, depth + 1);
        return to.map_results(n, inside[results]);
      }
      if (!selected.kernel && !in_section) no_kernel(node, device);
    }
    to.copy(n);
    out.nodes.push_back(std::move(selected));
  };

  ir::Rewriter to(g, out.graph);
  for (int i = 0; i < g.size(); ++i) emit(emit, to, i, 0);
  out.graph.inputs = to[g.inputs];
  out.graph.outputs = to[g.outputs];
  return out;
}

}  // namespace lamina::compile
