// Runs a graph through compiler and executor, to compare with tests/ops/evaluate.h, which uses neither.
#pragma once
#include "graph/compile/compile.h"
#include "runtime/exec/executor.h"
#include "tests/ops/evaluate.h"

namespace lamina::tests {

// The outputs of g (concrete shapes) for these inputs; `resources` are read and written as by evaluate().
std::vector<Tensor> run_program(const ir::Graph& g, const std::vector<Tensor>& inputs, Resources* resources,
                                const compile::Options& options, int times = 1);
// The same of a Program that was compiled from g, with inputs and Variables where it has them.
std::vector<Tensor> run_compiled(std::shared_ptr<const exec::Program> program, const ir::Graph& g, const std::vector<Tensor>& inputs,
                                 Resources* resources, int times = 1);
bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b);
// The compiled program's text, to search for instructions.
std::string program_text(const ir::Graph& g, const compile::Options& options = {});

}  // namespace lamina::tests
