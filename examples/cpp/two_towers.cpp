// Two towers of 100 small layers, placed by cost on two virtual devices. Under mpirun each rank has its rows of the batch:
//   ./two_towers            mpirun -n 2 ./two_towers
#include <lamina/lamina.h>

#include <cmath>
#include <exception>
#include <iostream>
#include <vector>

namespace {

constexpr int kLayers = 100, kWidth = 64, kBatch = 64, kShards = 8;

// Rotations of neighbouring columns: values neither grow nor vanish.
lm::Tensor rotation(int layer) {
  std::vector<float> out(kWidth * kWidth, 0);
  const float c = std::cos(0.1f * float(layer)), s = std::sin(0.1f * float(layer));
  for (int i = 0; i < kWidth; i += 2) {
    out[size_t(i * kWidth + i)] = c, out[size_t(i * kWidth + i + 1)] = s;
    out[size_t((i + 1) * kWidth + i)] = -s, out[size_t((i + 1) * kWidth + i + 1)] = c;
  }
  return lm::constant(out.data(), {lm::dtype::f32, {kWidth, kWidth}});
}

std::vector<lm::Variable> tower(const std::string& device) {
  const lm::DeviceScope place(device);  // where its weights lie
  std::vector<lm::Variable> out;
  for (int layer = 0; layer < kLayers; ++layer) out.emplace_back(rotation(layer));
  return out;
}

}  // namespace

int main() try {
  lm::config::set_virtual_devices("cpu", 2);
  const std::vector<lm::Variable> left = tower("cpu:0"), right = tower("cpu:1");
  auto towers = lm::function([&](lm::Tensor x) {
    lm::Tensor a = x, b = x;
    for (const lm::Variable& w : left) a = lm::tanh(lm::matmul(a, w));
    for (const lm::Variable& w : right) b = lm::tanh(lm::matmul(b, w));
    return lm::sum(a * b);
  });

  std::vector<float> batch(kBatch * kWidth);
  for (size_t i = 0; i < batch.size(); ++i) batch[i] = float(i % 7) / 7;

  // This rank's shards of the batch, each computed alone: the sum has the same bits for 1 to 8 ranks.
  lm::distributed::Communicator& ranks = lm::distributed::world();
  const lm::distributed::Range own = lm::distributed::leaves_of(ranks, kShards);
  std::vector<float> parts;
  std::string explained;
  {
    const lm::DeviceScope place("auto");
    for (int64_t shard = own.begin; shard < own.end; ++shard) {
      const lm::Tensor rows = lm::constant(batch.data() + shard * kBatch / kShards * kWidth, {lm::dtype::f32, {kBatch / kShards, kWidth}});
      parts.push_back(*static_cast<const float*>(towers(rows).data()));
      if (explained.empty()) explained = towers.explain(rows);
    }
  }
  float sum = 0;
  lm::distributed::all_reduce(ranks, {.count = 1, .shards = kShards}, parts.data(), &sum, {.tensor = "sum"});
  if (lm::distributed::rank() != 0) return 0;
  std::cout << explained.substr(explained.find("placement by cost")) << "ranks: " << lm::distributed::size() << "\nsum: " << std::hexfloat
            << sum << '\n';
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
