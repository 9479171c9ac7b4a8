// Which stacked inputs of a scan stay on the host although the scan runs on a GPU: their slices come while its section runs
// (kernels/section/nested.h).
#pragma once
#include <span>
#include <vector>

#include "graph/ir/graph.h"
#include "kernels/section/nested.h"
#include "runtime/exec/program.h"

namespace lamina::compile {

// A stacked input of which the device needs nothing but the slices, and all of which lies on the host when the call begins.
struct StackOnHost {
  int32_t input = 0;  // of the scan
  int64_t slice_bytes = 0;
};

// The infeed of a scan of `length` iterations, which has chunk 0 where all is copied before it begins: where that is little, where
// LAMINA_CUDA_INFEED=off, or where a profiler, sanitizer or debugger may run a kernel alone or several times (profiler::attached_by).
// LAMINA_CUDA_INFEED=on takes little as well. Throws Error invalid_argument where the environment says something else.
section::Infeed plan_infeed(std::span<const StackOnHost> stacks, int64_t length);

// How often nodes and results of the graph use a value.
int64_t uses_of(const ir::Graph& g, ir::Value v);
// Inputs of a concrete graph, by their places, that may stay on the host for the sake of an infeed: who calls the graph need not copy them
// to the device.
std::vector<size_t> inputs_for_infeed(const ir::Graph& g);
// Inputs that the program itself copies to another device before it uses them.
std::vector<size_t> inputs_copied_whole(const exec::Program& program);

}  // namespace lamina::compile
