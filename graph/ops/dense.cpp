// dense(x, w, b): act(x w + b). dense_grad_input(dz, w, y): (dz w^T) * act'(y), where y is act's result or its input. dense_update(x, dz,
// extras...): passes the gradients of weights and bias to two regions without writing them to memory. Passes create these ops after
// differentiation; in sections each is one step. dense_grad_weights(x, dz): both gradients, where a GPU library computes them at once.
#include <algorithm>

#include "graph/ops/batching.h"
#include "graph/ops/checks.h"
#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/region_code.h"
#include "graph/ops/regions.h"
#include "graph/ops/section_step.h"
#include "kernels/dense.h"
#include "kernels/leaves.h"
#include "runtime/device/library_work.h"

namespace lamina::section {
std::string attr_text(Activation v) { return name(v); }

void parse_attr(std::string_view text, Activation& v) {
  std::vector<std::string> names{name(Activation::none)};
  if (text == names[0]) return void(v = Activation::none);
  for (const ActivationRow& row : kActivations) {
    if (text == row.name) return void(v = row.activation);
    names.emplace_back(row.name);
  }
  throw unknown_name("activation", std::string(text), std::move(names));
}
}  // namespace lamina::section

namespace lamina::ops {
namespace {

constexpr const char* kDenseUpdateName = "dense_update";

using section::Activation;
using section::Broadcast;

const ActivationAttrs& activation_of(const ir::AttrsBase& attrs) { return ir::attrs_of<ActivationAttrs>(attrs); }

void require_dense_inputs(const char* op, size_t given, size_t least, size_t most) {
  if (given < least || given > most)
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, " was given ", given, given == 1 ? " input" : " inputs"),
                                              .where = "",
                                              .why = least == most ? cat("it takes ", least) : cat("it takes ", least, " to ", most),
                                              .fix = ""});
}

// A matrix, or a matrix for each of some models.
void require_dense_matrix(const char* op, const char* argument, const TensorType& t) {
  require_floating(op, t);
  if (t.rank() != 2 && t.rank() != 3)
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": ", t, " is not a matrix"),
                                              .where = cat("argument '", argument, "'"),
                                              .why = "it has rows and columns: 2 dimensions, or 3 with a model axis in front",
                                              .fix = "reshape it"});
}

Dim dense_rows(const TensorType& t) { return t.shape[t.rank() - 2]; }
Dim columns_of(const TensorType& t) { return t.shape[t.rank() - 1]; }
// The model axis, if any, followed by these.
Shape with_models(const TensorType& like, Shape shape) {
  if (like.rank() == 3) shape.insert(shape.begin(), like.shape[0]);
  return shape;
}
// Operands with a model axis must match `whole`; only shared ones may lack it.
void require_models(const char* op, const TensorType& whole, const TensorType& t, bool may_be_shared) {
  if (t.rank() == whole.rank() ? t.rank() == 2 || t.shape[0] == whole.shape[0] : may_be_shared && t.rank() == 2) return;
  throw does_not_fit(op, whole, t, "a matrix for each model goes with one for each, of as many models", "");
}

std::vector<TensorType> infer_dense(const ir::InferCall& call) {
  require_dense_inputs("dense", call.in.size(), 2, 3);
  const TensorType &x = call.in[0], &w = call.in[1];
  require_dense_matrix("dense", "x", x);
  require_dense_matrix("dense", "w", w);
  require_same_dtype("dense", x, w);
  require_models("dense", w, x, true);
  if (columns_of(x) != dense_rows(w))
    throw does_not_fit("dense", x, w, cat("x has ", columns_of(x), " columns and w ", dense_rows(w), " rows"),
                       "pass weights with a row for each column of x");
  if (call.in.size() == 3) {
    require_same_dtype("dense", x, call.in[2]);
    if (call.in[2].shape != Shape{columns_of(w)} && call.in[2].shape != with_models(w, {columns_of(w)}))
      throw does_not_fit("dense", w, call.in[2], cat("the bias has one number for each of the ", columns_of(w), " columns of w"), "");
  }
  return {{x.dtype, with_models(w, {dense_rows(x), columns_of(w)})}};
}

