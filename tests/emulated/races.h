// The race checker: every read and write of a kernel, and what orders them. It works in programs compiled with -fsanitize=thread and
// linked without that sanitizer's library (cmake/emulated.cmake).
//
// Two accesses of which one writes are a race unless one thread did both, or a barrier of their block or warp lies between, or one was
// before a release (store_release, add_release) whose value the other's block or thread has acquired since; or both are atomic. So a race
// is found in whatever order the threads ran. Single bytes and wider accesses are looked at apart; a warp's barrier counts for all its
// lanes.
#pragma once
#include <string>
#include <vector>

namespace lamina::kernels::cuda {

bool races_are_checked();
// What was found since the last call, one line each: kind and both places. A test that leaves some untaken fails (every_test.cpp).
std::vector<std::string> take_races();

}  // namespace lamina::kernels::cuda
