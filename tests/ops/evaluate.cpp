#include "tests/ops/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/ops/ops.h"
#include "runtime/core/error.h"

namespace lamina::tests {
namespace {

double load(DType dtype, const void* data, int64_t i) {
  return with_dtype(dtype, [&]<class T>() { return double(static_cast<const T*>(data)[i]); });
}
void store(DType dtype, void* data, int64_t i, double value) {
  with_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>)
      static_cast<T*>(data)[i] = value != 0;
    else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>)
      static_cast<T*>(data)[i] = T(float(value));
    else
      static_cast<T*>(data)[i] = T(value);
  });
}

// Calls f(element offset) for every element of the view, in row-major order.
template <class F>
void each_offset(const View& view, F&& f) {
  int64_t index[kMaxRank] = {};
  for (int64_t left = view.size(); left > 0; --left) {
    int64_t offset = 0;
    for (int a = 0; a < view.rank; ++a) offset += index[a] * view.strides[a];
    f(offset);
    for (int a = view.rank - 1; a >= 0 && ++index[a] == view.shape[a]; --a) index[a] = 0;
  }
}

TensorType type_of(const View& view) {
  TensorType type{view.dtype, {}};
  for (int i = 0; i < view.rank; ++i) type.shape.push_back(view.shape[i]);
  return type;
}

Tensor copy_of(const View& view) {
  Tensor out(type_of(view));
  const size_t bytes = size_of(view.dtype);
  int64_t i = 0;
  each_offset(view, [&](int64_t offset) {
    std::memcpy(static_cast<char*>(out.raw()) + size_t(i++) * bytes, static_cast<const char*>(view.data) + offset * int64_t(bytes), bytes);
  });
  return out;
}

Tensor tensor_of(const ir::Literal& literal) {
  Tensor out(literal.type);
  if (literal.bytes && !literal.bytes->empty()) std::memcpy(out.raw(), literal.bytes->data(), out.byte_count());
  return out;
}

ir::Literal literal_of(const Tensor& t) { return ir::Literal::from(t.type, t.raw()); }

TensorType wider(TensorType type) {
  if (type.dtype == DType::f32) type.dtype = DType::f64;
  return type;
}

}  // namespace

Tensor::Tensor(TensorType t) : type(std::move(t)) {
  size_ = size_of(type.shape).number();
  lines_ = std::make_shared<std::vector<Line>>((size_t(size_) * size_of(type.dtype) + 127) / 64);
  std::memset(raw(), 0, byte_count());
}
Tensor Tensor::from(TensorType type, const std::vector<double>& values) {
  Tensor t(std::move(type));
  if (int64_t(values.size()) != t.size()) internal_error(cat("a tensor ", t.type, " cannot be made of ", values.size(), " numbers"));
  for (int64_t i = 0; i < t.size(); ++i) t.set(i, values[size_t(i)]);
  return t;
}
double Tensor::at(int64_t i) const { return load(type.dtype, raw(), i); }
void Tensor::set(int64_t i, double value) { store(type.dtype, raw(), i, value); }
std::vector<double> Tensor::values() const {
  std::vector<double> out;
  for (int64_t i = 0; i < size(); ++i) out.push_back(at(i));
  return out;
}
Tensor Tensor::clone() const {
  Tensor out(type);
  std::memcpy(out.raw(), raw(), byte_count());
  return out;
}
bool Tensor::same_bits(const Tensor& other) const { return type == other.type && std::memcmp(raw(), other.raw(), byte_count()) == 0; }

