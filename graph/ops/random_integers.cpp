// random_integers(state, type, low, high) and random_truncated_normal(state, type, mean, deviation, low, high).
#include <cmath>
#include <limits>

#include "graph/ops/batch_draw.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "kernels/random.h"

namespace lamina::ops {
namespace {

const RandomIntegersAttrs& integers_of(const ir::AttrsBase& attrs) { return ir::attrs_of<RandomIntegersAttrs>(attrs); }
const TruncatedNormalAttrs& normal_of(const ir::AttrsBase& attrs) { return ir::attrs_of<TruncatedNormalAttrs>(attrs); }

template <class T>
bool holds(int64_t low, int64_t last) {
  return low >= int64_t(std::numeric_limits<T>::lowest()) && last <= int64_t(std::numeric_limits<T>::max());
}
bool holds(DType dtype, int64_t low, int64_t last) {
  switch (dtype) {
    case DType::u8: return holds<uint8_t>(low, last);
    case DType::i8: return holds<int8_t>(low, last);
    case DType::i16: return holds<int16_t>(low, last);
    case DType::i32: return holds<int32_t>(low, last);
    default: return true;
  }
}

std::vector<TensorType> infer_integers(const ir::InferCall& call) {
  const auto& a = integers_of(call.attrs);
  if (!is_integer(a.type.dtype))
    throw Error(ErrorKind::type, {.what = cat("random_integers: ", a.type, " holds no whole numbers"),
                                  .where = "argument 'dtype'",
                                  .why = "it draws whole numbers",
                                  .fix = "pass an integer dtype such as int32"});
  require_rank("random_integers", a.type.shape);
  if (a.low >= a.high || !holds(a.type.dtype, a.low, a.high - 1))
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("random_integers: low ", a.low, " and high ", a.high, " do not fit"),
                 .where = "arguments 'low' and 'high'",
                 .why = a.low >= a.high ? "the numbers are from low to high - 1, and there is none"
                                        : cat("they are from low to high - 1, which ", name(a.type.dtype), " does not hold"),
                 .fix = "pass low < high, or a wider dtype"});
  require_state("random_integers", call.in[0], a.type.shape);
  return {a.type};
}

std::vector<TensorType> infer_truncated_normal(const ir::InferCall& call) {
  const auto& a = normal_of(call.attrs);
  require_floating("random_truncated_normal", a.type);
  require_rank("random_truncated_normal", a.type.shape);
  const double most = a.type.dtype == DType::f16 ? 65504 : double(std::numeric_limits<float>::max());
  if (!(a.deviation > 0 && a.low < a.high && std::abs(a.low) <= most && std::abs(a.high) <= most && std::abs(a.mean) <= most &&
        a.deviation <= most) ||
      (a.low - a.mean) / a.deviation > 37 || (a.high - a.mean) / a.deviation < -37)
    throw Error(ErrorKind::invalid_argument, {.what = cat("random_truncated_normal: mean ", a.mean, ", deviation ", a.deviation,
                                                          " and the interval from ", a.low, " to ", a.high, " do not fit"),
                                              .where = "",
                                              .why = cat("the deviation is positive, low is below high, ", name(a.type.dtype),
                                                         " holds them, and numbers of the distribution do lie there"),
                                              .fix = "pass for example mean 0, deviation 1, low -2, high 2"});
  require_state("random_truncated_normal", call.in[0], a.type.shape);
  return {a.type};
}

std::vector<Value> vjp_random_integers(const ir::VjpCall&) { return {Value{}}; }  // the state is integers: nothing flows there

template <On on>
Kernel kernel_integers(const ir::KernelRequest& request) {
  const auto& a = integers_of(request.attrs);
  switch (a.type.dtype) {
    case DType::u8: return bind<LAMINA_ON(on, random_integers<uint8_t>)>(a.low, a.high);
    case DType::i8: return bind<LAMINA_ON(on, random_integers<int8_t>)>(a.low, a.high);
    case DType::i16: return bind<LAMINA_ON(on, random_integers<int16_t>)>(a.low, a.high);
    case DType::i32: return bind<LAMINA_ON(on, random_integers<int32_t>)>(a.low, a.high);
    case DType::i64: return bind<LAMINA_ON(on, random_integers<int64_t>)>(a.low, a.high);
    default: return {};
  }
}
template <On on>
Kernel kernel_truncated_normal(const ir::KernelRequest& request) {
  const auto& a = normal_of(request.attrs);
  return for_floating(a.type.dtype,
                      [&]<class T>() { return bind<LAMINA_ON(on, random_truncated_normal<T>)>(a.mean, a.deviation, a.low, a.high); });
}

}  // namespace

constinit const ir::OpDef def::random_integers{
    .name = "random_integers",
    .inputs = 1,
    .parse_attrs = ir::Attrs<RandomIntegersAttrs>::parse,
    .infer = infer_integers,
    .vjp = vjp_random_integers,
    .batch = batch_draw<def::random_integers, RandomIntegersAttrs>,
    .cpu = kernel_integers<On::cpu>,
    .cuda = kernel_integers<On::gpu>,
    .draws = true,
    .doc = "whole numbers drawn from low, ..., high - 1, each equally likely",
};

constinit const ir::OpDef def::random_truncated_normal{
    .name = "random_truncated_normal",
    .inputs = 1,
    .parse_attrs = ir::Attrs<TruncatedNormalAttrs>::parse,
    .infer = infer_truncated_normal,
    .vjp = vjp_random_integers,
    .batch = batch_draw<def::random_truncated_normal, TruncatedNormalAttrs>,
    .cpu = kernel_truncated_normal<On::cpu>,
    .cuda = kernel_truncated_normal<On::gpu>,
    .draws = true,
    .doc = "numbers drawn from the normal distribution of a mean and deviation, given that they lie in [low, high]",
};

}  // namespace lamina::ops
