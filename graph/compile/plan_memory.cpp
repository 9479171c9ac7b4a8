#include "graph/compile/plan_memory.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "runtime/core/error.h"

namespace lamina::compile {
namespace {

// Free ranges by offset and by size; neighbours are merged.
class FreeList {
 public:
  int64_t take(int64_t bytes) {
    auto fit = by_size_.lower_bound({bytes, 0});
    if (fit == by_size_.end()) {
      // If nothing fits: grow at the end, from the last free range if it touches the end.
      int64_t start = end_;
      if (!by_offset_.empty()) {
        auto last = std::prev(by_offset_.end());
        if (last->first + last->second == end_) start = last->first, erase(last);
      }
      end_ = start + bytes;
      return start;
    }
    auto [size, offset] = *fit;
    erase(by_offset_.find(offset));
    if (size > bytes) insert(offset + bytes, size - bytes);
    return offset;
  }
  void give(int64_t offset, int64_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && offset + bytes == next->first) {
      bytes += next->second;
      auto joined = next++;
      erase(joined);
    }
    if (next != by_offset_.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == offset) {
        offset = before->first, bytes += before->second;
        erase(before);
      }
    }
    insert(offset, bytes);
  }
  int64_t end() const { return end_; }

 private:
  void insert(int64_t offset, int64_t bytes) {
    by_offset_[offset] = bytes;
    by_size_.insert({bytes, offset});
  }
  void erase(std::map<int64_t, int64_t>::iterator it) {
    by_size_.erase({it->second, it->first});
    by_offset_.erase(it);
  }
  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

int64_t rounded(int64_t bytes) {
  int64_t r;
  if (__builtin_add_overflow(bytes, kArenaAlignment - 1, &r))
    throw Error(ErrorKind::out_of_memory, {.what = "a temporary does not fit memory", .where = "", .why = "", .fix = ""});
  return std::max<int64_t>(kArenaAlignment, r / kArenaAlignment * kArenaAlignment);
}

// In order of birth; among storages with the same birth the larger is placed first.
std::vector<size_t> in_order(const std::vector<Lifetime>& lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return lifetimes[a].first != lifetimes[b].first ? lifetimes[a].first < lifetimes[b].first : lifetimes[a].bytes > lifetimes[b].bytes;
  });
  return order;
}

}  // namespace

int64_t plan_memory(std::vector<Lifetime>& lifetimes) {
  using Death = std::pair<int, size_t>;
  std::priority_queue<Death, std::vector<Death>, std::greater<>> alive;
  FreeList free;
  for (size_t i : in_order(lifetimes)) {
    Lifetime& life = lifetimes[i];
    while (!alive.empty() && alive.top().first < life.first) {
      const Lifetime& dead = lifetimes[alive.top().second];
      free.give(dead.offset, rounded(dead.bytes));
      alive.pop();
    }
    life.offset = free.take(rounded(life.bytes));
    alive.push({life.last, i});
  }
  return free.end();
}

int64_t plan_memory(std::vector<Lifetime>& lifetimes, const std::function<bool(size_t earlier, size_t later)>& is_over) {
  std::vector<size_t> placed;  // by offset
  int64_t end = 0;
  for (size_t i : in_order(lifetimes)) {
    const int64_t bytes = rounded(lifetimes[i].bytes);
    int64_t offset = 0;
    for (size_t other : placed) {
      if (is_over(other, i)) continue;
      if (lifetimes[other].offset >= offset + bytes) break;
      offset = std::max(offset, lifetimes[other].offset + rounded(lifetimes[other].bytes));
    }
    lifetimes[i].offset = offset;
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset, [&](int64_t o, size_t p) { return o < lifetimes[p].offset; }), i);
    end = std::max(end, offset + bytes);
  }
  return end;
}

}  // namespace lamina::compile
