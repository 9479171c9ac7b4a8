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

// Two layers, 12 to 8 to 3, trained with momentum, for scan_over_batches().
struct TwoLayers {
  std::vector<Variable> layers{Variable(patterned({12, 8}, 0.02f), "kernel"), Variable(tensor(std::vector<float>(8, 0.1f), {8}), "bias"),
                               Variable(patterned({8, 3}, 0.02f, 5), "kernel")};
  std::shared_ptr<optim::Optimizer> optimizer = std::make_shared<optim::SGD>(0.1, 0.9);
  Tensor step(Tensor x, Tensor y) {
    GradientTape tape;
    const Tensor cost = mean(square(matmul(tanh(matmul(x, layers[0]) + layers[1]), layers[2]) - y));
    optimizer->apply_gradients(tape.gradient(cost, layers), layers);
    return cost;
  }
};

// Scans a classifier's steps over batches of rows and labels: one layer, w; returns all costs.
inline auto classifier_over_batches(const Variable& w) {
  return function([w](Tensor xs, Tensor ys) {
    return scan(
               [w](Tensor total, std::tuple<Tensor, Tensor> batch) {
                 GradientTape tape;
                 const Tensor cost = mean(sparse_cross_entropy(matmul(std::get<0>(batch), w), std::get<1>(batch)));
                 w.assign_sub(tape.gradient(cost, w)[0] * 0.1f);
                 return std::pair(total + cost, cost);
               },
               tensor({0.0f}, {}), std::tuple(xs, ys))
        .second;
  });
}

// A scan with a branch in its body, then a while loop, with products before, in and behind them. x: [rows, n], w: [n, n], xs: [steps, rows,
// n].
inline auto loops_and_a_branch() {
  return function([](Tensor x, Tensor w, Tensor xs) {
    const Tensor big = matmul(x, w) * 2.0f;
    auto [last, outs] = scan(
        [&](Tensor s, Tensor row) {
          const Tensor t = matmul(s + row, w);
          return std::pair(cond(sum(t) > 0.0f, [&] { return tanh(matmul(t, w)); }, [&] { return t * 0.5f; }), mean(t, {0}));
        },
        big, xs);
    const Tensor end = while_loop([](Tensor v) { return sum(v) < 50.0f; }, [&](Tensor v) { return matmul(v, w) + 0.5f; }, last,
                                  {.maximum_iterations = 3, .names = {}});
    return std::pair(matmul(end, w), outs);
  });
}

// Keeps even short loops from being unrolled.
struct LoopsAsTheyAre {
  LoopsAsTheyAre() { passes::set_disabled_passes({"fold_branches"}); }
  ~LoopsAsTheyAre() { passes::set_disabled_passes({}); }
};

}  // namespace lamina::tests
