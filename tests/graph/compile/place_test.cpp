// Placement by cost: where units go, that the bits stay those of one device, how near the schedules are to the optimum, and that plans
// without memory are refused.
#include "graph/compile/place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "graph/autodiff/gradient.h"
#include "graph/frontend/device.h"
#include "graph/frontend/factories.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/op_functions.h"
#include "graph/ops/ops.h"
#include "graph/passes/pipeline.h"
#include "runtime/core/config.h"
#include "runtime/core/cores.h"
#include "runtime/core/error.h"
#include "runtime/device/backend.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/order.h"
#include "tests/graph/compile/run.h"
#include "tests/graph/random_graph.h"

namespace lamina::tests {
namespace {

using compile::Options;
using compile::Units;
using ir::Graph;
using ir::Value;

// Rates of an imagined machine, so that plans do not depend on this one. Where copies cost nothing, everything is spread.
const cost::Costs kUsual{cost::CpuRates{}},
    kFreeCopies{cost::CpuRates{.flops = 1, .bytes = 100, .launch = 0, .step = 1, .barrier = 0, .hand_over = 0}};

Device cpu(int index) { return {DeviceKind::cpu, 0, int16_t(index)}; }
Options over(int devices, const cost::Costs& costs) {
  Options out;
  for (int d = 0; d < devices; ++d) out.candidates.push_back(cpu(d));
  out.costs = &costs;
  return out;
}

Graph towers(int count, int layers, int width = 64, bool trained = false) {
  Graph g;
  g.place.device = kAutomatic;
  const TensorType type{DType::f32, {width, width}};
  const Value x = g.add_input(type);
  Value loss;
  std::vector<Value> weights;
  for (int t = 0; t < count; ++t) {
    Value y = x;
    for (int i = 0; i < layers; ++i) {
      weights.push_back(ops::read(g, g.add_resource({cat("w", t, "_", i), type})));
      y = ops::tanh(g, ops::matmul(g, y, weights.back()));
    }
    y = ops::sum(g, y);
    loss = loss.valid() ? ops::add(g, loss, y) : y;
  }
  if (trained) {
    const std::vector<Value> gradients =
        autodiff::gradient(g, {.targets = {&loss, 1}, .cotangents = {}, .sources = weights, .first_node = 0, .blocks = {}});
    for (size_t i = 0; i < weights.size(); ++i) ops::assign(g, int(i), ops::sub(g, weights[i], gradients[i]));
  }
  g.outputs = {loss};
  return passes::optimize(g).graph;
}

std::set<Device> devices_of(const exec::Program& p) {
  std::set<Device> out;
  for (const exec::Instruction& i : p.instructions)
    if (i.kernel) out.insert(p.streams[size_t(i.stream)].device);
  return out;
}
std::string text_of(const std::vector<exec::Candidate>& candidates) {
  std::string out;
  for (const exec::Candidate& c : candidates) out += cat(c.name, ": ", c.microseconds, " us, ", c.why, "\n");
  return out;
}

struct OneThread {
  const int before = config::threads();
  OneThread() { config::set_threads(1); }
  ~OneThread() { config::set_threads(before); }
};

TEST(Place, TwoTowersAreSplitOverTwoDevices) {
  const OneThread each;
  Options options = over(2, kUsual);
  for (int i = 0; i < 200; ++i) options.variable_devices.push_back(cpu(i / 100));
  const Graph g = towers(2, 100);
  const auto program = compile::compile(g, options);
  EXPECT_EQ(devices_of(*program).size(), 2u) << text_of(program->candidates);
  EXPECT_EQ(program->candidates[0].why, "taken");
  EXPECT_EQ(exec::what_is_unordered(*program), "");
  int long_sections = 0;  // a tower is one section
  for (const exec::Instruction& i : program->instructions) long_sections += i.section_steps >= 100;
  EXPECT_EQ(long_sections, 2) << exec::print(*program);
  const double several = cost::simulate(*program, kUsual).microseconds,
               one = cost::simulate(*compile::compile(compile::on_one_device(g, {}), {}), kUsual).microseconds;
  EXPECT_LT(several, 0.65 * one) << "modelled";
  EXPECT_EQ(exec::print(*program), program_text(g, options)) << "the same graph has the same plan";
}

TEST(Place, AChainOfAHundredLayersStaysWhole) {
  for (const bool trained : {false, true})
    for (const int width : {16, 64}) {
      const auto program = compile::compile(towers(1, 100, width, trained), over(4, kUsual));
      EXPECT_EQ(devices_of(*program).size(), 1u) << trained << " " << width << "\n" << text_of(program->candidates);
      EXPECT_GE(program->candidates.size(), 4u);
    }
  Options gpus;
  gpus.device = parse_device("null:h100");
  gpus.candidates = {parse_device("null:h100"), parse_device("null:h100:1")};
  gpus.costs = &kUsual;
  const auto program = compile::compile(towers(1, 100), gpus);
  EXPECT_EQ(devices_of(*program).size(), 1u) << text_of(program->candidates);
}

// Each weight of a tower that moved would be copied there, and back after its update.
TEST(Place, TrainedTowersStayOnTheGpuWithTheirWeights) {
  Options gpus;
  gpus.device = parse_device("null:h100");
  gpus.candidates = {parse_device("null:h100"), parse_device("null:h100:1")};
  gpus.costs = &kUsual;
  gpus.input_devices = {gpus.device};
  gpus.variable_devices.assign(100, gpus.device);
  const Graph g = towers(2, 50, 64, true);
  const auto program = compile::compile(g, gpus), alone = compile::compile(compile::on_one_device(g, gpus.device), gpus);
  EXPECT_EQ(devices_of(*program), std::set<Device>{gpus.device}) << text_of(program->candidates);
  EXPECT_EQ(exec::print(*program), exec::print(*alone)) << "the schedule's order would cut the chains";
}

TEST(Place, VariablesAndChosenDevicesAreConstraints) {
  Graph g;
  const TensorType type{DType::f32, {8, 8}};
  const Value x = g.add_input(type);
  g.place.device = kAutomatic;
  const Value y = ops::exp(g, x);
  g.place.device = cpu(1);
  const Value z = ops::sin(g, y);
  g.place.device = kAutomatic;
  ops::assign(g, g.add_resource({"w", type}), ops::mul(g, z, z));
  g.outputs = {ops::cos(g, z)};
  Options options = over(3, kUsual);
  options.variable_devices = {cpu(2)};
  const std::optional<compile::Placed> placed = compile::place(g, options);
  ASSERT_TRUE(placed);
  for (const ir::Node& n : placed->graph.nodes()) {
    EXPECT_NE(n.device, kAutomatic);
    EXPECT_TRUE(n.op != &ops::def::sin || n.device == cpu(1));
  }
  EXPECT_EQ(compile::compile(g, options)->output_devices[0], cpu(0)) << "results are where the function runs";
}

TEST(Place, ABodyStaysWithItsLoop) {
  const OneThread each;
  Options options = over(2, kFreeCopies);
  EXPECT_EQ(devices_of(*compile::compile(towers(2, 30), options)).size(), 2u);
  options.inside = true;
  const auto program = compile::compile(towers(2, 30), options);
  EXPECT_EQ(devices_of(*program).size(), 1u);
  EXPECT_TRUE(program->candidates.empty());
}

// A kernel that first sleeps.
struct Delayed {
  Kernel kernel;
  int microseconds;
};
std::shared_ptr<const exec::Program> with_delays(const exec::Program& program, std::mt19937_64& random) {
  auto out = std::make_shared<exec::Program>(program);
  for (exec::Instruction& i : out->instructions) {
    if (!i.kernel || random() % 3) continue;
    auto delayed = std::make_shared<Delayed>(Delayed{i.kernel, int(random() % 200)});
    i.kernel = {.run =
                    [](const KernelCall& call) {
                      const auto& d = *static_cast<const Delayed*>(call.args);
                      std::this_thread::sleep_for(std::chrono::microseconds(d.microseconds));
                      KernelCall inner{call.stream, d.kernel.args.get(), call.in, call.out, call.line};
                      d.kernel.run(inner);
                    },
                .args = std::move(delayed)};
  }
  return out;
}

Graph with_devices(const Graph& from, const std::function<std::optional<Device>()>& choose) {
  Graph out;
  out.resources = from.resources;
  for (int n = 0; n < from.size(); ++n) {
    ir::Node node = from[n];
    if (node.op != &ops::def::input && ir::resource_of(node) < 0) node.device = choose();
    out.copy(node, node.inputs);
  }
  out.inputs = from.inputs, out.outputs = from.outputs;
  return out;
}

// Every wait is necessary: without any one of them something is unordered.
int64_t remove_each_wait(exec::Program p) {
  int64_t waits = 0;
  for (exec::Instruction& instruction : p.instructions)
    for (size_t w = 0; w < instruction.wait_for.size(); ++w) {
      const std::vector<int> all = instruction.wait_for;
      instruction.wait_for.erase(instruction.wait_for.begin() + int64_t(w));
      EXPECT_NE(exec::what_is_unordered(p), "") << "event " << all[w] << " is waited for in vain by " << instruction.name << "\n"
                                                << exec::print(p);
      instruction.wait_for = all;
      ++waits;
    }
  return waits;
}

TEST(Place, RandomGraphsOnSeveralDevicesHaveTheBitsOfOne) {
  const int count = random_graph_count(40, 10000);
  const uint64_t first = random_graph_seed(83000);
  int64_t several = 0, waits = 0;
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    const RandomGraph random = random_graph(first + uint64_t(i), {.least_nodes = 20, .most_nodes = i % 2 ? 60 : 150, .wide = i % 5 == 4});
    std::mt19937_64 chance(random.seed);
    const Graph plain = i % 3 == 0 ? random.graph : passes::optimize(random.graph).graph;
    const auto run = [&](const Graph& g, const Options& options) {
      return run_all(random, [&](const Graph&, const std::vector<Tensor>& inputs, Resources* resources) {
        auto program = compile::compile(g, options);
        EXPECT_EQ(exec::what_is_unordered(*program), "") << exec::print(*program);
        several += devices_of(*program).size() > 1;
        waits += remove_each_wait(*program);
        return run_compiled(with_delays(*program, chance), g, inputs, resources);
      });
    };
    Options one;
    one.sections = i % 4 != 3;
    const std::vector<Tensor> expected = run(plain, one);
    const int devices = 1 << (i % 4);
    Options options = over(devices, i % 2 ? kFreeCopies : kUsual);
    options.sections = one.sections;
    options.streams = 1 + i / 4 % 8, options.share_all_streams = options.streams > 1;
    const Graph automatic = with_devices(plain, [] { return kAutomatic; });
    EXPECT_EQ(disagreement(expected, run(automatic, options), 0), "") << "placed by cost on " << devices << ", seed " << random.seed;
    for (size_t v = 0; v < random.graph.resources.size(); ++v) options.variable_devices.push_back(cpu(int(chance() % uint64_t(devices))));
    for (size_t v = 0; v < random.inputs.size(); ++v) options.input_devices.push_back(cpu(int(chance() % uint64_t(devices))));
    EXPECT_EQ(disagreement(expected, run(automatic, options), 0), "")
        << "with Variables and inputs on " << devices << ", seed " << random.seed;
    const Graph anywhere = with_devices(plain, [&] { return chance() % 4 ? cpu(int(chance() % uint64_t(devices))) : kAutomatic; });
    EXPECT_EQ(disagreement(expected, run(anywhere, options), 0), "") << "anywhere on " << devices << ", seed " << random.seed;
  }
  EXPECT_TRUE(testing::Test::HasFailure() || several > count / 2) << several;
  EXPECT_GT(waits, 0);
  std::printf("%d random graphs, seeds from %s, with random delays: %lld programs on several devices, %lld waits removed one by one\n",
              count, std::to_string(first).c_str(), static_cast<long long>(several), static_cast<long long>(waits));
}

// A graph of products and elementwise work: each node takes 1 to 50 us, the way to another device 10 us.
Graph small_graph(std::mt19937_64& random, int nodes) {
  Graph g;
  g.place.device = kAutomatic;
  const TensorType type{DType::f32, {64, 64}};
  std::vector<Value> values{g.add_input(type)};
  std::set<int> unused;
  for (int n = 0; n < nodes; ++n) {
    const auto pick = [&] { return values[values.size() - 1 - random() % std::min<size_t>(values.size(), 5)]; };
    const Value a = pick(), b = pick();
    values.push_back(random() % 4 == 0 ? ops::add(g, a, b) : ops::matmul(g, a, b));
    unused.erase(a.node), unused.erase(b.node), unused.insert(values.back().node);
  }
  for (int node : unused) g.outputs.push_back({node, 0});
  return g;
}

TEST(Place, SmallGraphsAreNearTheOptimum) {
  const int count = random_graph_count(30, 1000);
  std::mt19937_64 random(random_graph_seed(4100));
  double sum = 0, worst = 0;
  for (int i = 0; i < count; ++i) {
    const int devices = i % 3 == 2 ? 3 : 2;
    const Graph g = small_graph(random, devices == 3 ? 4 + int(random() % 5) : 4 + int(random() % 9));
    const Options options = over(devices, kUsual);
    const Units each = compile::units_of(g, options, kUsual, false);
    std::vector<int> device, free;
    for (size_t u = 0; u < each.units.size(); ++u) {
      device.push_back(std::max(0, each.units[u].device));
      if (each.units[u].device < 0) free.push_back(int(u));
    }
    double optimum = -1;
    for (bool more = true; more;) {
      const double now = compile::schedule_units(each, kUsual, device).microseconds;
      if (optimum < 0 || now < optimum) optimum = now;
      more = false;
      for (size_t f = 0; f < free.size() && !more; ++f) {
        int& d = device[size_t(free[f])];
        more = ++d < devices;
        if (!more) d = 0;
      }
    }
    std::vector<exec::Candidate> candidates;
    const Units merged = compile::units_of(g, options, kUsual);
    // On the unmerged units, so that both are measured alike.
    const compile::Schedule chosen = compile::best_schedule(merged, kUsual, 0, candidates);
    std::vector<int> of_node(size_t(g.size()), 0), placed;
    for (size_t u = 0; u < merged.units.size(); ++u)
      for (int n : merged.units[u].nodes) of_node[size_t(n)] = chosen.device[u];
    for (const Units::Unit& unit : each.units) placed.push_back(unit.nodes.empty() ? 0 : of_node[size_t(unit.nodes[0])]);
    const double gap = compile::schedule_units(each, kUsual, placed).microseconds / optimum - 1;
    sum += gap, worst = std::max(worst, gap);
    EXPECT_LE(gap, 0.15) << "graph " << i << "\n" << ir::print(g) << text_of(candidates);
  }
  EXPECT_LE(sum / count, 0.03);
  std::printf("%d graphs of at most 12 nodes: %.2f %% above the optimum on average, at worst %.1f %%\n", count, 100 * sum / count,
              100 * worst);
}

// Units in layers, each after one or two of the layer before; copies take no time.
Units layered_units(std::mt19937_64& random, int devices, int layers, int width) {
  Units out;
  for (int d = 0; d < devices; ++d) out.devices.push_back(cpu(d)), out.threads.push_back(1);
  for (int layer = 0; layer < layers; ++layer)
    for (int i = 0; i < width; ++i) {
      Units::Unit unit;
      unit.time.assign(size_t(devices), 1 + double(random() % 190) / 10);
      unit.one_thread = unit.time;
      for (int k = 0; layer > 0 && k < 2; ++k) unit.after.push_back((layer - 1) * width + int(random() % uint64_t(width)));
      std::sort(unit.after.begin(), unit.after.end());
      unit.after.erase(std::unique(unit.after.begin(), unit.after.end()), unit.after.end());
      for (const int before : unit.after) unit.needs.push_back(before);  // value v is unit v's
      out.units.push_back(std::move(unit));
      out.values.push_back({.from = int(out.units.size()) - 1});
    }
  return out;
}

// Over the longer of the critical path and each device's share of the work, which no schedule is below.
double over_the_bound(const Units& units, std::vector<exec::Candidate>& candidates) {
  candidates.clear();
  std::vector<double> ends;
  double work = 0, path = 0;
  for (const Units::Unit& unit : units.units) {
    double start = 0;
    for (const int before : unit.after) start = std::max(start, ends[size_t(before)]);
    ends.push_back(start + unit.time[0]);
    work += unit.time[0], path = std::max(path, ends.back());
  }
  const double at_once = std::min<double>(double(units.devices.size()), cores().usable());
  return compile::best_schedule(units, kFreeCopies, 0, candidates).microseconds / std::max(path, work / at_once);
}

TEST(Place, LayeredGraphsWithoutCommunicationAreNearTheBoundOfTheirWork) {
  const int count = random_graph_count(20, 1000);
  std::mt19937_64 random(random_graph_seed(7700));
  double sum = 0, worst = 0, narrow = 0;
  for (int i = 0; i < count; ++i) {
    const int devices = 2 + i % 3, layers = 5 + int(random() % 20);
    std::vector<exec::Candidate> candidates;
    const double wide = over_the_bound(layered_units(random, devices, layers, devices * (4 + int(random() % 5))), candidates);
    sum += wide, worst = std::max(worst, wide);
    EXPECT_LE(wide, 1.10) << "graph " << i << "\n" << text_of(candidates);
    // Of any width: what Graham's list scheduling promises.
    const double any = over_the_bound(layered_units(random, devices, layers, 1 + int(random() % 6)), candidates);
    EXPECT_LE(any, 2 - 1.0 / devices) << "graph " << i << "\n" << text_of(candidates);
    narrow = std::max(narrow, any);
  }
  std::printf("%d layered graphs: %.3f of the bound on average, at worst %.3f; of any width at worst %.3f\n", count, sum / count, worst,
              narrow);
}

TEST(Place, NoPlanIsSlowerThanOneDeviceByTheModel) {
  const int count = random_graph_count(30, 1000);
  std::mt19937_64 random(random_graph_seed(5200));
  for (int i = 0; i < count; ++i) {
    const Graph g = small_graph(random, 5 + int(random() % 40));
    const auto program = compile::compile(g, over(2 + i % 3, kUsual));
    const double one = cost::simulate(*compile::compile(compile::on_one_device(g, {}), {}), kUsual).microseconds;
    EXPECT_LE(cost::simulate(*program, kUsual).microseconds, one * 1.0001) << text_of(program->candidates);
    EXPECT_EQ(exec::what_is_unordered(*program), "");
  }
}

TEST(Place, PlansAboveTheMemoryAreErrorsBeforeAnyLaunch) {
  const int count = random_graph_count(40, 1000);
  const uint64_t first = random_graph_seed(64000);
  int refused = 0, smaller = 0;
  for (int i = 0; i < count; ++i) {
    const RandomGraph random = random_graph(first + uint64_t(i), {.least_nodes = 20, .most_nodes = 80});
    Options options;
    options.device = parse_device(i % 2 ? "null:h100" : "cpu:0");
    const auto need_of = [&](const exec::Program& program) {
      int64_t need = program.arena_bytes[0];
      for (const exec::Storage& s : program.storages)
        if (s.kind == exec::StorageKind::output || (s.kind == exec::StorageKind::constant && i % 2)) need += s.bytes;
      return need;
    };
    const int64_t usual = need_of(*compile::compile(random.graph, options));
    if (usual < 2) continue;
    options.device_memory = 1;
    int64_t need = 0;
    try {
      compile::compile(random.graph, options);
    } catch (const Error& e) {
      need = std::stoll(e.parts.what.substr(e.parts.what.find("needs ") + 6));
    }
    EXPECT_LE(need, usual) << "temporaries on a GPU lie apart only where there is room";
    for (const int64_t most : {usual, (need + usual) / 2, need}) {
      options.device_memory = most;
      EXPECT_LE(need_of(*compile::compile(random.graph, options)), most) << "seed " << random.seed;
    }
    smaller += need < usual;
    options.device_memory = need - 1;
    take_null_record();
    try {
      compile::compile(random.graph, options);
      ADD_FAILURE() << "seed " << random.seed << " needs " << need << " bytes";
    } catch (const Error& e) {
      ++refused;
      EXPECT_EQ(e.kind, ErrorKind::out_of_memory);
      EXPECT_NE(e.parts.what.find(cat("needs ", need, " bytes")), std::string::npos) << e.what();
      EXPECT_NE(e.parts.why.find("the largest at its peak: "), std::string::npos) << e.what();
    }
    for (const std::string& line : take_null_record()) EXPECT_EQ(line.find("launch"), std::string::npos) << line;
  }
  EXPECT_GT(refused, count / 2);
  EXPECT_GT(smaller, 0);
}

TEST(Place, AScopeOnAutoPlacesWhatIsTraced) {
  auto f = function([](lamina::Tensor x) {
    lamina::Tensor a = x, b = x;
    for (int i = 0; i < 30; ++i) a = tanh(matmul(a, x)), b = sin(matmul(b, x));
    return sum(a * b);
  });
  const lamina::Tensor x = full({64, 64}, 0.01);
  const float expected = f(x).to_vector<float>()[0];
  {
    DeviceScope place("auto");
    EXPECT_TRUE(in_automatic_scope());
    EXPECT_EQ(default_device(), cpu(0));
    {
      DeviceScope inner("cpu:1");
      EXPECT_FALSE(in_automatic_scope());
    }
    EXPECT_TRUE(in_automatic_scope());
    const lamina::Tensor y = f(x);
    EXPECT_EQ(y.to_vector<float>()[0], expected);
    EXPECT_EQ(y.device(), cpu(0));
  }
  EXPECT_FALSE(in_automatic_scope());
  EXPECT_EQ(f.trace_count(), 2) << "placed by cost is another graph";
  EXPECT_EQ(f(x).to_vector<float>()[0], expected);
  EXPECT_EQ(f.trace_count(), 2);
}

// The host waits for nothing: events order each copy after what made its source, and later work there after the copy.
TEST(Place, ACallOnSeveralGpusIsAsynchronous) {
  const Device first = parse_device("null:h100"), second = parse_device("null:h100:1");
  Graph g;
  const Value x = g.add_input({DType::f32, {64, 64}});
  g.place.device = second;
  const Value y = ops::exp(g, x);
  g.place.device = first;
  g.outputs = {ops::sin(g, y)};
  exec::Executor executor(compile::compile(g, {.device = first}));
  const std::vector<BufferRef> in{std::make_shared<Buffer>(first, 64 * 64 * 4)};
  (void)executor.run(in, {});
  take_null_record();
  (void)executor.run(in, {});
  const std::vector<std::string> lines = take_null_record();
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  EXPECT_EQ(all.find("synchronize"), std::string::npos) << all;
  const auto at = [&](const std::string& word, size_t from = 0) {
    for (size_t i = from; i < lines.size(); ++i)
      if (lines[i].find(word) != std::string::npos) return i;
    return lines.size();
  };
  const auto rest = [](const std::string& line, const char* after) { return line.substr(line.find(after) + std::string(after).size()); };
  const size_t copy = at("copy 16384 bytes within null:h100:1");
  ASSERT_LT(copy, lines.size()) << all;
  const size_t recorded = at("record event");  // on the input's device
  ASSERT_LT(recorded, copy) << all;
  EXPECT_EQ(rest(lines[recorded], " on "), "null:h100") << all;
  const std::string event = lines[recorded].substr(7, lines[recorded].find(" on ") - 7);
  EXPECT_LT(at("wait for " + event + " on null:h100:1"), copy) << all;
  size_t last_wait = 0;
  for (size_t i = copy; i < lines.size(); ++i)
    if (lines[i].find("wait for event") == 0 && rest(lines[i], " on ") == "null:h100") last_wait = i;
  EXPECT_GT(last_wait, at("launch sin")) << "the input's memory may be reused only after the copy\n" << all;
}

// Printed; ./dev bench measures it.
TEST(Place, IsFast) {
  for (const int layers : {200, 2000}) {
    const Graph g = towers(5, layers, 16);
    double best = 0;
    for (int turn = 0; turn < 3; ++turn) {
      const auto start = std::chrono::steady_clock::now();
      ASSERT_TRUE(compile::place(g, over(4, kUsual)));
      const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      best = turn ? std::min(best, ms) : ms;
    }
    std::printf("placement: %d nodes in %.2f ms, %.2f ms per 1,000\n", g.size(), best, best * 1000 / g.size());
  }
}

}  // namespace
}  // namespace lamina::tests
