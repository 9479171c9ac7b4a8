#include "tests/graph/hundred_layers.h"

#include <cmath>
#include <random>

#include "graph/autodiff/gradient.h"
#include "graph/ops/ops.h"

namespace lamina::tests {
namespace {

// Rows of a random matrix, made orthonormal one after the other (k <= n).
std::vector<double> orthogonal(int64_t k, int64_t n, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<double> q(size_t(k * n));
  for (int64_t i = 0; i < k; ++i) {
    double* row = &q[size_t(i * n)];
    for (int64_t j = 0; j < n; ++j) row[j] = normal(random);
    for (int round = 0; round < 2; ++round)
      for (int64_t other = 0; other < i; ++other) {
        double dot = 0;
        for (int64_t j = 0; j < n; ++j) dot += row[j] * q[size_t(other * n + j)];
        for (int64_t j = 0; j < n; ++j) row[j] -= dot * q[size_t(other * n + j)];
      }
    double length = 0;
    for (int64_t j = 0; j < n; ++j) length += row[j] * row[j];
    for (int64_t j = 0; j < n; ++j) row[j] /= std::sqrt(length);
  }
  return q;
}

// k x n with orthonormal rows or columns, whichever are fewer.
std::vector<double> any_orthogonal(int64_t k, int64_t n, std::mt19937_64& random) {
  if (k <= n) return orthogonal(k, n, random);
  const std::vector<double> across = orthogonal(n, k, random);
  std::vector<double> q(size_t(k * n));
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j) q[size_t(i * n + j)] = across[size_t(j * k + i)];
  return q;
}

// [[Q,-Q],[-Q,Q]]; without the mirrored input [Q,-Q].
std::vector<double> mirrored(int64_t k, int64_t n, bool mirror_in, std::mt19937_64& random) {
  const int64_t rows = mirror_in ? k / 2 : k, columns = n / 2;
  const std::vector<double> q = any_orthogonal(rows, columns, random);
  std::vector<double> w(size_t(k * n));
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const double sign = ((i < rows) == (j < columns)) ? 1 : -1;
      w[size_t(i * n + j)] = sign * q[size_t((i % rows) * columns + j % columns)];
    }
  return w;
}

}  // namespace

HundredLayers hundred_layers(const HundredLayers::Options& options) {
  HundredLayers model;
  ir::Graph& g = model.graph;
  const ir::Value images = g.add_input({DType::f32, {options.batch, 28, 28}}, "images");
  const ir::Value labels = options.train ? g.add_input({DType::i64, {options.batch}}, "labels") : ir::Value{};
  g.place.scope = "flatten/";
  ir::Value x = ops::reshape(g, images, {options.batch, 784});
  std::vector<ir::Value> parameters;
  int64_t width_in = 784;
  auto dense = [&](const std::string& name, int64_t width) {
    g.place.scope = name + "/";
    model.weights.push_back(g.add_resource({name + "/w", {DType::f32, {width_in, width}}}));
    model.biases.push_back(g.add_resource({name + "/b", {DType::f32, {width}}}));
    const ir::Value w = ops::read(g, model.weights.back()), b = ops::read(g, model.biases.back());
    parameters.insert(parameters.end(), {w, b});
    width_in = width;
    x = ops::add(g, ops::matmul(g, x, w, false, false, options.precision), b);
  };
  for (int layer = 0; layer < options.layers; ++layer) {
    dense(cat("dense_", layer + 1), options.width);
    x = options.activation ? options.activation(g, x) : ops::relu(g, x);
  }
  if (options.train && options.dropout) {
    g.place.scope = "dropout/";
    model.generator = g.add_resource({"generator", {DType::i64, {2}}});
    const ir::Value state = ops::read(g, model.generator);
    x = ops::dropout(g, x, state, 0.2f);
    ops::assign(g, model.generator, ops::add(g, state, g.add_constant(ir::Literal::of<int64_t>({2}, {0, 1}))));
  }
  dense("output", 10);
  g.place.scope = "";
  if (!options.train) {
    g.outputs = {x};
    return model;
  }
  const ir::Value loss = ops::mean(g, ops::sparse_cross_entropy(g, x, labels));
  std::vector<ir::Value> gradients =
      autodiff::gradient(g, {.targets = {&loss, 1}, .cotangents = {}, .sources = parameters, .first_node = 0, .blocks = {}});
  g.outputs = {loss};
  if (options.gradients) {
    g.outputs.insert(g.outputs.end(), gradients.begin(), gradients.end());
    return model;
  }
  model.learning_rate = g.add_resource({"learning_rate", {DType::f32, {}}});
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int resource = i % 2 == 0 ? model.weights[i / 2] : model.biases[i / 2];
    g.place.scope = "sgd/";
    const ir::Value rate = ops::read(g, model.learning_rate), now = ops::read(g, resource);
    ops::assign(g, resource, ops::sub(g, now, ops::mul(g, rate, gradients[i])));
  }
  g.place.scope = "";
  return model;
}