namespace {

// Loops and branches, iteration by iteration.
std::vector<Tensor> run_regions(const ir::Node& node, std::vector<Tensor> in) {
  if (node.op == &ops::def::cond) return evaluate(*node.regions[in[0].at(0) != 0 ? 0 : 1], {in.begin() + 1, in.end()});
  if (node.op == &ops::def::with_length) {
    const int64_t length = std::max<int64_t>(1, int64_t(in[0].at(0)));
    return evaluate(ir::specialize(*node.regions[0], {{ir::attrs_of<ops::LengthAttrs>(*node.attrs).symbol, length}}),
                    {in.begin() + 1, in.end()});
  }
  if (node.op == &ops::def::while_loop) {
    const auto& attrs = ir::attrs_of<ops::LoopAttrs>(*node.attrs);
    int64_t done = 0;
    for (; done != attrs.maximum && evaluate(*node.regions[0], in)[0].at(0) != 0; ++done) {
      const std::vector<Tensor> next = evaluate(*node.regions[1], in);
      std::copy(next.begin(), next.end(), in.begin());
    }
    in.resize(size_t(attrs.carried));
    in.push_back(Tensor::of<int64_t>({}, {done}));
    return in;
  }
  const auto& attrs = ir::attrs_of<ops::ScanAttrs>(*node.attrs);
  const auto carried = size_t(attrs.carried), stacked = size_t(attrs.stacked);
  int64_t count = attrs.length[0].number();
  if (attrs.counted) count = std::min(count, int64_t(in.back().at(0))), in.pop_back();
  std::vector<Tensor> results;
  for (const TensorType& type : node.types) results.emplace_back(type);
  for (int64_t n = 0; n < count; ++n) {
    const int64_t i = attrs.reverse ? count - 1 - n : n;
    std::vector<Tensor> now = in;
    for (size_t k = carried; k < carried + stacked; ++k) {
      Tensor slice(node.regions[0]->type(node.regions[0]->inputs[k]));
      std::memcpy(slice.raw(), static_cast<const char*>(in[k].raw()) + size_t(i) * slice.byte_count(), slice.byte_count());
      now[k] = slice;
    }
    const std::vector<Tensor> out = evaluate(*node.regions[0], now);
    std::copy(out.begin(), out.begin() + int64_t(carried), in.begin());
    for (size_t y = carried; y < out.size(); ++y)
      std::memcpy(static_cast<char*>(results[y].raw()) + size_t(i) * out[y].byte_count(), out[y].raw(), out[y].byte_count());
  }
  std::copy(in.begin(), in.begin() + int64_t(carried), results.begin());
  return results;
}

}  // namespace

std::vector<Tensor> run_node(const ir::Node& node, const std::vector<View>& inputs) {
  const ir::OpDef& op = *node.op;
  if (ops::owns_programs(node)) {
    std::vector<Tensor> in;
    for (const View& view : inputs) in.push_back(copy_of(view));
    return run_regions(node, std::move(in));
  }
  std::vector<TensorType> in_types;
  for (const View& view : inputs) in_types.push_back(type_of(view));
  if (op.alias) {
    View view;
    int64_t offset = 0;
    if (op.alias(*node.attrs, inputs.at(0), node.types.at(0), view, offset)) {
      view.data = static_cast<char*>(inputs[0].data) + offset * int64_t(size_of(view.dtype));
      return {copy_of(view)};
    }
  }
  if (op.cpu) {
    if (Kernel kernel = op.cpu({*node.attrs, in_types, node.types, node.regions})) {
      std::vector<Tensor> copies, results;
      std::vector<View> in = inputs, out;
      for (View& view : in)
        if (!op.strided && !is_contiguous(view)) copies.push_back(copy_of(view)), view = copies.back().view();
      for (const TensorType& type : node.types) results.emplace_back(type);
      for (const Tensor& t : results) out.push_back(t.view());
      std::vector<const View*> in_pointers, out_pointers;
      for (const View& view : in) in_pointers.push_back(&view);
      for (const View& view : out) out_pointers.push_back(&view);
      Stream stream;  // kernels only ask for the stream's device
      kernel.run({stream, kernel.args.get(), in_pointers, out_pointers});
      return results;
    }
  }
  if (op.decompose) {
    ir::Graph parts;
    for (const TensorType& type : in_types) parts.add_input(type);
    parts.outputs = op.decompose(parts, *node.attrs, parts.inputs, node.regions);
    std::vector<Tensor> copies;
    for (const View& view : inputs) copies.push_back(copy_of(view));
    return evaluate(parts, copies);
  }
  throw Error(ErrorKind::device, {.what = cat(op.name, ": no CPU kernel and no decomposition for these types"),
                                  .where = "tests::evaluate",
                                  .why = op.no_cpu ? op.no_cpu : "",
                                  .fix = ""});
}

