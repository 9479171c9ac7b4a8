// A function, traced once, that fits y = 3 x + 1.
#include <lamina/lamina.h>

#include <iostream>

int main() {
  lm::Variable w(0.0), b(0.0);
  lm::optim::SGD sgd(0.1);
  auto step = lm::function([&](lm::Tensor x, lm::Tensor y) {
    lm::GradientTape tape;
    lm::Tensor cost = lm::mean(lm::square(x * w + b - y));
    sgd.apply_gradients(tape.gradient(cost, w, b), {w, b});
    return cost;
  });
  for (int i = 0; i < 200; ++i) step(lm::tensor({-1, 0, 1, 2}, {4}), lm::tensor({-2, 1, 4, 7}, {4}));
  std::cout << w.read() << '\n' << b.read() << '\n' << "graphs: " << step.trace_count() << '\n';
}
