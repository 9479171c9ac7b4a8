// ConcreteFunction::explain.
#include <algorithm>
#include <iomanip>
#include <map>

#include "graph/cost/predict.h"
#include "graph/cost/simulate.h"
#include "graph/frontend/plan.h"
#include "graph/ops/ops.h"
#include "kernels/section/block_section.h"

namespace lamina {
namespace {

std::vector<std::string> op_names(const ir::Graph& g) {
  std::vector<std::string> out;
  for (const ir::Node& node : g.nodes()) out.push_back(node.op->name);
  return out;
}

std::string milliseconds(double microseconds) {
  std::ostringstream s;
  s.exceptions(std::ios_base::badbit);  // a failed allocation must throw, not truncate the text
  s << std::fixed << std::setprecision(microseconds < 10000 ? 3 : 1) << microseconds / 1000 << " ms";
  return s.str();
}

void list(std::ostream& out, const char* title, const std::vector<TensorSpec>& specs) {
  out << title << "\n";
  if (specs.empty()) out << "    none\n";
  for (const TensorSpec& s : specs)
    out << "    " << (s.name.empty() ? "" : s.name + ": ") << TensorSpec{s.shape, s.dtype, ""}.str() << "\n";
}

// Where the nodes traced under lm.device("auto") were placed, and why.
std::string placement_text(const exec::Program& program, Explanation& e) {
  if (program.candidates.empty()) return "";
  const cost::Costs& costs = cost::Costs::here();
  e.placements = program.candidates;
  const cost::Timeline timeline = cost::simulate(program, costs);
  e.modelled_us = timeline.microseconds;
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // a failed allocation must throw, not truncate the text
  out << std::fixed << std::setprecision(1) << "placement by cost, times modelled (" << costs.text() << ")\n";
  for (const exec::Candidate& c : e.placements) {
    out << "  " << c.name << ": ";
    if (c.microseconds >= 0) out << c.microseconds << " us, ";
    out << c.why << "\n";
  }
  out << "simulated time line of the program: " << timeline.microseconds << " us\n" << cost::text(program, timeline);
  return out.str();
}

void describe(const exec::Program& program, Explanation& e) {
  for (size_t d = 0; d < program.devices.size(); ++d) e.temporary_bytes.emplace_back(program.devices[d], program.arena_bytes[d]);
  for (const exec::Instruction& i : program.instructions) {
    if (!i.kernel) {
      ++e.copies;
      continue;
    }
    Explanation::Launch launch{.name = i.name,
                               .device = program.streams[size_t(i.stream)].device,
                               .stream = exec::stream_number(program, i.stream),
                               .wait_for = i.wait_for,
                               .signal = i.signal,
                               .label = {},
                               .line = i.line,
                               .section_steps = i.section_steps,
                               .why_alone = i.why_in_no_section,
                               .details = {},
                               .steps = {}};
    if (i.section_steps > 0) {
      const bool on_cpu = launch.device.kind == DeviceKind::cpu;
      const auto& table = on_cpu ? *static_cast<const section::TableWithLoops*>(i.kernel.args.get())
                                 : *static_cast<const section::BlockSection*>(i.kernel.args.get())->table;
      for (const profiler::Name& name : table.names) launch.steps.push_back(name.text());
    }
    launch.predicted_us = cost::predicted_microseconds(program, i).value_or(-1);
    std::istringstream lines(i.detail);
    std::getline(lines, launch.label);
    for (std::string line; std::getline(lines, line);) launch.details.push_back(line);
    e.launches.push_back(std::move(launch));
  }
}

// The model's predicted times, beside the measured ones; empty where the model has no figures.
std::string times_text(const Explanation& e) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // a failed allocation must throw, not truncate the text
  out << std::fixed << std::setprecision(1);
  double sum = 0;
  int known = 0;
  for (size_t i = 0; i < e.launches.size(); ++i) {
    const Explanation::Launch& launch = e.launches[i];
    if (launch.predicted_us < 0) continue;
    ++known, sum += launch.predicted_us;
    out << "  " << launch.name << " on " << launch.device << ": " << launch.predicted_us << " us, of which launch "
        << cost::kLaunchMicroseconds;
    if (launch.measured_us >= 0) out << ", measured " << launch.measured_us << " us";
    out << "\n";
  }
  if (known == 0) return "";
  std::ostringstream title;
  title.exceptions(std::ios_base::badbit);
  title << std::fixed << std::setprecision(1) << "times of launches by a model of the card, not measured: " << sum << " us for " << known
        << " of " << e.launches.size() << ", of which " << known * cost::kLaunchMicroseconds << " until the kernels start\n";
  return title.str() + out.str();
}

}  // namespace

int traced_kernels(const ir::Graph& traced) {
  return int(std::count_if(traced.nodes().begin(), traced.nodes().end(), [](const ir::Node& node) {
    return !node.op->alias && node.op->effect == ir::Effect::none && node.op != &ops::def::input && node.op != &ops::def::constant;
  }));
}

std::vector<Variable> ConcreteFunction::assigned() const {
  std::vector<bool> written(variables_.size(), false);
  for (const ir::Node& node : graph_.nodes())
    if (node.op->effect == ir::Effect::write) written.at(size_t(ir::resource_of(node))) = true;
  std::vector<Variable> out;
  for (size_t i = 0; i < variables_.size(); ++i)
    if (written[i] && !variables_[i].handle()->stand_in) out.push_back(variables_[i]);
  return out;
}

Inspection ConcreteFunction::inspect() {
  std::lock_guard lock(mutex_);
  return {op_names(graph_), op_names(planner_.passed()->optimized.inspected)};
}

