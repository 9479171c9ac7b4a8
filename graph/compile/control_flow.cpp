#include "graph/compile/control_flow.h"

#include <algorithm>

#include "kernels/section/block_section.h"
#include "runtime/exec/control_flow.h"
#include "runtime/exec/range_names.h"

namespace lamina::compile {
namespace {

using exec::SubProgram;
using ir::Graph;
using ir::Value;

// The region with its first inputs as variables. It reads them and, unless it only inspects them, assigns its first outputs to them. A
// carried value is then computed in place wherever memory planning would compute a Variable's new value in place.
Graph with_variables(const Graph& region, size_t carried, bool assigned) {
  Graph g;
  std::vector<Value> in;
  for (size_t i = 0; i < region.inputs.size(); ++i) {
    const TensorType& type = region.type(region.inputs[i]);
    if (i >= carried)
      in.push_back(g.add_input(type));
    else
      in.push_back(ops::read(g, g.add_resource({cat("carried ", i), type})));
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
    if ((node.op->effect == ir::Effect::host || node.op->effect == ir::Effect::ranks) && device.kind == DeviceKind::gpu)
      throw Error(ErrorKind::device, {.what = cat(node.op->name, ": it is in a loop or branch on ", device),
                                      .where = text(node.line),
                                      .why = "effects of the host run on the CPU, and all of a loop or branch on one device",
                                      .fix = "place the whole loop on the CPU, with lm.device(\"cpu:0\"), or move this out of it"});
  for (const ir::Node& node : region.nodes())
    if (node.device && node.device != kAutomatic && *node.device != device)  // what is placed by cost stays with its loop (place.h)
      throw Error(ErrorKind::device,
                  {.what = cat(node.op->name, ": it stands on ", *node.device, ", the loop or branch around it on ", device),
                   .where = text(node.line),
                   .why = "all of a loop or branch runs on one device",
                   .fix = "place the whole loop there, or move this out of it"});
  Options inner{.device = device,
                .input_devices = {},
                .variable_devices = {},
                .sections = options.sections,
                .threads = options.threads,
                .lone_sections = true,
                .streams = 1,
                .own_outputs = true,
                .writer = options.writer,
                .inside = true};
  return SubProgram(compile(with_variables(region, carried, assigned), inner));
}

int64_t arena_of(const std::vector<SubProgram>& programs) {
  int64_t bytes = 0;
  for (const SubProgram& program : programs) bytes = std::max(bytes, program.arena_bytes());
  return bytes;
}

ControlFlowKernel cond(const ir::Node& node, Device device, const Options& options) {
  auto args = std::make_shared<exec::CondArgs>();
  for (const ir::GraphRef& region : node.regions) args->programs.push_back(program_of(*region, 0, false, device, options));
  const int64_t scratch = arena_of(args->programs);
  return {{exec::run_cond, std::move(args)}, scratch, nullptr, {}};
}

ControlFlowKernel while_loop(const ir::Node& node, Device device, const Options& options) {
  const auto& attrs = ir::attrs_of<ops::LoopAttrs>(*node.attrs);
  auto args = std::make_shared<exec::LoopArgs>();
  args->carried = size_t(attrs.carried);
  args->maximum = attrs.maximum;
  for (size_t i = 0; i < 2; ++i) args->programs.push_back(program_of(*node.regions[i], args->carried, i == 1, device, options));
  const int64_t scratch = exec::kConditionBytes + arena_of(args->programs);
  return {{exec::run_while_loop, std::move(args)}, scratch, nullptr, {}};
}

ControlFlowKernel scan(const ir::Node& node, Device device, const Options& options) {
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
  return {{exec::run_scan, std::move(args)}, scratch, nullptr, {}};
}

ControlFlowKernel with_length(const ir::Node& node, Device device, const Options& options) {
  auto args = std::make_shared<exec::LengthArgs>();
  args->plan = [region = node.regions[0], symbol = ir::attrs_of<ops::LengthAttrs>(*node.attrs).symbol, device, options](int64_t capacity) {
    auto plan = std::make_shared<exec::LengthPlan>();
    plan->capacity = capacity;
    plan->programs.push_back(program_of(ir::specialize(*region, {{symbol, capacity}}), 0, false, device, options));
    return plan;
  };
  return {{exec::run_with_length, std::move(args)}, 0, nullptr, {}};
}

// A Program as the inside of a step: empty, or one section run by one thread. `operand` maps storages to operands.
template <class F>
bool add_program(section::Nested& nested, const SubProgram& sub, std::string& why, F&& operand) {
  const exec::Program& p = sub.program();
  section::InnerProgram inner;
  if (p.instructions.empty()) {
    inner.table = std::make_shared<const section::TableWithLoops>();
  } else {
    const exec::Instruction& only = p.instructions[0];
    if (p.instructions.size() > 1 || only.section_steps == 0) {
      for (const exec::Instruction& i : p.instructions)
        if (i.section_steps == 0) {
          why = cat("inside of it is ", exec::label_of(i), ", ",
                    i.why_in_no_section.empty() ? "which is no step of a section" : i.why_in_no_section);
        }
      return false;
    }
    if (p.devices[0].kind == DeviceKind::cpu)
      inner.table = std::static_pointer_cast<const section::TableWithLoops>(only.kernel.args);
    else
      inner.table = static_cast<const section::BlockSection*>(only.kernel.args.get())->table;
    if (inner.table->threads != 1) return false;
    inner.constants = p.constants;
    for (auto* slots : {&only.inputs, &only.outputs})
      for (int s : *slots) {
        const exec::Slot& slot = p.slots[size_t(s)];
        const exec::Storage& storage = p.storages[size_t(slot.storage)];
        section::InnerBuffer buffer;
        buffer.view = slot.view;
        if (storage.kind == exec::StorageKind::constant)
          buffer.view.data = static_cast<char*>(p.constants[size_t(storage.index)]->data()) + slot.offset;
        else
          operand(storage, buffer);
        buffer.offset += slot.offset;
        inner.buffers.push_back(buffer);
      }
  }
  nested.programs.push_back(std::move(inner));
  return true;
}

// Makes the loop or branch a section step, if all its programs are sections.
std::shared_ptr<const section::Nested> nested(const ir::Node& node, const Kernel& kernel, std::string& why) {
  using exec::StorageKind;
  auto out = std::make_shared<section::Nested>();
  const int inputs = int(node.inputs.size()), results = int(node.types.size());
  auto in_scratch = [&](const exec::Storage& storage, section::InnerBuffer& b, int64_t first) {
    b.operand = inputs + results, b.offset = first + storage.offset;
  };
  if (kernel.run == exec::run_cond) {
    const auto& args = *static_cast<const exec::CondArgs*>(kernel.args.get());
    for (const SubProgram& program : args.programs) {
      const bool fits = add_program(*out, program, why, [&](const exec::Storage& storage, section::InnerBuffer& b) {
        if (storage.kind == StorageKind::arena)
          in_scratch(storage, b, 0);
        else
          b.operand = storage.kind == StorageKind::input ? 1 + storage.index : inputs + storage.index;
      });
      if (!fits) return nullptr;
    }
  } else if (kernel.run == exec::run_while_loop) {
    const auto& args = *static_cast<const exec::LoopArgs*>(kernel.args.get());
    out->kind = section::Nested::Kind::while_loop;
    out->limit = args.maximum;
    for (size_t i = 0; i < args.carried; ++i) out->carried_bytes.push_back(byte_size(node.types[i]));
    for (const SubProgram& program : args.programs) {
      const bool fits = add_program(*out, program, why, [&](const exec::Storage& storage, section::InnerBuffer& b) {
        if (storage.kind == StorageKind::arena)
          in_scratch(storage, b, exec::kConditionBytes);
        else if (storage.kind == StorageKind::output)
          b.operand = inputs + results;  // the condition
        else
          b.operand = storage.kind == StorageKind::input ? int(args.carried) + storage.index : inputs + storage.index;
      });
      if (!fits) return nullptr;
    }
  } else if (kernel.run == exec::run_scan) {
    const auto& args = *static_cast<const exec::ScanArgs*>(kernel.args.get());
    out->kind = section::Nested::Kind::scan;
    out->limit = args.length;
    out->reverse = args.reverse;
    if (args.counted) out->count = inputs - 1;
    for (size_t i = 0; i < args.carried; ++i) out->carried_bytes.push_back(byte_size(node.types[i]));
    out->stacked_bytes.assign(args.slice_bytes.begin() + int64_t(args.stacked), args.slice_bytes.end());
    const bool fits = add_program(*out, args.programs[0], why, [&](const exec::Storage& storage, section::InnerBuffer& b) {
      if (storage.kind == StorageKind::arena) return in_scratch(storage, b, 0);
      if (storage.kind == StorageKind::variable) b.operand = inputs + storage.index;
      if (storage.kind == StorageKind::input) b.operand = int(args.carried) + storage.index;
      if (storage.kind == StorageKind::input && size_t(storage.index) < args.stacked) b.slice = args.slice_bytes[size_t(storage.index)];
      if (storage.kind == StorageKind::output)
        b.operand = inputs + int(args.carried) + storage.index, b.slice = out->stacked_bytes[size_t(storage.index)];
    });
    if (!fits) return nullptr;
  } else {
    why = "its length is known only when it runs";
    return nullptr;
  }
  return out;
}

}  // namespace

ir::SectionStep nested_step(const section::Nested& nested, const ir::Node& node) {
  ir::SectionStep out;
  const bool scratch = nested.kind == section::Nested::Kind::while_loop ||
                       std::any_of(nested.programs.begin(), nested.programs.end(), [&](const section::InnerProgram& program) {
                         return std::any_of(program.buffers.begin(), program.buffers.end(), [&](const section::InnerBuffer& b) {
                           return b.operand == int(node.inputs.size() + node.types.size());
                         });
                       });
  out.step.kind = nested.kind == section::Nested::Kind::branch ? section::StepKind::branch : section::StepKind::loop;
  out.step.code = 0;
  out.step.ins = out.step.first_out = int32_t(node.inputs.size());
  out.step.outs = int32_t(node.types.size()) + scratch;
  for (int i = 0; i < out.step.ins + out.step.outs; ++i) out.operands.push_back({i});
  return out;
}

ControlFlowKernel compile_control_flow(const ir::Node& node, std::span<const TensorType>, Device device, const Options& options) {
  ControlFlowKernel out;
  if (node.op == &ops::def::cond)
    out = cond(node, device, options);
  else if (node.op == &ops::def::while_loop)
    out = while_loop(node, device, options);
  else if (node.op == &ops::def::scan)
    out = scan(node, device, options);
  else
    out = with_length(node, device, options);
  if (options.sections) out.nested = nested(node, out.kernel, out.why_no_step);
  if (device.kind == DeviceKind::null) out.kernel = {};  // planned, but never run
  return out;
}

}  // namespace lamina::compile
