// The benchmark network's training step as a traced graph: Flatten(28x28), n x Dense(64, relu), Dropout(0.2), Dense(10), mean sparse cross
// entropy, gradients, SGD with the learning rate in a Variable, and the generator's state in another.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"
#include "runtime/core/precision.h"
#include "tests/ops/evaluate.h"

namespace lamina::tests {

enum class Initializer { glorot, looks_linear };

struct HundredLayers {
  struct Options {
    int layers = 100;
    Dim batch = 20;
    int width = 64;
    bool train = true;       // false: only the forward pass, output: logits
    bool gradients = false;  // outputs: loss, then a gradient per weight and bias, without updates
    bool dropout = true;
    Precision precision = Precision::float32;                  // of products
    ir::Value (*activation)(ir::Graph&, ir::Value) = nullptr;  // instead of relu
  };
  ir::Graph graph;                   // inputs: images f32[batch,28,28], labels i64[batch]; output: the loss
  std::vector<int> weights, biases;  // resources, layer by layer; the last is Dense(10)
  int learning_rate = -1, generator = -1;
};
HundredLayers hundred_layers(const HundredLayers::Options& options);
inline HundredLayers hundred_layers() { return hundred_layers(HundredLayers::Options()); }

// Every activation of layers, for Options::activation; alpha is 0.3.
std::vector<std::pair<const char*, ir::Value (*)(ir::Graph&, ir::Value)>> every_activation();

// Values for all resources; the same seed gives the same values.
Resources initial_values(const HundredLayers& model, Initializer initializer, uint64_t seed);
// Images with pixels from 0 to 1 and labels 0..9, of the graph's (concrete) batch.
std::vector<Tensor> random_batch(const HundredLayers& model, uint64_t seed);

// The step for each of the stacked batches: a scan that carries the step's Variables.
ir::Graph epoch_of(const ir::Graph& step, int64_t batches);

}  // namespace lamina::tests
