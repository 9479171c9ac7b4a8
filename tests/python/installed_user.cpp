// What a user's program may hold: every template of the public headers, options by name, and static objects that use Lamina before main()
// begins and after it has ended. test_installed.py compiles it with all warnings as errors.
#include <lamina/lamina.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace {

lm::Tensor every_template() {
  const lm::Tensor x = lm::ones({4, 3});
  const lm::Variable w(lm::ones({3, 2}), "w");
  const auto f =
      lm::function([&](lm::Tensor a, int n, float rate, std::string text, std::vector<lm::Tensor> list,
                       lm::Variable v) { return std::tuple(lm::matmul(a, v) * n * rate, list, std::pair(a, text.empty() ? a : a + 1)); },
                   {.name = "f", .argument_names = {"a"}});
  const auto parts = f(x, 2, 2.f, std::string("a"), std::vector{x, x}, w);
  const auto open = lm::function([](lm::Tensor a) { return a * 2; }, {{.shape = {lm::any_length(), 3}}});
  const lm::Tensor slope = lm::grad([](lm::Tensor a) { return lm::sum(a * a); })(open(x));
  const auto [value, gradients] = lm::value_and_grad([](lm::Tensor a, lm::Tensor b) { return lm::sum(a * b); })(x, x);
  const lm::Tensor rows = lm::vmap([](lm::Tensor a) { return lm::sum(a); }, {.name = "rows"})(x);
  const lm::Tensor chosen = lm::cond(lm::sum(x) > 0, [&] { return x; }, [&] { return x * 2; });
  const auto [count, doubled] =
      lm::while_loop([](lm::Tensor i, lm::Tensor) { return i < 3; }, [](lm::Tensor i, lm::Tensor y) { return std::tuple(i + 1, y * 2); },
                     std::tuple(lm::scalar_i(0), x), {.maximum_iterations = 5});
  const auto [last, all] = lm::scan([](lm::Tensor s, lm::Tensor y) { return std::pair(s + y, s); }, lm::zeros({3}), x, {.reverse = true});
  const lm::Tensor counted = lm::fori_loop(0, 3, [](lm::Tensor, lm::Tensor y) { return y + 1; }, x);
  const lm::Tensor again = lm::checkpoint([](lm::Tensor a) { return lm::tanh(a); })(x);
  const lm::Tensor second = lm::switch_case<lm::Tensor>(lm::scalar_i(1), {[&] { return x; }, [&] { return x + 1; }});
  lm::nn::Sequential net(
      {std::make_shared<lm::nn::Dense>(3, "relu"), std::make_shared<lm::nn::Dense>(2, lm::nn::DenseOptions{.use_bias = false})});
  const lm::Tensor y = net(x);
  lm::optim::Adam adam(0.1, {.weight_decay = 0.1}, {.ema_momentum = 0.9});
  lm::GradientTape tape({.persistent = true});
  const lm::Tensor cost = lm::mean(lm::square(net(x)));
  adam.apply_gradients(tape.gradient(cost, net.trainable_variables()), net.trainable_variables());
  const std::vector<int> ints = y.to_vector<int>();
  const std::vector<bool> bools = y.to_vector<bool>();
  const lm::Limits limits({.seconds = 60, .bytes = int64_t{1} << 30});
  const lm::Tensor product = lm::einsum("ij,jk->ik", x, w.read());
  const lm::Tensor whole = lm::distributed::data_parallel([](lm::Tensor a) { return lm::mean(a); }, {.shards = 4})(x);
  const lm::Tensor set = lm::at(x, {lm::IndexPart::at(0)}).set(3);
  for (const auto& batch : lm::data::Dataset::from_tensor_slices({x}).shuffle(2).batch(2)) lm::synchronize(), static_cast<void>(batch);
  lm::Module module;
  module.add("w", w);
  lm::print_format("{}\n", {lm::sum(std::get<0>(parts))}, {.summarize = 2});
  lm::print("every template", 1, w.shape().size());
  return lm::sum(slope) + value + lm::sum(gradients[0]) + lm::sum(rows) + lm::sum(chosen) + lm::sum(doubled) + lm::sum(all) +
         lm::sum(counted) + lm::sum(again) + lm::sum(second) + lm::sum(product) + whole + lm::sum(set) + lm::sum(last) +
         double(ints.size() + bools.size()) + lm::astype(count, lm::dtype::f32);
}

// Made before anything of Lamina was used, so that it ends after what use makes.
struct Last {
  ~Last() { std::printf("after main: %g\n", every_template().item<double>()); }
} last;
const lm::Tensor early = lm::ones({3}) * 2;
const lm::Variable weight(lm::ones({3}), "weight");
lm::nn::Dense layer(4, "relu");
const auto twice = lm::function([](lm::Tensor x) { return x * 2 + weight; });
const auto pass = lm::data::Dataset::range(100).prefetch(3).begin();

}  // namespace

int main() {
  std::atexit([] { std::printf("at exit: %g\n", lm::sum(layer(lm::ones({2, 3}))).item<double>() >= 0 ? 1.0 : 0.0); });
  const double sum = lm::sum(twice(early)).item<double>();
  std::printf("in main: %g\n", sum + every_template().item<double>() * 0);
  auto& kept = *new auto(lm::function([](lm::Tensor x) { return lm::matmul(x, x); }));
  std::thread([&kept] {  // it still runs when main() has ended
    for (;;) kept(lm::ones({50, 50}) * 2);
  })
      .detach();
  return 0;
}
