#include "tests/graph/random_graph.h"

#include "graph/autodiff/gradient.h"
#include "graph/ops/ops.h"
#include "tests/graph/graph_builder.h"
#include "tests/graph/image_makers.h"

namespace lamina::tests {
namespace {

using section::Activation;

class Generator : ImageMakers {
 public:
  using ImageMakers::ImageMakers;

  RandomGraph run() {
    make_leaves();
    const int wanted = number(options_.least_nodes, options_.most_nodes);
    const auto& makers = all_makers();
    const int forward = options_.gradients ? std::max(12, wanted / 2) : wanted;
    for (int tries = 0; g().size() < forward && tries < 20 * wanted; ++tries) attempt(makers[size_t(number(0, int(makers.size()) - 1))]);
    if (options_.gradients)
      for (int tries = 0; tries < 8 && !differentiate(); ++tries) {
      }
    choose_outputs();
    return std::move(out_);
  }

 private:
  using Maker = void (Generator::*)();

  void attempt(Maker maker) {
    const int size = g().size();
    const Resources before = now_;
    const std::vector<Value> pool = pool_;
    bool kept = false;
    rejected_ = false;
    try {
      (this->*maker)();
      kept = !rejected_ && run_new_nodes();
    } catch (const Error&) {
    }
    if (kept) return;
    g().truncate(size);
    results_.resize(size_t(size));
    pool_ = pool;
    now_ = before;
  }

