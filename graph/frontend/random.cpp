#include "graph/frontend/random.h"

#include <mutex>
#include <utility>

#include "graph/frontend/eager.h"
#include "graph/frontend/factories.h"
#include "graph/frontend/op_functions.h"
#include "graph/frontend/trace.h"
#include "graph/ops/ops.h"

namespace lamina {
namespace random {
namespace {

// Eager draws of several threads take their numbers one after the other.
std::recursive_mutex& turn() {
  static auto* m = new std::recursive_mutex;
  return *m;
}

// Seeds for host code: which were handed out since set_seed.
struct HostSeeds {
  std::mutex mutex;
  int64_t seed = 0;
  uint64_t asked = 0;
};
HostSeeds& host_seeds() {
  static auto* seeds = new HostSeeds;
  return *seeds;
}

ir::AttrsRef draw_attrs(const Shape& shape, DType dtype, double a, double b) { return ir::make_attrs(ops::RandomAttrs{{dtype, shape}, a, b}); }

}  // namespace

namespace {
thread_local std::optional<Variable> used_generator;

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
Variable default_generator() { return used_generator ? *used_generator : process_generator(); }

State state() {
  EagerScope outside;
  const std::vector<int64_t> draws = process_generator().read().to_vector<int64_t>();
  HostSeeds& h = host_seeds();
  std::lock_guard lock(h.mutex);
  return {h.seed, int64_t(h.asked), draws[0], draws[1]};
}
void set_state(const State& state) {
  {
    HostSeeds& h = host_seeds();
    std::lock_guard lock(h.mutex);
    h.seed = state[0];
    h.asked = uint64_t(state[1]);
  }
  EagerScope outside;
  process_generator().assign(tensor(std::vector<int64_t>{state[2], state[3]}));
}

void set_seed(int64_t seed) {
  {
    HostSeeds& h = host_seeds();
    std::lock_guard lock(h.mutex);
    h.seed = seed;
    h.asked = 0;
  }
  process_generator().assign(tensor(std::vector<int64_t>{seed, 0}));
}

Tensor next_state(const Variable& generator, CallSite at) {
  std::unique_lock lock(turn(), std::defer_lock);
  if (executing_eagerly()) lock.lock();
  Tensor state = generator.read(at);
  static auto* one = [] {
    EagerScope outside;
    return new Tensor(tensor(std::vector<int64_t>{0, 1}));
  }();
  const Tensor step = one->device() == state.device() ? *one : one->to(state.device());
  generator.assign(Operand(add(Operand(state, at), Operand(step, at)), at));
  return state;
}

uint64_t next_host_seed() {
  HostSeeds& h = host_seeds();
  std::lock_guard lock(h.mutex);
  uint64_t x = uint64_t(h.seed) * 0x9e3779b97f4a7c15u + ++h.asked;  // splitmix64's mixing
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

Tensor uniform(const Shape& shape, DType dtype, double low, double high, CallSite at) {
  return apply_one(ops::def::random_uniform, draw_attrs(shape, dtype, low, high), std::array{next_state(default_generator(), at)}, at);
}
Tensor normal(const Shape& shape, DType dtype, double mean, double deviation, CallSite at) {
  return apply_one(ops::def::random_normal, draw_attrs(shape, dtype, mean, deviation), std::array{next_state(default_generator(), at)}, at);
}

}  // namespace random

Tensor dropout(const Operand& x, double rate) {
  return apply_one(ops::def::dropout, ir::make_attrs(ops::DropoutAttrs{float(rate)}), std::array{x.resolve(), random::next_state(random::default_generator(), x.at())}, x.at());
}

}  // namespace lamina