std::vector<TensorType> infer_grad_input(const ir::InferCall& call) {
  const char* op = "dense_grad_input";
  require_dense_inputs(op, call.in.size(), 2, 3);
  const TensorType &dz = call.in[0], &w = call.in[1];
  require_dense_matrix(op, "dz", dz);
  require_dense_matrix(op, "w", w);
  require_same_dtype(op, dz, w);
  require_models(op, w, dz, false);
  if (columns_of(dz) != columns_of(w)) throw does_not_fit(op, dz, w, cat("dz has ", columns_of(dz), " columns and w ", columns_of(w)), "");
  TensorType out{dz.dtype, with_models(w, {dense_rows(dz), dense_rows(w)})};
  if ((call.in.size() == 3) != (activation_of(call.attrs).activation != Activation::none))
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": the activation is ", section::name(activation_of(call.attrs).activation),
                                                          " with ", call.in.size(), " inputs"),
                                              .where = "",
                                              .why = "an activation needs y, what it gave or was given, and nothing else does",
                                              .fix = ""});
  if (call.in.size() == 3 && !(call.in[2] == out)) throw does_not_fit(op, out, call.in[2], "y has the type of the result", "");
  return {out};
}

// The parts of dense_update for one of its regions.
struct Half {
  const ir::Graph& region;
  size_t first_extra, extras;
  TensorType gradient;
};

std::vector<TensorType> infer_update(const ir::InferCall& call) {
  const char* op = kDenseUpdateName;
  const auto& attrs = ir::attrs_of<DenseUpdateAttrs>(call.attrs);
  const int64_t weight_extras = attrs.weight_extras, leaves = attrs.leaves;
  auto bad = [&](const std::string& what, const std::string& why) {
    return Error(ErrorKind::invalid_argument, {.what = cat(op, ": ", what), .where = "", .why = why, .fix = ""});
  };
  if (call.in.size() < 2 || weight_extras < 0 || weight_extras > int64_t(call.in.size()) - 2)
    throw bad(cat(call.in.size(), " inputs and ", weight_extras, " weight extras"),
              "it takes x, dz, the weights' extras and the bias's extras");
  const TensorType &x = call.in[0], &dz = call.in[1];
  require_dense_matrix(op, "x", x);
  require_dense_matrix(op, "dz", dz);
  require_same_dtype(op, x, dz);
  require_models(op, dz, x, true);
  if (dense_rows(x) != dense_rows(dz)) throw does_not_fit(op, x, dz, cat("x has ", dense_rows(x), " rows and dz ", dense_rows(dz)), "");
  if (leaves < 1 || leaves > kernels::kMostLeaves ||
      (leaves > 1 && (dz.rank() != 2 || !dense_rows(dz).known() || dense_rows(dz).number() < leaves)))
    throw bad(cat(leaves, " leaves of ", dz),
              cat("a batch has 1 to ", kernels::kMostLeaves, " leaves, each of one row at least, and is no stack of models"));
  if (leaves > 1 && call.in.size() + size_t(leaves) > kernels::kMostWithLeaves)
    throw bad(cat(call.in.size(), " inputs and ", leaves, " leaves"),
              cat("a region takes fewer than ", kernels::kMostWithLeaves, " values"));
  std::vector<TensorType> out;
  const Half halves[] = {{*call.regions[0], 2, size_t(weight_extras), {x.dtype, with_models(dz, {columns_of(x), columns_of(dz)})}},
                         {*call.regions[1],
                          2 + size_t(weight_extras),
                          call.in.size() - 2 - size_t(weight_extras),
                          {x.dtype, with_models(dz, {columns_of(dz)})}}};
  for (const Half& half : halves) {
    const ir::Graph& region = half.region;
    if (region.inputs.size() != size_t(leaves) + half.extras)
      throw bad(cat("a region with ", region.inputs.size(), " inputs for ", half.extras, " extras"),
                "a region takes the gradient of each leaf, then the extras");
    for (size_t i = 0; i < region.inputs.size(); ++i) {
      const TensorType& given = i < size_t(leaves) ? half.gradient : call.in[half.first_extra + i - size_t(leaves)];
      if (!(region.type(region.inputs[i]) == given))
        throw bad(cat("a region's input ", i, " is ", region.type(region.inputs[i]), ", it was given ", given), "they must be equal");
    }
    code_of(op, region);
    for (Value v : region.outputs) {
      if (region.type(v).shape != half.gradient.shape)
        throw bad(cat("a region gives ", region.type(v)), cat("what it gives has the gradient's shape [", text(half.gradient.shape), "]"));
      out.push_back(region.type(v));
    }
  }
  return out;
}

