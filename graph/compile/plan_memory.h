// Where temporary storages lie in an arena: two share bytes only when their lifetimes do not touch.
#pragma once
#include <cstdint>
#include <vector>

namespace lamina::compile {

struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;  // the steps that write it first and use it last
  int64_t offset = -1;      // the answer
};
inline constexpr int64_t kArenaAlignment = 64;

// Fills the offsets; returns the arena's size. Best fit over the lifetimes in order of time: O(n log n).
int64_t plan_memory(std::vector<Lifetime>& lifetimes);

}  // namespace lamina::compile
