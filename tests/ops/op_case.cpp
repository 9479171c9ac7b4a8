#include "tests/ops/op_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "graph/autodiff/gradient.h"
#include "graph/autodiff/region_transforms.h"
#include "graph/ops/ops.h"
#include "runtime/core/config.h"
#include "runtime/core/error.h"

namespace lamina::tests {
namespace {

using ir::Value;

CasesOfOps& cases() {
  static CasesOfOps map;
  return map;
}

// --- cases as graphs ---

std::vector<Tensor> tensors(const std::vector<CaseInput>& in) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < in.size(); ++i) out.push_back(random_tensor(in[i], 1000 + i));
  return out;
}

struct OneNode {
  ir::Graph graph;
  std::vector<Value> results;
  const ir::Node& node() const { return graph[results[0]]; }
};
OneNode one_node(const ir::OpDef& op, const OpCase& c, const std::vector<CaseInput>& in) {
  OneNode out;
  for (const CaseInput& i : in) out.graph.add_input(i.type);
  Value first = out.graph.add(op, c.attrs, out.graph.inputs, c.regions);
  for (size_t r = 0; r < out.graph[first].types.size(); ++r) out.results.push_back({first.node, int(r)});
  out.graph.outputs = out.results;
  return out;
}

// --- running a kernel with guards ---

// The views' elements with gaps, in memory filled with other numbers.
struct Spread {
  std::vector<Tensor> memory;
  std::vector<View> views;
  explicit Spread(const std::vector<Tensor>& tensors) {
    for (const Tensor& t : tensors) {
      View view = t.view();
      if (t.size() > 0 && view.rank > 0) {  // reversed axes, and a gap after every element
        Shape shape{2};
        for (int a = 0; a < view.rank; ++a) shape.insert(shape.begin(), view.shape[a]);
        memory.emplace_back(TensorType{t.type.dtype, shape});
        std::memset(memory.back().raw(), 1, memory.back().byte_count());
        View contiguous = view;
        view.data = memory.back().raw();
        int64_t stride = 2;
        for (int a = 0; a < view.rank; ++a) view.strides[a] = stride, stride *= view.shape[a];
        copy(contiguous, view);
      }
      views.push_back(view);
    }
  }
  static void copy(const View& from, const View& to) {
    const size_t bytes = size_of(from.dtype);
    int64_t index[kMaxRank] = {};
    for (int64_t left = from.size(); left > 0; --left) {
      int64_t a = 0, b = 0;
      for (int i = 0; i < from.rank; ++i) a += index[i] * from.strides[i], b += index[i] * to.strides[i];
      std::memcpy(to.as<char>() + b * int64_t(bytes), from.as<char>() + a * int64_t(bytes), bytes);
      for (int i = from.rank - 1; i >= 0 && ++index[i] == from.shape[i]; --i) index[i] = 0;
    }
  }
};

// The kernel's results in memory prefilled with `byte`, followed by a guard. Empty when the op has no kernel for these types.
std::optional<std::vector<Tensor>> run_watched(const ir::Node& node, const std::vector<View>& in, std::byte byte) {
  std::vector<TensorType> types;
  for (const View& v : in) {
    TensorType t{v.dtype, {}};
    for (int a = 0; a < v.rank; ++a) t.shape.push_back(v.shape[a]);
    types.push_back(t);
  }
  if (!node.op->cpu) return std::nullopt;
  Kernel kernel = node.op->cpu({*node.attrs, types, node.types, node.regions});
  if (!kernel) return std::nullopt;
  constexpr size_t guard = 64;
  std::vector<std::vector<std::byte>> memory;
  std::vector<View> out;
  for (const TensorType& t : node.types) {
    memory.emplace_back(size_t(byte_size(t)) + 2 * guard, byte);
    out.push_back(contiguous_view(memory.back().data() + guard, t));
  }
  std::vector<const View*> ins, outs;
  for (const View& v : in) ins.push_back(&v);
  for (const View& v : out) outs.push_back(&v);
  Stream stream;
  kernel.run({stream, kernel.args.get(), ins, outs});
  std::vector<Tensor> results;
  for (size_t r = 0; r < memory.size(); ++r) {
    Tensor t(node.types[r]);
    std::memcpy(t.raw(), memory[r].data() + guard, t.byte_count());
    for (size_t i = 0; i < guard; ++i)
      EXPECT_TRUE(memory[r][i] == byte && memory[r][memory[r].size() - 1 - i] == byte)
          << "result " << r << ": memory beside it was written";
    results.push_back(std::move(t));
  }
  return results;
}