// An activation of z, or the gradient through it of dy and y.
Value activate(Graph& g, const ActivationAttrs& a, bool gradient, std::vector<Value> in) {
  if (a.activation == Activation::none) return in[0];
  const section::ActivationRow& row = section::row_of(a.activation);
  if (row.parameter == section::Parameter::alpha) in.push_back(scalar(g, g.type(in[0]).dtype, a.alpha));
  return g.add(ir::find_op(name(gradient ? row.gradient : row.op)), std::move(in));
}

// A region of elementwise nodes as one node, if it has several and all its results are theirs.
std::vector<Value> as_one_node(Graph& g, const ir::GraphRef& region, std::vector<Value> in) {
  const auto computes = [&](int n) { return (*region)[n].op->scalar_op >= 0; };
  int nodes = 0;
  for (int n = 0; n < region->size(); ++n) nodes += computes(n);
  if (nodes < 2 || !std::all_of(region->outputs.begin(), region->outputs.end(), [&](Value v) { return computes(v.node); }))
    return inline_region(g, *region, in);
  std::vector<Value> out{g.add(def::fused_elementwise, nullptr, std::move(in), {region})};
  while (out.size() < region->outputs.size()) out.push_back({out[0].node, int(out.size())});
  return out;
}

// The three as plain ops. Like these, they accept leading model axes on any input; a bias per model is passed as rows [..., 1, n].
Value plain_dense(Graph& g, std::span<const Value> in, const ActivationAttrs& activation) {
  Value z = matmul(g, in[0], in[1], false, false, activation.precision);
  return activate(g, activation, false, {in.size() == 3 ? add(g, z, in[2]) : z});
}
Value plain_grad_input(Graph& g, std::span<const Value> in, const ActivationAttrs& activation) {
  Value dx = matmul(g, in[0], in[1], false, true, activation.precision);
  return in.size() == 3 ? activate(g, activation, true, {dx, in[2]}) : dx;
}
std::vector<Value> plain_update(Graph& g, std::span<const Value> in, const DenseUpdateAttrs& attrs, const ir::Graph& weight_region,
                                const ir::Graph& bias_region, bool at_once = false, std::span<const ir::GraphRef> fused = {}) {
  const int64_t weight_extras = attrs.weight_extras;
  std::vector<Value> weight_in, bias_in, out;
  const auto each_leaf = [&](auto&& gradient) {  // of its rows of x and dz
    std::vector<Value> of_leaves;
    for (int64_t leaf = 0; leaf < attrs.leaves; ++leaf) {
      const auto rows = [&](Value v) {
        if (attrs.leaves == 1) return v;
        std::vector<int64_t> begin, end;
        for (Dim d : g.type(v).shape) begin.push_back(0), end.push_back(d.number());
        const size_t axis = begin.size() - 2;
        begin[axis] = kernels::first_row_of_leaf(end[axis], attrs.leaves, leaf);
        end[axis] = kernels::first_row_of_leaf(end[axis], attrs.leaves, leaf + 1);
        return slice(g, v, std::move(begin), std::move(end), std::vector<int64_t>(axis + 2, 1));
      };
      of_leaves.push_back(gradient(rows));
    }
    return of_leaves;
  };
  const Value both = at_once ? g.add(def::dense_grad_weights, ir::make_attrs(PrecisionAttrs{attrs.precision}), {in[0], in[1]}) : Value{};
  if (!weight_region.outputs.empty()) {
    weight_in = at_once ? std::vector{both}
                        : each_leaf([&](auto&& rows) { return matmul(g, rows(in[0]), rows(in[1]), true, false, attrs.precision); });
    weight_in.insert(weight_in.end(), in.begin() + 2, in.begin() + 2 + weight_extras);
    out = fused.empty() ? inline_region(g, weight_region, weight_in) : as_one_node(g, fused[0], std::move(weight_in));
  }
  if (!bias_region.outputs.empty()) {
    bias_in = at_once ? std::vector{Value{both.node, 1}} : each_leaf([&](auto&& rows) { return sum(g, rows(in[1]), {-2}); });
    bias_in.insert(bias_in.end(), in.begin() + 2 + weight_extras, in.end());
    const std::vector<Value> bias = fused.empty() ? inline_region(g, bias_region, bias_in) : as_one_node(g, fused[1], std::move(bias_in));
    out.insert(out.end(), bias.begin(), bias.end());
  }
  return out;
}