Resources initial_values(const HundredLayers& model, Initializer initializer, uint64_t seed) {
  std::mt19937_64 random(seed);
  Resources values;
  const size_t last = model.weights.size() - 1;
  for (size_t i = 0; i <= last; ++i) {
    const TensorType& type = model.graph.resources[size_t(model.weights[i])].type;
    const int64_t k = type.shape[0].number(), n = type.shape[1].number();
    std::vector<double> w;
    if (initializer == Initializer::looks_linear) {
      w = i == last ? any_orthogonal(k, n, random) : mirrored(k, n, i != 0, random);
    } else {
      const double limit = std::sqrt(6.0 / double(k + n));
      std::uniform_real_distribution<double> uniform(-limit, limit);
      for (int64_t j = 0; j < k * n; ++j) w.push_back(uniform(random));
    }
    values[model.weights[i]] = Tensor::from(type, w);
    values[model.biases[i]] = Tensor(model.graph.resources[size_t(model.biases[i])].type);
  }
  if (model.learning_rate >= 0) values[model.learning_rate] = Tensor::from({DType::f32, {}}, {0.008});
  if (model.generator >= 0) values[model.generator] = Tensor::of<int64_t>({2}, {int64_t(seed), 0});
  return values;
}

std::vector<Tensor> random_batch(const HundredLayers& model, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<Tensor> batch;
  for (ir::Value input : model.graph.inputs) {
    Tensor t(model.graph.type(input));
    for (int64_t i = 0; i < t.size(); ++i) t.set(i, is_floating(t.type.dtype) ? uniform(random) : double(random() % 10));
    batch.push_back(t);
  }
  return batch;
}

ir::Graph epoch_of(const ir::Graph& step, int64_t batches) {
  auto body = std::make_shared<ir::Graph>();
  std::vector<ir::Value> state, moved(size_t(step.size()));
  for (const ir::Resource& r : step.resources) state.push_back(body->add_input(r.type));
  for (ir::Value v : step.inputs) moved[size_t(v.node)] = body->add_input(step.type(v));
  auto now = [&](ir::Value v) { return ir::Value{moved[size_t(v.node)].node, moved[size_t(v.node)].result + v.result}; };
  for (int n = 0; n < step.size(); ++n) {
    if (moved[size_t(n)].valid()) continue;
    const ir::Node& node = step[n];
    if (node.op->effect == ir::Effect::read) {
      moved[size_t(n)] = state[size_t(ir::resource_of(node))];
    } else if (node.op->effect == ir::Effect::write) {
      state[size_t(ir::resource_of(node))] = now(node.inputs[0]);
    } else {
      std::vector<ir::Value> in;
      for (ir::Value v : node.inputs) in.push_back(now(v));
      moved[size_t(n)] = body->copy(node, std::move(in));
    }
  }
  body->outputs = state;
  for (ir::Value v : step.outputs) body->outputs.push_back(now(v));
  ir::Graph g;
  g.resources = step.resources;
  std::vector<ir::Value> carried, stacked;
  for (ir::Value v : step.inputs) {
    TensorType type = step.type(v);
    type.shape.insert(type.shape.begin(), Dim(batches));
    stacked.push_back(g.add_input(type));
  }
  for (size_t r = 0; r < g.resources.size(); ++r) carried.push_back(ops::read(g, int(r)));
  const ir::Value first = ops::scan(g, carried, stacked, {}, body, batches);
  for (size_t r = 0; r < carried.size(); ++r) ops::assign(g, int(r), {first.node, int(r)});
  for (size_t o = 0; o < step.outputs.size(); ++o) g.outputs.push_back({first.node, int(carried.size() + o)});
  return g;
}

std::vector<std::pair<const char*, ir::Value (*)(ir::Graph&, ir::Value)>> every_activation() {
  return {
#define LAMINA_NODE_plain(name) ops::name(g, z)
#define LAMINA_NODE_alpha(name) ops::name(g, z, ops::scalar(g, g.type(z).dtype, 0.3))
#define ACTIVATION(name, slope, parameter) {#name, [](ir::Graph& g, ir::Value z) { return LAMINA_NODE_##parameter(name); }},
#include "kernels/shared/elementwise_ops.inc"
  };
}

}  // namespace lamina::tests
