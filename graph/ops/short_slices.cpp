#include "graph/ops/short_slices.h"

#include <algorithm>
#include <limits>
#include <span>

#include "graph/ir/rewriter.h"
#include "graph/ops/ops.h"

namespace lamina::ops {
namespace {

constexpr int64_t kOpenEnd = std::numeric_limits<int64_t>::max();

bool slices_open_axis(const ir::Graph& g) {
  return std::any_of(g.nodes().begin(), g.nodes().end(), [&](const ir::Node& node) {
    return (node.op == &def::slice && !known(g.type(node.inputs[0]).shape)) ||
           std::any_of(node.regions.begin(), node.regions.end(), [](const ir::GraphRef& region) { return slices_open_axis(*region); });
  });
}

bool is_as_traced(Dim traced, Dim now, const DimBindings& lengths) {
  try {
    return substitute(traced, lengths) == now;
  } catch (const Error&) {  // below 0
    return false;
  }
}
bool is_as_traced(const Shape& traced, const Shape& now, const DimBindings& lengths) {
  return std::equal(traced.begin(), traced.end(), now.begin(), [&](Dim a, Dim b) { return is_as_traced(a, b, lengths); });
}

// How many elements an axis needs so that none of a slice are cut off.
int64_t elements_for(int64_t begin, int64_t end, int64_t step) {
  if (step < 0) return std::max(begin == kOpenEnd ? 0 : begin + 1, end + 1);
  const auto front = [](int64_t place) { return place == kOpenEnd ? 0 : std::max<int64_t>(place, 0); };
  return std::max(front(begin), front(end)) + std::max<int64_t>({-begin, -end, 0});
}

[[noreturn]] void refuse(const ir::Graph& g, int slice, const TensorType& in, const TensorType& out, const DimBindings& lengths,
                         const ir::Node& user) {
  const ir::Node& node = g[slice];
  const auto& a = ir::attrs_of<SliceAttrs>(*node.attrs);
  size_t axis = 0;
  while (is_as_traced(node.types[0].shape[axis], out.shape[axis], lengths)) ++axis;
  const Dim has = in.shape[axis];
  const std::string why = cat("the axis has ", has, has == Dim(1) ? " element" : " elements");
  if (user.op == &def::reshape && node.types[0].shape[axis] == Dim(1))
    throw Error(ErrorKind::index,
                {.what = cat("index ", a.begin[axis], " is out of range for axis ", axis, " of ", in),
                 .where = text(node.line),
                 .why = why,
                 .fix = cat("pass at least ", elements_for(a.begin[axis], a.end[axis], a.step[axis]), " elements along it")});
  throw Error(ErrorKind::signature,
              {.what = cat("slice: axis ", axis, " of ", in, " is too short"),
               .where = text(node.line),
               .why = cat(why, ", the graph was traced for at least ", elements_for(a.begin[axis], a.end[axis], a.step[axis])),
               .fix = "pass more elements, or trace without an open length: each length then has a graph of its own"});
}

// Whether a node with a short input has a shape that does not follow from its inputs' shapes.
bool has_own_shape(const ir::Node& node, const DimBindings& lengths) {
  return !node.regions.empty() || node.op == &def::reshape || node.op == &def::broadcast_to || node.op == &def::pad_slice ||
         !node.attrs->with_dims(lengths)->equals(*node.attrs);
}

// Whether a short axis of one element is repeated beside another that was as long in the trace.
bool repeats_short_axis(const ir::Graph& g, const ir::Node& node, const ir::Rewriter& now) {
  if (node.op == &def::concat) return false;
  for (ir::Value a : node.inputs)
    for (ir::Value b : node.inputs) {
      const Shape &was_a = g.type(a).shape, &was_b = g.type(b).shape, &now_a = now.to.type(now[a]).shape,
                  &now_b = now.to.type(now[b]).shape;
      for (size_t i = 1; i <= std::min(was_a.size(), was_b.size()); ++i)
        if (*(was_a.end() - int64_t(i)) == *(was_b.end() - int64_t(i)) && *(now_a.end() - int64_t(i)) == Dim(1) &&
            *(now_b.end() - int64_t(i)) != Dim(1))
          return true;
    }
  return false;
}

std::optional<ir::Graph> with_short_slices(const ir::Graph& traced, const DimBindings& lengths, bool is_region) {
  if (!slices_open_axis(traced)) return {};
  ir::Rewriter rewriter(traced);
  const auto now = [&](ir::Value v) -> const TensorType& { return rewriter.to.type(rewriter[v]); };
  std::vector<char> is_short(size_t(traced.size()));
  int first = -1;
  bool inside = false;  // a region has short slices
  const std::vector<char> needed = ir::needed_nodes(traced, traced.outputs);
  for (int n = 0; n < traced.size(); ++n) {
    ir::Node node = traced[n];
    const bool is_needed = needed[size_t(n)] || node.op == &def::input;  // else it may say why another does not fit
    if (!is_needed && !std::all_of(node.inputs.begin(), node.inputs.end(), [&](ir::Value v) { return rewriter.mapped(v); })) continue;
    const bool takes_short = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ir::Value v) { return is_short[size_t(v.node)]; });
    bool fits = !takes_short || !(has_own_shape(node, lengths) || repeats_short_axis(traced, node, rewriter));
    try {
      if (fits) {
        node.attrs = node.attrs->with_dims(lengths);
        for (ir::GraphRef& region : node.regions) {
          std::optional<ir::Graph> inner = with_short_slices(*region, lengths, true);
          inside = inside || inner;
          region = std::make_shared<ir::Graph>(inner ? std::move(*inner) : ir::specialize(*region, lengths));
        }
        rewriter.copy(n, node);
      }
    } catch (const Error&) {
      if (is_needed && first < 0) throw;
      fits = false;
    }
    if (fits && (takes_short || node.op == &def::slice))
      for (int r = 0; r < int(node.types.size()); ++r)
        if (!is_as_traced(node.types[size_t(r)].shape, now({n, r}).shape, lengths)) is_short[size_t(n)] = true;
    if (is_short[size_t(n)] && first < 0) first = n;
    if (is_region && is_short[size_t(n)])  // what leaves a region has the type that its node says
      fits = std::none_of(traced.outputs.begin(), traced.outputs.end(), [&](ir::Value v) { return v.node == n; });
    if (!fits && is_needed) refuse(traced, first, now(traced[first].inputs[0]), now({first, 0}), lengths, traced[n]);
  }
  if (first < 0 && !inside) return {};
  return rewriter.finish();
}

}  // namespace

