// Tools for random graphs: run, compare, count, shrink.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <set>

#include "graph/ops/ops.h"
#include "runtime/core/error.h"
#include "tests/graph/random_graph.h"

namespace lamina::tests {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;

// Moves numbers by a few ulp.
Tensor perturbed(const Tensor& t, std::mt19937_64& random) {
  if (!is_floating(t.type.dtype)) return t;
  const double ulp = t.type.dtype == DType::f64 ? 4e-16 : 4e-7;
  std::uniform_real_distribution<double> uniform(-ulp, ulp);
  Tensor out = t.clone();
  for (int64_t i = 0; i < t.size(); ++i) out.set(i, t.at(i) * (1 + uniform(random)));
  return out;
}

struct Difference {
  double largest = 0;  // of the expected elements
  double most = 0;     // distance of two elements
  int64_t at = -1;
};

Difference difference(const Tensor& expected, const Tensor& actual) {
  Difference d;
  for (int64_t i = 0; i < expected.size(); ++i) {
    const double e = expected.at(i), a = actual.at(i);
    if (std::isfinite(e)) d.largest = std::max(d.largest, std::abs(e));
    double distance = std::abs(e - a);
    if ((std::isnan(e) && std::isnan(a)) || e == a)
      distance = 0;
    else if (!std::isfinite(e) || !std::isfinite(a))
      distance = INFINITY;
    if (distance > d.most || d.at < 0) d.most = std::max(d.most, distance), d.at = i;
  }
  return d;
}

// Removes everything that no output or effect needs, including unused inputs.
RandomGraph without_unused(const RandomGraph& from) {
  std::vector<char> live(size_t(from.graph.size()));
  for (Value v : from.graph.outputs) live[size_t(v.node)] = true;
  for (int i = from.graph.size() - 1; i >= 0; --i) {
    const Node& node = from.graph[i];
    if (node.op->effect == ir::Effect::write || node.op->effect == ir::Effect::host || node.op->effect == ir::Effect::ranks)
      live[size_t(i)] = true;
    if (live[size_t(i)])
      for (Value v : node.inputs) live[size_t(v.node)] = true;
  }
  RandomGraph out;
  out.seed = from.seed;
  out.resources = from.resources;
  out.graph.resources = from.graph.resources;
  std::vector<int> moved(size_t(from.graph.size()), -1);
  auto now = [&](Value v) { return Value{moved[size_t(v.node)], v.result}; };
  for (int i = 0; i < from.graph.size(); ++i) {
    const Node& node = from.graph[i];
    if (!live[size_t(i)]) continue;
    if (node.op == &ops::def::input) {
      moved[size_t(i)] = out.graph.add_input(node.types[0]).node;
      out.inputs.push_back(from.inputs[size_t(ir::attrs_of<ir::InputAttrs>(*node.attrs).index)]);
      continue;
    }
    std::vector<Value> inputs;
    for (Value v : node.inputs) inputs.push_back(now(v));
    moved[size_t(i)] = out.graph.copy(node, inputs).node;
  }
  for (Value v : from.graph.outputs) out.graph.outputs.push_back(now(v));
  return out;
}

}  // namespace