std::vector<Tensor> evaluate(const ir::Graph& g, const std::vector<Tensor>& inputs, Resources* resources) {
  if (inputs.size() != g.inputs.size()) internal_error(cat("the graph has ", g.inputs.size(), " inputs and got ", inputs.size()));
  std::vector<std::vector<Tensor>> results(size_t(g.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!(inputs[i].type == g.type(g.inputs[i])))
      internal_error(cat("input ", i, " is ", inputs[i].type, " where the graph wants ", g.type(g.inputs[i])));
    results[size_t(g.inputs[i].node)] = {inputs[i]};
  }
  auto value = [&](ir::Value v) -> const Tensor& { return results.at(size_t(v.node)).at(size_t(v.result)); };
  for (int n = 0; n < g.size(); ++n) {
    const ir::Node& node = g[n];
    std::vector<Tensor>& out = results[size_t(n)];
    if (node.op == &ops::def::input) continue;
    if (node.op == &ops::def::constant) {
      out = {tensor_of(*ir::constant_value(g, {n, 0}))};
    } else if (int r = ir::resource_of(node); r >= 0) {
      if (!resources) internal_error(cat(node.op->name, " needs resources"));
      if (node.op->effect == ir::Effect::write)
        (*resources)[r] = value(node.inputs.at(0)).clone();
      else
        out = {resources->at(r).clone()};
    } else {
      std::vector<View> in;
      for (ir::Value v : node.inputs) in.push_back(value(v).view());
      out = run_node(node, in);
    }
    for (size_t i = 0; i < out.size(); ++i)
      if (!(out[i].type == node.types.at(i)))
        internal_error(cat(node.op->name, " gave ", out[i].type, " where its shape rule says ", node.types[i]));
  }
  std::vector<Tensor> outputs;
  for (ir::Value v : g.outputs) outputs.push_back(value(v));
  return outputs;
}

Tensor in_f64(const Tensor& t) { return t.type.dtype == DType::f32 ? Tensor::from(wider(t.type), t.values()) : t; }

ir::Graph in_f64(const ir::Graph& g) {
  ir::Graph out;
  for (ir::Resource r : g.resources) {
    r.type = wider(r.type);
    out.add_resource(std::move(r));
  }
  std::vector<std::vector<ir::Value>> map(size_t(g.size()));
  auto mapped = [&](ir::Value v) { return map.at(size_t(v.node)).at(size_t(v.result)); };
  for (int n = 0; n < g.size(); ++n) {
    const ir::Node& node = g[n];
    ir::Value first;
    if (node.op == &ops::def::input) {
      first = out.add_input(wider(node.types[0]), ir::attrs_of<ir::InputAttrs>(*node.attrs).name);
    } else if (node.op == &ops::def::constant) {
      first = out.add_constant(literal_of(in_f64(tensor_of(*ir::constant_value(g, {n, 0})))));
    } else {
      ir::AttrText attrs = node.attrs ? node.attrs->text() : ir::AttrText{};
      for (auto& [key, text] : attrs)
        if (text == "f32" || text.rfind("f32[", 0) == 0) text[1] = '6', text[2] = '4';
      std::vector<ir::Value> in;
      for (ir::Value v : node.inputs) in.push_back(mapped(v));
      std::vector<ir::GraphRef> regions;
      for (const ir::GraphRef& r : node.regions) regions.push_back(std::make_shared<const ir::Graph>(in_f64(*r)));
      first = out.add(*node.op, node.op->parse_attrs(node.op->name, attrs), std::move(in), std::move(regions));
    }
    int made = first.valid() ? first.node : out.size() - 1;
    for (size_t r = 0; r < node.types.size(); ++r) map[size_t(n)].push_back({made, int(r)});
  }
  for (ir::Value v : g.outputs) out.outputs.push_back(mapped(v));
  return out;
}

}  // namespace lamina::tests
