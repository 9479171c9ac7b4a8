// Random graphs give the same results in every way to run them: node by node, and as Programs of the traced and the optimised graph, with
// and without sections, without single passes, with one and two threads, on one and two virtual devices, alone and as a stack of models, on
// one stream and on four.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "graph/ops/ops.h"
#include "graph/passes/pipeline.h"
#include "kernels/section/stages.h"
#include "runtime/core/error.h"
#include "runtime/device/backend.h"
#include "tests/graph/compile/run.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/stacked_models.h"

namespace lamina::tests {
namespace {

// Relative to a result's largest element.
constexpr double kTolerance = 2e-5;

struct Way {
  std::string name;
  bool optimize = true, sections = true;
  int threads = 1;
  bool two_devices = false;  // nodes, inputs and Variables randomly on cpu:0 and cpu:1
  bool models = false;       // a stack of models instead of one
  int streams = 1;           // of the device, also for small work
  std::vector<std::string> without = {};
  Device device = {};      // where all of it is
  bool in_double = false;  // compares with double precision
};

// The graph with about every second node on another device.
RandomGraph on_two_devices(const RandomGraph& from, std::mt19937_64& random) {
  RandomGraph out = from;
  out.graph = {};
  out.graph.resources = from.graph.resources;
  std::vector<int> now;
  for (int n = 0; n < from.graph.size(); ++n) {
    ir::Node node = from.graph[n];
    if (node.op != &ops::def::input && ir::resource_of(node) < 0) node.device = Device{DeviceKind::cpu, 0, int16_t(random() % 2)};
    std::vector<ir::Value> in;
    for (ir::Value v : node.inputs) in.push_back({now[size_t(v.node)], v.result});
    now.push_back(out.graph.size());
    out.graph.copy(node, std::move(in));
  }
  for (ir::Value v : from.graph.inputs) out.graph.inputs.push_back({now[size_t(v.node)], v.result});
  for (ir::Value v : from.graph.outputs) out.graph.outputs.push_back({now[size_t(v.node)], v.result});
  return out;
}

std::vector<Tensor> run(const RandomGraph& random, const Way& way) {
  RandomGraph g = random;
  compile::Options options;
  std::mt19937_64 chance(random.seed);
  if (way.two_devices) {
    g = on_two_devices(g, chance);
    for (size_t i = 0; i < g.inputs.size(); ++i) options.input_devices.push_back({DeviceKind::cpu, 0, int16_t(chance() % 2)});
    for (size_t i = 0; i < g.graph.resources.size(); ++i) options.variable_devices.push_back({DeviceKind::cpu, 0, int16_t(chance() % 2)});
  }
  if (way.optimize) {
    passes::set_disabled_passes(way.without);
    struct Restore {
      ~Restore() { passes::set_disabled_passes({}); }
    } restore;
    g.graph = passes::optimize(g.graph).graph;
  }
  options.device = way.device;
  options.sections = way.sections;
  options.threads = way.threads;
  options.share_all_sections = way.threads > 1;
  options.streams = way.streams;
  options.share_all_streams = way.streams > 1;
  return run_all(g, [&](const ir::Graph& graph, const std::vector<Tensor>& inputs, Resources* resources) {
    return run_program(graph, inputs, resources, options);
  });
}

std::string wrong(const RandomGraph& random, const Way& way) {
  try {
    if (way.in_double) return disagreement_in_double(random, run(random, way), kTolerance);
    const RandomGraph g = way.models ? stack_models(without_fused(random), random.seed).together : random;
    const std::vector<Tensor> expected = run_all(g), found = run(g, way);
    std::vector<Tensor> loose = run_perturbed(g);
    if (!disagreement(expected, found, kTolerance, &loose).empty()) {  // sums that cancel may have no other error than that of float32
      loose = farthest(expected, {loose, run_in_double(g)});
      if (std::string text = disagreement(expected, found, kTolerance, &loose); !text.empty()) return text;
    }
    if (way.threads == 1) return "";
    Way alone = way;  // bits never depend on threads
    alone.threads = 1;
    const auto bits = run(g, alone);
    struct Restore {
      ~Restore() { section::Ways::always({}); }
    } restore;
    for (auto of_section : {section::Ways::shared, section::Ways::staged, section::Ways::chunked, section::Ways::alone}) {
      section::Ways::always(of_section);
      if (const std::string text = disagreement(bits, run(g, way), 0); !text.empty())
        return cat("other bits than one thread, way ", int(of_section), ": ", text);
    }
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void check(const RandomGraph& random, const Way& way) {
  if (wrong(random, way).empty()) return;
  const RandomGraph small = shrink(random, [&](const RandomGraph& smaller) { return !wrong(smaller, way).empty(); });
  ADD_FAILURE() << way.name << ": " << wrong(small, way) << "\n" << describe(small);
}

std::vector<Way> ways_with_a_pass_left_out() {
  std::vector<Way> out;
  std::set<std::string> seen;
  for (const passes::Pass& pass : passes::pipeline())
    if (seen.insert(pass.name).second) out.push_back({.name = cat("without ", pass.name), .threads = 2, .without = {pass.name}});
  return out;
}

TEST(Programs, AgreeWithTheGraphOnRandomGraphs) {
  const int count = random_graph_count(40);
  const uint64_t first = random_graph_seed(9000);
  Coverage coverage = no_coverage();
  std::vector<Way> always{{.name = "as traced, no sections", .optimize = false, .sections = false},
                          {.name = "as traced", .optimize = false},
                          {.name = "optimized, no sections", .sections = false},
                          {.name = "optimized, two threads", .threads = 2}};
  std::vector<Way> in_turn = ways_with_a_pass_left_out();  // all of them in a long run
  in_turn.push_back({.name = "a stack of models, as traced", .optimize = false, .models = true});
  in_turn.push_back({.name = "a stack of models, two threads", .threads = 2, .models = true});
  in_turn.push_back({.name = "as traced, four streams", .optimize = false, .sections = false, .streams = 4});
  in_turn.push_back({.name = "four streams", .streams = 4});
  in_turn.push_back({.name = "as traced, two devices", .optimize = false, .sections = false, .two_devices = true});
  in_turn.push_back({.name = "two devices and two threads", .threads = 2, .two_devices = true});
  const size_t turns = count > 100 ? in_turn.size() : 2;
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const RandomGraph random = random_graph(
        first + uint64_t(i),
        {.least_nodes = 20, .most_nodes = i % 3 == 0 ? 60 : 200, .gradients = i % 4 != 3, .wide = i % 5 == 4, .only_f64 = false});
    count_ops(random.graph, coverage);
    for (const Way& way : always) check(random, way);
    for (size_t turn = 0; turn < turns; ++turn) check(random, in_turn[(size_t(i) * turns + turn) % in_turn.size()]);
  }
  std::printf("%d random graphs, seeds from %s; %s\n", count, std::to_string(first).c_str(), coverage_text(coverage).c_str());
}

TEST(Programs, AgreeWithTheGraphOnRandomGraphsWithEmptyAxes) {
  const int count = random_graph_count(60);
  const uint64_t first = random_graph_seed(19000);
  Coverage coverage = no_coverage();
  const std::vector<Way> ways{{.name = "as traced", .optimize = false},
                              {.name = "optimized, two threads", .threads = 2},
                              {.name = "a stack of models", .models = true},
                              {.name = "four streams", .streams = 4}};
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const RandomGraph random = random_graph(
        first + uint64_t(i), {.least_nodes = 20, .most_nodes = i % 3 == 0 ? 60 : 150, .gradients = i % 2 == 0, .empty_axes = true});
    count_ops(random.graph, coverage);
    for (const Way& way : ways) check(random, way);
  }
  std::printf("%d random graphs with empty axes, seeds from %s; %s\n", count, std::to_string(first).c_str(),
              coverage_text(coverage).c_str());
}

void check_in_double(Device device, int count, uint64_t first) {
  const Way sections{.name = "sections, in double", .device = device, .in_double = true},
      alone{.name = "no sections, in double", .sections = false, .device = device, .in_double = true};
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    const RandomGraph random = random_graph(
        first + uint64_t(i),
        {.least_nodes = 20, .most_nodes = i % 3 == 0 ? 60 : 200, .gradients = i % 4 != 3, .wide = i % 5 == 4, .only_f64 = false});
    check(random, i % 2 ? sections : alone);
  }
}

TEST(Programs, AgreeWithDoublePrecisionOnRandomGraphs) { check_in_double({}, random_graph_count(100), random_graph_seed(9000)); }

TEST(Programs, WrongResultsAreFound) {
  const RandomGraph random = random_graph(9001);
  const std::vector<Tensor> expected = run_in_double(random);
  std::vector<Tensor> other = run_all(random);
  const std::vector<Tensor> loose = farthest(expected, {run_perturbed(random), other});
  EXPECT_EQ(disagreement(expected, other, kTolerance, &loose), "");
  const auto floating =
      std::find_if(other.begin(), other.end(), [](const Tensor& t) { return is_floating(t.type.dtype) && t.size() > 0 && t.at(0) != 0; });
  ASSERT_NE(floating, other.end());
  *floating = floating->clone();
  floating->set(0, 1.01 * floating->at(0));
  EXPECT_NE(disagreement(expected, other, kTolerance, &loose), "");
}

// perf/gpu/run.sh runs twenty thousand.
TEST(Programs, AgreeOnAGpuOnRandomGraphs) {
  if (cuda_backend().device_count() == 0) GTEST_SKIP() << cuda_backend().unavailable_reason();
  check_in_double(parse_device("gpu:0"), random_graph_count(20), random_graph_seed(9000));
}

}  // namespace
}  // namespace lamina::tests
