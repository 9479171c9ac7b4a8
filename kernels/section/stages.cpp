#include "kernels/section/stages.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>

#include "runtime/core/error.h"

namespace lamina::section {
namespace {

int64_t floats_of(const Step& s) { return int64_t(s.k) * padded_width(s.n); }

// --- a cost model of the GPU: cycles on a batch's path through the products ---
constexpr double kStepCycles = 100;    // shared memory latency and barrier, whatever the sizes
constexpr double kBytesPerCycle = 50;  // weights from the L2 cache to one multiprocessor
constexpr double kFusedMultiplyAdds = 128, kTensorRowGranule = 8;

struct Layer {
  int buffer = 0;  // a buffer that holds its weights
  int operand = 0;
  int64_t floats = 0;
  int32_t k = 0, n = 0;
  int stage = 0;
  int resident = -1;
  bool may_stay = true;
};

class Finder {
 public:
  Finder(const Flat& flat, const BlockLimits& limits) : flat_(flat), limits_(limits) {}

  Stages run() {
    Stages none;
    if (none.why_not = why_never(); !none.why_not.empty()) return none;
    find_layers();
    if (layers_.size() < 2) return none.why_not = "it has fewer than two layers", none;
    out_.count = int(std::min<int64_t>(limits_.cluster, int64_t(layers_.size())));
    for (size_t i = 0; i < layers_.size(); ++i) layers_[i].stage = int(i * size_t(out_.count) / layers_.size());
    find_writers();
    keep_weights();
    if (!limits_.clusters && by_layers() >= by_rows()) {
      none.why_not = "a block for some rows of the batch is expected to be faster than a block for some layers";
      return none;
    }
    place();
    return std::move(out_);
  }

 private:
  std::string why_never() const {
    if (limits_.clusters == false) return "LAMINA_CUDA_CLUSTER=off";
    if (limits_.cluster < 2) return "this GPU has no clusters of blocks";
    if (room() <= 0) return "a block of this GPU has no shared memory for weights";
    for (const Step& s : flat_.table.steps)
      if (s.kind != StepKind::loop && (s.partition == Partition::models || s.replicas > 1))
        return "models of an ensemble have blocks of their own";
    return "";
  }
  const FlatBuffer& buffer(int operand) const { return flat_.buffers[size_t(flat_.table.operands[size_t(operand)].buffer)]; }

  void find_layers() {
    std::map<std::pair<int, int64_t>, int> known;
    layer_of_.assign(flat_.table.steps.size(), -1);
    for (size_t i = 0; i < flat_.table.steps.size(); ++i) {
      const Step& s = flat_.table.steps[i];
      if (!is_product(s.kind)) continue;
      const int operand = s.first_in + 1;
      const FlatBuffer& w = buffer(operand);
      const auto [at, is_new] = known.try_emplace({w.range.space, w.range.begin}, int(layers_.size()));
      if (is_new)
        layers_.push_back(
            {.buffer = flat_.table.operands[size_t(operand)].buffer, .operand = operand, .floats = floats_of(s), .k = s.k, .n = s.n});
      Layer& layer = layers_[size_t(at->second)];
      if (w.mover != 0 || layer.k != s.k || layer.n != s.n) layer.may_stay = false;
      layer_of_[i] = at->second;
    }
  }
  // Only the block that keeps the weights may write them.
  void find_writers() {
    written_.assign(flat_.table.steps.size(), -1);
    for (size_t i = 0; i < flat_.table.steps.size(); ++i) {
      const Step& s = flat_.table.steps[i];
      if (s.kind == StepKind::loop) continue;
      for (size_t l = 0; l < layers_.size(); ++l) {
        if (!writes(s, layers_[l])) continue;
        if (is_product(s.kind) || written_[i] >= 0)
          layers_[l].may_stay = false;
        else
          written_[i] = int(l);
      }
    }
  }
  bool writes(const Step& s, const Layer& layer) const {
    for (int o = s.first_out; o < s.first_out + s.outs; ++o)
      if (overlap(buffer(o).range, flat_.buffers[size_t(layer.buffer)].range)) return true;
    return false;
  }
  int64_t room() const { return limits_.shared_bytes / 4 - kOwnFloats - kHandedFloats - kMostWords; }
  void keep_weights() {
    std::vector<int64_t> used(size_t(out_.count));
    for (Layer& layer : layers_) {
      int64_t& mine = used[size_t(layer.stage)];
      if (!layer.may_stay || mine + layer.floats > room()) continue;
      layer.resident = int(out_.residents.size());
      out_.residents.push_back({layer.stage, {.operand = layer.operand, .at = int32_t(kOwnFloats + mine), .rows = layer.k, .n = layer.n}});
      mine += layer.floats;
    }
    out_.resident_floats = int(*std::max_element(used.begin(), used.end()));
  }

