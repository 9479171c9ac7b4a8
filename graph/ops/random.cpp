// random_uniform(state, type, low, high) and random_normal(state, type, mean, deviation): draws that depend only on the state and the
// element's index.
#include "kernels/random.h"

#include <cmath>
#include <limits>

#include "graph/ops/batch_draw.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"

namespace lamina::ops {
namespace {

const RandomAttrs& random_attrs(const ir::AttrsBase& attrs) { return ir::attrs_of<RandomAttrs>(attrs); }

double largest_of(DType dtype) {
  return dtype == DType::f16   ? 65504
         : dtype == DType::f64 ? std::numeric_limits<double>::max()
                               : double(std::numeric_limits<float>::max()) / 2;
}

void require_draw(const char* op, const ir::InferCall& call, const char* first, const char* second, bool in_order, const char* rule) {
  const RandomAttrs& a = random_attrs(call.attrs);
  require_floating(op, a.type);
  require_rank(op, a.type.shape);
  const double most = largest_of(a.type.dtype);
  if (!(std::abs(a.a) <= most && std::abs(a.b) <= most && std::abs(a.b - a.a) <= most) || !in_order)
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": ", first, " ", a.a, " and ", second, " ", a.b, " do not fit"),
                                              .where = cat("arguments '", first, "' and '", second, "'"),
                                              .why = rule,
                                              .fix = cat("pass numbers that ", name(a.type.dtype), " holds, their difference too")});
  require_state(op, call.in[0], a.type.shape);
}

std::vector<TensorType> infer_uniform(const ir::InferCall& call) {
  require_draw("random_uniform", call, "low", "high", random_attrs(call.attrs).a <= random_attrs(call.attrs).b, "low is not above high");
  return {random_attrs(call.attrs).type};
}
std::vector<TensorType> infer_normal(const ir::InferCall& call) {
  require_draw("random_normal", call, "mean", "deviation", random_attrs(call.attrs).b >= 0, "the deviation is not negative");
  return {random_attrs(call.attrs).type};
}

std::vector<Value> vjp_random(const ir::VjpCall&) { return {Value{}}; }  // the state is integers: nothing flows there

template <On on>
Kernel kernel_uniform(const ir::KernelRequest& request) {
  const RandomAttrs& a = random_attrs(request.attrs);
  return for_floating(a.type.dtype, [&]<class T>() { return bind<LAMINA_ON(on, random_uniform<T>)>(a.a, a.b); });
}
template <On on>
Kernel kernel_normal(const ir::KernelRequest& request) {
  const RandomAttrs& a = random_attrs(request.attrs);
  return for_floating(a.type.dtype, [&]<class T>() { return bind<LAMINA_ON(on, random_normal<T>)>(a.a, a.b); });
}

}  // namespace

constinit const ir::OpDef def::random_uniform{
    .name = "random_uniform",
    .inputs = 1,
    .parse_attrs = ir::Attrs<RandomAttrs>::parse,
    .infer = infer_uniform,
    .vjp = vjp_random,
    .batch = batch_draw<def::random_uniform, RandomAttrs>,
    .cpu = kernel_uniform<On::cpu>,
    .cuda = kernel_uniform<On::gpu>,
    .draws = true,
    .doc = "numbers drawn evenly from [a, b)",
};

constinit const ir::OpDef def::random_normal{
    .name = "random_normal",
    .inputs = 1,
    .parse_attrs = ir::Attrs<RandomAttrs>::parse,
    .infer = infer_normal,
    .vjp = vjp_random,
    .batch = batch_draw<def::random_normal, RandomAttrs>,
    .cpu = kernel_normal<On::cpu>,
    .cuda = kernel_normal<On::gpu>,
    .draws = true,
    .doc = "numbers drawn from the normal distribution of mean a and deviation b",
};

}  // namespace lamina::ops
