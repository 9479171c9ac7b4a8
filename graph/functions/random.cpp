#include "graph/functions/random.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "graph/frontend/device.h"
#include "graph/frontend/eager.h"
#include "graph/frontend/factories.h"
#include "graph/frontend/trace.h"
#include "graph/functions/in_f32.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/random_key.h"
#include "graph/functions/reporting.h"
#include "graph/functions/sorting.h"
#include "graph/ops/ops.h"
#include "runtime/core/mutex.h"

namespace lamina {
namespace random {
namespace {

// Serialises eager draws of several threads.
RecursiveMutex& turn() {
  static auto* m = new RecursiveMutex;
  return *m;
}

// Seeds for host code: how many were taken since set_seed.
struct HostSeeds {
  Mutex mutex;
  int64_t seed = 0;
  uint64_t asked = 0, steps = 0;
};
HostSeeds& host_seeds() {
  static auto* seeds = new HostSeeds;
  return *seeds;
}

ir::AttrsRef draw_attrs(const Shape& shape, DType dtype, double a, double b) {
  return ir::make_attrs(ops::RandomAttrs{{dtype, shape}, a, b});
}

}  // namespace

namespace {
thread_local std::optional<Variable> used_generator;
thread_local Tensor used_key;  // undefined outside of a KeyScope
thread_local SeedScope* seed_scope = nullptr;

Variable process_generator() {
  static auto* generator = [] {
    EagerScope outside;
    return new Variable(tensor(std::vector<int64_t>{0, 0}), "random.generator", false);
  }();
  return *generator;
}
}  // namespace

std::optional<Variable> use_generator(std::optional<Variable> generator) { return std::exchange(used_generator, std::move(generator)); }
GeneratorScope::GeneratorScope(std::optional<Variable> generator) : before_(use_generator(std::move(generator))) {}
GeneratorScope::~GeneratorScope() { use_generator(std::move(before_)); }
Variable default_generator() {
  if (used_generator) return *used_generator;
  SeedScope* seeds = SeedScope::current();
  return seeds && executing_eagerly() ? seeds->generator() : process_generator();
}

SeedScope::SeedScope(uint64_t seed)
    : seed_(seed),
      substitute_(process_generator(),
                  [seed] {
                    const EagerScope outside;
                    const Beside there(process_generator().device());
                    return Variable(tensor(std::vector<int64_t>{int64_t(seed), 0}), "random.generator", false);
                  }),
      before_(std::exchange(seed_scope, this)) {}
SeedScope::~SeedScope() { seed_scope = before_; }
SeedScope* SeedScope::current() { return seed_scope && Substitute::current() == &seed_scope->substitute_ ? seed_scope : nullptr; }

State state() {
  EagerScope outside;
  const std::vector<int64_t> draws = process_generator().read().to_vector<int64_t>();
  HostSeeds& h = host_seeds();
  std::lock_guard lock(h.mutex);
  return {h.seed, int64_t(h.asked), draws[0], draws[1]};
}
void set_state(const State& state) {
  EagerScope outside;
  process_generator().assign(tensor(std::vector<int64_t>{state[2], state[3]}));
  HostSeeds& h = host_seeds();
  std::lock_guard lock(h.mutex);
  h.seed = state[0];
  h.asked = uint64_t(state[1]);
}

void set_seed(int64_t seed) {
  process_generator().assign(tensor(std::vector<int64_t>{seed, 0}));  // first, because it may run out of memory
  HostSeeds& h = host_seeds();
  std::lock_guard lock(h.mutex);
  h.seed = seed;
  h.asked = h.steps = 0;
}

namespace {
// Takes one draw from `generator`: returns its state {seed, counter} and advances the counter.
Tensor next_state(const Variable& generator, CallSite at) {
  std::unique_lock lock(turn(), std::defer_lock);
  if (executing_eagerly()) lock.lock();
  Tensor state = generator.read(at);
  const Beside there(state.device());
  generator.assign(Operand(add(Operand(state, at), Operand(tensor(std::vector<int64_t>{0, 1}), at)), at));
  return state;
}
Tensor advanced(const Tensor& state, int64_t draws, CallSite at) {
  const Beside there(state.device());
  return add(Operand(state, at), Operand(tensor(std::vector<int64_t>{0, draws}), at));
}
Tensor next_of_key(CallSite at) {
  Tensor state = used_key;
  used_key = advanced(state, 1, at);
  return state;
}
}  // namespace

Tensor key(int64_t seed) { return tensor(std::vector<int64_t>{seed, 0}); }

KeyScope::KeyScope(const Operand& key) {
  const Tensor t = key.resolve();
  if (t.dtype() != DType::i64 || t.rank() == 0 || t.shape().back() != Dim(2))
    throw Error(t.dtype() == DType::i64 ? ErrorKind::invalid_argument : ErrorKind::type,
                {.what = cat("random: ", t.type(), " is no key"),
                 .where = text(key.at().line()),
                 .why = "a key is i64[2]: a seed and a counter",
                 .fix = "make one: lm.random.key(seed), or split another"});
  before_ = std::exchange(used_key, t);
}
KeyScope::~KeyScope() { used_key = std::move(before_); }

Tensor split(const Operand& key, int64_t count) {
  const CallSite at = key.at();
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  if (count < 1)
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("split: ", count, " keys"), .where = text(at.line()), .why = "at least one is made", .fix = "pass 1 or more"});
  const Tensor apart = advanced(key.resolve(), int64_t{1} << 62, at);  // no draw from the key itself uses these numbers
  const KeyScope scope(o(apart));
  const Tensor bits = integers({count, 2}, 0, int64_t{1} << 31, DType::i64, at);
  const Tensor high = index(o(bits), {IndexPart::range(), IndexPart::at(0)}), low = index(o(bits), {IndexPart::range(), IndexPart::at(1)});
  const Tensor seeds = add(o(mul(o(high), Operand(int64_t{1} << 31, at))), o(low));
  return stack({seeds, zeros_like(o(seeds))}, 1, at);
}