RandomGraph with_inputs_instead(const RandomGraph& from, const std::vector<int>& nodes) {
  RandomGraph out = from;
  out.graph = Graph();
  out.graph.resources = from.graph.resources;
  out.inputs.clear();
  out.sources.clear();
  out.gradients.clear();
  std::vector<std::vector<Value>> now(size_t(from.graph.size()));
  auto moved = [&](Value v) { return now[size_t(v.node)][size_t(v.result)]; };
  auto is_cut = [&](int node) { return std::find(nodes.begin(), nodes.end(), node) != nodes.end(); };
  for (int i = 0; i < from.graph.size(); ++i) {
    const Node& node = from.graph[i];
    if (node.op != &ops::def::input || is_cut(i)) continue;
    now[size_t(i)] = {out.graph.add_input(node.types[0])};
    out.inputs.push_back(from.inputs[size_t(ir::attrs_of<ir::InputAttrs>(*node.attrs).index)]);
  }
  Graph probe = from.graph;
  probe.outputs.clear();
  for (int i : nodes)
    for (size_t r = 0; r < from.graph[i].types.size(); ++r) probe.outputs.push_back({i, int(r)});
  Resources resources;
  for (const auto& [number, t] : from.resources) resources[number] = t.clone();
  const std::vector<Tensor> values = evaluate(probe, from.inputs, &resources);
  for (size_t v = 0; v < values.size(); ++v) {
    now[size_t(probe.outputs[v].node)].push_back(out.graph.add_input(values[v].type));
    out.inputs.push_back(values[v].clone());
  }
  for (int i = 0; i < from.graph.size(); ++i) {
    const Node& node = from.graph[i];
    if (node.op == &ops::def::input || is_cut(i)) continue;
    std::vector<Value> inputs;
    for (Value v : node.inputs) inputs.push_back(moved(v));
    const int copy = out.graph.copy(node, inputs).node;
    for (size_t r = 0; r < node.types.size(); ++r) now[size_t(i)].push_back({copy, int(r)});
  }
  for (Value v : from.graph.outputs) out.graph.outputs.push_back(moved(v));
  if (from.target.valid()) out.target = moved(from.target);
  return out;
}

Coverage no_coverage() {
  Coverage coverage;
  for (const ir::OpDef* op : ir::all_ops()) coverage[op->name] = 0;
  return coverage;
}

void count_ops(const Graph& g, Coverage& coverage) {
  std::set<std::string> names;
  for (const Node& node : g.nodes()) names.insert(node.op->name);
  for (const std::string& name : names) ++coverage[name];
}

std::string coverage_text(const Coverage& coverage) {
  std::vector<std::pair<int, std::string>> rarest;
  for (const auto& [name, count] : coverage) rarest.emplace_back(count, name);
  std::sort(rarest.begin(), rarest.end());
  std::string text = "graphs with each op:";
  for (const auto& [count, name] : rarest) text += cat(' ', name, ' ', count);
  return text;
}

int random_graph_count(int quick_count, int long_count) {
  if (const char* count = std::getenv("LAMINA_TEST_COUNT")) return std::atoi(count);
  const char* all = std::getenv("LAMINA_TEST_LONG");
  return all && std::string(all) == "1" ? long_count : quick_count;
}

uint64_t random_graph_seed(uint64_t usual) {
  const char* first = std::getenv("LAMINA_TEST_SEED");
  return first ? std::strtoull(first, nullptr, 10) : usual;
}

