// as_real(z): complex numbers as pairs of real and imaginary part along a new last axis; as_complex(x): the inverse. All other ops on
// complex numbers are ops on these parts (graph/frontend/complex_ops.cpp).
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_as_real(const ir::InferCall& call) {
  const TensorType& in = call.in[0];
  if (!is_complex(in.dtype))
    throw Error(ErrorKind::type, {.what = cat("as_real: ", in, " is not complex"),
                                  .where = "",
                                  .why = "it takes complex numbers apart",
                                  .fix = "pass a tensor of dtype complex64 or complex128"});
  Shape shape = in.shape;
  shape.emplace_back(2);
  require_rank("as_real", shape);
  return {{part_of(in.dtype), shape}};
}

std::vector<TensorType> infer_as_complex(const ir::InferCall& call) {
  const TensorType& in = call.in[0];
  if ((in.dtype != DType::f32 && in.dtype != DType::f64) || in.shape.empty() || in.shape.back() != Dim(2))
    throw Error(ErrorKind::type, {.what = cat("as_complex: ", in, " does not hold pairs"),
                                  .where = "",
                                  .why = "a complex number is made of a real and an imaginary part, of dtype float32 or float64",
                                  .fix = "pass a tensor whose last axis has length 2"});
  return {{complex_of(in.dtype), Shape(in.shape.begin(), in.shape.end() - 1)}};
}

std::vector<Value> vjp_as_real(const ir::VjpCall& call) { return {as_complex(call.graph, call.cotangents[0])}; }
std::vector<Value> vjp_as_complex(const ir::VjpCall& call) { return {as_real(call.graph, call.cotangents[0])}; }

template <const ir::OpDef& def>
std::vector<ir::Batched> batch_parts(const ir::BatchCall& call) {
  return {{call.graph.add(def, {call.inputs[0].value}), true}};
}

bool alias_parts(const ir::AttrsBase&, const View& in, const TensorType& out, View& view, int64_t& element_offset) {
  if (!is_contiguous(in)) return false;
  view = contiguous_view(in.data, out);
  element_offset = 0;
  return true;
}

// Both views are contiguous; the bytes are copied as the real numbers that they hold.
template <On on>
void copy_parts(Stream& stream, const View& x, const View& y) {
  const bool apart = is_complex(x.dtype);
  View from = apart ? y : x, to = from;
  from.data = x.data, to.data = y.data;
  copy<on>(stream, from, to);
}

}  // namespace

constinit const ir::OpDef def::as_real{
    .name = "as_real",
    .inputs = 1,
    .infer = infer_as_real,
    .vjp = vjp_as_real,
    .batch = batch_parts<def::as_real>,
    .cpu = [](const ir::KernelRequest&) { return bind<copy_parts<On::cpu>>(); },
    .cuda = [](const ir::KernelRequest&) { return bind<copy_parts<On::gpu>>(); },
    .alias = alias_parts,
    .doc = "Complex numbers as pairs of real numbers, their real and imaginary parts, along a new last axis of length 2",
};

constinit const ir::OpDef def::as_complex{
    .name = "as_complex",
    .inputs = 1,
    .infer = infer_as_complex,
    .vjp = vjp_as_complex,
    .batch = batch_parts<def::as_complex>,
    .cpu = [](const ir::KernelRequest&) { return bind<copy_parts<On::cpu>>(); },
    .cuda = [](const ir::KernelRequest&) { return bind<copy_parts<On::gpu>>(); },
    .alias = alias_parts,
    .doc = "Complex numbers of pairs of real numbers, their real and imaginary parts, along the last axis, whose length is 2",
};

}  // namespace lamina::ops