  double by_layers() const {
    double cycles = 0;
    int stage = 0;
    for (size_t i = 0; i < layer_of_.size(); ++i) {
      if (layer_of_[i] < 0) continue;
      const Step& s = flat_.table.steps[i];
      const Layer& layer = layers_[size_t(layer_of_[i])];
      cycles += product_cycles(s.precision, s.rows, s.k, s.n, layer.resident >= 0) + (layer.stage != stage ? kHandCycles : 0);
      stage = layer.stage;
    }
    return cycles;
  }
  double by_rows() const {
    double cycles = 0;
    for (size_t i = 0; i < layer_of_.size(); ++i) {
      if (layer_of_[i] < 0) continue;
      const Step& s = flat_.table.steps[i];
      const double blocks = std::clamp<double>((s.rows + kRowsPerSpine - 1) / kRowsPerSpine, 1, std::max(1, limits_.blocks / 2));
      cycles += product_cycles(s.precision, (s.rows + blocks - 1) / blocks, s.k, s.n, false);
    }
    return cycles;
  }

  void place() {
    out_.homes.resize(flat_.table.steps.size());
    int current = 0;  // the layer whose block has the batch
    for (size_t i = 0; i < flat_.table.steps.size(); ++i) {
      const Step& s = flat_.table.steps[i];
      if (s.kind == StepKind::loop) continue;
      Stages::Home& home = out_.homes[i];
      if (layer_of_[i] >= 0) {
        const Layer& layer = layers_[size_t(layer_of_[i])];
        home.first_block = current = layer.stage;
        if (layer.resident >= 0) home.resident = out_.residents[size_t(layer.resident)].place.at;
      } else if (written_[i] >= 0 && layers_[size_t(written_[i])].resident >= 0) {
        home.first_block = layers_[size_t(written_[i])].stage;
        home.renews = layers_[size_t(written_[i])].resident;
      } else if (is_update(s) && blocks_worth(s) > 1) {
        home.first_block = 0, home.blocks = int(std::min<int64_t>(out_.count, blocks_worth(s)));
      } else if (flat_.copied[i] == 0) {
        home.first_block = current;
      }
    }
  }

  const Flat& flat_;
  const BlockLimits& limits_;
  std::vector<Layer> layers_;
  std::vector<int> layer_of_;  // per step: the layer whose product it is
  std::vector<int> written_;   // per step: the layer whose weights it writes
  Stages out_;
};

}  // namespace

double multiply_adds_per_cycle(Precision precision) {
  switch (precision) {
    case Precision::float32: return kFusedMultiplyAdds;
    case Precision::tf32: return 8 * kFusedMultiplyAdds;
    case Precision::tf32x3: return 8 * kFusedMultiplyAdds / 3;
    case Precision::bf16: return 16 * kFusedMultiplyAdds;
  }
  return kFusedMultiplyAdds;
}

double product_cycles(Precision precision, double rows, int64_t k, int64_t n, bool resident) {
  if (precision != Precision::float32) rows = std::ceil(rows / kTensorRowGranule) * kTensorRowGranule;
  const double weights = double(k) * double(n), arithmetic = rows * weights / multiply_adds_per_cycle(precision);
  return kStepCycles + (resident ? arithmetic : std::max(arithmetic, 4 * weights / kBytesPerCycle));
}

Stages find_stages(const Flat& flat, const BlockLimits& limits) { return Finder(flat, limits).run(); }

int64_t blocks_worth(const Step& s) {
  constexpr int64_t worth_a_block = 20 * 64 * 64;
  const int64_t work = int64_t(s.rows) * s.n * (s.kind == StepKind::dense_update ? s.k : 16);
  return std::clamp<int64_t>(work / worth_a_block, 1, s.kind == StepKind::dense_update ? std::max(1, s.k / 8) : 16);
}

std::vector<int> with_late_updates(const Flat& flat, const std::vector<std::vector<Access>>& accesses) {
  const auto& steps = flat.table.steps;
  const auto depends = [&](size_t a, size_t b) {
    for (const Access& x : accesses[a])
      for (const Access& y : accesses[b])
        if ((x.write || y.write) && overlap(flat.buffers[size_t(x.buffer)].range, flat.buffers[size_t(y.buffer)].range)) return true;
    return false;
  };
  std::vector<int> out;
  using Earliest = std::priority_queue<int, std::vector<int>, std::greater<>>;
  for (size_t begin = 0; begin < steps.size();) {
    if (steps[begin].kind == StepKind::loop) {
      out.push_back(int(begin++));
      continue;
    }
    size_t end = begin;
    while (end < steps.size() && steps[end].kind != StepKind::loop) ++end;
    std::vector<std::vector<int>> followers(end - begin);
    std::vector<int> missing(end - begin);
    for (size_t b = begin; b < end; ++b)
      for (size_t a = begin; a < b; ++a)
        if (depends(a, b)) followers[a - begin].push_back(int(b)), ++missing[b - begin];
    Earliest others, updates;
    const auto add = [&](int i) { (is_update(steps[size_t(i)]) ? updates : others).push(i); };
    for (size_t i = begin; i < end; ++i)
      if (missing[i - begin] == 0) add(int(i));
    while (!others.empty() || !updates.empty()) {
      Earliest& from = others.empty() ? updates : others;
      const int i = from.top();
      from.pop();
      out.push_back(i);
      for (int f : followers[size_t(i) - begin])
        if (--missing[size_t(f) - begin] == 0) add(f);
    }
    begin = end;
  }
  return out;
}

}  // namespace lamina::section