  // --- makers: one per op or kind of ops ---
  void fused() {
    const Value x = any_float();
    auto region = std::make_shared<Graph>();
    const Value a = region->add_input(type(x));
    const Value s = ops::tanh(*region, a);
    region->outputs = {s, ops::mul(*region, s, ops::scalar(*region, type(x).dtype, 0.5))};
    const Value f = ops::fused_elementwise(g(), region, {x});
    give(f);
    give({f.node, 1});
  }
  void read() { give(ops::read(g(), pick(variables_))); }
  void assign() {
    const int r = pick(variables_);
    const TensorType& wanted = g().resources[size_t(r)].type;
    const auto fitting = values_where([&](const TensorType& t) { return t == wanted; });
    if (fitting.empty()) return reject();
    ops::assign(g(), r, pick(fitting));
  }
  void constant() {
    const Value x = any_number();
    give(g().add_constant(ir::Literal::from(type(x), random_tensor(type(x)).raw())));
  }
  void iota() { give(ops::iota(g(), {pick(std::vector{DType::i32, DType::i64}), {rows_, n_}}, number(0, 1))); }
  void matmul() {
    const Value a = any_float(2);
    const Dim k = type(a).shape.back();
    const bool tb = chance(0.3);
    const auto right =
        values_where([&](const TensorType& t) { return t.dtype == type(a).dtype && t.rank() == 2 && t.shape[tb ? 1 : 0] == k; });
    if (right.empty()) return reject();
    give(ops::matmul(g(), a, pick(right), false, tb));
  }
  void matmul_of_transposed() {
    const Value a = any_float(2);
    if (type(a).rank() != 2) return reject();
    const auto right =
        values_where([&](const TensorType& t) { return t.dtype == type(a).dtype && t.rank() == 2 && t.shape[0] == type(a).shape[0]; });
    const Value b = pick(right);
    give(chance(0.5) ? ops::matmul(g(), a, b, true, false) : ops::matmul(g(), ops::transpose(g(), a, {1, 0}), b));
  }
  // A layer as in nn::Dense.
  void layer() {
    const Value w = ops::read(g(), variables_[chance(0.5) ? 0 : 2]), b = ops::read(g(), variables_[chance(0.5) ? 1 : 3]);
    const auto rows =
        values_where([&](const TensorType& t) { return t.dtype == type(w).dtype && t.rank() == 2 && t.shape[1] == type(w).shape[0]; });
    if (rows.empty()) return reject();
    Value z = ops::matmul(g(), pick(rows), w);
    z = chance(0.8) ? ops::add(g(), z, b) : ops::add(g(), b, z);
    if (!run_new_nodes()) return reject();
    if (chance(0.2)) give(z);
    switch (number(0, 3)) {
      case 0:
        need_nonzero(z);
        give(ops::relu(g(), z));
        break;
      case 1: give(ops::tanh(g(), z)); break;
      case 2: give(ops::sigmoid(g(), z)); break;
      default: give(z); break;
    }
  }
  Activation activation() { return pick(std::vector{Activation::none, Activation::relu, Activation::tanh, Activation::sigmoid}); }
  Value f32_matrix(Dim columns) {
    return any([&](const TensorType& t) { return t.dtype == DType::f32 && t.rank() == 2 && t.shape[1] == columns; });
  }
  void dense() {
    const Value w = ops::read(g(), variables_[2]), b = ops::read(g(), variables_[1]);
    const Activation act = activation();
    const Value x = f32_matrix(n_);
    if (act == Activation::relu) {
      const Value z = ops::add(g(), ops::matmul(g(), x, w), b);
      if (!run_new_nodes()) return reject();
      need_nonzero(z);
    }
    give(ops::dense(g(), x, w, chance(0.7) ? b : Value{}, act == Activation::relu && !chance(0.5) ? Activation::none : act));
  }
  void dense_grad_input() {
    const Value w = ops::read(g(), variables_[2]), dz = f32_matrix(n_);
    const auto same = values_where([&](const TensorType& t) { return t == type(dz); });
    const Activation act = activation();
    const Value y = pick(same);
    if (act == Activation::relu) need_nonzero(y);
    give(ops::dense_grad_input(g(), dz, w, act == Activation::none ? Value{} : y, act));
  }
  void dense_update() {
    const Value x = f32_matrix(k_);
    const auto rows = values_where(
        [&](const TensorType& t) { return t.dtype == DType::f32 && t.rank() == 2 && t.shape[0] == type(x).shape[0] && t.shape[1] == n_; });
    const Value dz = pick(rows), w = ops::read(g(), variables_[0]), b = ops::read(g(), variables_[1]);
    auto region = [&](const TensorType& t) {
      auto r = std::make_shared<Graph>();
      const Value d = r->add_input(t), now = r->add_input(t);
      r->outputs = {ops::sub(*r, now, ops::mul(*r, d, ops::scalar(*r, DType::f32, 0.1))), d};
      return r;
    };
    const Value u = ops::dense_update(g(), x, dz, {w}, {b}, region(type(w)), region(type(b)));
    for (int r = 0; r < 4; ++r) give({u.node, r});
  }
  template <Value (*op)(Graph&, Value, AxesOrAll, bool)>
  void reduce() {
    const Value x = any_float();
    const auto rank = int64_t(type(x).rank());
    AxesOrAll axes;
    if (rank > 0 && chance(0.7)) axes = Axes{number(-int(rank), int(rank) - 1)};
    give(op(g(), x, axes, chance(0.4)));
  }
  template <Value (*op)(Graph&, Value, AxesOrAll, bool)>
  void reduce_to_extreme() {
    const Value x = any_float();
    std::vector<double> all = tensor(x).values();
    std::sort(all.begin(), all.end());
    for (size_t i = 1; i < all.size(); ++i)
      if (all[i] - all[i - 1] < kMargin) reject();
    reduce_chosen(op, x);
  }
  void reduce_chosen(Value (*op)(Graph&, Value, AxesOrAll, bool), Value x) {
    AxesOrAll axes;
    if (type(x).rank() > 0 && chance(0.7)) axes = Axes{number(0, int(type(x).rank()) - 1)};
    give(op(g(), x, axes, chance(0.4)));
  }
  void argmax() {
    const Value x = any_float(1);
    std::vector<double> all = tensor(x).values();
    std::sort(all.begin(), all.end());
    for (size_t i = 1; i < all.size(); ++i)
      if (all[i] - all[i - 1] < kMargin) reject();
    give(ops::argmax(g(), x, number(0, int(type(x).rank()) - 1), chance(0.3)));
  }
  void reshape() {
    const Value x = any([](const TensorType&) { return true; });
    const Shape shape = type(x).shape;
    Shape to = chance(0.5) ? Shape{size_of(shape)} : Shape(shape.rbegin(), shape.rend());
    if (chance(0.3)) to.insert(to.begin() + number(0, int(to.size())), Dim(1));
    give(ops::reshape(g(), x, to));
  }
  void broadcast_to() {
    const Value x = any([](const TensorType& t) { return t.rank() <= 2; });
    Shape to = type(x).shape;
    to.insert(to.begin(), Dim(number(1, 3)));
    give(ops::broadcast_to(g(), x, to));
  }
  void transpose() {
    const Value x = any([](const TensorType& t) { return t.rank() >= 2; });
    std::vector<int64_t> axes(type(x).rank());
    for (size_t i = 0; i < axes.size(); ++i) axes[i] = int64_t(i);
    std::shuffle(axes.begin(), axes.end(), random_);
    give(ops::transpose(g(), x, axes));
  }
  void slice() {
    const Value x = any([](const TensorType& t) { return t.rank() >= 1; });
    std::vector<int64_t> begin, end, step;
    for (int64_t length : numbers(type(x).shape)) {
      if (chance(0.3))
        begin.push_back(length - 1), end.push_back(-1), step.push_back(-1);
      else
        begin.push_back(number(0, int(length) - 1)), end.push_back(length), step.push_back(number(1, 2));
    }
    give(ops::slice(g(), x, begin, end, step));
  }
  void pad_slice() {
    const Value x = any_float(1);
    Shape shape;
    std::vector<int64_t> begin, step;
    for (int64_t length : numbers(type(x).shape)) {
      const int64_t first = number(0, 1);
      shape.push_back(first + 2 * length), begin.push_back(first), step.push_back(2);
    }
    give(ops::pad_slice(g(), x, shape, begin, step));
  }
  void concat() {
    const Value x = any([](const TensorType& t) { return t.rank() >= 1; });
    const auto same = values_where([&](const TensorType& t) { return t == type(x); });
    give(ops::concat(g(), {x, pick(same), x}, number(0, int(type(x).rank()) - 1)));
  }
  void gather() {
    const Value x = any_float(1);
    const int axis = number(0, int(type(x).rank()) - 1);
    give(ops::gather(g(), x, indices(number(1, 4), type(x).shape[size_t(axis)].number()), axis));
  }
  void scatter_add() {
    const Value x = any_float(1);
    const Dim rows = type(x).shape[0];
    Shape shape = type(x).shape;
    shape[0] = 3;
    give(ops::scatter_add(g(), x, indices(rows, 3), shape, 0));
  }
  void one_hot() {
    give(ops::one_hot(g(), any([](const TensorType& t) { return is_integer(t.dtype) && t.rank() <= 2; }), 3, floating()));
  }
  template <Value (*op)(Graph&, Value, int)>
  void along_axis() {
    const Value x = any_float(1);
    give(op(g(), x, chance(0.5) ? -1 : number(0, int(type(x).rank()) - 1)));
  }
  void cross_entropy() {
    const Value x = any([](const TensorType& t) { return is_floating(t.dtype) && t.rank() == 2; });
    const Value losses = ops::sparse_cross_entropy(g(), x, indices(type(x).shape[0], type(x).shape[1].number()));
    give(losses);
    if (chance(0.5)) give({losses.node, 1});
  }
  void dropout() { give(ops::dropout(g(), any_float(1), next_state(), 0.25f)); }
  void uniform() { give(ops::random_uniform(g(), next_state(), {floating(), {rows_, n_}}, -1, 1)); }
  void normal() { give(ops::random_normal(g(), next_state(), {floating(), {rows_, n_}}, 0, 0.5)); }
  void stop_gradient() {
    if (options_.only_f64) return reject();
    give(g().add(ops::def::stop_gradient, {any_float()}));
  }
  void to_device() { give(g().add(ops::def::to_device, {any_float()})); }
  // --- loops and branches ---
  static ir::GraphRef region(const std::vector<TensorType>& in,
                             const std::function<std::vector<Value>(Graph&, const std::vector<Value>&)>& build) {
    auto r = std::make_shared<Graph>();
    for (const TensorType& t : in) r->add_input(t);
    r->outputs = build(*r, r->inputs);
    return r;
  }
  static Value half(Graph& r, Value x) { return ops::mul(r, x, ops::scalar(r, r.type(x).dtype, 0.5)); }
  void branch() {
    const Value x = any_float(), sum = ops::sum(g(), any_float());
    if (!run_new_nodes()) return reject();
    need_nonzero(sum);
    const Value pred = ops::greater(g(), sum, ops::scalar(g(), type(sum).dtype, 0));
    auto then = region({type(x)}, [](Graph& r, const std::vector<Value>& in) {
      const Value y = ops::tanh(r, in[0]);
      return std::vector{y, ops::add(r, in[0], half(r, y))};
    });
    auto otherwise = region({type(x)}, [](Graph& r, const std::vector<Value>& in) { return std::vector{in[0], ops::sin(r, in[0])}; });
    const Value c = ops::cond(g(), pred, {x}, then, otherwise);
    give(c);
    give({c.node, 1});
  }
  // y = tanh(y) / 2 + w, or the result of a scan on y, a few times.
  void while_loop() {
    const Value y = any_float(), w = mate(y);
    if (!broadcasts_into(w, y)) return reject();
    const TensorType counter{DType::i32, {}};
    const Value start = ops::scalar(g(), DType::i32, 0), end = ops::scalar(g(), DType::i32, number(0, 4));
    const std::vector<TensorType> types{counter, type(y), type(w), counter};
    const bool nested = chance(0.3);
    auto condition = region(types, [](Graph& r, const std::vector<Value>& in) { return std::vector{ops::less(r, in[0], in[3])}; });
    auto body = region(types, [&](Graph& r, const std::vector<Value>& in) {
      Value next = ops::add(r, half(r, ops::tanh(r, in[1])), in[2]);
      if (nested) {
        auto inner = region({r.type(next), r.type(in[2])}, [](Graph& b, const std::vector<Value>& v) {
          return std::vector{ops::add(b, ops::sin(b, v[0]), half(b, v[1]))};
        });
        next = ops::scan(r, {next}, {}, {in[2]}, inner, number(1, 12));
      }
      return std::vector{ops::add(r, in[0], ops::scalar(r, DType::i32, 1)), next};
    });
    const Value loop = ops::while_loop(g(), {start, y}, {w, end}, condition, body, chance(0.3) ? 3 : -1);
    give({loop.node, 1});
  }
  bool broadcasts_into(Value w, Value y) {
    try {
      return broadcast(type(w).shape, type(y).shape) == type(y).shape;
    } catch (const Error&) {
      return false;
    }
  }
  void scan() {
    const Value xs = any_float(1);
    TensorType slice = type(xs);
    const Dim length = slice.shape[0];
    slice.shape.erase(slice.shape.begin());
    const Value start = ops::full(g(), slice, 0.5);
    auto body = region({slice, slice}, [](Graph& r, const std::vector<Value>& in) {
      const Value next = ops::tanh(r, ops::add(r, in[0], half(r, in[1])));
      return std::vector{next, ops::mul(r, next, in[1])};
    });
    const Value count = chance(0.3) ? ops::scalar(g(), DType::i64, number(0, int(length.number()))) : Value{};
    const Value s = ops::scan(g(), {start}, {xs}, {}, body, length, chance(0.3), count);
    give(s);
    give({s.node, 1});
  }
  void with_length() {
    const Value x = any_float();
    Graph r;
    const Value a = r.add_input(type(x)), n = r.add_input({DType::i64, {}});
    auto body = region({type(x)}, [](Graph& b, const std::vector<Value>& in) { return std::vector{ops::sin(b, in[0])}; });
    r.outputs = {ops::scan(r, {a}, {}, {}, body, Dim::symbol("trips_9"), false, n)};
    const Value count = ops::scalar(g(), DType::i64, number(0, 11));
    give(ops::with_length(g(), count, {x, count}, std::make_shared<const Graph>(std::move(r)), "trips_9"));
  }