std::vector<View> views(const std::vector<Tensor>& tensors) {
  std::vector<View> out;
  for (const Tensor& t : tensors) out.push_back(t.view());
  return out;
}

// --- the checks ---

void check_kernel(const ir::OpDef& op, const OpCase& c) {
  for (DType dtype : c.dtypes) {
    SCOPED_TRACE(cat(c.name, ", ", dtype));
    const std::vector<CaseInput> in = inputs_as(c, dtype);
    const OneNode one = one_node(op, c, in);
    const std::vector<Tensor> x = tensors(in);
    std::vector<Tensor> got;
    if (auto zeros = run_watched(one.node(), views(x), std::byte{0})) {
      auto ones = run_watched(one.node(), views(x), std::byte{0xff});
      got = *zeros;
      for (size_t r = 0; r < got.size(); ++r)
        EXPECT_TRUE(got[r].same_bits((*ones)[r])) << "result " << r << " is not written completely, or depends on what was there";
    } else {
      got = run_node(one.node(), views(x));
    }
    const std::vector<std::vector<double>> want = expected_results(c, one.node(), x);
    ASSERT_EQ(got.size(), want.size());
    for (size_t r = 0; r < got.size(); ++r) expect_close(got[r], want[r], c.ulps, c.of_largest, cat("result ", r));
  }
}

void check_strided(const ir::OpDef& op, const OpCase& c) {
  for (DType dtype : c.dtypes) {
    SCOPED_TRACE(cat(c.name, ", ", dtype));
    const std::vector<CaseInput> in = inputs_as(c, dtype);
    const OneNode one = one_node(op, c, in);
    const std::vector<Tensor> x = tensors(in), want = run_node(one.node(), views(x)), got = run_node(one.node(), Spread(x).views);
    for (size_t r = 0; r < got.size(); ++r) EXPECT_TRUE(got[r].same_bits(want[r])) << "result " << r;
  }
}

class Restore {  // restores the settings that a check changes
 public:
  ~Restore() { config::set_threads(threads_), config::set_cpu_isa(isa_); }

 private:
  int threads_ = config::threads();
  std::string isa_ = config::cpu_isa();
};

void check_machine(const ir::OpDef& op, const OpCase& c) {
  Restore restore;
  for (DType dtype : c.dtypes) {
    const std::vector<CaseInput> in = inputs_as(c, dtype);
    const OneNode one = one_node(op, c, in);
    const std::vector<Tensor> x = tensors(in);
    std::vector<Tensor> first;
    for (const std::string& isa : available_isas()) {
      if (c.isas_differ) {
        std::vector<std::vector<double>> scalar;
        for (const Tensor& t : first) scalar.push_back(t.values());
        first.clear();
        config::set_cpu_isa(isa);
        const std::vector<Tensor> got = run_node(one.node(), views(x));
        for (size_t r = 0; r < scalar.size(); ++r)
          expect_close(got[r], scalar[r], 2 * c.ulps, c.of_largest, cat("result ", r, " on ", isa));
      }
      for (int threads : {1, 4}) {
        SCOPED_TRACE(cat(c.name, ", ", dtype, ", ", isa, ", threads: ", threads));
        config::set_cpu_isa(isa);
        config::set_threads(threads);
        const std::vector<Tensor> got = run_node(one.node(), views(x));
        if (first.empty()) first = got;
        for (size_t r = 0; r < got.size(); ++r) EXPECT_TRUE(got[r].same_bits(first[r])) << "result " << r;
      }
    }
  }
}

