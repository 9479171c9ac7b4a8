// Runs a graph as a Program: compiled, planned and executed. Compared with tests/ops/evaluate.h, which does neither.
#pragma once
#include "graph/compile/compile.h"
#include "runtime/exec/executor.h"
#include "tests/ops/evaluate.h"

namespace lamina::tests {

// The outputs of g (concrete shapes) on these inputs; `resources` are read and written as evaluate() does.
std::vector<Tensor> run_program(const ir::Graph& g, const std::vector<Tensor>& inputs, Resources* resources,
                                const compile::Options& options, int times = 1);
// The compiled program's text, to look for instructions in.
std::string program_text(const ir::Graph& g, const compile::Options& options = {});

}  // namespace lamina::tests