std::string ConcreteFunction::str() const {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // a failed allocation must throw, not truncate the text
  out << "ConcreteFunction " << name_ << "\n";
  list(out, "  inputs:", inputs());
  list(out, "  outputs:", outputs());
  out << "  captures:\n";
  if (variables_.empty() && captures_.empty()) out << "    none\n";
  for (const Variable& v : variables_)
    if (!v.handle()->stand_in) out << "    Variable " << v.name() << ": " << TensorSpec{v.shape(), v.dtype(), ""}.str() << "\n";
  for (const Tensor& t : captures_) out << "    tensor: " << TensorSpec{t.shape(), t.dtype(), ""}.str() << "\n";
  std::string s = out.str();
  s.pop_back();
  return s;
}

std::vector<std::string> ConcreteFunction::instructions() {
  std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  if (!plans_.empty()) {
    for (const exec::Instruction& i : plans_.front().second->executor.program().instructions) out.push_back(i.name);
  }
  return out;
}

compile::Planned ConcreteFunction::planned_for(Device device, std::span<const TensorType> lengths) {
  compile::Options options;
  options.device = device;
  options.input_devices.assign(input_devices_.size(), device);
  options.variable_devices.assign(variable_devices_.size(), device);
  options.memory_budget = memory_budget_;
  if (open_dims_.empty() && lengths_.empty()) return planner_.plan(options, {});
  std::vector<TensorType> types(lengths.begin(), lengths.end());
  bool known = lengths_.empty() && types.size() == arguments_;
  for (const TensorType& type : types) known = known && lamina::known(type.shape);
  if (!known)
    throw Error(ErrorKind::state,
                {.what = cat("explain: ", name_, " has open lengths, and a plan is made for lengths"),
                 .where = "",
                 .why = lengths_.empty() ? "" : "a list grows in it: how long it becomes is found when it runs",
                 .fix = lengths_.empty() ? "pass tensors as its arguments" : "explain it without a device, after a call"});
  for (const Tensor& t : captures_) types.push_back(t.type());
  return planner_.plan(options, ir::bind_dims(graph_, types));
}

Explanation ConcreteFunction::explanation(std::optional<Device> device, std::span<const TensorType> lengths) {
  std::lock_guard lock(mutex_);
  const compile::Planned wanted = device ? planned_for(*device, lengths) : compile::Planned{};
  const std::shared_ptr<const compile::Passed> from = planner_.passed();
  const passes::Optimized& o = from->optimized;
  Explanation e;
  e.function = name_, e.planned_only = device.has_value();
  e.trace_ms = trace_microseconds_ / 1000, e.passes_ms = from->microseconds / 1000;
  e.traced_kernels = traced_kernels(graph_);
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // a failed allocation must throw, not truncate the text
  out << str() << "\n\ngraph as traced, " << graph_.size() << " nodes, traced in " << milliseconds(trace_microseconds_) << "\n"
      << ir::print(graph_);
  out << "\npasses, " << milliseconds(from->microseconds) << "\n";
  for (const passes::PassReport& pass : o.report)
    out << "  " << std::left << std::setw(32) << pass.name << std::right << std::setw(6) << pass.nodes_before << " -> " << std::setw(6)
        << pass.nodes_after << " nodes  " << milliseconds(pass.microseconds) << (pass.changed ? "" : "  no change") << "\n";
  out << "\ngraph after the passes, " << o.graph.size() << " nodes\n" << ir::print(o.graph);
  std::map<std::string, int> fused;
  for (const ir::Node& node : o.graph.nodes())
    if (!node.regions.empty() || node.op == &ops::def::dense || node.op == &ops::def::dense_grad_input) ++fused[node.op->name];
  out << "\nfused groups\n";
  if (fused.empty()) out << "  none\n";
  for (auto& [name, count] : fused) out << "  " << name << ": " << count << "\n";
  if (device) {
    e.compile_ms = wanted.microseconds / 1000;
    describe(*wanted.program, e);
    e.modelled_us = cost::simulate(*wanted.program, cost::Costs::here()).microseconds;
    out << "\nprogram for " << *device << ", planned and not run, compiled in " << milliseconds(e.compile_ms * 1000)
        << "; launches: " << e.traced_kernels << " as traced, " << e.launches.size() << " now\n"
        << exec::print(*wanted.program) << times_text(e) << placement_text(*wanted.program, e);
  } else if (plans_.empty()) {
    out << "\nno plan yet: one is made at the first call" << (open_dims_.empty() ? "" : " with each new length") << "\n";
  } else {
    const Plan& last = *plans_.front().second;
    describe(last.executor.program(), e);
    e.compile_ms = last.compile_microseconds / 1000, e.runs = last.runs.load();
    if (e.runs > 0) e.run_ms = last.microseconds.load() / 1000;
    if (e.run_ms >= 0 && e.launches.size() == 1 && e.copies == 0) e.launches[0].measured_us = e.run_ms * 1000;
    for (auto& [lengths_of_plan, plan] : plans_) {
      out << "\nprogram";
      const size_t lengths_alone = lengths_of_plan.size() - (device_.kind == DeviceKind::gpu ? arguments_ : 0);
      if (lengths_alone > 0) out << " for lengths";
      for (size_t i = 0; i < lengths_alone; ++i) out << " " << lengths_of_plan[i];
      out << ", compiled in " << milliseconds(plan->compile_microseconds);
      if (int64_t runs = plan->runs.load())
        out << ", run " << runs << (runs == 1 ? " time, " : " times, last measured ") << milliseconds(plan->microseconds.load());
      out << "\n" << exec::print(plan->executor.program()) << plan->executor.graphs();
      if (plan.get() == &last) out << times_text(e) << placement_text(plan->executor.program(), e);
    }
  }
  e.text = out.str();
  return e;
}

}  // namespace lamina