// As a section with one step.
void check_section(const ir::OpDef& op, const OpCase& c) {
  for (DType dtype : c.dtypes) {
    SCOPED_TRACE(cat(c.name, ", ", dtype));
    const std::vector<CaseInput> in = inputs_as(c, dtype);
    const OneNode one = one_node(op, c, in);
    const std::vector<Tensor> x = tensors(in);
    std::vector<TensorType> types;
    for (const CaseInput& i : in) types.push_back(i.type);
    ir::SectionStep step;
    if (!op.section({*one.node().attrs, types, one.node().types, one.node().regions}, step)) continue;
    section::Table table;
    step.step.first_in = 0, step.step.first_out = step.step.ins;
    table.steps = {step.step};
    table.operands = step.operands;
    table.codes = step.codes;
    std::vector<Tensor> got;
    for (const TensorType& t : one.node().types) got.emplace_back(t);
    const std::vector<View> ins = views(x);
    std::vector<View> outs = views(got);
    for (const auto& [view, offset] : step.parts) {
      outs.push_back(view);
      outs.back().data = outs[0].as<char>() + offset * int64_t(size_of(view.dtype));
    }
    std::vector<const View*> in_pointers, out_pointers;
    for (const View& v : ins) in_pointers.push_back(&v);
    for (const View& v : outs) out_pointers.push_back(&v);
    Stream stream;
    kernels::cpu::run_section({stream, &table, in_pointers, out_pointers});
    const std::vector<Tensor> want = run_node(one.node(), ins);
    for (size_t r = 0; r < got.size(); ++r) EXPECT_TRUE(got[r].same_bits(want[r])) << "result " << r;
  }
}

bool is_smooth(const TensorType& t) { return t.dtype == DType::f32; }

// A graph whose outputs are the gradients of its first inputs, weighted by further inputs, and the same for differences.
struct Differentiable {
  ir::Graph graph;              // inputs: the node's, then one cotangent per smooth output
  std::vector<Value> outputs;   // the differentiated outputs
  std::vector<size_t> sources;  // inputs to differentiate with respect to

  // sum of cotangent * (above - below), where both are evaluations of `outputs`
  static double weighted_difference(const std::vector<Tensor>& above, const std::vector<Tensor>& below,
                                    const std::vector<Tensor>& weights) {
    double sum = 0;
    for (size_t o = 0; o < above.size(); ++o)
      for (int64_t i = 0; i < above[o].size(); ++i) sum += (above[o].at(i) - below[o].at(i)) * weights[o].at(i);
    return sum;
  }
};

constexpr int64_t kMostDifferences = 100;  // of a large input, that are perturbed

