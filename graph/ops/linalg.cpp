// cholesky, eigh, qr, slogdet, solve, svd, triangular_solve: of matrices in the last two axes. Gradients are compositions, so they have
// gradients too.
#include "kernels/linalg.h"

#include <algorithm>
#include <complex>

#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"

namespace lamina::ops {
namespace {

// --- shapes ---
Error bad_matrix(const char* op, const std::string& what, const std::string& why, const std::string& fix) {
  return Error(ErrorKind::invalid_argument, {.what = cat(op, ": ", what), .where = "argument 'a'", .why = why, .fix = fix});
}
void require_matrix(const char* op, const TensorType& a) {
  if (!is_complex(a.dtype)) require_floating(op, a);
  if (is_half(a.dtype))
    throw Error(ErrorKind::type, {.what = cat(op, ": ", a, " is of a half type"),
                                  .where = "argument 'a'",
                                  .why = "factors of matrices lose most of its digits",
                                  .fix = "convert it: .astype('float32')"});
  if (a.rank() < 2)
    throw bad_matrix(op, cat(a, " is not a matrix"), "a matrix is the last two axes, leading axes are many of them",
                     "reshape it to two axes or more");
}
void require_square(const char* op, const TensorType& a) {
  require_matrix(op, a);
  const Dim &m = a.shape[a.rank() - 2], &n = a.shape.back();
  if (m.known() && n.known() && m != n)
    throw bad_matrix(op, cat(a, " is not square"), cat("it has ", m, " rows and ", n, " columns"), "pass as many rows as columns");
}
// min(m, n), which must be known.
Dim shorter(const char* op, const TensorType& a) {
  const Dim &m = a.shape[a.rank() - 2], &n = a.shape.back();
  if (m == n) return m;
  if (!m.known() || !n.known())
    throw bad_matrix(op, cat("the lengths of ", a, " are open"), "which of them is the shorter one decides the shapes of the results",
                     "give both a length in the input_signature");
  return std::min(m.number(), n.number());
}
Shape leading(const TensorType& a) { return {a.shape.begin(), a.shape.end() - 2}; }
TensorType with_matrix(const TensorType& a, Dim rows, Dim columns) {
  Shape shape = leading(a);
  shape.push_back(rows), shape.push_back(columns);
  return {a.dtype, shape};
}

std::vector<TensorType> infer_cholesky(const ir::InferCall& call) {
  require_square("cholesky", call.in[0]);
  return {call.in[0]};
}
DType size_dtype(DType d) { return is_complex(d) ? part_of(d) : d; }

std::vector<TensorType> infer_eigh(const ir::InferCall& call) {
  const TensorType& a = call.in[0];
  require_square("eigh", a);
  return {{size_dtype(a.dtype), {a.shape.begin(), a.shape.end() - 1}}, a};
}
std::vector<TensorType> infer_slogdet(const ir::InferCall& call) {
  require_square("slogdet", call.in[0]);
  return {{call.in[0].dtype, leading(call.in[0])}, {size_dtype(call.in[0].dtype), leading(call.in[0])}};
}
template <const ir::OpDef& op>
std::vector<TensorType> infer_solve(const ir::InferCall& call) {
  const TensorType &a = call.in[0], &b = call.in[1];
  require_square(op.name, a);
  require_matrix(op.name, b);
  require_same_dtype(op.name, a, b);
  const Dim &n = a.shape.back(), &rows = b.shape[b.rank() - 2];
  if (n.known() && rows.known() && n != rows)
    throw does_not_fit(op.name, a, b, cat("a has ", n, " rows, b has ", rows), "pass as many rows in b as in a");
  if (leading(a) != leading(b)) throw does_not_fit(op.name, a, b, "their leading axes differ", "broadcast one of them");
  return {b};
}
std::vector<TensorType> infer_qr(const ir::InferCall& call) {
  const TensorType& a = call.in[0];
  require_matrix("qr", a);
  const Dim &m = a.shape[a.rank() - 2], &n = a.shape.back();
  const Dim k = ir::attrs_of<QrAttrs>(call.attrs).complete ? m : shorter("qr", a);
  return {with_matrix(a, m, k), with_matrix(a, k, n)};
}
std::vector<TensorType> infer_svd(const ir::InferCall& call) {
  const TensorType& a = call.in[0];
  require_matrix("svd", a);
  const Dim &m = a.shape[a.rank() - 2], &n = a.shape.back(), k = shorter("svd", a);
  const bool full = ir::attrs_of<SvdAttrs>(call.attrs).full;
  Shape values = leading(a);
  values.push_back(k);
  return {with_matrix(a, m, full ? m : k), {size_dtype(a.dtype), values}, with_matrix(a, full ? n : k, n)};
}

// --- parts of gradients ---
Value flipped(Graph& g, Value x) {
  const int rank = int(g.type(x).rank());
  return move_axis(g, x, rank - 1, rank - 2);
}
Value product(Graph& g, Value a, Value b, bool transpose_a = false, bool transpose_b = false) {
  return matmul(g, a, b, transpose_a, transpose_b);
}
Value zero_like(Graph& g, Value x) { return full(g, g.type(x), 0); }
Value or_zero(Graph& g, Value cotangent, Value of) { return cotangent.valid() ? cotangent : zero_like(g, of); }
Value number(Graph& g, Value like, double value) { return scalar(g, g.type(like).dtype, value); }
// Row and column of each element of a matrix.
std::pair<Value, Value> places(Graph& g, Value x) {
  const TensorType& type = g.type(x);
  const TensorType matrix{DType::i64, {type.shape[type.rank() - 2], type.shape.back()}};
  return {iota(g, matrix, 0), iota(g, matrix, 1)};
}
// The elements below the diagonal times `below`, the diagonal times `on`, those above it times `above`.
Value weighted(Graph& g, Value x, double below, double on, double above) {
  const auto [row, column] = places(g, x);
  const auto part = [&](double factor) { return factor == 1 ? x : factor == 0 ? zero_like(g, x) : mul(g, x, number(g, x, factor)); };
  return where(g, greater(g, row, column), part(below), where(g, equal(g, row, column), part(on), part(above)));
}
Value symmetric(Graph& g, Value x) { return mul(g, add(g, x, flipped(g, x)), number(g, x, 0.5)); }
// x [..., n] as [..., n, 1] or [..., 1, n].
Value as_column(Graph& g, Value x) {
  Shape shape = g.type(x).shape;
  shape.push_back(1);
  return reshape(g, x, shape);
}
Value as_row(Graph& g, Value x) {
  Shape shape = g.type(x).shape;
  shape.insert(shape.end() - 1, 1);
  return reshape(g, x, shape);
}
// 1 / x, and 0 where x is 0.
Value inverse_or_zero(Graph& g, Value x) {
  const Value none = equal(g, x, number(g, x, 0)), one = number(g, x, 1);
  return where(g, none, zero_like(g, x), div(g, one, where(g, none, full(g, g.type(x), 1), x)));
}
Value diagonal_matrix(Graph& g, Value diagonal, Value like) {
  const auto [row, column] = places(g, like);
  const Value spread = broadcast_to(g, as_row(g, diagonal), g.type(like).shape);
  return where(g, equal(g, row, column), spread, zero_like(g, spread));
}
bool none_valid(const ir::VjpCall& call) {
  const TensorType& a = call.graph.type(call.inputs[0]);
  if (is_complex(a.dtype))
    throw Error(ErrorKind::type, {.what = cat("there is no gradient of factors and solutions of ", a),
                                  .where = "",
                                  .why = "their gradients are those of real matrices",
                                  .fix = "write the complex matrix a + bi as the real one [[a, -b], [b, a]]"});
  return std::none_of(call.cotangents.begin(), call.cotangents.end(), [](Value v) { return v.valid(); });
}

// --- gradients. Those of a symmetric matrix are symmetric: of a function of (a + a^T) / 2 ---

// l^-T phi(l^T dl) l^-1, where phi takes the lower triangle and half of the diagonal. Murray 2016.
std::vector<Value> vjp_cholesky(const ir::VjpCall& call) {
  if (none_valid(call)) return {Value{}};
  Graph& g = call.graph;
  const Value l = call.results[0];
  const Value inner = weighted(g, product(g, l, call.cotangents[0], true), 1, 0.5, 0);
  const TriangularAttrs back{.lower = true, .transpose = true};
  const Value half = triangular_solve(g, l, inner, back);
  return {symmetric(g, flipped(g, triangular_solve(g, l, flipped(g, half), back)))};
}

// v (diag(dw) + f * v^T dv) v^T with f_ij = 1 / (w_j - w_i), 0 for equal eigenvalues. Giles 2008.
std::vector<Value> vjp_eigh(const ir::VjpCall& call) {
  if (none_valid(call)) return {Value{}};
  Graph& g = call.graph;
  const Value w = call.results[0], v = call.results[1];
  Value inner = diagonal_matrix(g, or_zero(g, call.cotangents[0], w), v);
  if (call.cotangents[1].valid()) {
    const Value f = inverse_or_zero(g, sub(g, as_row(g, w), as_column(g, w)));
    inner = add(g, inner, mul(g, f, product(g, v, call.cotangents[1], true)));
  }
  return {symmetric(g, product(g, product(g, v, inner), v, false, true))};
}

// (dq + q copy(r dr^T - dq^T q)) r^-T, where copy makes the lower triangle symmetric; for m >= n.
std::vector<Value> vjp_qr(const ir::VjpCall& call) {
  if (none_valid(call)) return {Value{}};
  Graph& g = call.graph;
  const TensorType& a = g.type(call.inputs[0]);
  const Dim &m = a.shape[a.rank() - 2], &n = a.shape.back();
  const bool complete = ir::attrs_of<QrAttrs>(call.attrs).complete;
  if (m != n && (complete || !m.known() || !n.known() || m.number() < n.number()))
    throw bad_matrix("qr", cat("no gradient for ", a, complete ? " with complete factors" : ""),
                     complete ? "the added columns of q are not a function of a" : "the formula needs as many rows as columns, or more",
                     complete ? "leave out mode='complete'" : "use lm.linalg.qr, which takes the columns apart");
  const Value q = call.results[0], r = call.results[1];
  const Value dq = or_zero(g, call.cotangents[0], q), dr = or_zero(g, call.cotangents[1], r);
  const Value inner = sub(g, product(g, r, dr, false, true), product(g, dq, q, true));
  const Value copied = add(g, weighted(g, inner, 1, 1, 0), flipped(g, weighted(g, inner, 1, 0, 0)));
  const Value right = add(g, dq, product(g, q, copied));
  return {flipped(g, triangular_solve(g, r, flipped(g, right), {.lower = false}))};
}

// dlog a^-T.
std::vector<Value> vjp_slogdet(const ir::VjpCall& call) {
  if (none_valid(call) || !call.cotangents[1].valid()) return {Value{}};
  Graph& g = call.graph;
  const Value turned = flipped(g, call.inputs[0]);
  const Value one = weighted(g, full(g, g.type(turned), 1), 0, 1, 0);
  return {mul(g, solve(g, turned, one), as_column(g, as_column(g, call.cotangents[1])))};
}

// db = a^-T dx, da = -db x^T.
std::vector<Value> vjp_solve(const ir::VjpCall& call) {
  if (none_valid(call)) return {Value{}, Value{}};
  Graph& g = call.graph;
  const Value db = solve(g, flipped(g, call.inputs[0]), call.cotangents[0]);
  return {neg(g, product(g, db, call.results[0], false, true)), db};
}
std::vector<Value> vjp_triangular_solve(const ir::VjpCall& call) {
  if (none_valid(call)) return {Value{}, Value{}};
  Graph& g = call.graph;
  const auto& attrs = ir::attrs_of<TriangularAttrs>(call.attrs);
  TriangularAttrs back = attrs;
  back.transpose = !attrs.transpose;
  const Value x = call.results[0], db = triangular_solve(g, call.inputs[0], call.cotangents[0], back);
  const Value da = neg(g, attrs.transpose ? product(g, x, db, false, true) : product(g, db, x, false, true));
  return {weighted(g, da, attrs.lower, !attrs.unit, !attrs.lower), db};
}

// u (diag(ds) + [f * (u^T du - du^T u)] s + s [f * (v^T dv - dv^T v)]) v^T with f_ij = 1 / (s_j^2 - s_i^2), and the parts of du and dv
// outside of the columns of u and v, divided by s. Townsend 2016.
std::vector<Value> vjp_svd(const ir::VjpCall& call) {
  if (none_valid(call)) return {Value{}};
  Graph& g = call.graph;
  const Value u = call.results[0], s = call.results[1], vt = call.results[2];
  const TensorType a = g.type(call.inputs[0]);
  const Dim &m = a.shape[a.rank() - 2], &n = a.shape.back();
  const bool of_u = call.cotangents[0].valid(), of_v = call.cotangents[2].valid();
  if (ir::attrs_of<SvdAttrs>(call.attrs).full && m != n && (of_u || of_v))
    throw bad_matrix("svd", cat("no gradient for ", a, " with full matrices"), "the added columns are not a function of a",
                     "pass full_matrices=False");
  // full matrices of which only s is used: the first k columns
  const Dim k = g.type(s).shape.back();
  const auto cut = [&](Value x, bool rows) {
    const size_t rank = g.type(x).rank();
    std::vector<int64_t> begin(rank, 0), end(rank, INT64_MAX), step(rank, 1);
    end[rank - (rows ? 2 : 1)] = k.number();
    return g.type(x).shape[rank - (rows ? 2 : 1)] == k ? x : slice(g, x, begin, end, step);
  };
  const Value left = cut(u, false), right = cut(vt, true);
  Value inner = diagonal_matrix(g, or_zero(g, call.cotangents[1], s), product(g, left, left, true));
  Value da;
  const Value row = as_row(g, s), column = as_column(g, s);
  const auto add_to = [&](Value x) { da = da.valid() ? add(g, da, x) : x; };
  const Value f = of_u || of_v ? inverse_or_zero(g, mul(g, sub(g, row, column), add(g, row, column))) : Value{};
  if (of_u) {
    const Value du = call.cotangents[0], turned = product(g, u, du, true);
    inner = add(g, inner, mul(g, mul(g, f, sub(g, turned, flipped(g, turned))), row));
    if (m != k) add_to(product(g, mul(g, sub(g, du, product(g, u, turned)), inverse_or_zero(g, row)), vt));
  }
  if (of_v) {
    const Value dvt = call.cotangents[2], turned = product(g, vt, dvt, false, true);
    inner = add(g, inner, mul(g, column, mul(g, f, sub(g, turned, flipped(g, turned)))));
    if (n != k) add_to(product(g, u, mul(g, inverse_or_zero(g, column), sub(g, dvt, product(g, flipped(g, turned), vt)))));
  }
  add_to(product(g, product(g, left, inner), right));
  return {da};
}

// --- vmap: the model axis is one more leading axis ---
template <const ir::OpDef& op>
std::vector<ir::Batched> batch_linalg(const ir::BatchCall& call) {
  const Value first = call.graph.add(op, call.attrs.with_dims({}), with_model_axes(call.graph, call.inputs, call.size));
  std::vector<ir::Batched> out;
  for (int i = 0; i < int(call.graph[first.node].types.size()); ++i) out.push_back({{first.node, i}, true});
  return out;
}

// --- kernels ---
template <class F>
Kernel for_full(DType dtype, F&& make) {
  switch (dtype) {
    case DType::f32: return make.template operator()<float>();
    case DType::f64: return make.template operator()<double>();
    case DType::c64: return make.template operator()<std::complex<float>>();
    case DType::c128: return make.template operator()<std::complex<double>>();
    default: return {};
  }
}
#define LAMINA_PLAIN_KERNEL(op)                                                                  \
  Kernel kernel_##op(const ir::KernelRequest& request) {                                         \
    return for_full(request.in[0].dtype, []<class T>() { return bind<kernels::cpu::op<T>>(); }); \
  }
LAMINA_PLAIN_KERNEL(cholesky)
LAMINA_PLAIN_KERNEL(eigh)
LAMINA_PLAIN_KERNEL(qr)
LAMINA_PLAIN_KERNEL(slogdet)
LAMINA_PLAIN_KERNEL(solve)
LAMINA_PLAIN_KERNEL(svd)
#undef LAMINA_PLAIN_KERNEL
Kernel kernel_triangular_solve(const ir::KernelRequest& request) {
  const auto a = ir::attrs_of<TriangularAttrs>(request.attrs);
  return for_full(request.in[0].dtype, [&]<class T>() { return bind<kernels::cpu::triangular_solve<T>>(a.lower, a.transpose, a.unit); });
}

constexpr const char* kOnTheCpu = "it runs by LAPACK, on the CPU";

}  // namespace