// A bias [models, n] as [models, 1, n].
Value bias_rows(Graph& g, Value bias) {
  Shape shape = g.type(bias).shape;
  shape.insert(shape.end() - 1, Dim(1));
  return reshape(g, bias, std::move(shape));
}

std::vector<Value> decompose_dense(Graph& g, const ir::AttrsBase& attrs, std::span<const Value> in, std::span<const ir::GraphRef>) {
  std::vector<Value> operands(in.begin(), in.end());
  if (in.size() == 3 && g.type(in[2]).rank() == 2) operands[2] = bias_rows(g, in[2]);
  return {plain_dense(g, operands, activation_of(attrs))};
}
std::vector<Value> decompose_grad_input(Graph& g, const ir::AttrsBase& attrs, std::span<const Value> in, std::span<const ir::GraphRef>) {
  return {plain_grad_input(g, in, activation_of(attrs))};
}
std::vector<Value> decompose_update(Graph& g, const ir::AttrsBase& attrs, std::span<const Value> in,
                                    std::span<const ir::GraphRef> regions) {
  const TensorType &x = g.type(in[0]), &dz = g.type(in[1]);
  const bool has_both = !regions[0]->outputs.empty() && !regions[1]->outputs.empty() && x.rank() == 2 && known(x.shape) &&
                        known(dz.shape) && ir::attrs_of<DenseUpdateAttrs>(attrs).leaves == 1;
  // Without the library they are two launches, and the sum may not join a section.
  const bool is_large = has_both && double(dense_rows(x).number()) * double(columns_of(x).number()) * double(columns_of(dz).number()) >=
                                        least_multiply_adds(Setting::cublaslt);
  return plain_update(g, in, ir::attrs_of<DenseUpdateAttrs>(attrs), *regions[0], *regions[1], is_large, regions);
}

std::vector<TensorType> infer_grad_weights(const ir::InferCall& call) {
  constexpr const char* op = "dense_grad_weights";
  const TensorType &x = call.in[0], &dz = call.in[1];
  for (const TensorType* t : {&x, &dz})
    if (t->rank() != 2)
      throw Error(ErrorKind::invalid_argument,
                  {.what = cat(op, ": ", *t, " is no matrix"), .where = "", .why = "x is [rows, k], dz is [rows, n]", .fix = ""});
  require_floating(op, x);
  require_same_dtype(op, x, dz);
  if (dense_rows(x) != dense_rows(dz)) throw does_not_fit(op, x, dz, cat("x has ", dense_rows(x), " rows and dz ", dense_rows(dz)), "");
  return {{x.dtype, {columns_of(x), columns_of(dz)}}, {x.dtype, {columns_of(dz)}}};
}
std::vector<Value> decompose_grad_weights(Graph& g, const ir::AttrsBase& attrs, std::span<const Value> in, std::span<const ir::GraphRef>) {
  return {matmul(g, in[0], in[1], true, false, ir::attrs_of<PrecisionAttrs>(attrs).precision), sum(g, in[1], {-2})};
}

