// scan(carried..., stacked..., captures..., count) [body]: a loop over slices.
#include <map>

#include "graph/ir/rewriter.h"
#include "graph/ops/batching.h"
#include "graph/ops/region_checks.h"

namespace lamina::ops {
namespace {

constexpr const char* kScanName = "scan";

// The inputs of a node or region by role.
struct Parts {
  size_t carried, stacked, captures;
  Parts(const ScanAttrs& attrs, size_t inputs)
      : carried(size_t(attrs.carried)),
        stacked(size_t(attrs.stacked)),
        captures(inputs - size_t(attrs.carried) - size_t(attrs.stacked) - attrs.counted) {}
};

TensorType stack_of(Dim length, const TensorType& slice) {
  Shape shape{length};
  shape.insert(shape.end(), slice.shape.begin(), slice.shape.end());
  return {slice.dtype, std::move(shape)};
}

[[noreturn]] void refuse_scan(std::string what, std::string why) {
  throw Error(ErrorKind::invalid_argument, {.what = cat("scan: ", what), .where = "", .why = std::move(why), .fix = ""});
}

std::vector<TensorType> infer_scan(const ir::InferCall& call) {
  const auto& attrs = ir::attrs_of<ScanAttrs>(call.attrs);
  const int64_t inputs = int64_t(call.in.size()) - attrs.counted;
  if (attrs.carried < 0 || attrs.stacked < 0 || attrs.carried > inputs || attrs.stacked > inputs - attrs.carried)
    refuse_scan(cat("it has ", call.in.size(), " inputs"), cat(attrs.carried, " are carried and ", attrs.stacked, " stacked"));
  if (attrs.length.size() != 1) refuse_scan("it has no length", "the length is one dimension");
  const Parts parts(attrs, call.in.size());
  std::vector<TensorType> in(call.in.begin(), call.in.begin() + inputs);
  for (size_t i = parts.carried; i < parts.carried + parts.stacked; ++i) {
    if (in[i].rank() == 0 || in[i].shape[0] != attrs.length[0])
      refuse_scan(cat("stacked value ", i - parts.carried, " is ", in[i]), cat("its first axis must be ", attrs.length[0], " long"));
    in[i].shape.erase(in[i].shape.begin());
  }
  if (attrs.counted && !(call.in.back() == TensorType{DType::i64, {}})) refuse_scan(cat("the count is ", call.in.back()), "it is i64[]");
  const Graph& body = *call.regions[0];
  require_region_inputs(kScanName, "body", body, in);
  std::vector<TensorType> out = types_of(body, body.outputs);
  if (out.size() < parts.carried) refuse_scan(cat("the body gives ", out.size(), " values"), cat(parts.carried, " are carried"));
  for (size_t i = 0; i < out.size(); ++i) {
    if (i >= parts.carried)
      out[i] = stack_of(attrs.length[0], out[i]);
    else if (!(out[i] == in[i]))
      refuse_scan(cat("carried value ", i, " is ", in[i], " and becomes ", out[i]), "it keeps its dtype and shape");
    if (out[i].rank() > kMaxRank) refuse_scan(cat("a result has ", out[i].rank(), " dimensions"), cat("a tensor has at most ", kMaxRank));
  }
  return out;
}

// A product of the body that the body's gradient computes again.
struct Product {
  Value in_body, in_gradient;
};
std::vector<Product> products_computed_again(const Graph& body, const Graph& gradient) {
  std::map<std::pair<const ir::OpDef*, std::vector<Value>>, std::vector<int>> nodes;  // of the body, by op and inputs
  for (int n = 0; n < body.size(); ++n)
    if (body[n].regions.empty() && body[n].op->effect == ir::Effect::none && body[n].op != &def::input)
      nodes[{body[n].op, body[n].inputs}].push_back(n);
  std::map<Value, Value> same;  // values of the gradient that are values of the body
  for (size_t i = 0; i < body.inputs.size(); ++i) same[gradient.inputs[i]] = body.inputs[i];
  std::vector<Product> products;
  for (int n = 0; n < gradient.size(); ++n) {
    const ir::Node& node = gradient[n];
    std::vector<Value> inputs;
    for (Value v : node.inputs)
      if (auto at = same.find(v); at != same.end()) inputs.push_back(at->second);
    if (inputs.size() != node.inputs.size()) continue;
    const auto equal = nodes.find({node.op, inputs});
    if (equal == nodes.end()) continue;
    for (int m : equal->second) {
      if (!(node.attrs == body[m].attrs || (node.attrs && body[m].attrs && node.attrs->equals(*body[m].attrs)))) continue;
      for (int r = 0; r < int(node.types.size()); ++r) same[{n, r}] = {m, r};
      if (node.op == &def::matmul && node.types[0].rank() < size_t(kMaxRank)) products.push_back({{m, 0}, {n, 0}});
      break;
    }
  }
  return products;
}

// The gradient with the products as further inputs.
ir::GraphRef with_products(const Graph& gradient, const std::vector<Product>& products) {
  auto out = std::make_shared<Graph>();
  ir::Rewriter to(gradient, *out);
  for (Value v : gradient.inputs) to.map(v, out->add_input(gradient.type(v)));
  for (const Product& p : products) to.map(p.in_gradient, out->add_input(gradient.type(p.in_gradient)));
  for (int n = 0; n < gradient.size(); ++n)
    if (!to.mapped(n)) to.copy(n);
  out->outputs = to[gradient.outputs];
  return out;
}

// Runs forward again, keeping the carried values that the gradient reads, and products; then backward over the slices. Carried in the
// backward loop: cotangents of the carried values, and sums of the captures' gradients. An iteration's other values are recomputed for its
// gradient.
std::vector<Value> vjp_scan(const ir::VjpCall& call) {
  Graph& g = call.graph;
  const auto& attrs = ir::attrs_of<ScanAttrs>(call.attrs);
  const Parts parts(attrs, call.inputs.size());
  const Graph body = ir::without_host_effects(*call.regions[0]);
  const auto section = [&](size_t first, size_t count) {
    return std::vector<Value>(call.inputs.begin() + int64_t(first), call.inputs.begin() + int64_t(first + count));
  };
  const std::vector<Value> carried = section(0, parts.carried), stacked = section(parts.carried, parts.stacked),
                           captures = section(parts.carried + parts.stacked, parts.captures);
  const Value count = attrs.counted ? call.inputs.back() : Value{};
  const Dim length = attrs.length[0];
  const std::vector<uint8_t> wanted = floating(types_of(body, body.inputs));
  ir::GraphRef gradient = transforms_of(kScanName, call.transforms).gradient(body, wanted);
  const std::vector<Product> products = products_computed_again(body, *gradient);
  gradient = with_products(*gradient, products);
  const std::vector<uint8_t> used = used_inputs(*gradient);

  auto recorded = std::make_shared<Graph>(body);
  for (size_t i = 0; i < parts.carried; ++i)
    if (used[i]) recorded->outputs.push_back(body.inputs[i]);
  for (const Product& p : products) recorded->outputs.push_back(p.in_body);
  const Value forward = recorded->outputs.size() == body.outputs.size()
                            ? Value{}
                            : scan(g, carried, stacked, captures, recorded, length, attrs.reverse, count);

  // Inputs of the backward body.
  auto back = std::make_shared<Graph>();
  std::vector<Value> outer_carried, outer_stacked, outer_captures, sums, inner(gradient->inputs.size());
  const size_t all = parts.carried + parts.stacked + parts.captures;
  std::vector<Value> cotangents;
  add_cotangents(call, 0, parts.carried, cotangents);
  const size_t through = cotangents.size();  // number of carried cotangents
  for (size_t i = 0; i < through; ++i) {
    outer_carried.push_back(cotangents[i]);
    inner[all + i] = back->add_input(g.type(cotangents[i]));
  }
  for (size_t i = parts.carried + parts.stacked; i < all; ++i) {
    if (!wanted[i]) continue;
    const TensorType type = g.type(call.inputs[i]);
    outer_carried.push_back(full(g, type, 0));
    sums.push_back(back->add_input(type));
  }
  int next = int(body.outputs.size());
  for (size_t i = 0; i < parts.carried; ++i) {
    if (!used[i]) continue;
    outer_stacked.push_back({forward.node, next++});
    inner[i] = back->add_input(body.type(body.inputs[i]));
  }
  for (size_t i = 0; i < parts.stacked; ++i) {
    if (!used[parts.carried + i]) continue;
    outer_stacked.push_back(stacked[i]);
    inner[parts.carried + i] = back->add_input(body.type(body.inputs[parts.carried + i]));
  }
  add_cotangents(call, parts.carried, call.results.size(), outer_stacked);
  for (size_t i = 0; i < products.size(); ++i) outer_stacked.push_back({forward.node, next++});
  for (size_t i = all + through; i < inner.size(); ++i) inner[i] = back->add_input(gradient->type(gradient->inputs[i]));
  for (size_t i = parts.carried + parts.stacked; i < all; ++i) {
    if (!used[i]) continue;
    outer_captures.push_back(call.inputs[i]);
    inner[i] = back->add_input(body.type(body.inputs[i]));
  }
  back->place = g.place;
  const std::vector<Value> gradients = inline_region(*back, *gradient, inner);
  std::vector<Value> slices;
  size_t at = 0, sum = 0;
  for (size_t i = 0; i < all; ++i) {
    if (!wanted[i]) continue;
    const Value flow = gradients[at++];
    if (i < parts.carried)
      back->outputs.push_back(flow);
    else if (i < parts.carried + parts.stacked)
      slices.push_back(flow);
    else
      back->outputs.push_back(sum_of_gradients(*back, sums[sum++], flow));
  }
  back->outputs.insert(back->outputs.end(), slices.begin(), slices.end());
  const int slices_from = int(outer_carried.size());
  std::vector<Value> out(call.inputs.size());
  const Value first = scan(g, outer_carried, outer_stacked, outer_captures, back, length, !attrs.reverse, count);
  int of_carried = 0, of_stacked = slices_from, of_captures = int(through);
  for (size_t i = 0; i < all; ++i) {
    if (!wanted[i]) continue;
    int& result = i < parts.carried ? of_carried : i < parts.carried + parts.stacked ? of_stacked : of_captures;
    out[i] = {first.node, result++};
  }
  return out;
}

// The region for models that stop at different slices: from its own count on, each keeps its carried values and gives zeros. Two more
// inputs: the slice number, which is carried, and the counts.
ir::GraphRef until_count(const Graph& body, const Parts& parts, std::span<const uint8_t> batched, Dim models, bool reverse) {
  Graph g;
  const Value slice = g.add_input({DType::i64, {}});
  std::vector<Value> in;
  for (Value v : body.inputs) in.push_back(g.add_input(body.type(v)));
  const Value counts = g.add_input({DType::i64, {models}});
  const Value active = less(g, slice, counts);
  const std::vector<Value> out = inline_region(g, body, of_active_models(g, active, body, in, batched));
  g.outputs.push_back(add(g, slice, scalar(g, DType::i64, reverse ? -1 : 1)));
  for (size_t i = 0; i < out.size(); ++i)
    g.outputs.push_back(select_models(g, active, out[i], i < parts.carried ? in[i] : full(g, g.type(out[i]), 0)));
  return std::make_shared<const Graph>(std::move(g));
}

std::vector<ir::Batched> batch_scan(const ir::BatchCall& call) {
  Graph& g = call.graph;
  const auto& attrs = ir::attrs_of<ScanAttrs>(call.attrs);
  const auto& transforms = transforms_of(kScanName, call.transforms);
  const Parts parts(attrs, call.inputs.size());
  const Graph& body = *call.regions[0];
  const bool counts = attrs.counted && call.inputs.back().batched;
  if (counts) refuse_host_effects(kScanName, call.regions);
  std::vector<uint8_t> in;
  for (size_t i = 0; i < body.inputs.size(); ++i) in.push_back(call.inputs[i].batched || (counts && i < parts.carried));
  // A carried value that becomes batched is batched from the start.
  ir::GraphRef batched;
  std::vector<uint8_t> out;
  for (bool again = true; again;) {
    out.assign(body.outputs.size(), counts);
    for (size_t i = 0; i < parts.carried; ++i) out[i] = in[i];
    batched = transforms.batch(body, in, call.size, out);
    again = false;
    for (size_t i = 0; i < parts.carried; ++i)
      if (out[i] && !in[i]) in[i] = again = true;
  }
  std::vector<Value> carried, stacked, captures;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    const ir::Batched& input = call.inputs[i];
    if (i < parts.carried)
      carried.push_back(in[i] ? with_own_models(g, input, call.size, body, body.inputs[i]) : input.value);
    else if (i < parts.carried + parts.stacked)
      stacked.push_back(input.batched ? move_axis(g, input.value, 0, 1) : input.value);
    else
      captures.push_back(input.value);
  }
  Value count = attrs.counted ? call.inputs.back().value : Value{};
  int first_result = 0;
  if (counts) {
    batched = until_count(*batched, parts, in, call.size, attrs.reverse);
    captures.push_back(count);
    count = largest(g, count);
    carried.insert(carried.begin(), attrs.reverse ? sub(g, count, scalar(g, DType::i64, 1)) : scalar(g, DType::i64, 0));
    first_result = 1;
  }
  const Value first =
      scan(g, std::move(carried), std::move(stacked), std::move(captures), std::move(batched), attrs.length[0], attrs.reverse, count);
  std::vector<ir::Batched> results;
  for (size_t i = 0; i < out.size(); ++i) {
    const Value v{first.node, int(i) + first_result};
    results.push_back({i >= parts.carried && out[i] ? move_axis(g, v, 1, 0) : v, bool(out[i])});
  }
  return results;
}

}  // namespace

constinit const ir::OpDef def::scan{
    .name = kScanName,
    .inputs = -1,
    .regions = 1,
    .parse_attrs = ir::Attrs<ScanAttrs>::parse,
    .infer = infer_scan,
    .vjp = vjp_scan,
    .batch = batch_scan,
    .no_cpu = "the planner compiles its region",
    .no_cuda = "the planner compiles its regions",
    .doc = "a region for each slice of the stacked values, with values carried from one to the next; results are stacked",
};

}  // namespace lamina::ops