// Compares gradients (one per source, or invalid) of d.outputs with central differences in f64.
void compare_with_differences(const Differentiable& d, const std::vector<Value>& gradients, const std::vector<Tensor>& inputs,
                              double tolerance) {
  ir::Graph forward = d.graph, backward = d.graph;
  forward.outputs = d.outputs;
  backward.outputs.clear();
  for (Value v : gradients)
    if (v.valid()) backward.outputs.push_back(v);
  for (size_t s = 0; s < gradients.size(); ++s)
    if (gradients[s].valid()) {
      EXPECT_EQ(d.graph.type(gradients[s]), d.graph.type(d.graph.inputs[d.sources[s]])) << "type of the gradient of input " << d.sources[s];
    }
  ir::verify(backward);
  forward = in_f64(forward), backward = in_f64(backward);
  std::vector<Tensor> x;
  for (const Tensor& t : inputs) x.push_back(in_f64(t));
  const size_t first_weight = inputs.size() - d.outputs.size();
  const std::vector<Tensor> weights(x.begin() + int64_t(first_weight), x.end());
  const std::vector<Tensor> got = evaluate(backward, x);
  size_t next = 0;
  for (size_t s = 0; s < gradients.size(); ++s) {
    const size_t input = d.sources[s];
    std::vector<double> slopes;
    double largest = 0;
    const int64_t stride = std::max<int64_t>(1, x[input].size() / kMostDifferences) | 1;
    for (int64_t i = 0; i < x[input].size(); i += stride) {
      const double at = x[input].at(i), h = 1e-5 * std::max(1.0, std::abs(at));
      std::vector<Tensor> more = x, less = x;
      more[input] = x[input].clone(), less[input] = x[input].clone();
      more[input].set(i, at + h), less[input].set(i, at - h);
      slopes.push_back(Differentiable::weighted_difference(evaluate(forward, more), evaluate(forward, less), weights) / (2 * h));
      largest = std::max(largest, std::abs(slopes.back()));
    }
    const Tensor* gradient = gradients[s].valid() ? &got[next++] : nullptr;
    for (size_t i = 0; i < slopes.size(); ++i) {
      const double g = gradient ? gradient->at(int64_t(i) * stride) : 0;
      // The last term: rounding of the difference divided by h.
      EXPECT_NEAR(g, slopes[i], tolerance * std::max(std::abs(slopes[i]), 1e-2 * largest) + 1e-8)
          << "input " << input << ", element " << int64_t(i) * stride;
      if (testing::Test::HasFailure()) return;
    }
  }
}

Differentiable differentiable(const ir::OpDef& op, const OpCase& c, std::vector<Tensor>& inputs, std::vector<Value>& cotangents) {
  const std::vector<CaseInput> in = inputs_as(c, c.dtypes[0]);
  OneNode one = one_node(op, c, in);
  Differentiable d{std::move(one.graph), {}, {}};
  inputs = tensors(in);
  for (size_t i = 0; i < in.size(); ++i)
    if (is_smooth(in[i].type)) d.sources.push_back(i);
  for (size_t r = 0; r < one.results.size(); ++r) {
    cotangents.push_back({});
    if (!is_smooth(d.graph.type(one.results[r]))) continue;
    d.outputs.push_back(one.results[r]);
    const TensorType type = d.graph.type(one.results[r]);
    cotangents.back() = d.graph.add_input(type);
    inputs.push_back(random_tensor({type, 0.5, 1.5}, 2000 + r));
  }
  return d;
}

void check_gradient(const ir::OpDef& op, const OpCase& c) {
  SCOPED_TRACE(c.name);
  if (c.no_differences) {
    std::cout << "not compared with differences: " << op.name << ", " << c.name << ": " << c.no_differences << "\n";
    return;
  }
  std::vector<Tensor> inputs;
  std::vector<Value> cotangents;
  Differentiable d = differentiable(op, c, inputs, cotangents);
  if (d.sources.empty() || d.outputs.empty()) return;
  const int node = int(c.in.size());
  const ir::Node copy = d.graph[node];
  std::vector<Value> results;
  for (size_t r = 0; r < copy.types.size(); ++r) results.push_back({node, int(r)});
  const std::vector<Value> all =
      op.vjp({d.graph, *copy.attrs, copy.inputs, results, cotangents, copy.regions, &autodiff::region_transforms()});
  ASSERT_EQ(all.size(), c.in.size()) << "vjp gives one value per input";
  std::vector<Value> gradients;
  for (size_t s : d.sources) gradients.push_back(all[s]);
  compare_with_differences(d, gradients, inputs, 1e-6);
}

