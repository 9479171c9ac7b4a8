// Small networks and data for tests of sections.
#pragma once
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/frontend/variable.h"
#include "graph/functions/control_flow.h"
#include "graph/functions/op_functions.h"
#include "graph/nn/optimizer.h"
#include "graph/passes/pipeline.h"

namespace lamina::tests {

// Values from -20 to 20 times `unit`, with period 41.
inline std::vector<float> pattern(size_t count, float unit, int seed = 0) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = unit * float(int((i + size_t(seed)) * 37 % 41) - 20);
  return values;
}
inline Tensor patterned(Shape shape, float unit, int seed = 0) {
  int64_t size = 1;
  for (Dim d : shape) size *= d.number();
  return tensor(pattern(size_t(size), unit, seed), shape);
}

// Two layers and a squared error; their Variables are added to `layers`. x: [rows, 40], y: [rows, 6].
using Layers = std::shared_ptr<std::vector<Variable>>;
inline auto small_net(std::shared_ptr<optim::Optimizer> optimizer, Layers layers = std::make_shared<std::vector<Variable>>()) {
  layers->push_back(Variable(patterned({40, 24}, 0.01f), "kernel"));
  layers->push_back(Variable(tensor(std::vector<float>(24, 0.1f), {24}), "bias"));
  layers->push_back(Variable(patterned({24, 6}, 0.01f), "kernel"));
  return function([layers, optimizer](Tensor x, Tensor y) {
    GradientTape tape;
    const auto& v = *layers;
    const Tensor out = matmul(tanh(matmul(x, v[0]) + v[1]), v[2]), cost = mean(square(out - y));
    optimizer->apply_gradients(tape.gradient(cost, v), v);
    return cost;
  });
}

// Scans net->step(x, y) over batches; returns the least cost and all costs.
template <class Net>
auto scan_over_batches(std::shared_ptr<Net> net) {
  return function([net](Tensor xs, Tensor ys) {
    return scan(
        [net](Tensor best, std::tuple<Tensor, Tensor> batch) {
          const Tensor cost = net->step(std::get<0>(batch), std::get<1>(batch));
          return std::pair(minimum(best, cost), cost);
        },
        tensor({1e9f}, {}), std::tuple(xs, ys));
  });
}

// Keeps even short loops from being unrolled.
struct LoopsAsTheyAre {
  LoopsAsTheyAre() { passes::set_disabled_passes({"fold_branches"}); }
  ~LoopsAsTheyAre() { passes::set_disabled_passes({}); }
};

}  // namespace lamina::tests