  void checkpoint() {
    const Value x = any_float(), w = mate(x);
    if (!run_new_nodes() || !broadcasts_into(w, x)) return reject();
    auto body = region({type(x), type(w)}, [](Graph& r, const std::vector<Value>& in) {
      const Value y = ops::tanh(r, ops::add(r, in[0], in[1]));
      return std::vector{ops::mul(r, y, in[0]), ops::sin(r, y)};
    });
    const Value c = ops::checkpoint(g(), {x, w}, body);
    give(c);
    give({c.node, 1});
  }
  // x * x with a custom gradient.
  void custom_gradient() {
    const Value x = any_float();
    auto forward = region({type(x)}, [](Graph& r, const std::vector<Value>& in) { return std::vector{ops::mul(r, in[0], in[0])}; });
    auto backward = region({type(x), type(x)}, [](Graph& r, const std::vector<Value>& in) {
      const Value slope = ops::add(r, in[0], in[0]);
      return std::vector{ops::mul(r, slope, in[1])};
    });
    give(ops::custom_gradient(g(), {x}, 1, forward, backward));
  }
  void check() {
    const Value x = any_float();
    ops::check(g(), ops::isfinite(g(), x), {x}, {.message = "an element is not finite", .why = ""});
  }
  void check_numerics() { give(ops::check_numerics(g(), any_float(), "a random value")); }
  // Of one rank, each of which is the identity up to an axis of length 1.
  template <int kind>
  void collective() {
    if (!options_.collectives) return reject();
    const Value x = any_float();
    Shape stacked = type(x).shape;
    stacked.insert(stacked.begin(), Dim(1));
    if (kind == 0) {
      std::vector<Value> leaves{ops::reshape(g(), x, stacked)};
      if (chance(0.5)) leaves.push_back(leaves[0]);
      for (Value v : ops::all_reduce(g(), leaves, {.name = "x"})) give(v);
    } else if (kind == 1) {
      give(ops::all_gather(g(), x, {.name = "x"}));
    } else if (kind == 2) {
      if (type(x).rank() == 0) return reject();
      give(ops::reduce_scatter(g(), ops::reshape(g(), x, stacked), {.name = "x"}));
    } else if (kind == 3) {
      give(ops::broadcast_from(g(), x, {.name = "x"}));
    } else {
      give(ops::send_receive(g(), x, {.routes = {0, 0}, .name = "x"}));
    }
  }
  void after() { give(ops::after(g(), any_float(), any_number())); }

