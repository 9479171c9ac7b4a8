// The base of the random graph generator: a graph whose nodes are evaluated as they are added, and a pool of their values as operands.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "graph/ops/ops.h"
#include "runtime/core/error.h"
#include "tests/graph/random_graph.h"

namespace lamina::tests {

using ir::Graph;
using ir::Node;
using ir::Value;

inline constexpr double kMargin = 1e-3, kLargest = 30, kSmallest = 1e-2;

class GraphBuilder {
 public:
  GraphBuilder(uint64_t seed, const RandomGraphOptions& options) : options_(options), random_(seed) { out_.seed = seed; }

 protected:
  Graph& g() { return out_.graph; }
  int number(int least, int most) {
    if (least > most) throw Error(ErrorKind::not_found, {.what = "nothing to choose from", .where = "", .why = "", .fix = ""});
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  template <class T>
  T pick(const std::vector<T>& from) {
    if (from.empty()) throw Error(ErrorKind::not_found, {.what = "no operand", .where = "", .why = "", .fix = ""});
    return from[size_t(number(0, int(from.size()) - 1))];
  }
  DType floating() { return options_.only_f64 || chance(0.15) ? DType::f64 : DType::f32; }

  // --- values: every node of the graph has been evaluated ---
  const Tensor& tensor(Value v) const { return results_.at(size_t(v.node)).at(size_t(v.result)); }
  const TensorType& type(Value v) { return g().type(v); }

  bool acceptable(const Tensor& t) const {
    if (!is_floating(t.type.dtype)) return true;
    double largest = 0;
    for (int64_t i = 0; i < t.size(); ++i) {
      const double x = t.at(i);
      if (!std::isfinite(x)) return false;
      largest = std::max(largest, std::abs(x));
    }
    return largest <= kLargest && (largest >= kSmallest || largest == 0);
  }

  // Evaluates the nodes that a maker has added. False when they must be removed.
  bool run_new_nodes() {
    for (int n = int(results_.size()); n < g().size(); ++n) {
      const Node& node = g()[n];
      std::vector<Tensor> results;
      if (const int resource = ir::resource_of(node); resource >= 0) {
        if (node.op->effect == ir::Effect::write)
          now_[resource] = tensor(node.inputs[0]).clone();
        else
          results = {now_.at(resource).clone()};
      } else if (const ir::Literal* literal = ir::constant_value(g(), {n, 0})) {
        Graph one;
        one.outputs = {one.add_constant(*literal)};
        results = evaluate(one, {});
      } else {
        std::vector<View> views;
        for (Value v : node.inputs) views.push_back(tensor(v).view());
        results = run_node(node, views);
      }
      for (const Tensor& t : results)
        if (!acceptable(t)) return false;
      results_.push_back(std::move(results));
    }
    return true;
  }

  void give(Value v) { pool_.push_back(v); }
  void reject() { rejected_ = true; }

  // --- leaves ---
  Tensor random_tensor(const TensorType& t, double low = -1.5, double high = 1.5) {
    Tensor out(t);
    std::uniform_real_distribution<double> uniform(low, high);
    for (int64_t i = 0; i < out.size(); ++i) {
      if (t.dtype == DType::boolean)
        out.set(i, chance(0.5));
      else if (is_integer(t.dtype))
        out.set(i, number(-4, 4));
      else
        out.set(i, uniform(random_));
    }
    return out;
  }
  Value new_input(const TensorType& t, double low = -1.5, double high = 1.5) {
    const Value v = g().add_input(t);
    out_.inputs.push_back(random_tensor(t, low, high));
    results_.push_back({out_.inputs.back()});
    return v;
  }
  int new_resource(const TensorType& t) {
    const int r = g().add_resource({cat("v", g().resources.size()), t});
    out_.resources[r] = t.dtype == DType::i64 ? Tensor::of<int64_t>({2}, {number(0, 99), number(0, 99)}) : random_tensor(t, -0.7, 0.7);
    now_[r] = out_.resources[r];
    return r;
  }
  void make_leaves() {
    rows_ = number(1, 6), k_ = number(1, 5), n_ = number(2, 5);
    if (options_.wide) rows_ = number(8, 40), k_ = number(8, 70), n_ = number(8, 70);
    if (options_.empty_axes) {  // one or two of the three
      for (int64_t* length : {&rows_, &k_, &n_})
        if (chance(0.4)) *length = 0;
      if (rows_ * k_ * n_ > 0 || (rows_ == 0 && k_ == 0 && n_ == 0)) rows_ = 0, k_ = 2, n_ = 3;
    }
    for (const Shape& shape : {Shape{rows_, k_}, Shape{rows_, n_}, Shape{n_}, Shape{}, Shape{2, rows_, k_}})
      give(new_input({floating(), shape}));
    give(new_input({options_.only_f64 ? DType::f64 : DType::f32, {rows_, n_}}));
    give(new_input({DType::i64, {rows_}}));
    give(new_input({DType::i32, {rows_, n_}}));
    give(new_input({DType::boolean, {rows_, n_}}));
    state_ = new_resource({DType::i64, {2}});
    const DType dtype = options_.only_f64 ? DType::f64 : DType::f32;
    for (const Shape& shape : {Shape{k_, n_}, Shape{n_}, Shape{n_, n_}, Shape{n_}, Shape{}})
      variables_.push_back(new_resource({dtype, shape}));
  }

  // --- choosing operands ---
  std::vector<Value> values_where(const std::function<bool(const TensorType&)>& good) {
    std::vector<Value> found;
    for (Value v : pool_)
      if (good(type(v))) found.push_back(v);
    return found;
  }
  Value any(const std::function<bool(const TensorType&)>& good) {
    const auto found = values_where(good);
    // Prefers the later half, so that chains grow long.
    return !found.empty() && chance(0.5) ? found[found.size() - 1 - size_t(number(0, int(found.size() - 1) / 2))] : pick(found);
  }
  Value any_float() {
    return any([](const TensorType& t) { return is_floating(t.dtype); });
  }
  Value any_float(size_t least_rank) {
    return any([&](const TensorType& t) { return is_floating(t.dtype) && t.rank() >= least_rank; });
  }
  Value any_number() {
    return any([](const TensorType& t) { return t.dtype != DType::boolean; });
  }
  Value any_bool() {
    return any([](const TensorType& t) { return t.dtype == DType::boolean; });
  }
  // A value that broadcasts with x, of the same dtype.
  Value mate(Value x) {
    const TensorType t = type(x);
    const double kind = std::uniform_real_distribution<double>(0, 1)(random_);
    if (kind < 0.2 && t.dtype != DType::boolean)
      return ops::scalar(g(), t.dtype, is_integer(t.dtype) ? number(-3, 3) : pick(std::vector<double>{0, 1, 2, 0.5, -1, 0.3}));
    if (kind < 0.25 && t.dtype != DType::boolean) return ops::full(g(), t, 2);
    const auto found = values_where([&](const TensorType& u) {
      if (u.dtype != t.dtype || u.rank() > t.rank()) return false;
      for (size_t i = 1; i <= u.rank(); ++i)
        if (!(u.shape[u.rank() - i] == t.shape[t.rank() - i]) && !(u.shape[u.rank() - i] == Dim(1))) return false;
      return true;
    });
    return pick(found);
  }
  double gap(const Tensor& t, const std::function<double(double)>& distance) const {
    double least = INFINITY;
    for (int64_t i = 0; i < t.size(); ++i) least = std::min(least, distance(t.at(i)));
    return least;
  }
  // The smallest |a - b| over the broadcast.
  double distance(Value a, Value b) {
    Graph parts;
    const TensorType ta{DType::f64, type(a).shape}, tb{DType::f64, type(b).shape};
    const Value x = parts.add_input(ta), y = parts.add_input(tb);
    parts.outputs = {ops::abs(parts, ops::sub(parts, x, y))};
    return gap(evaluate(parts, {Tensor::from(ta, tensor(a).values()), Tensor::from(tb, tensor(b).values())})[0],
               [](double d) { return d; });
  }
  void need_distance(Value a, Value b) {
    if (!run_new_nodes() || (is_floating(type(a).dtype) && distance(a, b) < kMargin)) reject();
  }
  void need_nonzero(Value x, double margin = kMargin) {
    if (gap(tensor(x), [](double v) { return std::abs(v); }) < margin) reject();
  }
  Value positive(Value x) { return ops::add(g(), ops::square(g(), x), ops::scalar(g(), type(x).dtype, 0.5)); }

  Value indices(Dim count, int64_t below) {
    const TensorType t{chance(0.5) ? DType::i32 : DType::i64, {count}};
    Tensor values(t);
    for (int64_t i = 0; i < values.size(); ++i) values.set(i, number(0, int(below) - 1));
    return g().add_constant(ir::Literal::from(t, values.raw()));
  }
  Value next_state() {
    const Value state = ops::read(g(), state_);
    ops::assign(g(), state_, ops::add(g(), state, g().add_constant(ir::Literal::of<int64_t>({2}, {0, 1}))));
    return state;
  }

  // Gradients may vanish, but not be huge.
  bool run_new_nodes_loosely() {
    for (int n = int(results_.size()); n < g().size(); ++n) {
      const Node& node = g()[n];
      if (const ir::Literal* literal = ir::constant_value(g(), {n, 0})) {
        Graph one;
        one.outputs = {one.add_constant(*literal)};
        results_.push_back(evaluate(one, {}));
        continue;
      }
      std::vector<View> views;
      for (Value v : node.inputs) views.push_back(tensor(v).view());
      results_.push_back(run_node(node, views));
      for (const Tensor& t : results_.back())
        if (is_floating(t.type.dtype) && !(gap(t, [](double v) { return std::isfinite(v) ? -std::abs(v) : -INFINITY; }) >= -1000))
          return false;
    }
    return true;
  }

  const RandomGraphOptions options_;
  std::mt19937_64 random_;
  RandomGraph out_;
  std::vector<std::vector<Tensor>> results_;
  std::vector<Value> pool_;
  Resources now_;
  std::vector<int> variables_;
  int state_ = -1;
  int64_t rows_ = 0, k_ = 0, n_ = 0;
  bool rejected_ = false;
};

}  // namespace lamina::tests
