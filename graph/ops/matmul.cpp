// matmul(a, b): matrix product over the last two axes; leading axes broadcast.
#include "kernels/batched_matmul.h"

#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/rows.h"
#include "graph/ops/section_step.h"

namespace lamina {
std::string attr_text(Precision v) { return name(v); }
void parse_attr(std::string_view text, Precision& v) { v = parse_precision(std::string(text)); }
}  // namespace lamina

namespace lamina::ops {
namespace {

constexpr const char* kMatmulName = "matmul";

// A matrix's rows and columns after the optional transposition.
struct Matrix {
  Dim rows, columns;
  Matrix(const TensorType& t, bool transposed) : rows(t.shape[t.rank() - 2]), columns(t.shape[t.rank() - 1]) {
    if (transposed) std::swap(rows, columns);
  }
};

void require_matmul_operand(const TensorType& t, const char* argument) {
  if (t.rank() < 2)
    throw Error(ErrorKind::invalid_argument, {.what = cat(kMatmulName, ": ", t, " is not a matrix"),
                                              .where = cat("argument '", argument, "'"),
                                              .why = "both operands have at least 2 dimensions",
                                              .fix = "reshape a vector to one row or one column"});
}

std::vector<TensorType> infer_matmul(const ir::InferCall& call) {
  const auto& flags = ir::attrs_of<MatmulAttrs>(call.attrs);
  const TensorType &a = call.in[0], &b = call.in[1];
  require_matmul_operand(a, "a");
  require_matmul_operand(b, "b");
  require_same_dtype(kMatmulName, a, b);
  if (!is_floating(a.dtype) && a.dtype != DType::i32 && a.dtype != DType::i64)
    throw Error(ErrorKind::type, {.what = cat(kMatmulName, ": ", a, " cannot be multiplied"),
                                  .where = "",
                                  .why = "matmul is defined for floating point, i32 and i64",
                                  .fix = "convert both: .astype('int32')"});
  Matrix left(a, flags.transpose_a), right(b, flags.transpose_b);
  if (left.columns != right.rows)
    throw does_not_fit(kMatmulName, a, b,
                       cat("the inner dimensions are ", left.columns, " (columns of a", flags.transpose_a ? ", transposed" : "", ") and ",
                           right.rows, " (rows of b", flags.transpose_b ? ", transposed" : "", "); they must be equal"),
                       "transpose or reshape one of them");
  Shape shape;
  try {
    shape = broadcast({a.shape.begin(), a.shape.end() - 2}, {b.shape.begin(), b.shape.end() - 2});
  } catch (const Error& e) {
    throw does_not_fit(kMatmulName, a, b, cat("of the leading dimensions, ", e.parts.why), "reshape one of them");
  }
  shape.push_back(left.rows);
  shape.push_back(right.columns);
  require_rank(kMatmulName, shape);
  return {{a.dtype, shape}};
}

// x [..., r, c] as one matrix of all its rows.
Value all_rows(Graph& g, Value x) {
  const Shape& shape = g.type(x).shape;
  return shape.size() == 2 ? x : reshape(g, x, {size_of({shape.begin(), shape.end() - 1}), shape.back()});
}

// da = dc op(b)^T, db = op(a)^T dc, transposed if the operand was; flags absorb all transpositions. Same precision as the product.
std::vector<Value> vjp_matmul(const ir::VjpCall& call) {
  const auto& [ta, tb, precision] = ir::attrs_of<MatmulAttrs>(call.attrs);
  Graph& g = call.graph;
  Value a = call.inputs[0], b = call.inputs[1], dc = call.cotangents[0];
  const Shape shape_a = g.type(a).shape, shape_b = g.type(b).shape;
  Value da = ta ? matmul(g, b, dc, tb, true, precision) : matmul(g, dc, b, false, !tb, precision);
  da = sum_to(g, da, shape_a);
  // One matrix b for many of a: its gradient sums over all their rows, as one product.
  if (shape_b.size() == 2 && !ta) {
    Value rows = all_rows(g, a), drows = all_rows(g, dc);
    return {da, tb ? matmul(g, drows, rows, true, false, precision) : matmul(g, rows, drows, true, false, precision)};
  }
  Value db = tb ? matmul(g, dc, a, true, ta, precision) : matmul(g, a, dc, !ta, false, precision);
  return {da, sum_to(g, db, shape_b)};
}

// The model axis is one more leading axis. If only a is batched and b is one matrix, the kernel treats all rows as one product.
std::vector<ir::Batched> batch_matmul(const ir::BatchCall& call) {
  Graph& g = call.graph;
  size_t rank = 2;
  for (const ir::Batched& in : call.inputs) rank = std::max(rank, g.type(in.value).rank() - in.batched);
  const auto& flags = ir::attrs_of<MatmulAttrs>(call.attrs);
  return {{matmul(g, lift(g, call.inputs[0], rank), lift(g, call.inputs[1], rank), flags.transpose_a, flags.transpose_b, flags.precision),
           true}};
}

template <On on>
Kernel kernel_matmul(const ir::KernelRequest& request) {
  const MatmulAttrs attrs = ir::attrs_of<MatmulAttrs>(request.attrs);
  auto make = [&]<class T>() { return bind<LAMINA_ON(on, batched_matmul<T>)>(attrs.transpose_a, attrs.transpose_b, attrs.precision); };
  DType dtype = request.in[0].dtype;
  if (dtype == DType::i32) return make.template operator()<int32_t>();
  if (dtype == DType::i64) return make.template operator()<int64_t>();
  return for_floating(dtype, make);
}

// A product with small weights, or a stack of them, is a section step, as for layers (second derivatives of layers contain many). A larger
// one deserves its own kernel, which packs its operands; so do many matrices times the same one, which are one product of all rows.
bool step_matmul(const ir::KernelRequest& request, ir::SectionStep& out) {
  constexpr int64_t kMostWidth = 256;
  const bool ta = ir::attrs_of<MatmulAttrs>(request.attrs).transpose_a, tb = ir::attrs_of<MatmulAttrs>(request.attrs).transpose_b;
  const TensorType &a = request.in[0], &b = request.in[1], &c = request.out[0];
  if (ta || !is_step_matrix(a) || !is_step_matrix(b) || b.rank() < c.rank()) return false;
  const bool is_stack = c.rank() == 3;
  if (tb && is_stack && (a.rank() < 3 || a.shape[0] != c.shape[0])) return false;  // such a step's rows are those of its first operand
  if (b.shape[b.rank() - 2].number() > kMostWidth || b.shape[b.rank() - 1].number() > kMostWidth) return false;
  const auto full = section::Broadcast::full;
  const TensorType &rows = tb ? a : c, &of_k = tb ? c : a;
  set_step(out, tb ? section::StepKind::dense_grad_input : section::StepKind::dense, section::Partition::rows, rows, {full, full}, {full});
  out.step.k = int32_t(of_k.shape[of_k.rank() - 1].number());
  if (is_stack) set_models(out, request, std::vector<size_t>{2, 2, 2});
  out.flops = 2.0 * out.step.replicas * out.step.rows * out.step.k * out.step.n;
  return !is_stack || pays_by_models(out.step);
}

// Rows of a, columns of b, matrices of a stack; or rows that the product adds up.
std::optional<ir::RowsRule> rows_matmul(const ir::RowsCall& call) {
  const auto& flags = ir::attrs_of<MatmulAttrs>(call.attrs);
  const int rank_a = int(call.in[0].rank()), rank_b = int(call.in[1].rank()), rank = int(call.out[0].rank());
  const int inner_a = rank_a - (flags.transpose_a ? 2 : 1), inner_b = rank_b - (flags.transpose_b ? 1 : 2);
  const ir::Cut a = call.cuts[0], b = call.cuts[1];
  const auto in_stack = [&](ir::Cut cut, int r) { return !cut.whole() && cut.axis < r - 2; };
  if (in_stack(a, rank_a) || in_stack(b, rank_b)) {
    const bool stretched = in_stack(a, rank_a) ? call.in[0].shape[size_t(a.axis)] != call.out[0].shape[size_t(a.axis + rank - rank_a)]
                                               : call.in[1].shape[size_t(b.axis)] != call.out[0].shape[size_t(b.axis + rank - rank_b)];
    if (stretched) return {};  // a batch of one row, repeated
    const ir::Cut out = in_stack(a, rank_a) ? ir::Cut{a.axis + rank - rank_a, a.each} : ir::Cut{b.axis + rank - rank_b, b.each};
    const auto part = [&](const TensorType& t) {
      const int axis = out.axis - rank + int(t.rank());
      return axis >= 0 && t.shape[size_t(axis)] == call.out[0].shape[size_t(out.axis)] ? ir::Cut{axis, out.each} : ir::Cut{};
    };
    return ir::RowsRule{.in = {part(call.in[0]), part(call.in[1])}, .out = {out}};
  }
  const bool a_inner = a.axis == inner_a, b_inner = !b.whole() && b.axis == inner_b;
  if (!a.whole() && !a_inner) return ir::RowsRule{.in = {a, {}}, .out = {{rank - 2, a.each}}};
  if (!b.whole() && !b_inner) return ir::RowsRule{.in = {{}, b}, .out = {{rank - 1, b.each}}};
  if (a.whole() && b.whole()) return {};
  const int64_t each = a.whole() ? b.each : a.each;
  return ir::RowsRule{.in = {{inner_a, each}, {inner_b, each}}, .out = {{}}, .leaves = ir::RowsRule::Leaves::added};
}

}  // namespace

constinit const ir::OpDef def::matmul{
    .name = kMatmulName,
    .inputs = 2,
    .parse_attrs = ir::Attrs<MatmulAttrs>::parse,
    .infer = infer_matmul,
    .vjp = vjp_matmul,
    .batch = batch_matmul,
    .rows = rows_matmul,
    .cpu = kernel_matmul<On::cpu>,
    .cuda = kernel_matmul<On::gpu>,
    .section = step_matmul,
    .partition = section::Partition::rows,
    .doc =
        "Matrix product of the last two axes, the others broadcast: [..., m, k] x [..., k, n] -> [..., m, n]. A vector on the "
        "left is a row, on\n"
        "the right a column, and its axis vanishes. Raises InvalidArgument for shapes that do not fit, TypeMismatch for "
        "different dtypes.",
};

}  // namespace lamina::ops
