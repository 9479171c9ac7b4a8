// usage: lamina_wire [FILE]
// The step of 100 layers of 64 on this card alone, and as the step of one of 8 ranks, whose sums wait for a wire of 0 to 36 microseconds
// (tests/cuda/one_of_many.h). Prints the times and writes them to FILE as JSON. Exit status: 0; 1: other bits, or a value was never
// announced; 77: no card.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "graph/frontend/data_parallel.h"
#include "graph/frontend/device.h"
#include "graph/frontend/factories.h"
#include "graph/functions/random.h"
#include "perf/hundred_layers.h"
#include "runtime/dist/world.h"
#include "tests/cuda/one_of_many.h"

namespace lamina::perf {
namespace {

constexpr int kRanks = 8, kSteps = 200, kRounds = 7, kTraced = 5;
constexpr Device kCard{DeviceKind::gpu, 0, 0};

// Microseconds a step: the best of some rounds.
double time_of(Benchmark& net) {
  Backend& backend = backend_of(kCard);
  Stream stream = backend.default_stream(kCard);
  const auto round = [&](int steps) {
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) net.step();
    backend.synchronize(stream);
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun).count() / steps;
  };
  round(kTraced);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRounds; ++i) least = std::min(least, round(kSteps));
  return least;
}

struct Found {
  double microseconds;
  std::vector<float> weights;  // after the steps, the same number for each wire
};
Found with_wire(int64_t rows, double microseconds, tests::Wire& wire) {
  wire.set_time(microseconds);
  tests::OneOfMany job(kRanks, wire);
  const distributed::RankScope scope(job);
  Benchmark net(rows, true);
  Found out{time_of(net), {}};
  for (const Variable& v : net.variables()) {
    const std::vector<float> values = v.read().to_vector<float>();
    out.weights.insert(out.weights.end(), values.begin(), values.end());
  }
  return out;
}

int measure(const char* file) {
  Backend& backend = backend_of(kCard);
  if (backend.device_count() == 0) return std::printf("not measured: %s\n", backend.unavailable_reason().c_str()), 77;
  const DeviceScope on_card("gpu:0");
  bool well = true;
  nlohmann::json rows_of = nlohmann::json::array();
  for (const int64_t rows : {20, 64, 128}) {
    Benchmark alone(rows);
    const double one = time_of(alone);
    std::printf("%d rows a rank: %.1f us a step alone\n", int(rows), one);
    nlohmann::json times;
    std::vector<float> want;
    for (const int wire : {0, 5, 9, 18, 36}) {
      tests::Wire between(kCard, kRanks);
      const Found found = with_wire(rows, wire, between);
      if (want.empty()) want = found.weights;
      const bool same = std::memcmp(want.data(), found.weights.data(), want.size() * sizeof(float)) == 0;
      const unsigned missing = between.missing();
      std::printf("  a wire of %2d us: %.1f us a step, %.1f exposed%s%s\n", wire, found.microseconds, found.microseconds - one,
                  same ? "" : ", OTHER BITS", missing ? ", VALUES WERE NEVER ANNOUNCED" : "");
      std::fflush(stdout);
      well = well && same && missing == 0;
      times[std::to_string(wire)] = found.microseconds;
    }
    rows_of.push_back({{"rows a rank", rows}, {"us alone", one}, {"us a step by us of wire", times}});
  }
  if (file)
    std::ofstream(file) << nlohmann::json{{"card", backend.properties(kCard).name}, {"ranks", kRanks}, {"steps", rows_of}}.dump(1) << '\n';
  return well ? 0 : 1;
}

}  // namespace
}  // namespace lamina::perf

int main(int count, char** words) try { return lamina::perf::measure(count > 1 ? words[1] : nullptr); } catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
