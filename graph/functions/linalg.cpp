#include "graph/functions/linalg.h"

#include <array>

#include "graph/frontend/eager.h"
#include "graph/functions/shape_functions.h"
#include "graph/ops/ops.h"

namespace lamina::linalg {
namespace {

// Both with the leading axes that they broadcast to.
std::array<Tensor, 2> with_equal_leading(const char* op, const Tensor& a, const Tensor& b, CallSite at) {
  if (a.rank() < 2 || b.rank() < 2) return {a, b};  // refused by the op
  const auto leading = [](const Tensor& x) { return Shape(x.shape().begin(), x.shape().end() - 2); };
  if (leading(a) == leading(b)) return {a, b};
  Shape both;
  try {
    both = broadcast(leading(a), leading(b));
  } catch (const Error& e) {
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": ", a.type(), " and ", b.type(), " do not fit each other"),
                                              .where = text(at.line()),
                                              .why = cat("of the leading axes, ", e.parts.why),
                                              .fix = "reshape one of them"});
  }
  const auto spread = [&](const Tensor& x) {
    Shape shape = both;
    shape.insert(shape.end(), x.shape().end() - 2, x.shape().end());
    return x.shape() == shape ? x : broadcast_to(Operand(x, at), shape);
  };
  return {spread(a), spread(b)};
}

Tensor solved(const ir::OpDef& op, ir::AttrsRef attrs, const Operand& a, const Operand& b) {
  const Tensor matrix = a.resolve(), right = b.resolve();
  const bool vector = right.rank() == 1;
  const std::array<Tensor, 2> in = with_equal_leading(op.name, matrix, vector ? expand_dims(Operand(right, b.at()), -1) : right, a.at());
  const Tensor x = apply_one(op, std::move(attrs), in, a.at());
  return vector ? squeeze(Operand(x, a.at()), std::vector<int64_t>{-1}) : x;
}

std::vector<Tensor> factors(const ir::OpDef& op, ir::AttrsRef attrs, const Operand& a) {
  const Tensor x = a.resolve();
  return apply(op, std::move(attrs), std::span(&x, 1), a.at());
}

}  // namespace

Tensor cholesky(const Operand& a) { return factors(ops::def::cholesky, nullptr, a)[0]; }
Tensor solve(const Operand& a, const Operand& b) { return solved(ops::def::solve, nullptr, a, b); }
Tensor triangular_solve(const Operand& a, const Operand& b, bool lower, bool transpose, bool unit_diagonal) {
  return solved(ops::def::triangular_solve, ir::make_attrs(ops::TriangularAttrs{lower, transpose, unit_diagonal}), a, b);
}
std::pair<Tensor, Tensor> slogdet(const Operand& a) {
  const std::vector<Tensor> out = factors(ops::def::slogdet, nullptr, a);
  return {out[0], out[1]};
}
std::pair<Tensor, Tensor> eigh(const Operand& a) {
  const std::vector<Tensor> out = factors(ops::def::eigh, nullptr, a);
  return {out[0], out[1]};
}
// A wide matrix [x y] is q [u, q^H y] with x = q u, whose gradient is that of square matrices.
std::pair<Tensor, Tensor> qr(const Operand& a, bool complete) {
  const Tensor x = a.resolve();
  const CallSite at = a.at();
  const bool known = x.rank() >= 2 && x.shape()[x.rank() - 2].known() && x.shape().back().known();
  const int64_t m = known ? x.shape()[x.rank() - 2].number() : 0;
  if (!known || x.shape().back().number() <= m) {
    const std::vector<Tensor> out = factors(ops::def::qr, ir::make_attrs(ops::QrAttrs{complete}), Operand(x, at));
    return {out[0], out[1]};
  }
  std::vector<int64_t> begin(size_t(x.rank()), 0), end(size_t(x.rank()), INT64_MAX);
  end.back() = m;
  const std::vector<Tensor> out =
      factors(ops::def::qr, ir::make_attrs(ops::QrAttrs{false}), Operand(slice(Operand(x, at), begin, end), at));
  begin.back() = m, end.back() = INT64_MAX;
  const Tensor rest = matmul(Operand(conj(Operand(out[0], at)), at), Operand(slice(Operand(x, at), begin, end), at), true, false);
  return {out[0], concat({out[1], rest}, -1, at)};
}
Tensor fft(const Operand& pairs, bool inverse) { return factors(ops::def::fft, ir::make_attrs(ops::FftAttrs{inverse}), pairs)[0]; }
Svd svd(const Operand& a, bool full_matrices) {
  const std::vector<Tensor> out = factors(ops::def::svd, ir::make_attrs(ops::SvdAttrs{full_matrices}), a);
  return {out[0], out[1], out[2]};
}

}  // namespace lamina::linalg
