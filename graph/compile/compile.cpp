#include "graph/compile/compile.h"

#include <algorithm>

#include "graph/compile/lower.h"
#include "graph/compile/place.h"
#include "graph/passes/pipeline.h"
#include "runtime/core/config.h"

namespace lamina::compile {
namespace {

// Of an update's x and dz. Threads share it by weights, behind all gradients of inputs: it reads rows from memory that others have written.
// Beyond this it is better when each makes its rows' gradients at once. Measured on an EPYC: equal at 512 rows of 64 columns.
constexpr int64_t kMostJoinedBytes = 256 << 10;

int threads_for(const Selection& selection, const Options& options) {
  if (options.device.kind != DeviceKind::cpu) return 1;
  int threads = options.threads > 0 ? options.threads : config::threads();
  if (options.share_all_sections) return threads;
  double flops = 0;
  int64_t rows = 0;
  for (const Selected& node : selection.nodes)
    if (node.step) flops += node.step->flops, rows = std::max<int64_t>(rows, node.step->step.rows);
  return flops < kFlopsWorthThreads || rows < 2 ? 1 : threads;
}

std::shared_ptr<const exec::Program> plan(const ir::Graph& g, const Options& options) {
  Selection selection = select_kernels(g, options);
  int threads = options.sections ? threads_for(selection, options) : 1;
  return lower(selection, schedule(selection, threads, options.memory_budget <= 0), options, threads);
}

int64_t arena_bytes(const exec::Program& program) { return *std::max_element(program.arena_bytes.begin(), program.arena_bytes.end()); }

// Recomputes few values first, then more; takes the smallest arena when none fits.
std::shared_ptr<const exec::Program> plan_within(ir::Graph g, const Options& options, std::shared_ptr<const exec::Program> best) {
  for (bool smaller = true; smaller && arena_bytes(*best) > options.memory_budget;) {
    smaller = false;
    ir::Graph chosen;
    for (const int stride : {2, 3, 4, 6, 8, 12, 16, 24, 32}) {
      std::optional<ir::Graph> trial = passes::optimize_for_plan(g, stride);
      if (!trial) continue;
      std::shared_ptr<const exec::Program> program = plan(*trial, options);
      if (arena_bytes(*program) >= arena_bytes(*best)) continue;
      best = std::move(program);
      chosen = std::move(*trial);
      smaller = true;
      if (arena_bytes(*best) <= options.memory_budget) break;
    }
    g = std::move(chosen);
  }
  return best;
}

std::shared_ptr<const exec::Program> plan_graph(const ir::Graph& g, const Options& options) {
  std::shared_ptr<const exec::Program> program = plan(g, options);
  if (options.memory_budget <= 0 || arena_bytes(*program) <= options.memory_budget) return program;
  return plan_within(g, options, std::move(program));
}

// A placement on other devices is taken only if its Program is faster than that of one device, by the same simulator.
std::shared_ptr<const exec::Program> plan_placed(const ir::Graph& g, Placed placed, const Options& options) {
  std::shared_ptr<const exec::Program> program = plan_graph(placed.graph, options);
  if (placed.elsewhere) {
    const cost::Costs& costs = options.costs ? *options.costs : cost::Costs::here();
    const std::shared_ptr<const exec::Program> alone = plan_graph(on_one_device(g, options.device), options);
    const double elsewhere = cost::simulate(*program, costs).microseconds, on_one = cost::simulate(*alone, costs).microseconds;
    if (on_one <= elsewhere) {
      program = alone;
      exec::Candidate one{cat("the program of ", options.device, " alone"), on_one, "taken"};
      placed.candidates[0].why =
          cat("its program takes ", int64_t(elsewhere + 0.5), " us by the simulator, that of one device ", int64_t(on_one + 0.5), " us");
      placed.candidates.insert(placed.candidates.begin(), std::move(one));
    }
  }
  auto out = std::make_shared<exec::Program>(*program);
  out->candidates = std::move(placed.candidates);
  return out;
}

}  // namespace

std::shared_ptr<const exec::Program> compile(const ir::Graph& g, const Options& options) {
  require_device(options.device);
  if (std::optional<Placed> placed = place(g, options)) return plan_placed(g, std::move(*placed), options);
  if (options.device.kind != DeviceKind::cpu || options.writer) return plan_graph(g, options);
  const int threads = options.threads > 0 ? options.threads : config::threads();
  return plan_graph(passes::join_leaves(g, threads == 1 ? INT64_MAX : kMostJoinedBytes), options);
}

}  // namespace lamina::compile
