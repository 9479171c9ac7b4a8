// Choice: random numbers that are the same everywhere.
#pragma once
#include <cstdint>
#include <random>

namespace lamina::data {

// The standard fixes the engine's output, but not its distributions.
class Choice {
 public:
  Choice(uint64_t seed, uint64_t pass) {
    std::seed_seq seeds{uint32_t(seed), uint32_t(seed >> 32), uint32_t(pass), uint32_t(pass >> 32)};
    engine_.seed(seeds);
  }
  // Uniform in [0, n): rejects values in the incomplete last interval of n.
  uint64_t below(uint64_t n) {
    const uint64_t rest = (std::mt19937_64::max() % n + 1) % n;
    uint64_t x = engine_();
    while (x > std::mt19937_64::max() - rest) x = engine_();
    return x % n;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace lamina::data
