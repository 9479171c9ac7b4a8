// The operands that a step reads and writes, for placing barriers and for validation.
#pragma once
#include <bit>
#include <map>
#include <unordered_map>
#include <vector>

#include "kernels/section/table.h"

namespace lamina::section {

struct Access {
  int buffer = 0;
  bool write = false;
  // A `rows` step touches row i of this operand only for row i of the batch.
  bool by_rows = false;
  // A `models` step touches model i's part of this operand only for model i.
  bool by_models = false;
};

// In order: the inputs, then the outputs. The step's operands must exist.
void accesses_of(const Table& table, const Step& step, std::vector<Access>& out);

// Whether the step may throw: a label may be out of range.
bool can_fail(const Step& step);
// Whether one of them writes a Variable.
bool writes_state(const std::vector<Access>& accesses, const std::vector<OperandRange>& ranges);

// Whether two operands share bytes.
bool overlap(const OperandRange& a, const OperandRange& b);
// Whether the two steps, run concurrently, could interfere through these accesses. shares: of so many threads each has the same share of
// the rows or models of both, if their numbers are multiples of it; 0: only of the same number of them.
bool conflict(const Step& a, const Access& of_a, const Step& b, const Access& of_b, const std::vector<OperandRange>& ranges,
              int64_t shares = 0);

// Numbered ranges, found by the bytes that they share. They lie sorted in size classes, so a search looks at few that it does not find.
class RangeIndex {
 public:
  void clear() { spaces_.clear(); }
  void add(const OperandRange& range, int number) {
    spaces_[range.space][size_class(range)].emplace(range.begin, Entry{range.end, number});
  }
  // Calls f(number) for ranges that overlap this one, until it returns true; returns whether it did.
  template <class F>
  bool any_overlapping(const OperandRange& range, F&& f) const {
    const auto space = spaces_.find(range.space);
    if (space == spaces_.end()) return false;
    for (const auto& [size, sorted] : space->second)  // lengths below 2^size
      for (auto at = sorted.upper_bound(range.begin - (int64_t{1} << size)); at != sorted.end() && at->first < range.end; ++at)
        if (at->second.end > range.begin && f(at->second.number)) return true;
    return false;
  }

 private:
  struct Entry {
    int64_t end;
    int number;
  };
  static int size_class(const OperandRange& range) { return std::bit_width(uint64_t(range.end - range.begin)); }
  std::unordered_map<int, std::map<int, std::multimap<int64_t, Entry>>> spaces_;
};

// Accesses of the steps since a barrier.
class EarlierAccesses {
 public:
  explicit EarlierAccesses(const std::vector<OperandRange>& ranges) : ranges_(ranges) {}
  struct Earlier {
    const Step* step;
    Access access;
  };
  void clear() { list_.clear(), index_.clear(); }
  void add(const Step& step, const Access& access);
  const Earlier* conflicting(const Step& step, const Access& access) const;  // one of them, or null

 private:
  const std::vector<OperandRange>& ranges_;
  std::vector<Earlier> list_;
  RangeIndex index_;
};

}  // namespace lamina::section