namespace {
// check() of a distribution's parameter.
void require(const Tensor& fits, const std::string& what, std::pair<std::string, Tensor> parameter, CallSite at) {
  try {
    check(Operand(fits, at), what, {}, {std::move(parameter)});
  } catch (const Error& e) {
    if (e.kind != ErrorKind::assertion) throw;
    throw Error(e.kind, {e.parts.what, e.parts.where, e.parts.why, "clip the parameter, or look at where it comes from"});
  }
}

// Numbers of categories along the last axis, by Gumbel's trick.
Tensor by_logits(const Tensor& logits, const Shape& shape, CallSite at) {
  auto here = [&](const Tensor& t) { return Operand(t, at); };
  Shape all = shape;
  all.insert(all.end(), logits.shape().begin(), logits.shape().end());
  // In at least f32: few bits would cause ties.
  const DType dtype = logits.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor u = random::uniform(all, dtype, 0, 1, at);
  const Tensor gumbel = neg(here(log(here(neg(here(log(here(u))))))));
  return argmax(here(add(here(gumbel), here(astype(here(logits), dtype)))), -1);
}
}  // namespace

Tensor choice(int64_t n, const Shape& shape, bool replace, const Tensor& p, CallSite at) {
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  const auto refuse = [&](const std::string& what, const std::string& why, const std::string& fix) {
    throw Error(ErrorKind::invalid_argument, {.what = "choice: " + what, .where = text(at.line()), .why = why, .fix = fix});
  };
  if (p.defined() && (p.rank() != 1 || p.shape()[0] != Dim(n)))
    refuse(cat("p is ", p.type(), " for ", n, " numbers"), "each has its probability", "pass a vector with one per number");
  if (n < 1 && size_of(shape) != Dim(0)) refuse(cat("one of ", n), "there is nothing to choose from", "pass at least 1");
  if (p.defined() && size_of(shape) != Dim(0)) {
    const int64_t least = replace ? 1 : size_of(shape).number();
    const Tensor good = logical_and(o(greater_equal(o(p), Operand(0.0, at))), o(isfinite(o(p))));
    const Tensor possible = sum(o(astype(o(greater(o(p), Operand(0.0, at))), DType::i64)));
    require(logical_and(o(good), o(greater_equal(o(possible), Operand(least, at)))),
            cat("random.choice: p must be finite numbers from 0 on, of which ", least, " or more are above 0"), {"p", p}, at);
  }
  if (replace) return p.defined() ? by_logits(log(o(p)), shape, at) : integers(shape, 0, std::max<int64_t>(n, 1), DType::i64, at);
  const int64_t count = size_of(shape).number();
  if (count > n) refuse(cat(count, " of ", n, " without replacement"), "no number comes twice", "draw fewer, or with replacement");
  // With probabilities: the order of exponential waiting times at rates p.
  const Tensor order = p.defined() ? argsort(o(div(o(exponential({n}, p.dtype(), 1, at)), o(p)))) : permutation(n, at);
  return reshape_to(o(slice(o(astype(o(order), DType::i64)), {0}, {count})), shape);
}