// One weight for all models: the models' rows become one matrix, and the layer stays one step. Otherwise plain ops with a leading axis.
std::vector<ir::Batched> batch_dense(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const ActivationAttrs& activation = activation_of(call.attrs);
  const size_t rank = g.type(call.inputs[1].value).rank() - call.inputs[1].batched;  // of the weights: 3 if they are stacked already
  bool shared = call.inputs[0].batched && rank == 2;
  for (const ir::Batched& in : call.inputs.subspan(1)) shared = shared && !in.batched;
  if (shared) {
    const Shape x = g.type(call.inputs[0].value).shape;
    Value y =
        dense(g, reshape(g, call.inputs[0].value, {x[0] * x[1], x[2]}), call.inputs[1].value,
              call.inputs.size() == 3 ? call.inputs[2].value : Value{}, activation.activation, activation.alpha, activation.precision);
    return {{reshape(g, y, {x[0], x[1], g.type(y).shape[1]}), true}};
  }
  std::vector<Value> in;
  for (const ir::Batched& b : call.inputs) {
    const bool stacked_bias = in.size() == 2 && g.type(b.value).rank() - b.batched == 2;
    in.push_back(lift(g, stacked_bias ? ir::Batched{bias_rows(g, b.value), b.batched} : b, rank));
  }
  return {{plain_dense(g, in, activation), true}};
}
std::vector<ir::Batched> batch_grad_input(const ir::BatchCall& call) {
  const size_t rank = call.graph.type(call.inputs[1].value).rank() - call.inputs[1].batched;
  std::vector<Value> in;
  for (const ir::Batched& b : call.inputs) in.push_back(lift(call.graph, b, rank));
  return {{plain_grad_input(call.graph, in, activation_of(call.attrs)), true}};
}
std::vector<ir::Batched> batch_update(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const auto& attrs = ir::attrs_of<DenseUpdateAttrs>(call.attrs);
  const size_t weight_extras = size_t(attrs.weight_extras), rank = g.type(call.inputs[1].value).rank() - call.inputs[1].batched;
  std::vector<Value> in;
  for (size_t i = 0; i < call.inputs.size(); ++i) {  // the gradients of both regions have the model axis, so every result has it
    const ir::Batched& b = call.inputs[i];
    in.push_back(lift(g, i < 2 ? ir::Batched{with_model_axis(g, b, call.size), true} : b, i < 2 + weight_extras ? rank : rank - 1));
  }
  std::vector<ir::Batched> out;
  for (Value v : plain_update(g, in, attrs, *call.regions[0], *call.regions[1])) {
    // A result that is itself an extra may lack the axis, or have it with 1s between.
    const Shape& want = out.size() < call.regions[0]->outputs.size()
                            ? call.regions[0]->type(call.regions[0]->outputs[out.size()]).shape
                            : call.regions[1]->type(call.regions[1]->outputs[out.size() - call.regions[0]->outputs.size()]).shape;
    out.push_back({broadcast_to(g, v, with_model_axis(call.size, want)), true});
  }
  return out;
}

bool section_dense(const ir::KernelRequest& request, ir::SectionStep& out) {
  const TensorType& x = request.in[0];
  if (!is_step_matrix(x) || !is_step_matrix(request.in[1])) return false;
  const bool bias = request.in.size() == 3;
  if (bias)
    set_step(out, section::StepKind::dense, section::Partition::rows, request.out[0], {Broadcast::full, Broadcast::full, Broadcast::row},
             {Broadcast::full});
  else
    set_step(out, section::StepKind::dense, section::Partition::rows, request.out[0], {Broadcast::full, Broadcast::full},
             {Broadcast::full});
  out.step.activation = activation_of(request.attrs).activation;
  out.step.scalar = activation_of(request.attrs).alpha;
  out.step.has_bias = bias;
  out.step.k = int32_t(columns_of(x).number());
  if (request.out[0].rank() == 3) set_models(out, request, bias ? std::vector<size_t>{2, 2, 1, 2} : std::vector<size_t>{2, 2, 2});
  out.flops = 2.0 * out.step.replicas * out.step.rows * out.step.k * out.step.n;
  return request.out[0].rank() == 2 || pays_by_models(out.step);
}

