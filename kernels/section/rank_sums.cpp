#include "kernels/section/rank_sums.h"

#include <algorithm>
#include <array>

#include "runtime/core/error.h"

namespace lamina::section {

WindowLayout layout_of(const std::vector<RankSum>& sums) {
  constexpr int64_t line = 128;  // bytes
  const auto aligned = [](int64_t bytes) { return (bytes + line - 1) / line * line; };
  WindowLayout out;
  for (size_t s = 0; s < sums.size(); ++s) {
    const RankSum& sum = sums[s];
    const int32_t first_root = int32_t(out.roots.size()), ranks = int32_t(sum.roots.size());
    for (int32_t rank = 0; rank < ranks; ++rank)
      for (int32_t number = 0; number < sum.roots[size_t(rank)]; ++number)
        out.roots.push_back({rank, number, sum.joins[out.roots.size() - size_t(first_root)]});
    const int64_t most = *std::max_element(sum.roots.begin(), sum.roots.end());
    const int32_t flags = int32_t(sum.counts.size());
    const int64_t data = aligned(int64_t(kWindowFlags + 2 * flags) * 4);
    int64_t at = 0;
    int32_t flag = kWindowFlags;
    const size_t first = out.values.size();
    for (int64_t count : sum.counts) {
      const int64_t root = aligned(count * 4);
      out.values.push_back({.window = int32_t(s),
                            .ranks = ranks,
                            .first_root = first_root,
                            .roots = int32_t(out.roots.size()) - first_root,
                            .flag = flag,
                            .flags = flags,
                            .at = data + at,
                            .root = root});
      at += most * root, ++flag;
    }
    for (size_t v = first; v < out.values.size(); ++v) out.values[v].buffer = at;
    out.bytes.push_back(data + 2 * at);
  }
  return out;
}

namespace {
struct Announced {
  int32_t value = -1;
  int64_t elements = 0, roots = 0;
};
// What a step announces: up to two values.
std::array<Announced, 2> announced_of(const BlockStep& s) {
  if (s.kind == StepKind::announce) return {Announced{s.k, s.n, s.extras}, {}};
  const int64_t roots = s.partition == Partition::models ? s.replicas : 1;
  return {Announced{s.announces, int64_t(s.k) * s.n, roots}, {s.announces2, s.n, roots}};
}
}  // namespace

const char* why_not_sums(std::span<const BlockStep> steps, const std::vector<RankSum>& sums, const std::vector<bool>& repeats,
                         std::vector<int>& announced_by) {
  std::vector<int64_t> values;  // elements
  for (const RankSum& sum : sums) values.insert(values.end(), sum.counts.begin(), sum.counts.end());
  announced_by.assign(values.size(), -1);
  std::vector<bool> collected(values.size());
  const auto is_value = [&](int32_t k, int64_t elements) { return k >= 0 && size_t(k) < values.size() && values[size_t(k)] == elements; };
  for (size_t i = 0; i < steps.size(); ++i) {
    const BlockStep& s = steps[i];
    if (!announces(s) && s.kind != StepKind::collect) continue;
    if (repeats[size_t(s.run)]) return "a step is in a loop";
    if (is_of_ranks(s.kind) && (!is_value(s.k, s.n) || s.rows != chunks_of(s.n))) return "a step is of none of their values";
    if (s.kind == StepKind::collect) {
      if (announced_by[size_t(s.k)] < 0 || collected[size_t(s.k)]) return "a value is collected before its announcement, or twice";
      collected[size_t(s.k)] = true;
      continue;
    }
    for (const Announced& a : announced_of(s)) {
      if (a.value < 0) continue;
      if (!is_value(a.value, a.elements)) return "a step is of none of their values";
      if (announced_by[size_t(a.value)] >= 0) return "a value is announced twice";
      announced_by[size_t(a.value)] = int(i);
    }
  }
  return std::find(collected.begin(), collected.end(), false) == collected.end() ? nullptr : "a value is not collected";
}

void require_roots(std::span<const BlockStep> steps, const std::vector<RankSum>& sums, int rank) {
  std::vector<const RankSum*> of_value;
  for (const RankSum& sum : sums) of_value.insert(of_value.end(), sum.counts.size(), &sum);
  for (const BlockStep& s : steps) {
    if (!announces(s)) continue;
    for (const Announced& a : announced_of(s)) {
      if (a.value < 0) continue;
      const RankSum& sum = *of_value[size_t(a.value)];
      const int own = size_t(rank) < sum.roots.size() ? sum.roots[size_t(rank)] : 0;
      if (a.roots != own)
        throw Error(ErrorKind::invalid_argument, {.what = cat("all_reduce: rank ", rank, " has ", a.roots, " summands"),
                                                  .where = "",
                                                  .why = cat("of ", sum.shards, " shards it has ", own),
                                                  .fix = "stack this rank's shards along the first axis"});
    }
  }
}

}  // namespace lamina::section
