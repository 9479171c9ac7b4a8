#include "tests/graph/compile/run.h"

#include <cstring>

#include "runtime/core/config.h"

namespace lamina::tests {
namespace {

// Before the first use of a device, because tests use several; each keeps all threads.
const bool several_devices = (config::set_threads(config::threads()), split_cpu(8), true);

BufferRef buffer_of(const Tensor& t, Device device) { return copy_from_host(device, t.raw(), t.byte_count()); }

Tensor tensor_of(const TensorType& type, const BufferRef& buffer) {
  Tensor t(type);
  copy_to_host(t.raw(), buffer, 0, t.byte_count());
  return t;
}

}  // namespace

std::vector<Tensor> run_program(const ir::Graph& g, const std::vector<Tensor>& inputs, Resources* resources,
                                const compile::Options& options, int times) {
  return run_compiled(compile::compile(g, options), g, inputs, resources, times);
}

std::vector<Tensor> run_compiled(std::shared_ptr<const exec::Program> program, const ir::Graph& g, const std::vector<Tensor>& inputs,
                                 Resources* resources, int times) {
  exec::Executor executor(program);
  std::vector<std::unique_ptr<exec::VariableState>> states;
  std::vector<exec::VariableState*> variables;
  for (size_t r = 0; r < g.resources.size(); ++r) {
    states.push_back(std::make_unique<exec::VariableState>());
    states.back()->type = g.resources[r].type;
    states.back()->name = g.resources[r].name;
    states.back()->device = program->variables[r].device;
    if (resources && resources->contains(int(r))) states.back()->buffer = buffer_of(resources->at(int(r)), states.back()->device);
    variables.push_back(states.back().get());
  }
  std::vector<BufferRef> in, out;
  for (size_t i = 0; i < inputs.size(); ++i) in.push_back(buffer_of(inputs[i], program->input_devices[i]));
  for (int i = 0; i < times; ++i) out = executor.run(in, variables);
  std::vector<Tensor> results;
  for (size_t o = 0; o < out.size(); ++o) results.push_back(tensor_of(program->outputs[o], out[o]));
  if (resources)
    for (size_t r = 0; r < states.size(); ++r)
      if (states[r]->buffer) (*resources)[int(r)] = tensor_of(states[r]->type, states[r]->buffer);
  return results;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Tensor& x, const Tensor& y) { return x.same_bits(y); });
}

std::string program_text(const ir::Graph& g, const compile::Options& options) { return exec::print(*compile::compile(g, options)); }

}  // namespace lamina::tests