bool section_grad_input(const ir::KernelRequest& request, ir::SectionStep& out) {
  const TensorType& dz = request.in[0];
  if (!is_step_matrix(dz) || !is_step_matrix(request.in[1])) return false;
  const bool mask = request.in.size() == 3;
  if (mask)
    set_step(out, section::StepKind::dense_grad_input, section::Partition::rows, dz, {Broadcast::full, Broadcast::full, Broadcast::full},
             {Broadcast::full});
  else
    set_step(out, section::StepKind::dense_grad_input, section::Partition::rows, dz, {Broadcast::full, Broadcast::full}, {Broadcast::full});
  out.step.activation = activation_of(request.attrs).activation;
  out.step.scalar = activation_of(request.attrs).alpha;
  out.step.has_mask = mask;
  out.step.k = int32_t(columns_of(request.out[0]).number());
  if (dz.rank() == 3) set_models(out, request, std::vector<size_t>(request.in.size() + 1, 2));
  out.flops = 2.0 * out.step.replicas * out.step.rows * out.step.k * out.step.n;
  return dz.rank() == 2 || pays_by_models(out.step);
}

// How an extra broadcasts to the gradient: [k,n] full, [n] or [1,n] row, one element scalar. For the bias's gradient all others are rows.
bool set_broadcast(const Shape& extra, const Shape& gradient, Broadcast& out) {
  if (std::all_of(extra.begin(), extra.end(), [](Dim d) { return d == Dim(1); }))
    return out = Broadcast::scalar, extra.size() <= gradient.size();
  if (gradient.size() == 1) return out = Broadcast::row, extra == gradient;
  if (extra == gradient) return out = Broadcast::full, true;
  return out = Broadcast::row, extra.back() == gradient[1] && (extra.size() == 1 || (extra.size() == 2 && extra[0] == Dim(1)));
}

bool section_update(const ir::KernelRequest& request, ir::SectionStep& out) {
  const TensorType &x = request.in[0], &dz = request.in[1];
  if (!is_step_matrix(x) || !is_step_matrix(dz)) return false;
  set_step(out, section::StepKind::dense_update, section::Partition::tiles, dz, {Broadcast::full, Broadcast::full}, {});
  section::Step& s = out.step;
  s.k = int32_t(columns_of(x).number());
  s.extras = int32_t(ir::attrs_of<DenseUpdateAttrs>(request.attrs).weight_extras);
  s.has_bias = !request.regions[1]->outputs.empty();
  const Shape weight{columns_of(x), columns_of(dz)}, bias{columns_of(dz)};
  std::vector<size_t> ranks{2, 2};  // without the model axis
  for (size_t i = 2; i < request.in.size(); ++i) {
    Broadcast broadcast = Broadcast::full;
    const bool of_weight = int32_t(i) < 2 + s.extras;
    Shape extra = request.in[i].shape;
    ranks.push_back(of_weight ? 2 : 1);
    if (dz.rank() == 3 && extra.size() == ranks.back() + 1) {
      if (extra[0] != dz.shape[0] && extra[0] != Dim(1)) return false;
      extra.erase(extra.begin());
    }
    if (!set_broadcast(extra, of_weight ? weight : bias, broadcast)) return false;
    out.operands.push_back({int32_t(i), broadcast});
  }
  s.ins = s.first_out = int32_t(request.in.size());
  for (size_t i = 0; i < request.out.size(); ++i) {
    ranks.push_back(i < request.regions[0]->outputs.size() ? 2 : 1);
    out.operands.push_back({int32_t(request.in.size() + i), i < request.regions[0]->outputs.size() ? Broadcast::full : Broadcast::row});
  }
  s.outs = int32_t(request.out.size());
  if (!request.regions[0]->outputs.empty())
    s.code = int32_t(out.codes.size()), out.codes.push_back(code_of(kDenseUpdateName, *request.regions[0]));
  if (s.has_bias) s.code2 = int32_t(out.codes.size()), out.codes.push_back(code_of(kDenseUpdateName, *request.regions[1]));
  if (dz.rank() == 3) set_models(out, request, ranks);
  out.flops = 2.0 * s.replicas * s.rows * s.k * s.n;
  if (dz.rank() == 2) s.replicas = int32_t(ir::attrs_of<DenseUpdateAttrs>(request.attrs).leaves);
  return dz.rank() == 2 || pays_by_models(s);
}

