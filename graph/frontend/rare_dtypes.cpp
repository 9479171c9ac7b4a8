#include "graph/frontend/rare_dtypes.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>

#include "graph/frontend/eager.h"
#include "graph/frontend/factories.h"
#include "graph/ops/draws.h"
#include "graph/ops/indexing.h"
#include "graph/ops/ops.h"
#include "graph/ops/sorting.h"

namespace lamina {
namespace def = ops::def;
namespace {

// How a wide unsigned integer's op is computed in i64. u16 and u32 fit it. The bits of a u64 do: sums, products and the like are the same
// bits; for ops that compare, the sign bit is flipped, which keeps the order.
enum class Way : uint8_t {
  as_is,    // moves elements, or is defined for the dtype
  bits,     // the same bits for signed and unsigned; values come back
  order,    // compares elements; values come back
  places,   // compares elements; indices or bools come back
  indices,  // the last operands are indices
};

bool among(const ir::OpDef& op, std::initializer_list<const ir::OpDef*> list) {
  return std::find(list.begin(), list.end(), &op) != list.end();
}

Way way_of(const ir::OpDef& op) {
  if (op.scalar_op >= 0 && &op != &def::astype) {
    if (kernels::gives_bool(kernels::ScalarOp(op.scalar_op))) return Way::places;
    return among(op, {&def::clip, &def::maximum, &def::minimum}) ? Way::order : Way::bits;
  }
  if (among(op, {&def::sum, &def::prod, &def::cumsum, &def::matmul, &def::scatter_add})) return Way::bits;
  if (among(op, {&def::max, &def::min, &def::sort, &def::top_k})) return Way::order;
  // The results are i64 or bool, whatever the operands are.
  if (const bool finds = among(op, {&def::argmax, &def::argsort, &def::unique, &def::searchsorted}); finds) return Way::places;
  const bool takes_indices = among(op, {&def::gather, &def::one_hot, &def::ravel_index, &def::scatter, &def::sparse_cross_entropy});
  return takes_indices ? Way::indices : Way::as_is;
}

// One-line calls of ops on tensors.
struct Ops {
  CallSite at;
  Tensor one(const ir::OpDef& op, const Tensor& x) const { return apply_one(op, nullptr, std::span(&x, 1), at); }
  Tensor two(const ir::OpDef& op, const Tensor& a, const Tensor& b) const { return apply_one(op, nullptr, std::array{a, b}, at); }
  Tensor three(const ir::OpDef& op, const Tensor& a, const Tensor& b, const Tensor& c) const {
    return apply_one(op, nullptr, std::array{a, b, c}, at);
  }
  Tensor cast(const Tensor& x, DType dtype) const {
    if (x.dtype() == dtype) return x;
    return apply_one(def::astype, ir::make_attrs(ops::DTypeAttrs{dtype}), std::span(&x, 1), at);
  }
  // Indices in i64; one that i64 does not hold stays beyond every axis.
  Tensor index(const Tensor& x) const {
    const Tensor i = cast(x, DType::i64);
    if (x.dtype() != DType::u64) return i;
    return three(def::where, two(def::less, i, number(0)), number(std::numeric_limits<int64_t>::max()), i);
  }
  Tensor number(int64_t n) const { return scalar_i(n, DType::i64); }  // without axes: it goes with tensors of every device
  // u64's order as i64's, and back.
  Tensor flipped(const Tensor& x) const { return two(def::bitwise_xor, x, number(std::numeric_limits<int64_t>::min())); }
  Tensor less(const Tensor& a, const Tensor& b) const { return two(def::less, flipped(a), flipped(b)); }
  // x >> n without copies of the sign, of u64's bits.
  Tensor shifted(const Tensor& x, const Tensor& n) const {
    const Tensor kept = two(def::shift_right, number(std::numeric_limits<int64_t>::max()), two(def::sub, n, number(1)));
    return three(def::where, two(def::equal, n, number(0)), x, two(def::bitwise_and, two(def::shift_right, x, n), kept));
  }
  // Quotient and rest of u64's bits; 0 where b is 0, as of other integers.
  std::array<Tensor, 2> divided(const Tensor& a, const Tensor& b) const {
    const Tensor half = two(def::bitwise_and, two(def::shift_right, a, number(1)), number(std::numeric_limits<int64_t>::max()));
    Tensor q = two(def::shift_left, two(def::floor_divide, half, b), number(1));
    const Tensor rest = two(def::sub, a, two(def::mul, q, b));
    q = two(def::add, q, cast(one(def::logical_not, less(rest, b)), DType::i64));
    const Tensor large = cast(one(def::logical_not, less(a, b)), DType::i64);
    q = three(def::where, two(def::less, b, number(0)), large, q);
    q = three(def::where, two(def::equal, b, number(0)), number(0), q);
    const Tensor left = three(def::where, two(def::equal, b, number(0)), number(0), two(def::sub, a, two(def::mul, q, b)));
    return {q, left};
  }
};

// An op on u64's bits that is neither the same for signed numbers nor one of comparisons.
bool apply_u64(const ir::OpDef& op, std::span<const Tensor> in, const Ops& o, Tensor& out) {
  if (&op == &def::floor_divide) return out = o.divided(in[0], in[1])[0], true;
  if (&op == &def::mod || &op == &def::fmod) return out = o.divided(in[0], in[1])[1], true;
  if (&op == &def::abs || &op == &def::relu) return out = in[0], true;
  if (&op == &def::shift_right) return out = o.shifted(in[0], in[1]), true;
  if (&op == &def::sign) return out = o.cast(o.two(def::not_equal, in[0], o.number(0)), DType::i64), true;
  if (&op == &def::pow) {  // powers of odd numbers repeat after 2^62 at the latest; those of even ones are 0 from 64 on
    constexpr int64_t top = int64_t{1} << 62;
    const Tensor small = o.two(def::bitwise_and, in[1], o.number(top - 1)), large = o.one(def::logical_not, o.less(in[1], o.number(top)));
    return out = o.two(def::pow, in[0], o.three(def::where, large, o.two(def::bitwise_or, small, o.number(top)), small)), true;
  }
  return false;
}

// The dtype that the op's attributes ask for, of ops that make elements.
DType wanted_dtype(const ir::OpDef& op, const ir::AttrsRef& attrs) {
  if (&op == &def::iota) return ir::attrs_of<ops::IotaAttrs>(*attrs).type.dtype;
  if (&op == &def::one_hot) return ir::attrs_of<ops::OneHotAttrs>(*attrs).dtype;
  if (&op == &def::astype) return ir::attrs_of<ops::DTypeAttrs>(*attrs).dtype;
  if (&op == &def::random_integers) return ir::attrs_of<ops::RandomIntegersAttrs>(*attrs).type.dtype;
  return DType::f32;
}

// The same op, asked for a common dtype, and its result converted.
Tensor made_in(const ir::OpDef& op, const ir::AttrsRef& attrs, std::span<const Tensor> inputs, const Ops& o, DType wanted) {
  const DType in = is_complex(wanted) ? part_of(wanted) : DType::i64;
  ir::AttrsRef other;
  if (&op == &def::iota) {
    ops::IotaAttrs a = ir::attrs_of<ops::IotaAttrs>(*attrs);
    a.type.dtype = in, other = ir::make_attrs(a);
  } else if (&op == &def::one_hot) {
    ops::OneHotAttrs a = ir::attrs_of<ops::OneHotAttrs>(*attrs);
    a.dtype = in, other = ir::make_attrs(a);
  } else {
    ops::RandomIntegersAttrs a = ir::attrs_of<ops::RandomIntegersAttrs>(*attrs);
    a.type.dtype = in, other = ir::make_attrs(a);
  }
  return o.cast(apply_one(op, other, inputs, o.at), wanted);
}

// An error's text with the operands' dtype in place of the one in which they are computed.
std::string named(std::string text, DType dtype) {
  const std::string computed = "i64[", own = cat(dtype, "[");
  for (size_t at = 0; (at = text.find(computed, at)) != std::string::npos; at += own.size()) text.replace(at, computed.size(), own);
  return text;
}

}  // namespace

bool concerns_rare_dtypes(const ir::OpDef& op, const ir::AttrsRef& attrs, std::span<const Tensor> inputs) {
  for (const Tensor& t : inputs)
    if (is_rare(t.dtype())) return true;
  return (&op == &def::iota || &op == &def::one_hot || &op == &def::astype || &op == &def::random_integers) &&
         is_rare(wanted_dtype(op, attrs));
}

bool apply_rare(const ir::OpDef& op, const ir::AttrsRef& attrs, std::span<const Tensor> inputs, CallSite at, std::vector<Tensor>& out) {
  const Ops o{at};
  const DType wanted = wanted_dtype(op, attrs);
  if (&op != &def::astype && is_rare(wanted)) return out = {made_in(op, attrs, inputs, o, wanted)}, true;
  if (is_complex(wanted) || std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return is_complex(t.dtype()); }))
    return apply_complex(op, attrs, inputs, at, out);

  const auto own = std::find_if(inputs.begin(), inputs.end(), [](const Tensor& t) { return is_rare(t.dtype()); });
  if (own == inputs.end()) return false;  // a conversion to a wide unsigned integer, for which there is a kernel
  const DType dtype = own->dtype();
  const bool same = std::all_of(inputs.begin(), inputs.end(), [&](const Tensor& t) { return t.dtype() == dtype; });
  std::vector<Tensor> in;
  const Way way = way_of(op);
  const auto converted = [&](bool flip) {
    for (const Tensor& t : inputs) {
      in.push_back(o.cast(t, DType::i64));
      if (flip) in.back() = o.flipped(in.back());
    }
  };
  const bool is_u64 = dtype == DType::u64;
  const auto back = [&](const Tensor& t, bool flip) { return o.cast(flip ? o.flipped(t) : t, dtype); };
  if (&op == &def::where) {
    if (inputs[0].dtype() != DType::boolean || inputs[1].dtype() != inputs[2].dtype()) return false;  // the op refuses it
    return out = {back(o.three(op, inputs[0], o.cast(inputs[1], DType::i64), o.cast(inputs[2], DType::i64)), false)}, true;
  }
  if (way == Way::indices ||
      (&op == &def::scatter_add && !is_rare(inputs[0].dtype()))) {  // the operands after the first, and of ops of indices alone the first
    const bool first = &op == &def::one_hot || &op == &def::ravel_index;
    const bool changes =
        &op == &def::scatter && ir::attrs_of<ops::ScatterIntoAttrs>(*attrs).mode != ops::ScatterMode::set && is_rare(inputs[2].dtype());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool index = (i == 0 && first) || i == 1 || (i > 0 && &op == &def::ravel_index);
      in.push_back(!is_rare(inputs[i].dtype()) ? inputs[i]
                   : index                     ? o.index(inputs[i])
                   : changes                   ? o.cast(inputs[i], DType::i64)
                                               : inputs[i]);
    }
    const bool moved = std::none_of(in.begin(), in.end(), [](const Tensor& t) { return is_rare(t.dtype()); });
    if (changes && is_u64) {
      const auto mode = ir::attrs_of<ops::ScatterIntoAttrs>(*attrs).mode;
      const bool ordered = mode == ops::ScatterMode::min || mode == ops::ScatterMode::max;
      if (ordered) in[0] = o.flipped(in[0]), in[2] = o.flipped(in[2]);
      return out = {back(apply_one(op, attrs, in, at), ordered)}, true;
    }
    if (!moved && std::equal(in.begin(), in.end(), inputs.begin(), [](const Tensor& a, const Tensor& b) { return a.same(b); }))
      return false;
    out = apply(op, attrs, in, at);
    if (changes) out[0] = o.cast(out[0], dtype);
    return true;
  }
  if (&op == &def::scatter_add) {
    in = {o.cast(inputs[0], DType::i64), o.index(inputs[1])};
    return out = {back(apply_one(op, attrs, in, at), false)}, true;
  }
  if (!same) return false;  // the op refuses it
  try {
    if (way == Way::bits) {
      converted(false);
      Tensor result;
      if (is_u64 && apply_u64(op, in, o, result)) return out = {back(result, false)}, true;
      return out = {back(apply_one(op, attrs, in, at), false)}, true;
    }
    if (way == Way::order || way == Way::places) {
      converted(is_u64);
      out = apply(op, attrs, in, at);
      if (way == Way::order) out[0] = back(out[0], is_u64);
      return true;
    }
  } catch (const Error& e) {
    throw Error(e.kind, {named(e.parts.what, dtype), e.parts.where, named(e.parts.why, dtype), e.parts.fix});
  }
  return false;
}

}  // namespace lamina
