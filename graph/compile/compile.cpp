#include "graph/compile/compile.h"

#include "graph/compile/lower.h"
#include "runtime/core/config.h"

namespace lamina::compile {
namespace {

// Sharing a section among threads costs a few microseconds; below this much work one thread is faster.
constexpr double kFlopsWorthThreads = 6e6;

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

}  // namespace

std::shared_ptr<const exec::Program> compile(const ir::Graph& g, const Options& options) {
  require_device(options.device);
  Selection selection = select_kernels(g, options);
  int threads = options.sections ? threads_for(selection, options) : 1;
  return lower(selection, schedule(selection, threads), options, threads);
}

}  // namespace lamina::compile