  static const std::vector<Maker>& all_makers() {
    using G = Generator;
    static const std::vector<Maker> makers = {
        &G::kinked<ops::abs>, &G::kinked<ops::sign>, &G::kinked<ops::relu>, &G::smooth<ops::cos>, &G::smooth<ops::sin>,
        &G::smooth<ops::exp>, &G::smooth<ops::sigmoid>, &G::smooth<ops::square>, &G::smooth<ops::tanh>,
        // clang-format off
                                              &G::smooth<ops::asinh>, &G::smooth<ops::atan>, &G::smooth<ops::erf>, &G::smooth<ops::erfc>,
                                              &G::smooth<ops::exp2>, &G::smooth<ops::expm1>, &G::smooth<ops::gelu>,
                                              &G::smooth<ops::gelu_tanh>, &G::smooth<ops::silu>, &G::smooth<ops::softplus>,
                                              &G::of_less_than_1<ops::acos>, &G::of_less_than_1<ops::asin>, &G::of_less_than_1<ops::atanh>,
                                              &G::of_less_than_1<ops::cosh>, &G::of_less_than_1<ops::sinh>, &G::of_less_than_1<ops::tan>,
                                              &G::of_positive<ops::cbrt>, &G::of_positive<ops::log10>, &G::of_positive<ops::log1p>,
                                              &G::of_positive<ops::log2>, &G::of_positive<ops::reciprocal>, &G::rounding<ops::ceil>,
                                              &G::rounding<ops::floor>, &G::rounding<ops::round>, &G::rounding<ops::trunc>,
                                              &G::classify<ops::isfinite>, &G::classify<ops::isinf>, &G::classify<ops::isnan>, &G::acosh,
                                              &G::angle, &G::clip, &G::with_parameter<ops::elu>, &G::with_parameter<ops::leaky_relu>,
                                              &G::with_parameter_grad<ops::elu_grad>, &G::with_parameter_grad<ops::leaky_relu_grad>,
                                              &G::on_bits<ops::bitwise_and>, &G::on_bits<ops::bitwise_or>, &G::on_bits<ops::bitwise_xor>,
                                              &G::bitwise_not, &G::shift<ops::shift_left>, &G::shift<ops::shift_right>,
                                              &G::arithmetic_floats<ops::logaddexp>, &G::divide_down<ops::fmod>,
                                              &G::logical<ops::logical_xor>, &G::masked<ops::gelu_grad>, &G::masked<ops::gelu_tanh_grad>,
                                              &G::masked<ops::silu_grad>, &G::masked<ops::softplus_grad>, &G::reduce<ops::prod>, &G::cumsum,
        // clang-format on
        &G::of_positive<ops::log>, &G::of_positive<ops::sqrt>, &G::of_positive<ops::rsqrt>, &G::negate, &G::logical_not,
        &G::arithmetic<ops::add>, &G::arithmetic<ops::add>, &G::arithmetic<ops::mul>, &G::arithmetic<ops::mul>, &G::arithmetic<ops::sub>,
        &G::divide, &G::power, &G::jumping<ops::equal>, &G::jumping<ops::not_equal>, &G::jumping<ops::less>, &G::jumping<ops::less_equal>,
        &G::jumping<ops::greater>, &G::jumping<ops::greater_equal>, &G::jumping<ops::maximum>, &G::jumping<ops::minimum>,
        &G::logical<ops::logical_and>, &G::logical<ops::logical_or>, &G::divide_down<ops::floor_divide>, &G::divide_down<ops::mod>,
        &G::masked<ops::relu_grad>, &G::masked<ops::tanh_grad>, &G::masked<ops::sigmoid_grad>, &G::choose, &G::convert, &G::fused, &G::read,
        &G::assign, &G::constant, &G::iota, &G::matmul, &G::matmul_of_transposed, &G::layer, &G::layer, &G::layer, &G::dense,
        &G::dense_grad_input, &G::dense_update, &G::reduce<ops::sum>, &G::reduce<ops::mean>, &G::reduce_to_extreme<ops::max>,
        &G::reduce_to_extreme<ops::min>, &G::argmax, &G::reshape, &G::broadcast_to, &G::transpose, &G::slice, &G::pad_slice, &G::concat,
        &G::gather, &G::scatter_add, &G::conv2d, &G::conv2d, &G::max_pool2d, &G::max_pool2d, &G::max_pool2d, &G::max_pool2d, &G::one_hot,
        &G::along_axis<ops::softmax>, &G::along_axis<ops::log_softmax>, &G::cross_entropy, &G::dropout, &G::uniform, &G::normal,
        &G::stop_gradient, &G::to_device, &G::sort, &G::argsort, &G::top_k, &G::unique, &G::searchsorted, &G::nonzero, &G::ravel_index,
        &G::scatter, &G::random_integers, &G::truncated_normal, &G::branch, &G::while_loop, &G::scan, &G::with_length, &G::checkpoint,
        &G::custom_gradient, &G::check, &G::check_numerics, &G::after, &G::collective<0>, &G::collective<1>, &G::collective<2>,
        &G::collective<3>, &G::collective<4>};
    return makers;
  }