void check_second_gradient(const ir::OpDef& op, const OpCase& c) {
  SCOPED_TRACE(c.name);
  if (c.no_differences) return;  // reported by check_gradient
  std::vector<Tensor> inputs;
  std::vector<Value> cotangents;
  Differentiable d = differentiable(op, c, inputs, cotangents);
  if (d.sources.empty() || d.outputs.empty()) return;
  std::vector<Value> weights;
  for (Value v : cotangents)
    if (v.valid()) weights.push_back(v);
  std::vector<Value> by;
  for (size_t s : d.sources) by.push_back(d.graph.inputs[s]);
  const std::vector<Value> first =
      autodiff::gradient(d.graph, {.targets = d.outputs, .cotangents = weights, .sources = by, .first_node = 0, .blocks = {}});
  // Now the gradients are differentiated, with respect to inputs and cotangents.
  Differentiable second{std::move(d.graph), {}, d.sources};
  std::vector<Value> second_weights;
  for (Value v : first) {
    if (!v.valid()) continue;
    second.outputs.push_back(v);
    second_weights.push_back(second.graph.add_input(second.graph.type(v)));
    inputs.push_back(random_tensor({second.graph.type(v), 0.5, 1.5}, 3000 + second.outputs.size()));
  }
  if (second.outputs.empty()) return;
  for (size_t i = c.in.size(); i < c.in.size() + weights.size(); ++i) second.sources.push_back(i);
  std::vector<Value> sources;
  for (size_t s : second.sources) sources.push_back(second.graph.inputs[s]);
  const std::vector<Value> gradients = autodiff::gradient(
      second.graph, {.targets = second.outputs, .cotangents = second_weights, .sources = sources, .first_node = 0, .blocks = {}});
  compare_with_differences(second, gradients, inputs, 1e-5);
}

// Every subset of inputs with a model axis, against a loop over the models.
void check_batching(const ir::OpDef& op, const OpCase& c) {
  if (c.no_loop) {
    std::cout << "not compared with a loop: " << op.name << ", " << c.name << ": " << c.no_loop << "\n";
    return;
  }
  constexpr int64_t models = 3;
  const std::vector<CaseInput> types = inputs_as(c, c.dtypes[0]);
  const size_t n = types.size();
  for (size_t choice = 1; choice < (size_t(1) << std::min<size_t>(n, 10)); ++choice) {
    if (n > 3 && choice != (size_t(1) << n) - 1 && (choice & (choice - 1)) != 0) continue;  // for many inputs: each alone, and all
    SCOPED_TRACE(cat(c.name, ", choice ", choice));
    ir::Graph g;
    std::vector<ir::Batched> in;
    std::vector<Tensor> stacked;
    std::vector<std::vector<Tensor>> single(models, std::vector<Tensor>(n));
    for (size_t i = 0; i < n; ++i) {
      const bool batched = choice >> i & 1;
      CaseInput input = types[i];
      if (batched) {
        input.type.shape.insert(input.type.shape.begin(), Dim(models));
        if (!input.values.empty()) {  // rotated by one in each model
          std::vector<double> all;
          const int64_t size = size_of(types[i].type.shape).number();
          for (int64_t m = 0; m < models; ++m)
            for (int64_t k = 0; k < size; ++k) all.push_back(input.values[size_t(k + m) % input.values.size()]);
          if (!all.empty()) input.values = all;
        }
      }
      stacked.push_back(random_tensor(input, 4000 + i));
      in.push_back({g.add_input(input.type), batched});
      for (int64_t m = 0; m < models; ++m) {
        Tensor one(types[i].type);
        std::memcpy(one.raw(), static_cast<const char*>(stacked.back().raw()) + (batched ? size_t(m) * one.byte_count() : 0),
                    one.byte_count());
        single[size_t(m)][i] = std::move(one);
      }
    }
    const OneNode one = one_node(op, c, types);
    const std::vector<ir::Batched> results =
        op.batch({g, *one.node().attrs, in, Dim(models), one.node().regions, &autodiff::region_transforms()});
    ASSERT_EQ(results.size(), one.results.size());
    for (const ir::Batched& r : results) g.outputs.push_back(r.value);
    ir::verify(g);
    const std::vector<Tensor> got = evaluate(g, stacked);
    for (int64_t m = 0; m < models; ++m) {
      const std::vector<Tensor> want = evaluate(one.graph, single[size_t(m)]);
      for (size_t r = 0; r < want.size(); ++r) {
        Shape shape = want[r].type.shape;
        if (results[r].batched) shape.insert(shape.begin(), Dim(models));
        ASSERT_EQ(got[r].type, (TensorType{want[r].type.dtype, shape})) << "result " << r;
        Tensor part(want[r].type);
        std::memcpy(part.raw(), static_cast<const char*>(got[r].raw()) + (results[r].batched ? size_t(m) * part.byte_count() : 0),
                    part.byte_count());
        expect_close(part, want[r].values(), 2 * c.ulps, c.of_largest, cat("result ", r, " of model ", m));
      }
    }
  }
}

