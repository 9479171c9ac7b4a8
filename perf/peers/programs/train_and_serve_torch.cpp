// examples/cpp/train_and_serve.cpp with PyTorch's C++ library: a process that serves must have the net's class and its sizes.
#include <torch/torch.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

namespace {

torch::nn::Sequential make_net() {
  torch::nn::Sequential net(torch::nn::Linear(2, 32), torch::nn::Tanh(), torch::nn::Linear(32, 32), torch::nn::Tanh(),
                            torch::nn::Linear(32, 1));
  for (auto& weight : net->named_parameters()) {
    if (weight.key().find("bias") != std::string::npos)
      torch::nn::init::zeros_(weight.value());
    else
      torch::nn::init::xavier_uniform_(weight.value());
  }
  return net;
}

void print_heights(const std::vector<float>& points, const torch::Tensor& heights) {
  const torch::Tensor flat = heights.contiguous();
  const float* numbers = flat.data_ptr<float>();
  for (int64_t i = 0; i < flat.numel(); ++i) std::printf("%.2f %.2f %a\n", points[2 * i], points[2 * i + 1], double(numbers[i]));
}

torch::Tensor heights_of(torch::nn::Sequential& net, const std::vector<float>& points) {
  torch::NoGradGuard no_gradient;
  return net->forward(torch::tensor(points).reshape({-1, 2}));
}

void train(const std::string& folder) {
  torch::manual_seed(0);
  torch::nn::Sequential net = make_net();
  torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(0.01));
  auto step = [&] {  // draws its points itself: sin(3 x) y
    const torch::Tensor x = torch::rand({256, 1}) * 2 - 1, y = torch::rand({256, 1}) * 2 - 1;
    adam.zero_grad();
    const torch::Tensor cost = torch::mean(torch::square(net->forward(torch::cat({x, y}, 1)) - torch::sin(x * 3) * y));
    cost.backward();
    adam.step();
    return cost;
  };
  for (int i = 1; i <= 2000; ++i) {
    const double cost = step().item<double>();
    if (i % 500 == 0) std::fprintf(stderr, "step %4d: mean squared error %.5f\n", i, cost);
  }

  const std::vector<float> points = {0.5f, 1, -0.5f, 1, 0.25f, -0.5f, 0, 0};
  torch::save(net, folder + "/net.pt");
  print_heights(points, heights_of(net, points));
}

void serve(const std::string& folder) {
  torch::nn::Sequential net = make_net();
  torch::load(net, folder + "/net.pt");
  net->eval();
  for (std::vector<float> point(2); std::cin >> point[0] >> point[1];) print_heights(point, heights_of(net, point));
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
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