  // --- gradients ---
  bool differentiate() {
    const int size = g().size();
    const Resources before = now_;
    const std::vector<Value> pool = pool_;
    try {
      const DType dtype = options_.only_f64 ? DType::f64 : DType::f32;
      Value target;
      for (int i = 0; i < 3; ++i) {
        const Value part = ops::mean(g(), any([&](const TensorType& t) { return t.dtype == dtype; }));
        target = target.valid() ? ops::add(g(), target, part) : part;
      }
      std::vector<Value> sources;
      for (int n = 0; n < size; ++n) {
        const Node& node = g()[n];
        const bool leaf = node.op == &ops::def::input || (node.op->effect == ir::Effect::read && node.types[0].dtype == dtype);
        if (leaf && is_floating(node.types[0].dtype)) sources.push_back({n, 0});
      }
      std::vector<Value> gradients =
          autodiff::gradient(g(), {.targets = {&target, 1}, .cotangents = {}, .sources = sources, .first_node = 0, .blocks = {}});
      if (!run_new_nodes_loosely()) throw Error(ErrorKind::internal, {.what = "unusable gradient", .where = "", .why = "", .fix = ""});
      out_.target = target;
      for (size_t i = 0; i < sources.size(); ++i)
        if (gradients[i].valid()) out_.sources.push_back(sources[i]), out_.gradients.push_back(gradients[i]);
      if (out_.sources.empty()) throw Error(ErrorKind::internal, {.what = "no gradient", .where = "", .why = "", .fix = ""});
      update_variables();
      return true;
    } catch (const Error&) {
      g().truncate(size);
      results_.resize(size_t(size));
      pool_ = pool;
      now_ = before;
      out_.target = {};
      out_.sources.clear();
      out_.gradients.clear();
      return false;
    }
  }
  // An optimizer step: SGD, momentum or Adam, on Variables that were read.
  void update_variables() {
    for (size_t i = 0; i < out_.sources.size(); ++i) {
      const int r = ir::resource_of(g()[out_.sources[i]]);
      if (r < 0 || !chance(0.8)) continue;
      const TensorType t = type(out_.gradients[i]);
      const Value d = out_.gradients[i];
      auto scalar = [&](double v) { return ops::scalar(g(), t.dtype, v); };
      const Value rate = ops::mul(g(), ops::read(g(), variables_.back()), scalar(0.1));
      const int kind = number(0, 2);
      Value step;
      if (kind == 0) {
        step = ops::mul(g(), rate, d);
      } else {
        const int m = new_resource(t);
        const Value now = ops::read(g(), m),
                    next = ops::add(g(), ops::mul(g(), now, scalar(0.9)), kind == 1 ? d : ops::mul(g(), d, scalar(0.1)));
        ops::assign(g(), m, next);
        step = ops::mul(g(), rate, next);
        if (kind == 2) {
          const int v = new_resource(t);
          out_.resources[v] = now_[v] = random_tensor(t, 0.1, 0.7);
          const Value second =
              ops::add(g(), ops::mul(g(), ops::read(g(), v), scalar(0.99)), ops::mul(g(), ops::square(g(), d), scalar(0.01)));
          ops::assign(g(), v, second);
          step = ops::div(g(), step, ops::add(g(), ops::sqrt(g(), second), scalar(1e-3)));
        }
      }
      if (r != variables_.back()) ops::assign(g(), r, ops::sub(g(), ops::read(g(), r), step));
    }
  }

  void choose_outputs() {
    std::vector<Value> outputs;
    for (int i = 0; i < 4; ++i) outputs.push_back(any([](const TensorType&) { return true; }));
    if (out_.target.valid()) outputs.push_back(out_.target);
    for (Value v : out_.gradients)
      if (chance(0.4)) outputs.push_back(v);
    g().outputs = outputs;
  }
};

}  // namespace

RandomGraph random_graph(uint64_t seed, const RandomGraphOptions& options) { return Generator(seed, options).run(); }

}  // namespace lamina::tests
