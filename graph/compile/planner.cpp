#include "graph/compile/planner.h"

#include <chrono>

#include "graph/compile/infeed.h"
#include "graph/ops/short_slices.h"

namespace lamina::compile {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) { return std::chrono::duration<double, std::micro>(Clock::now() - start).count(); }

}  // namespace

ir::Graph optimized_for(const ir::Graph& traced, const ir::Graph& optimized, const DimBindings& lengths) {
  const std::optional<ir::Graph> short_slices = ops::with_short_slices(traced, lengths);
  return short_slices ? passes::optimize(*short_slices).graph : ir::specialize(optimized, lengths);
}

const std::shared_ptr<const Passed>& Planner::passed() {
  if (passed_) return passed_;
  const auto start = Clock::now();
  auto out = std::make_shared<Passed>(Passed{passes::optimize(traced_)});
  out->microseconds = microseconds_since(start);
  return passed_ = std::move(out);
}

Planned Planner::plan(Options options, const DimBindings& lengths, std::span<const Device> arguments) {
  Planned out;
  const ir::Graph& optimized = passed()->optimized.graph;
  const auto start = Clock::now();
  const ir::Graph specialized = lengths.empty() ? ir::Graph() : optimized_for(traced_, optimized, lengths);
  const ir::Graph& g = lengths.empty() ? optimized : specialized;
  const std::vector<Device> copied_to = options.input_devices;
  if (options.device.kind == DeviceKind::gpu && !arguments.empty())
    for (size_t i : inputs_for_infeed(g)) {
      if (i >= arguments.size()) continue;
      out.by_place = true;
      if (arguments[i].kind == DeviceKind::cpu) options.input_devices[i] = arguments[i];
    }
  out.program = compile(g, options);
  // Inputs that the program would copy whole are copied before the call, as without an infeed; otherwise they would use temporary memory.
  bool again = false;
  for (size_t i : inputs_copied_whole(*out.program)) {
    if (i >= arguments.size() || options.input_devices[i] == copied_to[i]) continue;
    options.input_devices[i] = copied_to[i], again = true;
  }
  if (again) out.program = compile(g, options);
  out.microseconds = microseconds_since(start);
  return out;
}

}  // namespace lamina::compile
