// The race checker: sees every read and write of a kernel, and their ordering. It works in programs compiled with -fsanitize=thread but
// linked without that sanitizer's library (cmake/emulated.cmake).
//
// Two accesses, at least one of them a write, are a race unless the same thread made both, a barrier of their block or warp lies between
// them, the first precedes a release (store_release, add_release) whose value the second's block or thread then acquired, or both are
// atomic. So a race is found in any thread order. Single bytes and wider accesses are checked separately; a warp's barrier counts for all
// its lanes.
#pragma once
#include <string>
#include <vector>

namespace lamina::kernels::cuda {

bool races_are_checked();
// Races since the last call, one line each: kind and both places. A test that leaves some untaken fails (every_test.cpp).
std::vector<std::string> take_races();

}  // namespace lamina::kernels::cuda