Tensor draw(const ir::OpDef& op, ir::AttrsRef attrs, std::vector<Tensor> inputs, CallSite at) {
  if (!op.draws) internal_error(cat(op.name, ": it draws and its OpDef does not say so"));
  inputs.push_back(used_key.defined() ? next_of_key(at) : next_state(default_generator(), at));
  return apply_one(op, std::move(attrs), inputs, at);
}

uint64_t mixed(uint64_t seed, uint64_t number) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + number;  // splitmix64's mixing
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}
uint64_t next_host_seed() {
  if (SeedScope* own = SeedScope::current()) return own->next_seed();
  HostSeeds& h = host_seeds();
  std::lock_guard lock(h.mutex);
  return mixed(uint64_t(h.seed), ++h.asked);
}
uint64_t next_step_seed() {
  if (SeedScope* own = SeedScope::current()) return own->next_seed();
  HostSeeds& h = host_seeds();
  std::lock_guard lock(h.mutex);
  return mixed(mixed(uint64_t(h.seed), ++h.steps), 1);  // host seeds have other numbers
}

Tensor uniform(const Shape& shape, DType dtype, double low, double high, CallSite at) {
  return draw(ops::def::random_uniform, draw_attrs(shape, dtype, low, high), {}, at);
}
Tensor normal(const Shape& shape, DType dtype, double mean, double deviation, CallSite at) {
  return draw(ops::def::random_normal, draw_attrs(shape, dtype, mean, deviation), {}, at);
}

namespace {
// The parameters of draws of this shape, in the draws' dtype.
std::vector<Tensor> parameters(const char* draw, const Shape& shape, std::optional<DType> dtype, std::span<const Operand> given) {
  const bool has_tensor =
      std::any_of(given.begin(), given.end(), [](const Operand& o) { return o.is_tensor() && o.tensor().strength() == Strength::tensor; });
  if (!has_tensor && !dtype) dtype = DType::f32;
  std::vector<Tensor> out = resolve_all(draw, given, Mixing::fractions);
  for (Tensor& t : out) {
    const auto o = [&] { return Operand(t, given[0].at()); };
    if (dtype && t.dtype() != *dtype) t = astype(o(), *dtype);
    t = broadcast_to(o(), shape);
  }
  return out;
}
}  // namespace

