#include "tests/graph/stacked_models.h"

#include <cstring>
#include <random>

#include "graph/ops/ops.h"

namespace lamina::tests {
namespace {

// Another model's value: floating-point numbers slightly changed, generators with another seed, everything else rotated by one.
Tensor another(const Tensor& t, bool generator, std::mt19937_64& random) {
  Tensor out = t.clone();
  std::uniform_real_distribution<double> uniform(-0.05, 0.05);
  for (int64_t i = 0; i < t.size(); ++i) {
    if (is_floating(t.type.dtype))
      out.set(i, t.at(i) * (1 + uniform(random)));
    else if (generator)
      out.set(i, t.at(i) + double(random() % 50));
    else
      out.set(i, t.at((i + 1) % t.size()));
  }
  return out;
}

}  // namespace

Tensor stacked(const std::vector<Tensor>& parts) {
  TensorType type = parts[0].type;
  type.shape.insert(type.shape.begin(), Dim(int64_t(parts.size())));
  Tensor out(type);
  for (size_t i = 0; i < parts.size(); ++i)
    std::memcpy(static_cast<char*>(out.raw()) + i * parts[i].byte_count(), parts[i].raw(), parts[i].byte_count());
  return out;
}

Tensor part(const Tensor& all, size_t i) {
  TensorType type = all.type;
  type.shape.erase(type.shape.begin());
  Tensor out(type);
  std::memcpy(out.raw(), static_cast<char*>(all.raw()) + i * out.byte_count(), out.byte_count());
  return out;
}

StackedModels stack_models(const RandomGraph& g, uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  StackedModels out;
  out.models.assign(count, g);
  out.resources.resize(g.graph.resources.size());
  std::vector<uint8_t> inputs;
  auto spread = [&](bool batched, bool generator, const Tensor& t, const std::function<Tensor&(RandomGraph&)>& place) {
    std::vector<Tensor> each;
    for (RandomGraph& model : out.models) each.push_back(place(model) = batched ? another(t, generator, random) : t.clone());
    return batched ? stacked(each) : t.clone();
  };
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    inputs.push_back(random() % 2);
    out.together.inputs.push_back(spread(inputs[i], false, g.inputs[i], [&](RandomGraph& model) -> Tensor& { return model.inputs[i]; }));
  }
  // Assigned values may differ between models, so written Variables are stacked; so are generators, which a loop would share.
  for (const ir::Node& node : g.graph.nodes())
    if (node.op->effect == ir::Effect::write) out.resources[size_t(ir::resource_of(node))] = true;
  for (size_t r = 0; r < out.resources.size(); ++r) {
    const bool generator = g.graph.resources[r].type.dtype == DType::i64;
    out.resources[r] = out.resources[r] || generator || random() % 2;
    if (!g.resources.contains(int(r))) continue;
    out.together.resources[int(r)] =
        spread(out.resources[r], generator, g.resources.at(int(r)), [&](RandomGraph& model) -> Tensor& { return model.resources[int(r)]; });
  }
  autodiff::BatchedGraph batched = autodiff::batch(g.graph, {.size = Dim(int64_t(count)), .inputs = inputs, .resources = out.resources});
  out.together.graph = std::move(batched.graph);
  out.together.seed = g.seed;
  out.outputs = std::move(batched.outputs);
  return out;
}

RandomGraph without_fused(RandomGraph g) {
  std::vector<int> fused;
  for (int n = 0; n < g.graph.size(); ++n)
    if (g.graph[n].op == &ops::def::fused_elementwise) fused.push_back(n);
  return fused.empty() ? g : with_inputs_instead(g, fused);
}

}  // namespace lamina::tests