// A branch that can fail runs with values of a model that is on it (OpDef::can_fail): whatever values a kernel gets, only these may throw.
void check_failures(const ir::OpDef& op, const OpCase& c) {
  if (op.can_fail) return;
  const double none = std::numeric_limits<double>::quiet_NaN();
  for (DType dtype : c.dtypes)
    for (const auto& [number, whole] : {std::pair(none, -7.0), std::pair(0.0, 0.0), std::pair(-1e30, 1e9)}) {
      SCOPED_TRACE(cat(c.name, ", ", dtype, " of ", number, ", whole numbers ", whole));
      const OneNode one = one_node(op, c, inputs_as(c, dtype));
      std::vector<Tensor> in;
      for (const CaseInput& i : inputs_as(c, dtype)) {
        in.emplace_back(i.type);
        for (int64_t k = 0; k < in.back().size(); ++k)
          in.back().set(k, i.type.dtype == DType::boolean ? double(k % 2) : is_floating(i.type.dtype) ? number : whole);
      }
      EXPECT_NO_THROW(evaluate(one.graph, in));
    }
}

void check_text(const ir::OpDef& op, const OpCase& c) {
  for (DType dtype : c.dtypes) {
    SCOPED_TRACE(cat(c.name, ", ", dtype));
    const OneNode one = one_node(op, c, inputs_as(c, dtype));
    ir::verify(one.graph);
    const std::string text = ir::print(one.graph);
    const ir::Graph back = ir::parse(text);
    EXPECT_EQ(ir::print(back), text);
    EXPECT_TRUE(ir::equal(one.graph, back)) << text;
    EXPECT_EQ(ir::hash(one.graph), ir::hash(back)) << text;
  }
}

class Check : public testing::Test {
 public:
  Check(const ir::OpDef* op, std::function<std::vector<OpCase>()> make, void (*check)(const ir::OpDef&, const OpCase&))
      : op_(op), make_(std::move(make)), check_(check) {}
  void TestBody() override {
    for (const OpCase& c : make_()) {
      check_(*op_, c);
      if (HasFatalFailure()) return;
    }
  }

 private:
  const ir::OpDef* op_;
  std::function<std::vector<OpCase>()> make_;
  void (*check_)(const ir::OpDef&, const OpCase&);
};

}  // namespace

OpCases::OpCases(const char* name, std::function<std::vector<OpCase>()> make) {
  cases().emplace(name, make);
  const ir::OpDef* op = &ir::find_op(name);
  if (take_cases) {
    take_cases(*op, std::move(make));
    return;
  }
  const std::string suite = cat("Op_", name);
  auto add = [&](const char* test, void (*check)(const ir::OpDef&, const OpCase&)) {
    testing::RegisterTest(suite.c_str(), test, nullptr, nullptr, __FILE__, __LINE__,
                          [=]() -> testing::Test* { return new Check(op, make, check); });
  };
  add("AgreesWithItsReference", check_kernel);
  add("TakesStridedInputs", check_strided);
  add("GivesTheSameBitsWithAnyThreadsAndInstructions", check_machine);
  if (op->section) add("GivesTheSameBitsInASection", check_section);
  if (op->vjp) {
    add("HasTheGradientOfDifferences", check_gradient);
    add("HasTheSecondGradientOfDifferences", check_second_gradient);
  }
  if (op->batch) add("BatchesLikeALoop", check_batching);
  add("ThrowsOnlyIfItSaysSo", check_failures);
  add("ReadsBackFromItsText", check_text);
}

