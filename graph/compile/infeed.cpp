#include "graph/compile/infeed.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "graph/ops/ops.h"
#include "graph/ops/regions.h"
#include "runtime/core/settings.h"
#include "runtime/device/profiler.h"

namespace lamina::compile {
namespace {

// A chunk is about one block of pinned memory (runtime/cuda/staging.h). Both numbers are estimates, not measured on a card.
constexpr int64_t kChunkBytes = int64_t{1} << 20, kLeastChunks = 4;

}  // namespace

section::Infeed plan_infeed(std::span<const StackOnHost> stacks, int64_t length) {
  section::Infeed out;
  int64_t slices_bytes = 0;  // of one iteration
  for (const StackOnHost& s : stacks)
    if (s.slice_bytes > 0) slices_bytes += s.slice_bytes, out.inputs.push_back(s.input);
  const std::optional<bool> setting = config::is_on(Setting::cuda_infeed);
  if (slices_bytes == 0 || length <= 0 || length > std::numeric_limits<int32_t>::max() || setting == false || profiler::profiler_attached())
    return {};
  if (const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING"); blocking && *blocking && std::string_view(blocking) != "0")
    return {};  // each launch would be synchronised
  const int64_t chunk = std::max<int64_t>(kChunkBytes / slices_bytes, 1);
  if (setting)
    out.chunk = int32_t(std::clamp<int64_t>(length / kLeastChunks, 1, chunk));
  else if (length / kLeastChunks >= chunk)
    out.chunk = int32_t(chunk);
  else
    return {};
  return out;
}

int64_t uses_of(const ir::Graph& g, ir::Value v) {
  int64_t count = std::count(g.outputs.begin(), g.outputs.end(), v);
  for (const ir::Node& n : g.nodes()) count += std::count(n.inputs.begin(), n.inputs.end(), v);
  return count;
}

std::vector<size_t> inputs_for_infeed(const ir::Graph& g) {
  for (const ir::Node& n : g.nodes()) {
    if (n.op != &ops::def::scan) continue;
    const auto& attrs = ir::attrs_of<ops::ScanAttrs>(*n.attrs);
    if (attrs.reverse || attrs.counted || !attrs.length[0].known()) continue;
    const int64_t length = attrs.length[0].number();
    std::vector<StackOnHost> stacks;
    std::vector<size_t> inputs;
    for (int64_t i = attrs.carried; i < attrs.carried + attrs.stacked; ++i) {
      const ir::Value v = n.inputs[size_t(i)];
      const auto place = std::find(g.inputs.begin(), g.inputs.end(), v);
      if (place == g.inputs.end() || length == 0 || uses_of(g, v) > 1) continue;
      stacks.push_back({int32_t(i), byte_size(g.type(v)) / length});
      inputs.push_back(size_t(place - g.inputs.begin()));
    }
    if (plan_infeed(stacks, length).chunk > 0) return inputs;
  }
  return {};
}

std::vector<size_t> inputs_copied_whole(const exec::Program& program) {
  std::vector<size_t> inputs;
  for (const exec::Instruction& i : program.instructions) {
    if (i.source_stream < 0) continue;
    const exec::Storage& from = program.storages[size_t(program.slots[size_t(i.inputs[0])].storage)];
    if (from.kind == exec::StorageKind::input) inputs.push_back(size_t(from.index));
  }
  return inputs;
}

}  // namespace lamina::compile
