// Trains a network of 100 small layers on handwritten digits: Flatten, 100 x Dense(64, relu), Dropout(0.2), Dense(10).
// usage: train_hundred_layers [FOLDER with the digits] [EPOCHS] [SEED]
#include <lamina/lamina.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

struct Digits {
  lm::Tensor images, labels;  // f32[n,28,28] in 0..1, i32[n]
};

struct Split {
  Digits train, test;
};

// The files are sorted by digit: every fifth image is a test image.
Split read_digits(const std::string& folder) {
  const auto images = lm::data::read_idx(folder + "/digits-images-idx3-ubyte.gz"),
             labels = lm::data::read_idx(folder + "/digits-labels-idx1-ubyte.gz");
  if (images.dtype != lm::dtype::u8 || images.shape.size() != 3 || labels.dtype != lm::dtype::u8 || labels.shape.size() != 1 ||
      labels.shape[0] != images.shape[0]) {
    throw lm::Error(lm::ErrorKind::file, {.what = "these are not digits",
                                          .where = folder,
                                          .why = "expected u8[n,h,w] images and u8[n] labels",
                                          .fix = "pass the folder examples/data"});
  }
  const int64_t count = images.shape[0], pixels = images.shape[1] * images.shape[2];
  std::vector<float> x[2];
  std::vector<int32_t> y[2];
  for (int64_t i = 0; i < count; ++i) {
    const int test = i % 5 == 4;
    for (int64_t p = 0; p < pixels; ++p) x[test].push_back(static_cast<float>(images.bytes[static_cast<size_t>(i * pixels + p)]) / 255);
    y[test].push_back(static_cast<int32_t>(labels.bytes[static_cast<size_t>(i)]));
  }
  const auto digits = [&](int test) {
    return Digits{lm::tensor(x[test], {int64_t(y[test].size()), images.shape[1], images.shape[2]}), lm::tensor(y[test])};
  };
  return {digits(0), digits(1)};
}

struct HundredLayers : lm::nn::Layer {
  HundredLayers() : Layer("hundred_layers") {
    add<lm::nn::Flatten>();
    for (int i = 0; i < 100; ++i)
      add<lm::nn::Dense>(64, lm::nn::DenseOptions{.activation = "relu", .kernel_initializer = lm::nn::looks_linear(i > 0)});
    add<lm::nn::Dropout>(0.2);
    add<lm::nn::Dense>(10, lm::nn::DenseOptions{.kernel_initializer = "orthogonal"});
  }
  lm::Tensor call(const lm::Tensor& x, bool) override {
    lm::Tensor h = x;
    for (auto& layer : layers()) h = (*layer)(h);
    return h;
  }
};

int run(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const std::string folder = argc > 1 ? argv[1] : "examples/data";
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 15, seed = argc > 3 ? std::atoi(argv[3]) : 0;
  const double first_rate = 0.008;

  lm::random::set_seed(seed);
  const Split digits = read_digits(folder);
  const auto feed =
      lm::data::Dataset::from_tensor_slices({digits.train.images, digits.train.labels}).shuffle(digits.train.labels.size()).batch(20);

  HundredLayers net;
  lm::optim::SGD sgd(first_rate);
  const lm::losses::SparseCrossEntropy loss(/*from_logits=*/true);
  auto step = lm::function([&](lm::Tensor x, lm::Tensor y) {
    lm::GradientTape tape;
    const lm::Tensor cost = loss(y, net(x, /*training=*/true));
    sgd.apply_gradients(tape.gradient(cost, net.trainable_variables()), net.trainable_variables());
    return cost;
  });
  auto accuracy = lm::function([&](lm::Tensor x, lm::Tensor y) { return lm::metrics::accuracy(y, net(x)); });

  const int64_t steps = epochs * *feed.size();
  int64_t done = 0;
  double training = 0;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const auto start = Clock::now();
    double total = 0;
    for (const auto& batch : feed) {
      sgd.set_learning_rate(first_rate * double(steps - done++) / double(steps));  // a Variable: nothing is traced anew
      total += step(batch[0], batch[1]).item<double>();
    }
    const double seconds = seconds_since(start);
    training += epoch > 1 ? seconds : 0;
    std::printf("epoch %2d/%d  loss %.4f  test accuracy %.3f  %.2f s\n", epoch, epochs, total / double(*feed.size()),
                accuracy(digits.test.images, digits.test.labels).item<double>(), seconds);
    std::fflush(stdout);
  }
  std::printf("parameters %lld, graphs %d", static_cast<long long>(net.count_params()), step.trace_count());
  if (epochs > 1) std::printf(", %.0f microseconds per step", training / double(steps - *feed.size()) * 1e6);
  std::printf("\ntest accuracy %.3f\n", accuracy(digits.test.images, digits.test.labels).item<double>());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const lm::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