Tensor uniform(const Shape& shape, std::optional<DType> dtype, const Operand& low, const Operand& high) {
  const CallSite at = low.at();
  const auto o = [&](const Tensor& t) { return Operand(t, at); };
  const std::vector<Tensor> ends = parameters("random.uniform", shape, dtype, std::array{low, high});
  const Tensor u = random::uniform(shape, ends[0].dtype(), 0, 1, at);
  return add(o(ends[0]), o(mul(o(sub(o(ends[1]), o(ends[0]))), o(u))));
}
Tensor normal(const Shape& shape, std::optional<DType> dtype, const Operand& mean, const Operand& deviation) {
  const CallSite at = mean.at();
  const auto o = [&](const Tensor& t) { return Operand(t, at); };
  const std::vector<Tensor> of = parameters("random.normal", shape, dtype, std::array{mean, deviation});
  return add(o(of[0]), o(mul(o(of[1]), o(random::normal(shape, of[0].dtype(), 0, 1, at)))));
}

Tensor integers(const Shape& shape, int64_t low, int64_t high, DType dtype, CallSite at) {
  return draw(ops::def::random_integers, ir::make_attrs(ops::RandomIntegersAttrs{{dtype, shape}, low, high}), {}, at);
}
Tensor integers(const Shape& given, const Operand& low, const Operand& high, DType dtype) {
  const CallSite at = low.at();
  auto here = [&](const Tensor& t) { return Operand(t, at); };
  auto number = [&](int64_t n) { return Operand(n, at); };
  auto bound = [&](const Operand& b) {
    const Tensor t = b.resolve();
    if (!is_integer(t.dtype()))
      throw Error(ErrorKind::type, {.what = cat("random.integers: a bound is ", t.type()),
                                    .where = text(at.line()),
                                    .why = "whole numbers lie between whole numbers",
                                    .fix = "convert it: lm.astype(x, lm.int64)"});
    return astype(here(t), DType::i64);
  };
  const Tensor first = bound(low), end = bound(high), range = sub(here(end), here(first));
  const Shape shape = broadcast(given, range.shape());
  auto [least, most] = with_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, uint64_t>) return std::pair(int64_t(0), std::numeric_limits<int64_t>::max());
    if constexpr (std::is_integral_v<T>)
      return std::pair(int64_t(std::numeric_limits<T>::lowest()), int64_t(std::numeric_limits<T>::max()));
    return std::pair<int64_t, int64_t>(0, -1);  // the draw refuses it below
  });
  // 64 random bits: the op's draw for the full range has one value fewer.
  constexpr int64_t lowest = std::numeric_limits<int64_t>::min(), low_half = 0xffffffff;
  if (!is_integer(dtype)) return integers(shape, 0, 1, dtype, at);
  const Tensor fits = logical_and(
      here(logical_and(here(greater(here(range), number(0))), here(less_equal(here(range), number(int64_t{1} << 31))))),
      here(logical_and(here(greater_equal(here(first), number(least))), here(less_equal(here(sub(here(end), number(1))), number(most))))));
  check(here(fits), "random.integers: low must be less than high, at most 2**31 apart, and the dtype must hold what lies between", {},
        {{"low", first}, {"high", end}});
  const Tensor bits = add(here(integers(shape, lowest, std::numeric_limits<int64_t>::max(), DType::i64, at)), number(lowest + 1));
  // The upper 64 of the 128 bits of bits * range.
  const Tensor upper = bitwise_and(here(shift_right(here(bits), number(32))), number(low_half)),
               lower = bitwise_and(here(bits), number(low_half));
  const Tensor product = add(here(mul(here(upper), here(range))), here(shift_right(here(mul(here(lower), here(range))), number(32))));
  return astype(here(add(here(first), here(shift_right(here(product), number(32))))), dtype);
}
Tensor truncated_normal(const Shape& shape, DType dtype, double mean, double deviation, double low, double high, CallSite at) {
  return draw(ops::def::random_truncated_normal, ir::make_attrs(ops::TruncatedNormalAttrs{{dtype, shape}, mean, deviation, low, high}), {},
              at);
}
Tensor exponential(const Shape& shape, DType dtype, double rate, CallSite at) {
  if (!(rate > 0))
    throw Error(ErrorKind::invalid_argument, {.what = cat("exponential: a rate of ", rate),
                                              .where = text(at.line()),
                                              .why = "it is how many events there are per unit",
                                              .fix = "pass a positive rate"});
  const Tensor u = random::uniform(shape, is_half(dtype) ? DType::f32 : dtype, 0, 1, at);
  const Tensor waiting = neg(Operand(log(Operand(sub(Operand(1.0, at), Operand(u, at)), at)), at));
  return narrowed(rate == 1 ? waiting : div(Operand(waiting, at), Operand(rate, at)), dtype, at);
}

