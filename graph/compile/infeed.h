// Infeed: stacked inputs of a scan stay in host memory while the scan runs on a GPU, and each slice is copied while the section runs
// (kernels/section/nested.h).
#pragma once
#include <span>
#include <vector>

#include "graph/ir/graph.h"
#include "kernels/section/nested.h"
#include "runtime/exec/program.h"

namespace lamina::compile {

// A stacked input that is on the host when the call begins, and of which the device needs only the slices.
struct StackOnHost {
  int32_t input = 0;  // index among the scan's inputs
  int64_t slice_bytes = 0;
};

// Plans the infeed of a scan of `length` iterations. `chunk` is 0 when everything is copied up front: for small inputs, with
// LAMINA_CUDA_INFEED=off, or when a profiler, sanitizer or debugger may serialise or replay kernels (profiler::attached_by).
// LAMINA_CUDA_INFEED=on streams small inputs too; any other value throws invalid_argument.
section::Infeed plan_infeed(std::span<const StackOnHost> stacks, int64_t length);

// The number of uses of a value by nodes and outputs.
int64_t uses_of(const ir::Graph& g, ir::Value v);
// Indices of the inputs of a concrete graph that may stay on the host because of an infeed. The caller need not copy them to the device.
std::vector<size_t> inputs_for_infeed(const ir::Graph& g);
// Indices of inputs that the program itself copies to another device before it uses them.
std::vector<size_t> inputs_copied_whole(const exec::Program& program);

}  // namespace lamina::compile