#define LAMINA_LINALG_OP(op, count, attributes, shapes, what) \
  constinit const ir::OpDef def::op{                          \
      .name = #op,                                            \
      .inputs = count,                                        \
      .parse_attrs = ir::Attrs<attributes>::parse,            \
      .infer = shapes,                                        \
      .vjp = vjp_##op,                                        \
      .batch = batch_linalg<def::op>,                         \
      .rows = rows_of_matrices,                               \
      .cpu = kernel_##op,                                     \
      .can_fail = true,                                       \
      .no_cuda = kOnTheCpu,                                   \
      .doc = what,                                            \
  };
LAMINA_LINALG_OP(cholesky, 1, ir::NoAttrs, infer_cholesky, "The lower triangle l with l l^T = a; of a, the lower triangle is read")
LAMINA_LINALG_OP(eigh, 1, ir::NoAttrs, infer_eigh,
                 "(w, v): ascending eigenvalues and, as columns, eigenvectors of a symmetric matrix; its lower triangle is read")
LAMINA_LINALG_OP(qr, 1, QrAttrs, infer_qr, "(q, r): q has orthonormal columns, r is an upper triangle, and q r = a")
LAMINA_LINALG_OP(slogdet, 1, ir::NoAttrs, infer_slogdet, "(sign, log): the determinant's sign and the log of its size")
LAMINA_LINALG_OP(solve, 2, ir::NoAttrs, infer_solve<def::solve>, "x with a x = b")
LAMINA_LINALG_OP(svd, 1, SvdAttrs, infer_svd, "(u, s, vt): u diag(s) vt = a with orthonormal columns of u and rows of vt, s descending")
LAMINA_LINALG_OP(triangular_solve, 2, TriangularAttrs, infer_solve<def::triangular_solve>,
                 "x with op(a) x = b for a triangle a, which op transposes or not")
#undef LAMINA_LINALG_OP

Value cholesky(Graph& g, Value a) { return g.add(def::cholesky, {a}); }
Value eigh(Graph& g, Value a) { return g.add(def::eigh, {a}); }
Value qr(Graph& g, Value a, bool complete) { return g.add(def::qr, ir::make_attrs(QrAttrs{complete}), {a}); }
Value slogdet(Graph& g, Value a) { return g.add(def::slogdet, {a}); }
Value solve(Graph& g, Value a, Value b) { return g.add(def::solve, {a, b}); }
Value svd(Graph& g, Value a, bool full) { return g.add(def::svd, ir::make_attrs(SvdAttrs{full}), {a}); }
Value triangular_solve(Graph& g, Value a, Value b, TriangularAttrs attrs) {
  return g.add(def::triangular_solve, ir::make_attrs(attrs), {a, b});
}

}  // namespace lamina::ops
