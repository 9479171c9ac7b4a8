// Structural hash and equality: what a graph computes, without source lines and names.
#include <cstring>

#include "graph/ir/graph.h"

namespace lamina::ir {
namespace {

struct Hasher {
  uint64_t state = 0xcbf29ce484222325u;
  void word(uint64_t w) {
    state = (state ^ w) * 0x9e3779b97f4a7c15u;
    state ^= state >> 29;
  }
  void bytes(const void* data, size_t n) {
    const char* p = static_cast<const char*>(data);
    for (; n >= 8; n -= 8, p += 8) {
      uint64_t w;
      std::memcpy(&w, p, 8);
      word(w);
    }
    uint64_t rest = n;
    for (size_t i = 0; i < n; ++i) rest = rest << 8 | uint8_t(p[i]);
    word(rest);
  }
  void type(const TensorType& t) {
    word(uint64_t(t.dtype) << 8 | t.rank());
    for (Dim d : t.shape) word(uint64_t(d.code()));
  }
};

const OpDef& input_op() {
  static const OpDef& op = find_op("input");
  return op;
}

bool same_attrs(const Node& a, const Node& b) {
  if (a.op != &input_op()) return a.attrs == b.attrs || a.attrs->equals(*b.attrs);
  return a.types == b.types && attrs_of<InputAttrs>(*a.attrs).index == attrs_of<InputAttrs>(*b.attrs).index;
}

}  // namespace

uint64_t hash(const Graph& g) {
  static const OpDef& constant = find_op("constant");
  Hasher h;
  for (const Node& n : g.nodes()) {
    h.word(reinterpret_cast<uintptr_t>(n.op));
    for (Value v : n.inputs) h.word(uint64_t(uint32_t(v.node)) << 8 | uint32_t(v.result));
    h.word(n.inputs.size());
    for (const TensorType& t : n.types) h.type(t);
    if (n.op == &constant) {
      const Literal& value = attrs_of<ConstantAttrs>(*n.attrs).value;
      if (!value.is_filled_with(0)) h.bytes(value.bytes->data(), value.bytes->size());
    } else if (n.op == &input_op()) {
      h.word(uint64_t(attrs_of<InputAttrs>(*n.attrs).index));
    } else if (n.op->parse_attrs != Attrs<NoAttrs>::parse) {
      for (auto& [key, value] : n.attrs->text()) h.bytes(value.data(), value.size());
    }
    if (n.device) h.word(uint64_t(n.device->kind) << 40 | uint64_t(n.device->model) << 32 | uint64_t(n.device->index));
    for (const GraphRef& region : n.regions) h.word(hash(*region));
  }
  for (Value v : g.outputs) h.word(uint64_t(uint32_t(v.node)) << 8 | uint32_t(v.result));
  for (const Resource& r : g.resources) h.type(r.type);
  return h.state;
}

bool equal(const Graph& a, const Graph& b) {
  if (&a == &b) return true;  // unchanged regions are shared
  if (a.size() != b.size() || a.inputs != b.inputs || a.outputs != b.outputs || a.resources.size() != b.resources.size()) return false;
  for (size_t i = 0; i < a.resources.size(); ++i)
    if (!(a.resources[i].type == b.resources[i].type)) return false;
  for (int i = 0; i < a.size(); ++i) {
    const Node &x = a[i], &y = b[i];
    if (&x == &y) continue;
    if (x.op != y.op || x.inputs != y.inputs || x.types != y.types || x.device != y.device || x.regions.size() != y.regions.size() ||
        !same_attrs(x, y))
      return false;
    for (size_t r = 0; r < x.regions.size(); ++r)
      if (!equal(*x.regions[r], *y.regions[r])) return false;
  }
  return true;
}

}  // namespace lamina::ir
