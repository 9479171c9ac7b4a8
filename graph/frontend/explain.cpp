// What a ConcreteFunction says about itself.
#include <iomanip>
#include <map>

#include "graph/frontend/plan.h"
#include "graph/ops/ops.h"

namespace lamina {
namespace {

std::vector<std::string> op_names(const ir::Graph& g) {
  std::vector<std::string> out;
  for (const ir::Node& node : g.nodes()) out.push_back(node.op->name);
  return out;
}

std::string milliseconds(double microseconds) {
  std::ostringstream s;
  s.exceptions(std::ios_base::badbit);  // no memory is an error, not a shorter text
  s << std::fixed << std::setprecision(microseconds < 10000 ? 3 : 1) << microseconds / 1000 << " ms";
  return s.str();
}

void list(std::ostream& out, const char* title, const std::vector<TensorSpec>& specs) {
  out << title << "\n";
  if (specs.empty()) out << "    none\n";
  for (const TensorSpec& s : specs) out << "    " << (s.name.empty() ? "" : s.name + ": ") << TensorSpec{s.shape, s.dtype, ""}.str() << "\n";
}

}  // namespace

Inspection ConcreteFunction::inspect() {
  std::lock_guard lock(mutex_);
  return {op_names(graph_), op_names(optimized().inspected)};
}

std::string ConcreteFunction::str() const {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // no memory is an error, not a shorter text
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

std::string ConcreteFunction::explain() {
  std::lock_guard lock(mutex_);
  const passes::Optimized& o = optimized();
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // no memory is an error, not a shorter text
  out << str() << "\n\ngraph as traced, " << graph_.size() << " nodes, traced in " << milliseconds(trace_microseconds_) << "\n" << ir::print(graph_);
  out << "\npasses, " << milliseconds(optimize_microseconds_) << "\n";
  for (const passes::PassReport& pass : o.report)
    out << "  " << std::left << std::setw(32) << pass.name << std::right << std::setw(6) << pass.nodes_before << " -> " << std::setw(6) << pass.nodes_after << " nodes  " << milliseconds(pass.microseconds)
        << (pass.changed ? "" : "  no change") << "\n";
  out << "\ngraph after the passes, " << o.graph.size() << " nodes\n" << ir::print(o.graph);
  std::map<std::string, int> fused;
  for (const ir::Node& node : o.graph.nodes())
    if (!node.regions.empty() || node.op == &ops::def::dense || node.op == &ops::def::dense_grad_input) ++fused[node.op->name];
  out << "\nfused groups\n";
  if (fused.empty()) out << "  none\n";
  for (auto& [name, count] : fused) out << "  " << name << ": " << count << "\n";
  if (plans_.empty()) {
    out << "\nno plan yet: one is made at the first call" << (open_dims_.empty() ? "" : " with each new length") << "\n";
    return out.str();
  }
  for (auto& [lengths, plan] : plans_) {
    out << "\nprogram";
    if (!lengths.empty()) {
      out << " for lengths";
      for (int64_t n : lengths) out << " " << n;
    }
    out << ", compiled in " << milliseconds(plan->compile_microseconds);
    if (int64_t runs = plan->runs.load()) out << ", run " << runs << (runs == 1 ? " time, " : " times, last measured ") << milliseconds(plan->microseconds.load());
    out << "\n" << exec::print(plan->executor.program()) << plan->executor.graphs();
  }
  return out.str();
}

}  // namespace lamina
