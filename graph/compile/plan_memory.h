// Places temporary storages in an arena. Two storages share bytes only if their lifetimes do not overlap.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace lamina::compile {

struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;  // the first step that writes it and the last that uses it
  int64_t offset = -1;      // filled in by plan_memory
};
inline constexpr int64_t kArenaAlignment = 64;

// Fills in the offsets and returns the arena's size. Best fit in order of time, O(n log n).
int64_t plan_memory(std::vector<Lifetime>& lifetimes);
// For steps that run concurrently: is_over(earlier, later) says whether step `earlier` has surely ended when `later` starts. Two storages
// share bytes only if all uses of one are over before the first use of the other. Lowest free offset, O(n^2).
int64_t plan_memory(std::vector<Lifetime>& lifetimes, const std::function<bool(size_t earlier, size_t later)>& is_over);

}  // namespace lamina::compile
