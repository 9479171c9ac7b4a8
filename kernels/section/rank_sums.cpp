#include "kernels/section/rank_sums.h"

#include <algorithm>

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
    int32_t flags = 0;
    for (int64_t count : sum.counts) flags += chunks_of(count);
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
      at += most * root, flag += chunks_of(count);
    }
    for (size_t v = first; v < out.values.size(); ++v) out.values[v].buffer = at;
    out.bytes.push_back(data + 2 * at);
  }
  return out;
}

const char* why_not_sums(std::span<const BlockStep> steps, const std::vector<RankSum>& sums, const std::vector<bool>& repeats,
                         std::vector<int>& announced_by) {
  std::vector<std::pair<int, int64_t>> values;  // sum and elements
  for (size_t s = 0; s < sums.size(); ++s)
    for (int64_t count : sums[s].counts) values.emplace_back(int(s), count);
  announced_by.assign(values.size(), -1);
  std::vector<bool> collected(values.size());
  int last = 0;  // of the sums that have been collected
  for (size_t i = 0; i < steps.size(); ++i) {
    const BlockStep& s = steps[i];
    if (!is_of_ranks(s.kind)) continue;
    if (s.k < 0 || size_t(s.k) >= values.size() || s.n != values[size_t(s.k)].second || s.rows != chunks_of(s.n))
      return "a step is of none of their values";
    if (repeats[size_t(s.run)]) return "a step is in a loop";
    int& by = announced_by[size_t(s.k)];
    const int sum = values[size_t(s.k)].first;
    if (s.kind == StepKind::announce) {
      if (by >= 0) return "a value is announced twice";
      if (sum < last) return "a value is announced behind the collection of a later sum";
      by = int(i);
    } else {
      if (by < 0 || collected[size_t(s.k)]) return "a value is collected before its announcement, or twice";
      collected[size_t(s.k)] = true, last = std::max(last, sum);
    }
  }
  return std::find(collected.begin(), collected.end(), false) == collected.end() ? nullptr : "a value is not collected";
}

void require_roots(std::span<const BlockStep> steps, const std::vector<RankSum>& sums, int rank) {
  std::vector<const RankSum*> of_value;
  for (const RankSum& sum : sums) of_value.insert(of_value.end(), sum.counts.size(), &sum);
  for (const BlockStep& s : steps) {
    if (s.kind != StepKind::announce) continue;
    const RankSum& sum = *of_value[size_t(s.k)];
    const int own = size_t(rank) < sum.roots.size() ? sum.roots[size_t(rank)] : 0;
    if (s.extras != own)
      throw Error(ErrorKind::invalid_argument, {.what = cat("all_reduce: rank ", rank, " has ", s.extras, " roots"),
                                                .where = "",
                                                .why = cat("of ", sum.shards, " shards it has ", own),
                                                .fix = "stack this rank's shards along the first axis"});
  }
}

}  // namespace lamina::section