template <bool (*section_step)(const ir::KernelRequest&, ir::SectionStep&)>
Kernel kernel_dense(const ir::KernelRequest& request) {
  ir::SectionStep step;
  return section_step(request, step) ? kernel_of(std::move(step)) : Kernel{};
}

Kernel gpu_dense(const ir::KernelRequest& request) {
  const ActivationAttrs& a = activation_of(request.attrs);
  return for_floating(request.in[0].dtype,
                      [&]<class T>() { return bind<kernels::cuda::dense<T>, On::gpu>(a.activation, a.alpha, a.precision); });
}
Kernel gpu_grad_input(const ir::KernelRequest& request) {
  const ActivationAttrs& a = activation_of(request.attrs);
  return for_floating(request.in[0].dtype,
                      [&]<class T>() { return bind<kernels::cuda::dense_grad_input<T>, On::gpu>(a.activation, a.alpha, a.precision); });
}

Kernel gpu_grad_weights(const ir::KernelRequest& request) {
  return for_floating(request.in[0].dtype, [&]<class T>() {
    return bind<kernels::cuda::dense_grad_weights<T>, On::gpu>(ir::attrs_of<PrecisionAttrs>(request.attrs).precision);
  });
}

constexpr const char* kAfterGradients = "passes make it after differentiation";
constexpr const char* kNoCuda = "outside of a section, a GPU runs the ops that it decomposes into";

}  // namespace

constinit const ir::OpDef def::dense{
    .name = "dense",
    .inputs = -1,
    .parse_attrs = ir::Attrs<ActivationAttrs>::parse,
    .infer = infer_dense,
    .batch = batch_dense,
    .cpu = kernel_dense<section_dense>,
    .cuda = gpu_dense,
    .section = section_dense,
    .decompose = decompose_dense,
    .partition = section::Partition::rows,
    .no_vjp = kAfterGradients,
    .doc = "a layer: activation(x w + b)",
};

constinit const ir::OpDef def::dense_grad_input{
    .name = "dense_grad_input",
    .inputs = -1,
    .parse_attrs = ir::Attrs<ActivationAttrs>::parse,
    .infer = infer_grad_input,
    .batch = batch_grad_input,
    .cpu = kernel_dense<section_grad_input>,
    .cuda = gpu_grad_input,
    .section = section_grad_input,
    .decompose = decompose_grad_input,
    .partition = section::Partition::rows,
    .no_vjp = kAfterGradients,
    .doc = "a layer's gradient by its input, through the activation that gave the input: (dz w^T) * act'(y)",
};

constinit const ir::OpDef def::dense_grad_weights{
    .name = "dense_grad_weights",
    .inputs = 2,
    .parse_attrs = ir::Attrs<PrecisionAttrs>::parse,
    .infer = infer_grad_weights,
    .cuda = gpu_grad_weights,
    .decompose = decompose_grad_weights,
    .no_vjp = kAfterGradients,
    .no_batch = "dense_update is mapped over models, and decomposed afterwards",
    .no_cpu = "the CPU runs the ops that it decomposes into",
    .doc = "a layer's weight and bias gradients: x^T dz, and the sums of dz over its rows",
};

constinit const ir::OpDef def::dense_update{
    .name = kDenseUpdateName,
    .inputs = -1,
    .regions = 2,
    .parse_attrs = ir::Attrs<DenseUpdateAttrs>::parse,
    .infer = infer_update,
    .batch = batch_update,
    .cpu = kernel_dense<section_update>,
    .section = section_update,
    .decompose = decompose_update,
    .in_place = true,
    .first_in_place = 2,
    .partition = section::Partition::tiles,
    .no_vjp = kAfterGradients,
    .no_cuda = kNoCuda,
    .doc = "a layer's weight and bias gradients, each used by a region of elementwise ops and not stored",
};

}  // namespace lamina::ops
