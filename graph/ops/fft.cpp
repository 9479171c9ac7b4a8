// fft(x, inverse): the discrete Fourier transform along the last axis but one of pairs of real and imaginary parts. Everything else
// (lengths, axes, norms, real transforms) is made of it and other ops in lamina/fft.py.
#include "kernels/fft.h"

#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_fft(const ir::InferCall& call) {
  const TensorType& in = call.in[0];
  if ((in.dtype != DType::f32 && in.dtype != DType::f64) || in.rank() < 2 || in.shape.back() != Dim(2))
    throw Error(ErrorKind::type,
                {.what = cat("fft: ", in, " does not hold lines of pairs"),
                 .where = "",
                 .why = "it transforms pairs of real and imaginary part, float32 or float64, of which a line has one at least",
                 .fix = "pass a tensor [..., n, 2]"});
  return {in};
}

// The transform's matrix is symmetric, and the gradient of a complex number's parts passes its conjugate.
std::vector<Value> vjp_fft(const ir::VjpCall& call) {
  if (!call.cotangents[0].valid()) return {Value{}};
  return {call.graph.add(def::fft, ir::make_attrs(FftAttrs{!ir::attrs_of<FftAttrs>(call.attrs).inverse}), {call.cotangents[0]})};
}

std::vector<ir::Batched> batch_fft(const ir::BatchCall& call) {
  return {{call.graph.add(def::fft, ir::make_attrs(ir::attrs_of<FftAttrs>(call.attrs)), {call.inputs[0].value}), true}};
}

Kernel kernel_fft(const ir::KernelRequest& request) {
  const bool inverse = ir::attrs_of<FftAttrs>(request.attrs).inverse;
  if (request.in[0].dtype == DType::f32) return bind<kernels::cpu::fft<float>>(inverse);
  return bind<kernels::cpu::fft<double>>(inverse);
}

}  // namespace

constinit const ir::OpDef def::fft{
    .name = "fft",
    .inputs = 1,
    .parse_attrs = ir::Attrs<FftAttrs>::parse,
    .infer = infer_fft,
    .vjp = vjp_fft,
    .batch = batch_fft,
    .cpu = kernel_fft,
    .no_cuda = "it runs by KissFFT, on the CPU",
    .doc =
        "The discrete Fourier transform along the last axis but one of pairs of real and imaginary part; with the positive exponent when "
        "inverse",
};

}  // namespace lamina::ops