Tensor exponential(const Shape& shape, std::optional<DType> dtype, const Operand& rate) {
  const CallSite at = rate.at();
  const Tensor of = parameters("random.exponential", shape, dtype, std::array{rate})[0];
  require(greater(Operand(of, at), Operand(0.0, at)), "random.exponential: a rate must be positive", {"rate", of}, at);
  return div(Operand(random::exponential(shape, of.dtype(), 1, at), at), Operand(of, at));
}

Tensor bernoulli(const Operand& p) { return bernoulli(p, p.resolve().shape()); }
Tensor bernoulli(const Operand& p, const Shape& shape) {
  const Tensor probability = p.kind() == Operand::Kind::integer ? scalar(p.number()) : widened(p);
  if (p.is_tensor() || !(p.number() >= 0 && p.number() <= 1)) {
    const auto o = [&](const Tensor& t) { return Operand(t, p.at()); };
    require(logical_and(o(greater_equal(o(probability), Operand(0.0, p.at()))), o(less_equal(o(probability), Operand(1.0, p.at())))),
            "random.bernoulli: p must be numbers from 0 to 1", {"p", probability}, p.at());
  }
  const Tensor spread = broadcast_to(Operand(probability, p.at()), shape);
  return less(Operand(random::uniform(shape, probability.dtype(), 0, 1, p.at()), p.at()), Operand(spread, p.at()));
}

Tensor categorical(const Operand& operand, const Shape& shape) {
  const CallSite at = operand.at();
  const Tensor logits = operand.resolve();
  if (logits.rank() == 0 || !is_floating(logits.dtype()))
    throw Error(ErrorKind::invalid_argument, {.what = cat("categorical: ", logits.type(), " are no logits"),
                                              .where = text(at.line()),
                                              .why = "the last axis has a floating-point number per category",
                                              .fix = "pass log probabilities [..., categories]"});
  if (size_of(shape) != Dim(0) && size_of(logits.shape()) != Dim(0))
    require(isfinite(Operand(max(Operand(logits, at), std::vector<int64_t>{-1}), at)),
            "random.categorical: logits must have no NaN and no infinity, and one above minus infinity in each row", {"logits", logits},
            at);
  return by_logits(logits, shape, at);
}

Tensor permutation(int64_t n, CallSite at) {
  if (n < 0)
    throw Error(ErrorKind::invalid_argument, {.what = cat("permutation: of ", n, " numbers"),
                                              .where = text(at.line()),
                                              .why = "it says how many there are",
                                              .fix = "pass a number that is not negative"});
  const Tensor keys = integers({n}, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), DType::i64, at);
  return argsort(Operand(keys, at));
}
Tensor shuffle(const Operand& operand, int axis) {
  const Tensor x = operand.resolve();
  const int a = normalize_axis("shuffle", axis, size_t(x.rank()));
  return gather(Operand(x, operand.at()), Operand(permutation(x.shape()[size_t(a)].number(), operand.at()), operand.at()), a);
}

}  // namespace random

Tensor dropout(const Operand& x, double rate) {
  return random::draw(ops::def::dropout, ir::make_attrs(ops::DropoutAttrs{float(rate)}), {x.resolve()}, x.at());
}

}  // namespace lamina
