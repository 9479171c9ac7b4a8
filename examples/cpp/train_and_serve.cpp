// A model's life in C++: one process trains and saves it, another one loads and serves it.
//   ./train_and_serve train FOLDER      learns a surface from points, saves the program to FOLDER, prints what it says of four points
//   ./train_and_serve serve FOLDER      the same for points from the input, two numbers a line; knows nothing but FOLDER
#include <lamina/lamina.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace {

void print_heights(const std::vector<float>& points, const lm::Tensor& heights) {
  const std::vector<float> numbers = heights.to_vector<float>();
  for (size_t i = 0; i < numbers.size(); ++i) std::printf("%.2f %.2f %a\n", points[2 * i], points[2 * i + 1], double(numbers[i]));
}

void train(const std::string& folder) {
  lm::random::set_seed(0);
  lm::nn::Sequential net(
      {std::make_shared<lm::nn::Dense>(32, "tanh"), std::make_shared<lm::nn::Dense>(32, "tanh"), std::make_shared<lm::nn::Dense>(1)});
  lm::optim::Adam adam(0.01);
  auto step = lm::function([&] {  // draws its points itself: sin(3 x) y
    const lm::Tensor x = lm::random::uniform({256, 1}, lm::dtype::f32, -1, 1), y = lm::random::uniform({256, 1}, lm::dtype::f32, -1, 1);
    lm::GradientTape tape;
    const lm::Tensor cost = lm::mean(lm::square(net(lm::concat({x, y}, 1)) - lm::sin(x * 3) * y));
    adam.apply_gradients(tape.gradient(cost, net.trainable_variables()), net.trainable_variables());
    return cost;
  });
  for (int i = 1; i <= 2000; ++i) {
    const double cost = step().item<double>();
    if (i % 500 == 0) std::fprintf(stderr, "step %4d: mean squared error %.5f\n", i, cost);
  }

  // One graph for any number of points.
  auto height = lm::function([&](lm::Tensor points) { return net(points); },
                             {.name = "height", .argument_names = {"points"}, .signature = {{{.shape = {lm::any_length(), 2}}}}});
  const std::vector<float> points = {0.5f, 1, -0.5f, 1, 0.25f, -0.5f, 0, 0};
  lm::Module program;
  for (const lm::Variable& weight : net.variables()) program.add(weight.name(), weight);
  program.add("height", height.concrete(lm::tensor(points, {4, 2})));
  program.save(folder);
  print_heights(points, height(lm::tensor(points, {4, 2})));
}

void serve(const std::string& folder) {
  const lm::Module program = lm::Module::load(folder);
  for (std::vector<float> point(2); std::cin >> point[0] >> point[1];)
    print_heights(point, program.call("height", {{"points", lm::tensor(point, {1, 2})}}).at("output"));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[1] : "";
  if (what != "train" && what != "serve") {
    std::fprintf(stderr, "usage: train_and_serve train|serve FOLDER\n");
    return 2;
  }
  try {
    what == "train" ? train(argv[2]) : serve(argv[2]);
    return 0;
  } catch (const lm::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
