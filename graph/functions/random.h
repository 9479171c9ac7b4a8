// Random draws. The default generator is a Variable, i64[2] {seed, counter}: a draw reads it and assigns the advanced counter. Eager and
// traced programs give the same numbers, with any number of threads.
#pragma once
#include <array>
#include <optional>

#include "graph/frontend/substitute.h"
#include "graph/frontend/tensor.h"
#include "graph/frontend/variable.h"

namespace lamina {

namespace random {
LAMINA_API void set_seed(int64_t seed);   // resets the counter to 0
LAMINA_API Variable default_generator();  // the GeneratorScope's of this thread, else the process's
// While it lives, this thread draws from another generator, i64[2] {seed, counter}. A stacked one gives each model of an ensemble the
// numbers that it would draw alone.
class LAMINA_API GeneratorScope {
 public:
  explicit GeneratorScope(std::optional<Variable> generator);  // empty: the process's
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  std::optional<Variable> before_;
};
// A number that follows from a seed and a number, without pattern.
LAMINA_API uint64_t mixed(uint64_t seed, uint64_t number);
// While it lives, this thread's draws and host seeds follow from `seed` alone, also draws of traced functions that it calls. What it traces
// draws from the generator, as elsewhere.
class LAMINA_API SeedScope {
 public:
  explicit SeedScope(uint64_t seed);
  ~SeedScope();
  SeedScope(const SeedScope&) = delete;
  SeedScope& operator=(const SeedScope&) = delete;
  static SeedScope* current();
  const Variable& generator() { return substitute_.by(); }
  uint64_t next_seed() { return mixed(seed_, ++asked_); }

 private:
  const uint64_t seed_;
  uint64_t asked_ = 0;
  Substitute substitute_;
  SeedScope* before_;
};
// The same without a scope; returns the previous one.
LAMINA_API std::optional<Variable> use_generator(std::optional<Variable> generator);
// What draws and host seeds follow from: {seed, number of host seeds drawn, the generator's seed and counter}.
using State = std::array<int64_t, 4>;
LAMINA_API State state();
LAMINA_API void set_state(const State& state);
LAMINA_API Tensor uniform(const Shape& shape, DType dtype = DType::f32, double low = 0, double high = 1,
                          CallSite at = std::source_location::current());
LAMINA_API Tensor normal(const Shape& shape, DType dtype = DType::f32, double mean = 0, double deviation = 1,
                         CallSite at = std::source_location::current());
// The same with parameters that broadcast to the shape, through which gradients flow: low + (high - low) u, mean + deviation z, of the
// parameters' dtype unless one is given.
LAMINA_API Tensor uniform(const Shape& shape, std::optional<DType> dtype, const Operand& low, const Operand& high);
LAMINA_API Tensor normal(const Shape& shape, std::optional<DType> dtype, const Operand& mean, const Operand& deviation);
// Integers in [low, high), all equally likely.
LAMINA_API Tensor integers(const Shape& shape, int64_t low, int64_t high, DType dtype = DType::i32,
                           CallSite at = std::source_location::current());
// The same with integer tensors as bounds, which broadcast with the shape: at most 2^31 apart, and low < high, otherwise an error of kind
// assertion at run time. Draws the same numbers as bounds given as numbers.
LAMINA_API Tensor integers(const Shape& shape, const Operand& low, const Operand& high, DType dtype = DType::i32);
// Normal numbers conditioned to lie in [low, high]; the bounds apply to the result.
LAMINA_API Tensor truncated_normal(const Shape& shape, DType dtype = DType::f32, double mean = 0, double deviation = 1, double low = -2,
                                   double high = 2, CallSite at = std::source_location::current());
// -log(1 - u) / rate with u uniform in [0, 1): waiting times with `rate` events per unit.
LAMINA_API Tensor exponential(const Shape& shape, DType dtype = DType::f32, double rate = 1, CallSite at = std::source_location::current());
LAMINA_API Tensor exponential(const Shape& shape, std::optional<DType> dtype, const Operand& rate);  // throws assertion for a rate <= 0
// true with probability p (a number or floating tensor), one draw per element of p: u < p with u uniform in [0, 1). Throws assertion, as
// categorical() and choice() do, for what is no distribution.
LAMINA_API Tensor bernoulli(const Operand& p);
// The same for a shape to which p broadcasts.
LAMINA_API Tensor bernoulli(const Operand& p, const Shape& shape);
// i64 classes [shape..., logits' axes but the last]; class i has probability softmax(logits)[..., i]. Gumbel trick: the argmax of logits -
// log(-log(u)), with u uniform in [0, 1) per class.
LAMINA_API Tensor categorical(const Operand& logits, const Shape& shape = {});
// 0, ..., n - 1 in random order (i64): argsort of n random 64-bit numbers.
LAMINA_API Tensor permutation(int64_t n, CallSite at = std::source_location::current());
// x with its slices along an axis in random order.
LAMINA_API Tensor shuffle(const Operand& x, int axis = 0);
// All draws go through this function. It appends the default generator's state to `inputs` as the op's last input and advances the counter.
// An op whose OpDef::draws is false gets no state, so that vmap never gives all models the same draw.
LAMINA_API Tensor draw(const ir::OpDef& op, ir::AttrsRef attrs, std::vector<Tensor> inputs, CallSite at);
// A seed for randomness on the host: initial weights, shuffling. It depends on set_seed's seed and on how many host seeds were taken since,
// not on draws. A model therefore gets the same weights whether an eager or a traced call builds it.
LAMINA_API uint64_t next_host_seed();
// A seed for what a step of a Dataset draws. It depends on set_seed's seed and on how many such seeds were taken since.
LAMINA_API uint64_t next_step_seed();
}  // namespace random

inline Tensor uniform(const Shape& shape, DType dtype = DType::f32, double low = 0, double high = 1,
                      CallSite at = std::source_location::current()) {
  return random::uniform(shape, dtype, low, high, at);
}
// Sets each element to 0 with probability rate and scales the others by 1 / (1 - rate). 0 <= rate < 1.
LAMINA_API Tensor dropout(const Operand& x, double rate);

}  // namespace lamina
