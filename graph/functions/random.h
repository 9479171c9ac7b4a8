// Random draws. The default generator is a Variable, i64[2] {seed, counter}: a draw reads it and assigns the advanced counter, so eager and
// traced programs, and every thread count, give the same numbers.
#pragma once
#include <array>
#include <optional>

#include "graph/frontend/tensor.h"
#include "graph/frontend/variable.h"

namespace lamina {

namespace random {
LAMINA_API void set_seed(int64_t seed);   // and the counter to 0
LAMINA_API Variable default_generator();  // this thread's GeneratorScope's, else the one of the process
// While it lives, this thread's draws take their numbers from another generator, i64[2] {seed, counter}; a stacked one gives each model of
// an ensemble the numbers that it would draw alone.
class LAMINA_API GeneratorScope {
 public:
  explicit GeneratorScope(std::optional<Variable> generator);  // nothing: the process's
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  std::optional<Variable> before_;
};
// The same by hand: returns what was used before.
LAMINA_API std::optional<Variable> use_generator(std::optional<Variable> generator);
// Everything that set_seed sets: {seed and how many host seeds were asked for, the generator's seed and counter}.
using State = std::array<int64_t, 4>;
LAMINA_API State state();
LAMINA_API void set_state(const State& state);
LAMINA_API Tensor uniform(const Shape& shape, DType dtype = DType::f32, double low = 0, double high = 1,
                          CallSite at = std::source_location::current());
LAMINA_API Tensor normal(const Shape& shape, DType dtype = DType::f32, double mean = 0, double deviation = 1,
                         CallSite at = std::source_location::current());
// Whole numbers from low to high - 1, each equally likely.
LAMINA_API Tensor integers(const Shape& shape, int64_t low, int64_t high, DType dtype = DType::i32,
                           CallSite at = std::source_location::current());
// The same with integer tensors as bounds, which broadcast with the shape: at most 2^31 apart, and low < high, or an error of kind
// assertion when it runs. Bounds that are numbers give the same numbers.
LAMINA_API Tensor integers(const Shape& shape, const Operand& low, const Operand& high, DType dtype = DType::i32);
// Normal numbers given that they lie in [low, high], which are those of the result.
LAMINA_API Tensor truncated_normal(const Shape& shape, DType dtype = DType::f32, double mean = 0, double deviation = 1, double low = -2,
                                   double high = 2, CallSite at = std::source_location::current());
// -log(1 - u) / rate with u uniform in [0, 1): waiting times with `rate` events per unit.
LAMINA_API Tensor exponential(const Shape& shape, DType dtype = DType::f32, double rate = 1, CallSite at = std::source_location::current());
// true with probability p (floating point, or a number), one draw per element of p: u < p with u uniform in [0, 1).
LAMINA_API Tensor bernoulli(const Operand& p);
// The same for a shape to which p broadcasts.
LAMINA_API Tensor bernoulli(const Operand& p, const Shape& shape);
// i64 category numbers [shape..., logits' axes but the last]: number i with the probability softmax(logits)[..., i]. Gumbel's trick: the
// index of the largest of logits - log(-log(u)), with u uniform in [0, 1) for each category.
LAMINA_API Tensor categorical(const Operand& logits, const Shape& shape = {});
// 0, ..., n - 1 in random order (i64): the order of n random 64-bit numbers.
LAMINA_API Tensor permutation(int64_t n, CallSite at = std::source_location::current());
// x with its parts along an axis in random order.
LAMINA_API Tensor shuffle(const Operand& x, int axis = 0);
// The only way for an op to draw: its last input becomes the next state of the default generator, whose counter advances. `inputs` are the
// others. An op whose OpDef::draws is false gets no state, so that vmap cannot give its models one draw.
LAMINA_API Tensor draw(const ir::OpDef& op, ir::AttrsRef attrs, std::vector<Tensor> inputs, CallSite at);
// A seed for randomness on the host: a new weight's first value, the order of a shuffle. It follows from set_seed's seed and from how many
// were asked for since, not from the draws above, so a model has the same weights whether an eager or a traced call builds it.
LAMINA_API uint64_t next_host_seed();
}  // namespace random

inline Tensor uniform(const Shape& shape, DType dtype = DType::f32, double low = 0, double high = 1,
                      CallSite at = std::source_location::current()) {
  return random::uniform(shape, dtype, low, high, at);
}
// Each element is 0 with probability rate, else x / (1 - rate). 0 <= rate < 1.
LAMINA_API Tensor dropout(const Operand& x, double rate);

}  // namespace lamina
