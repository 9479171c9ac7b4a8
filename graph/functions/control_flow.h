// cond, while_loop, scan and fori_loop: branches and loops that depend on data. checkpoint: recomputation for gradients. Eagerly they
// simply run. In a traced function, each branch or body is traced once into a region of one node; it may use outside tensors, and read and
// assign Variables (and random generators) as usual. Branches and bodies return tensors, or vectors, pairs and tuples of them.
#pragma once
#include <functional>

#include "graph/frontend/typed_function.h"
#include "graph/functions/op_functions.h"

namespace lamina {

struct LoopOptions {
  int64_t maximum_iterations = -1;      // limit; with one, the gradient's memory is planned. -1: none
  std::vector<std::string> names = {};  // of the loop variables, for errors
};
struct ScanOptions {
  int64_t length = -1;   // number of iterations; needed when nothing is stacked
  bool reverse = false;  // from the last slice to the first; result i still belongs to slice i
  std::vector<std::string> names = {};
};

// The same for lists of tensors, called by the templates below and by the bindings.
namespace control {
using Branch = std::function<std::vector<Tensor>()>;
using Body = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
using Condition = std::function<Tensor(std::span<const Tensor>)>;
LAMINA_API std::vector<Tensor> cond(const Operand& pred, const Branch& then, const Branch& otherwise,
                                    const std::vector<std::string>& names = {});
LAMINA_API std::vector<Tensor> while_loop(const Condition& condition, const Body& body, std::vector<Tensor> init,
                                          const LoopOptions& options, CallSite at);
// body: carried values, then a slice of each of xs -> carried values, then ys. Returns the final carried values, then the stacked ys.
LAMINA_API std::vector<Tensor> scan(const Body& body, std::vector<Tensor> init, std::vector<Tensor> xs, const ScanOptions& options,
                                    CallSite at);
// The number of fori_loop's iterations; i is i64 where one of its values does not fit i32. Throws invalid_argument for 2^63 and more.
struct Count {
  int64_t iterations = 0;
  DType dtype = DType::i32;
};
LAMINA_API Count count(int64_t lower, int64_t upper, CallSite at);
LAMINA_API void require_index(const Tensor& index, CallSite at);  // throws type unless it is an integer
// body's results; in a trace, its values are recomputed for the gradient. Eagerly: body().
LAMINA_API std::vector<Tensor> checkpoint(const Branch& body, CallSite at);
// body(inputs) -> results, and a function from one cotangent per floating-point result to one gradient per input. Other tensors and
// Variables that the body uses get no gradient through it, and it may not assign Variables.
struct WithGradient {
  std::vector<Tensor> results;
  std::function<std::vector<Tensor>(std::span<const Tensor> cotangents)> gradient;
};
LAMINA_API std::vector<Tensor> custom_gradient(const std::function<WithGradient(std::span<const Tensor>)>& body,
                                               const std::vector<Tensor>& inputs, CallSite at);
}  // namespace control

namespace typed {
// Flattens structures of tensors and rebuilds them.
template <class T>
std::vector<Tensor> leaves(const T& value, std::vector<size_t>* sizes = nullptr) {
  std::vector<Tensor> out;
  std::vector<size_t> own;
  flatten_result(out, sizes ? *sizes : own, value);
  return out;
}
template <class T>
T assemble(std::span<const Tensor> in, const std::vector<size_t>& sizes) {
  size_t size = 0;
  return rebuild_result<T>(in, sizes, size);
}
// Calls f(state), or f(part, part, ...) if it takes the parts of a tuple.
template <class F, class T>
decltype(auto) call_with(F& f, const T& state) {
  if constexpr (std::is_invocable_v<F&, const T&>)
    return f(state);
  else
    return std::apply(f, state);
}
}  // namespace typed

// then() if pred (one bool) is true, else otherwise(). Both must return the same structure, dtypes and shapes, or it is an Error here.
template <class Then, class Otherwise>
auto cond(const Operand& pred, Then then, Otherwise otherwise) {
  using Result = typename typed::Outside<std::invoke_result_t<Then&>>::type;
  static_assert(std::is_same_v<Result, typename typed::Outside<std::invoke_result_t<Otherwise&>>::type>,
                "both branches of lm::cond return the same type");
  std::vector<size_t> sizes, other;
  const std::vector<Tensor> out =
      control::cond(pred, [&] { return typed::leaves(then(), &sizes); }, [&] { return typed::leaves(otherwise(), &other); });
  return typed::assemble<Result>(out, sizes.empty() ? other : sizes);
}

// branches[index](); all must return the same types, and the index is clamped. Built from conds, log2(branches) deep.
template <class Result>
Result switch_case(const Tensor& index, const std::vector<std::function<Result()>>& branches,
                   CallSite at = std::source_location::current()) {
  if (branches.empty())
    throw Error(ErrorKind::invalid_argument, {.what = "switch_case: there is no branch",
                                              .where = text(at.line()),
                                              .why = "one of them is run",
                                              .fix = "pass a vector of functions"});
  control::require_index(index, at);
  std::function<Result(size_t, size_t)> choose = [&](size_t first, size_t end) -> Result {
    if (end - first == 1) return given(branches[first], "switch_case")();
    const size_t middle = (first + end) / 2;
    return cond(
        Operand(less(Operand(index, at), Operand(int64_t(middle), at)), at), [&] { return choose(first, middle); },
        [&] { return choose(middle, end); });
  };
  return choose(0, branches.size());
}

// Repeats state = body(state) while condition(state) is true; returns the final state. A state is a Tensor, or a vector, pair or tuple of
// them; body and condition may take a tuple's parts as separate parameters. A change of dtype or shape is an Error here.
template <class Condition, class Body, class State>
State while_loop(Condition condition, Body body, const State& init, const LoopOptions& options = {},
                 CallSite at = std::source_location::current()) {
  std::vector<size_t> sizes;
  std::vector<Tensor> in = typed::leaves(init, &sizes);
  const auto test = [&](std::span<const Tensor> state) -> Tensor {
    return typed::call_with(condition, typed::assemble<State>(state, sizes));
  };
  const auto step = [&](std::span<const Tensor> state) {
    return typed::leaves(State(typed::call_with(body, typed::assemble<State>(state, sizes))));
  };
  return typed::assemble<State>(control::while_loop(test, step, std::move(in), options, at), sizes);
}

// {state, y} = body(state, x) for each slice x of xs along its first axis. Returns {final state, stacked ys}. Each is a Tensor, vector,
// pair or tuple; xs may be an empty vector when options give the length.
template <class Body, class State, class Xs>
auto scan(Body body, const State& init, const Xs& xs, const ScanOptions& options = {}, CallSite at = std::source_location::current()) {
  using Result = std::invoke_result_t<Body&, const State&, const Xs&>;
  using Y = typename std::tuple_element<1, Result>::type;
  std::vector<size_t> state_sizes, x_sizes, y_sizes;
  std::vector<Tensor> in = typed::leaves(init, &state_sizes), stacked = typed::leaves(xs, &x_sizes);
  const size_t carried = in.size();
  const auto step = [&](std::span<const Tensor> all) {
    const Result result = body(typed::assemble<State>(all.first(carried), state_sizes), typed::assemble<Xs>(all.subspan(carried), x_sizes));
    y_sizes.clear();
    std::vector<Tensor> out = typed::leaves(State(std::get<0>(result))), ys = typed::leaves(std::get<1>(result), &y_sizes);
    out.insert(out.end(), ys.begin(), ys.end());
    return out;
  };
  const std::vector<Tensor> out = control::scan(step, std::move(in), std::move(stacked), options, at);
  const std::span<const Tensor> all(out);
  return std::pair<State, Y>(typed::assemble<State>(all.first(carried), state_sizes), typed::assemble<Y>(all.subspan(carried), y_sizes));
}

// state = body(i, state) for i from lower to upper - 1; i is a tensor without axes: i32, or i64 where a bound does not fit i32.
template <class Body, class State>
State fori_loop(int64_t lower, int64_t upper, Body body, const State& init, CallSite at = std::source_location::current()) {
  const control::Count count = control::count(lower, upper, at);
  std::vector<size_t> sizes;
  std::vector<Tensor> in = typed::leaves(init, &sizes);
  in.insert(in.begin(), scalar_i(count.iterations > 0 ? lower : 0, count.dtype, at));
  const auto step = [&](std::span<const Tensor> all) {
    std::vector<Tensor> out = typed::leaves(State(body(all[0], typed::assemble<State>(all.subspan(1), sizes))));
    out.insert(out.begin(), add(Operand(all[0], at), Operand(1, at)));
    return out;
  };
  ScanOptions options;
  options.length = count.iterations;
  const std::vector<Tensor> out = control::scan(step, std::move(in), {}, options, at);
  return typed::assemble<State>(std::span<const Tensor>(out).subspan(1), sizes);
}

// f with gradients that use less memory: in a traced function its values are not kept but recomputed when the gradient needs them, with the
// same bits. f(x...) returns a Tensor, or a vector, pair or tuple of them; eagerly it just runs.
template <class F>
auto checkpoint(F f, CallSite at = std::source_location::current()) {
  return [f, at](const auto&... x) {
    using Result = typename typed::Outside<std::invoke_result_t<const F&, decltype(x)...>>::type;
    std::vector<size_t> sizes;
    const std::vector<Tensor> out = control::checkpoint([&] { return typed::leaves(f(x...), &sizes); }, at);
    return typed::assemble<Result>(out, sizes);
  };
}

}  // namespace lamina