std::optional<ir::Graph> with_short_slices(const ir::Graph& traced, const DimBindings& lengths) {
  return with_short_slices(traced, lengths, false);
}

bool may_be_short(const ir::Graph& traced, ir::Value value, size_t axis) {
  constexpr int64_t kMostTries = 64;
  const std::vector<char> needed = ir::needed_nodes(traced, std::span(&value, 1));
  int64_t enough = 0;
  for (int n = 0; n < traced.size(); ++n) {
    if (!needed[size_t(n)] || traced[n].op != &def::slice) continue;
    const auto& a = ir::attrs_of<SliceAttrs>(*traced[n].attrs);
    const Shape& of = traced.type(traced[n].inputs[0]).shape;
    for (size_t d = 0; d < of.size(); ++d)
      if (!of[d].known()) enough = std::max(enough, elements_for(a.begin[d], a.end[d], a.step[d]));
  }
  if (enough == 0) return false;
  ir::Graph g = traced;
  g.outputs = {value};
  for (int64_t length = 0; length < std::min(enough, kMostTries); ++length) {
    DimBindings lengths;
    for (const ir::Node& node : g.nodes())
      if (node.op == &def::input)
        for (Dim d : node.types[0].shape) match(d, length, lengths);
    try {
      const std::optional<ir::Graph> now = with_short_slices(g, lengths);
      if (now && !is_as_traced(g.type(value).shape[axis], now->type(now->outputs[0]).shape[axis], lengths)) return true;
    } catch (const Error&) {  // a call with this length is refused
    }
  }
  return false;
}

}  // namespace lamina::ops
