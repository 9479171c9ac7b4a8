// Products of matrices, dense layers and their gradients. The result's memory takes the sums; what follows runs over it while it is cached.
#include "graph/export_c/rules.h"
#include "graph/ops/ops.h"

namespace lamina::c_text {
namespace {

using ir::Node;

// A matrix, or a stack of them, at an expression; the strides are the view's.
struct Matrix {
  std::string at;
  int64_t row, column;
};

Matrix matrix_of(const Operand& x, bool turned, const std::string& offset = "0") {
  const View& v = x.view;
  Matrix out{offset == "0" ? x.name : cat(x.name, " + ", offset), v.strides[v.rank - 2], v.strides[v.rank - 1]};
  if (v.shape[v.rank - 1] == 1) out.column = 1;
  if (turned) std::swap(out.row, out.column);
  return out;
}

// c[m,n] += a[m,k] b[k,n]
void write_madd(Writer& w, DType type, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, const std::string& c) {
  const std::string sizes = cat(m, ", ", n, ", ", k, ", ", a.at, ", ", a.row, ", ", a.column, ", ", b.at, ", ");
  if (b.column == 1)
    w("lm_madd_", suffix(type), "(", sizes, b.row, ", ", c, ", ", n, ");");
  else
    w("lm_madd_turned_", suffix(type), "(", sizes, b.column, ", ", c, ", ", n, ", ", w.scratch, ");");
}

int64_t rows_of_view(const View& v) { return v.shape[v.rank - 2]; }
int64_t columns_of_view(const View& v) { return v.shape[v.rank - 1]; }

// Loops over the axes in front of the matrices; at[i] is where operand i's matrix begins.
Writer::Nest over_matrices(Writer& w, const std::vector<const Operand*>& operands, const View& whole) {
  const std::vector<int64_t> all = shape_of(whole), shape(all.begin(), all.end() - 2);
  std::vector<std::vector<int64_t>> strides;
  for (const Operand* o : operands) {
    View front = o->view;
    front.rank = std::max(0, front.rank - 2);
    strides.push_back(strides_for(front, shape));
  }
  return w.loops(shape, strides);
}

void write_matmul(Writer& w, const Node& node) {
  const auto& attrs = ir::attrs_of<ops::MatmulAttrs>(*node.attrs);
  const Operand &a = w.in[0], &b = w.in[1], &c = w.out[0];
  const int64_t m = rows_of_view(c.view), n = columns_of_view(c.view);
  const int64_t k = attrs.transpose_a ? rows_of_view(a.view) : columns_of_view(a.view);
  const Writer::Nest nest = over_matrices(w, {&a, &b, &c}, c.view);
  const std::string to = nest.at[2] == "0" ? c.name : cat(c.name, " + ", nest.at[2]);
  w("memset(", to, ", 0, ", m * n, " * sizeof(", c_type(c.dtype()), "));");
  write_madd(w, c.dtype(), m, n, k, matrix_of(a, attrs.transpose_a, nest.at[0]), matrix_of(b, attrs.transpose_b, nest.at[1]), to);
  w.close(nest);
}
Scratch matmul_scratch(const Node& node, const ir::KernelRequest& request) {
  const auto& attrs = ir::attrs_of<ops::MatmulAttrs>(*node.attrs);
  return {request.in[0].dtype, attrs.transpose_b ? 64 * request.in[1].shape.back().number() : 0};
}

std::string activation_call(const ops::ActivationAttrs& a, bool gradient, DType type, std::vector<std::string> operands) {
  if (a.activation == section::Activation::none) return operands[0];
  const section::ActivationRow& row = section::row_of(a.activation);
  if (row.parameter == section::Parameter::alpha) operands.push_back(number(type, double(a.alpha)));
  return scalar_call(ir::find_op(name(gradient ? row.gradient : row.op)), type, type, operands);
}

// Of a stack of matrices, or one: an operand's axis in front of `rank` axes, as a view of the shape [models, ...].
std::vector<int64_t> with_rank(const View& v, size_t own, const std::vector<int64_t>& shape) {
  std::vector<int64_t> out = strides_for(v, shape);
  if (size_t(v.rank) == own + 1 && shape.size() == 3 && own == 1) out = {v.shape[0] == 1 ? 0 : v.strides[0], 0, v.strides[1]};
  return out;
}

void write_dense(Writer& w, const Node& node) {
  const auto& attrs = ir::attrs_of<ops::ActivationAttrs>(*node.attrs);
  const Operand &x = w.in[0], &weights = w.in[1], &y = w.out[0];
  const std::vector<int64_t> shape = shape_of(y.view);
  const int64_t m = rows_of_view(y.view), n = columns_of_view(y.view), k = columns_of_view(x.view);
  if (w.in.size() == 3) {
    const Writer::Nest nest = w.loops(shape, {with_rank(w.in[2].view, 1, shape), strides_for(y.view, shape)});
    w(y[nest.at[1]], " = ", w.in[2][nest.at[0]], ";");
    w.close(nest);
  } else {
    w("memset(", y.name, ", 0, ", y.size(), " * sizeof(", c_type(y.dtype()), "));");
  }
  const Writer::Nest nest = over_matrices(w, {&x, &weights, &y}, y.view);
  write_madd(w, y.dtype(), m, n, k, matrix_of(x, false, nest.at[0]), matrix_of(weights, false, nest.at[1]),
             nest.at[2] == "0" ? y.name : cat(y.name, " + ", nest.at[2]));
  w.close(nest);
  if (attrs.activation == section::Activation::none) return;
  w.loop("e", y.size());
  w(y["e"], " = ", activation_call(attrs, false, y.dtype(), {y["e"]}), ";");
  w.end();
}

void write_grad_input(Writer& w, const Node& node) {
  const auto& attrs = ir::attrs_of<ops::ActivationAttrs>(*node.attrs);
  const Operand &dz = w.in[0], &weights = w.in[1], &dx = w.out[0];
  const std::vector<int64_t> shape = shape_of(dx.view);
  w("memset(", dx.name, ", 0, ", dx.size(), " * sizeof(", c_type(dx.dtype()), "));");
  Writer::Nest nest = over_matrices(w, {&dz, &weights, &dx}, dx.view);
  write_madd(w, dx.dtype(), rows_of_view(dx.view), columns_of_view(dx.view), columns_of_view(dz.view), matrix_of(dz, false, nest.at[0]),
             matrix_of(weights, true, nest.at[1]), nest.at[2] == "0" ? dx.name : cat(dx.name, " + ", nest.at[2]));
  w.close(nest);
  if (attrs.activation == section::Activation::none) return;
  nest = w.loops(shape, {strides_for(w.in[2].view, shape), strides_for(dx.view, shape)});
  w(dx[nest.at[1]], " = ", activation_call(attrs, true, dx.dtype(), {dx[nest.at[1]], w.in[2][nest.at[0]]}), ";");
  w.close(nest);
}
Scratch grad_input_scratch(const Node&, const ir::KernelRequest& request) {
  return {request.in[0].dtype, 64 * request.in[0].shape.back().number()};
}

// One of dense_update's regions over a gradient that lies at `gradient`, of this shape.
void write_half(Writer& w, const ir::Graph& region, const std::string& gradient, const std::vector<int64_t>& shape, size_t first_extra,
                size_t extras, size_t first_out, const std::string& model) {
  std::vector<std::vector<int64_t>> strides{contiguous_strides(shape)};
  std::vector<const Operand*> operands;
  for (size_t i = 0; i < extras; ++i) operands.push_back(&w.in[first_extra + i]);
  for (size_t o = 0; o < region.outputs.size(); ++o) operands.push_back(&w.out[first_out + o]);
  std::vector<std::string> offsets;
  for (const Operand* o : operands) {
    View v = o->view;
    int64_t step = 0;
    if (!model.empty() && size_t(v.rank) == shape.size() + 1) {
      step = v.shape[0] == 1 ? 0 : v.strides[0];
      for (int a = 1; a < v.rank; ++a) v.shape[a - 1] = v.shape[a], v.strides[a - 1] = v.strides[a];
      --v.rank;
    }
    offsets.push_back(step == 0 ? "" : cat(" + ", model, " * ", step));
    strides.push_back(strides_for(v, shape));
  }
  const Writer::Nest nest = w.loops(shape, strides);
  auto element = [&](size_t i) { return (*operands[i])[nest.at[i + 1] + offsets[i]]; };
  std::vector<std::string> inputs{"g"};
  const std::vector<uint8_t> used = used_inputs(region);
  if (used[0]) w("const ", c_type(region.type(region.inputs[0]).dtype), " g = ", gradient, "[", nest.at[0], "];");
  for (size_t i = 0; i < extras; ++i) {
    inputs.push_back(cat("x", i));
    if (used[i + 1]) w("const ", c_type(operands[i]->dtype()), " x", i, " = ", element(i), ";");
  }
  const std::vector<std::string> results = write_region(w, region, inputs);
  for (size_t o = 0; o < results.size(); ++o) w(element(extras + o), " = ", results[o], ";");
  w.close(nest);
}

void write_update(Writer& w, const Node& node) {
  const size_t weight_extras = size_t(ir::attrs_of<ops::DenseUpdateAttrs>(*node.attrs).weight_extras);
  const Operand &x = w.in[0], &dz = w.in[1];
  const ir::Graph &weights = *node.regions[0], &bias = *node.regions[1];
  const DType type = x.dtype();
  const int64_t rows = rows_of_view(x.view), k = columns_of_view(x.view), n = columns_of_view(dz.view);
  const bool stack = dz.view.rank == 3;
  const std::string model = stack ? "model" : "";
  auto of_model = [&](const Operand& o) {
    return Matrix{stack && o.view.rank == 3 ? cat(o.name, " + model * ", o.view.strides[0]) : o.name, o.view.strides[o.view.rank - 2],
                  o.view.strides[o.view.rank - 1]};
  };
  if (stack) w.loop("model", dz.view.shape[0]);
  if (!weights.outputs.empty()) {
    w("memset(", w.scratch, ", 0, ", k * n, " * sizeof(", c_type(type), "));");
    Matrix a = of_model(x), b = of_model(dz);
    std::swap(a.row, a.column);
    b.column = 1;
    write_madd(w, type, k, n, rows, a, b, w.scratch);
    write_half(w, weights, w.scratch, {k, n}, 2, weight_extras, 0, model);
  }
  if (!bias.outputs.empty()) {
    w("for (ptrdiff_t j = 0; j < ", n, "; j += 64) lm_columns_sum_", suffix(type), "(", of_model(dz).at, " + j, ", rows, ", ",
      of_model(dz).row, ", ", n % 64 ? cat(n, " - j < 64 ? ", n, " - j : 64") : "64", ", ", w.scratch, " + j);");
    write_half(w, bias, w.scratch, {n}, 2 + weight_extras, w.in.size() - 2 - weight_extras, weights.outputs.size(), model);
  }
  if (stack) w.end();
}
Scratch update_scratch(const Node& node, const ir::KernelRequest& request) {
  const int64_t k = request.in[0].shape.back().number(), n = request.in[1].shape.back().number();
  return {request.in[0].dtype, node.regions[0]->outputs.empty() ? n : k * n};
}

}  // namespace

std::vector<Rule> product_rules() {
  return {{&ops::def::matmul, write_matmul, matmul_scratch},
          {&ops::def::dense, write_dense},
          {&ops::def::dense_grad_input, write_grad_input, grad_input_scratch},
          {&ops::def::dense_update, write_update, update_scratch}};
}

}  // namespace lamina::c_text