const CasesOfOps& cases_of_ops() { return cases(); }

std::vector<CaseInput> inputs_as(const OpCase& c, DType dtype) {
  std::vector<CaseInput> in = c.in;
  for (CaseInput& i : in)
    if (i.type.dtype == DType::f32) i.type.dtype = dtype;
  return in;
}

std::vector<std::vector<double>> expected_results(const OpCase& c, const ir::Node& node, const std::vector<Tensor>& inputs) {
  if (c.reference) return c.reference(inputs);
  if (!node.op->decompose) internal_error("a case needs a reference when the op has no decomposition");
  ir::Graph parts;
  std::vector<Tensor> wide;
  for (const Tensor& t : inputs) parts.add_input(t.type), wide.push_back(in_f64(t));
  parts.outputs = node.op->decompose(parts, *node.attrs, parts.inputs, node.regions);
  std::vector<std::vector<double>> out;
  for (const Tensor& t : evaluate(in_f64(parts), wide)) out.push_back(t.values());
  return out;
}

double epsilon(DType dtype) {
  switch (dtype) {
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    case DType::f32: return 0x1p-23;
    case DType::f64: return 0x1p-52;
    default: return 0;
  }
}

std::vector<std::string> available_isas() {
  const std::string best = config::best_cpu_isa();
  if (best == "avx512") return {"scalar", "avx2", "avx512"};
  if (best == "avx2") return {"scalar", "avx2"};
  return {"scalar"};
}

Tensor random_tensor(const CaseInput& in, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor t(in.type);
  const DType dtype = in.type.dtype;
  for (int64_t i = 0; i < t.size(); ++i) {
    double v =
        in.values.empty() ? std::uniform_real_distribution<double>(in.low, in.high)(random) : in.values[size_t(i) % in.values.size()];
    if (in.values.empty() && is_integer(dtype))
      v = std::uniform_int_distribution<int64_t>(int64_t(is_signed(dtype) ? in.low : std::max(0.0, in.low)), int64_t(in.high))(random);
    if (in.values.empty() && dtype == DType::boolean) v = double(random() & 1);
    t.set(i, v);
  }
  return t;
}

void expect_close(const Tensor& got, const std::vector<double>& want, double ulps, double of_largest, const std::string& what) {
  ASSERT_EQ(got.size(), int64_t(want.size())) << what;
  const DType dtype = got.type.dtype;
  double largest = 0;
  for (double w : want)
    if (std::isfinite(w)) largest = std::max(largest, std::abs(w));
  // The smallest step of the dtype: the error of underflow.
  const double step = dtype == DType::f16 ? 0x1p-24 : dtype == DType::bf16 ? 0x1p-133 : dtype == DType::f32 ? 0x1p-149 : 0x1p-1074;
  const double limit = dtype == DType::f16   ? 65504
                       : dtype == DType::f64 ? std::numeric_limits<double>::max()
                                             : std::numeric_limits<float>::max();
  for (int64_t i = 0; i < got.size(); ++i) {
    const double g = got.at(i), w = want[size_t(i)];
    if (!is_floating(dtype)) {
      ASSERT_EQ(g, w) << what << ", element " << i;
      continue;
    }
    if (std::isnan(w)) {
      ASSERT_TRUE(std::isnan(g)) << what << ", element " << i << ": " << g << " instead of NaN";
    } else if (std::abs(w) > limit || std::isinf(g)) {
      ASSERT_TRUE((g > 0) == (w > 0) && std::abs(g) >= limit * (1 - 4 * epsilon(dtype)) &&
                  std::abs(w) >= limit * (1 - ulps * epsilon(dtype)))
          << what << ", element " << i << ": " << g << " instead of " << w;
    } else {
      ASSERT_LE(std::abs(g - w), std::max(ulps * epsilon(dtype) * std::max(std::abs(w), of_largest * largest), step))
          << what << ", element " << i << ": " << g << " instead of " << w;
    }
  }
}

}  // namespace lamina::tests