RandomGraph shrink(RandomGraph failing, const std::function<bool(const RandomGraph&)>& fails) {
  auto try_smaller = [&](const std::function<RandomGraph()>& make) {
    try {
      RandomGraph smaller = make();
      if (!fails(smaller)) return false;
      failing = std::move(smaller);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  failing.sources.clear();
  failing.gradients.clear();
  try_smaller([&] { return without_unused(failing); });
  for (size_t i = failing.graph.outputs.size(); i-- > 0;)
    try_smaller([&] {
      RandomGraph smaller = failing;
      smaller.graph.outputs.erase(smaller.graph.outputs.begin() + int64_t(i));
      return without_unused(smaller);
    });
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (int i = failing.graph.size() - 1; i >= 0; --i)
      if (i < failing.graph.size() && failing.graph[i].op != &ops::def::input)
        smaller |= try_smaller([&] { return without_unused(with_inputs_instead(failing, {i})); });
  }
  return failing;
}

std::string describe(const RandomGraph& g) {
  std::string text = cat("random graph of seed ", g.seed, "\n", ir::print(g.graph));
  auto add = [&](const std::string& name, const Tensor& t) {
    text += cat(name, ": ", t.type, " =");
    for (int64_t i = 0; i < std::min<int64_t>(t.size(), 40); ++i) text += cat(' ', t.at(i));
    text += t.size() > 40 ? " ...\n" : "\n";
  };
  for (size_t i = 0; i < g.inputs.size(); ++i) add(cat("input ", i), g.inputs[i]);
  for (const auto& [number, t] : g.resources) add(cat("resource ", number), t);
  return text;
}

std::string disagreement(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual, double tolerance,
                         const std::vector<Tensor>* loose) {
  if (expected.size() != actual.size()) return cat(actual.size(), " results instead of ", expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!(expected[i].type == actual[i].type)) return cat("result ", i, " is ", actual[i].type, " instead of ", expected[i].type);
    if (expected[i].same_bits(actual[i])) continue;
    const Difference d = difference(expected[i], actual[i]);
    double allowed = is_floating(expected[i].type.dtype) ? tolerance * d.largest : 0;
    if (loose && tolerance > 0) allowed = std::max(allowed, 10 * difference(expected[i], (*loose)[i]).most);
    // With no tolerance bits are compared, but all NaNs are equal.
    bool fine = d.most <= allowed;
    if (tolerance == 0)
      for (int64_t e = 0; e < expected[i].size() && fine; ++e) {
        const double x = expected[i].at(e), y = actual[i].at(e);
        fine = (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y));
      }
    if (!fine)
      return cat("result ", i, " (", expected[i].type, ") element ", d.at, " is ", actual[i].at(d.at), " instead of ", expected[i].at(d.at),
                 "; allowed: ", allowed, " apart");
  }
  return "";
}

std::vector<Tensor> run_all(const RandomGraph& g, const Run& run) {
  Resources resources;
  for (const auto& [number, t] : g.resources) resources[number] = t.clone();
  std::vector<Tensor> results = run ? run(g.graph, g.inputs, &resources) : evaluate(g.graph, g.inputs, &resources);
  for (const auto& [number, t] : resources) results.push_back(t);
  return results;
}

std::vector<Tensor> run_perturbed(const RandomGraph& g, uint64_t turn) {
  std::mt19937_64 random(g.seed + turn * 0x9e3779b97f4a7c15ull);
  RandomGraph moved = g;
  for (Tensor& t : moved.inputs) t = perturbed(t, random);
  for (auto& [number, t] : moved.resources) t = perturbed(t, random);
  return run_all(moved);
}

std::vector<Tensor> run_in_double(const RandomGraph& g) {
  RandomGraph wide = g;
  wide.graph = in_f64(g.graph);
  for (Tensor& t : wide.inputs) t = in_f64(t);
  for (auto& [number, t] : wide.resources) t = in_f64(t);
  std::vector<Tensor> results = run_all(wide);
  const auto as = [](Tensor& t, TensorType type) {
    if (!(t.type == type)) t = Tensor::from(std::move(type), t.values());
  };
  for (size_t i = 0; i < g.graph.outputs.size(); ++i) as(results[i], g.graph.type(g.graph.outputs[i]));
  size_t next = g.graph.outputs.size();
  for (const auto& [number, t] : g.resources) as(results[next++], t.type);
  return results;
}

std::vector<Tensor> farthest(const std::vector<Tensor>& expected, const std::vector<std::vector<Tensor>>& runs) {
  std::vector<Tensor> out = runs.at(0);
  for (const std::vector<Tensor>& run : runs)
    for (size_t i = 0; i < out.size(); ++i)
      if (difference(expected[i], run[i]).most > difference(expected[i], out[i]).most) out[i] = run[i];
  return out;
}

std::string disagreement_in_double(const RandomGraph& g, const std::vector<Tensor>& found, double tolerance) {
  const std::vector<Tensor> expected = run_in_double(g);
  std::vector<std::vector<Tensor>> plain{run_all(g)};
  for (uint64_t turn = 0; turn < 4; ++turn) plain.push_back(run_perturbed(g, turn));
  const std::vector<Tensor> loose = farthest(expected, plain);
  return disagreement(expected, found, tolerance, &loose);
}

}  // namespace lamina::tests
