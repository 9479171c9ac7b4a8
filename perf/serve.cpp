// lamina_bench [GOOGLE BENCHMARK'S OPTIONS], or lamina_bench --serve BATCH: measures on request, one line of JSON in, one out, so that
// bench.py can take turns with other programs. peers/worker.py has the protocol.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graph/frontend/factories.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/op_functions.h"
#include "perf/hundred_layers.h"
#include "runtime/core/config.h"
#include "runtime/device/peak_flops.h"

namespace lamina::perf {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Work {
  std::function<void()> call;
  int64_t calls = 1;  // per block of about 5 ms
};

double block(const Work& work) {
  const auto start = Clock::now();
  for (int64_t i = 0; i < work.calls; ++i) work.call();
  return seconds_since(start) / double(work.calls);
}

int serve(int64_t batch) {
  Benchmark net(batch);
  auto plus_one = function([](Tensor x) { return x + 1; });
  const Tensor small = ones({4});
  std::map<std::string, Work> works{{"step", {[&] { net.step(); }}},
                                    {"forward", {[&] { net.forward(); }}},
                                    {"step_eager", {[&] { net.step_eagerly(); }}},
                                    {"cached_call", {[&] { plus_one(small); }}},
                                    {"eager_op", {[&] { benchmark::DoNotOptimize(small + small); }}}};
  Json about{{"name", "Lamina C++"}, {"threads", config::threads()}, {"batch", batch}, {"isa", config::cpu_isa()}};
  for (auto& [name, work] : works) {
    about["first_" + name + "_s"] = block(work);
    work.calls = 10;
    block(work);
    work.calls = std::max<int64_t>(1, int64_t(0.005 / block(work)));
  }
  std::cout << about.dump() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const Json request = Json::parse(line);
    const std::string what = request.at("what");
    std::vector<double> means;
    const auto start = Clock::now();
    do {
      if (what == "forward_floor")
        means.push_back(net.forward_flops() / peak_flops() * 1e6);
      else if (what == "loop_dense_floor")
        means.push_back(1000 * 2.0 * 20 * 64 * 64 / peak_flops() * 1e6);
      else if (what == "step_floor")
        means.push_back(net.step_flops() / peak_flops() * 1e6);
      else
        means.push_back(block(works.at(what)) * 1e6);
    } while (seconds_since(start) < request.at("seconds").get<double>());
    std::cout << Json{{"what", what}, {"microseconds", means}}.dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace lamina::perf

int main(int argc, char** argv) {
  try {
    if (argc > 1 && std::string(argv[1]) == "--serve") return lamina::perf::serve(argc > 2 ? std::atoi(argv[2]) : 20);
    benchmark::AddCustomContext("isa", lamina::config::cpu_isa());
    benchmark::AddCustomContext("threads", std::to_string(lamina::config::threads()));
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lamina_bench: %s\n", error.what());
    return 1;
  }
}
