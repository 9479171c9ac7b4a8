// Functions of op_functions.h that combine several ops.
#include <array>
#include <cmath>
#include <limits>

#include "graph/frontend/eager.h"
#include "graph/frontend/tape.h"
#include "graph/functions/in_f32.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/shape_functions.h"
#include "graph/ops/ops.h"

namespace lamina {
namespace def = ops::def;
namespace {

// f(x) for a floating x; integers and bools become f32.
template <class F>
Tensor floating(const Operand& x, F f) {
  return in_f32(Operand(resolve_floating(x), x.at()), f);
}

// f(x) where x is not 0, else x: for a root, whose slope at 0 is taken as 0.
template <class F>
Tensor but_at_zero(const Operand& x, F f) {
  const CallSite at = x.at();
  const Tensor none = equal(x, Operand(0, at)), some = where(Operand(none, at), Operand(1.0, at), x);
  return where(Operand(none, at), x, Operand(f(Operand(some, at)), at));
}

Tensor as_bool(const Operand& x) {
  const Tensor t = x.resolve();
  return t.dtype() == DType::boolean ? t : not_equal(Operand(t, x.at()), Operand(0, x.at()));
}

}  // namespace

Tensor clip(const Operand& x, const Operand& low, const Operand& high) {
  return apply_one(def::clip, nullptr, resolve_all("clip", std::array{x, low, high}, Mixing::numbers), x.at());
}

Tensor bitwise_not(const Operand& x) {
  const Tensor t = x.resolve();
  return apply_one(t.dtype() == DType::boolean ? def::logical_not : def::bitwise_not, nullptr, std::array{t}, x.at());
}

// --- activations ---

Tensor gelu(const Operand& x, bool approximate) {
  return apply_one(approximate ? def::gelu_tanh : def::gelu, nullptr, std::array{resolve_floating(x)}, x.at());
}
Tensor elu(const Operand& x, const Operand& alpha) {
  auto [value, number] = resolve_pair("elu", x, alpha, Mixing::fractions);
  return apply_one(def::elu, nullptr, std::array{std::move(value), std::move(number)}, x.at());
}
Tensor leaky_relu(const Operand& x, const Operand& slope) {
  auto [value, number] = resolve_pair("leaky_relu", x, slope, Mixing::fractions);
  return apply_one(def::leaky_relu, nullptr, std::array{std::move(value), std::move(number)}, x.at());
}
Tensor selu(const Operand& operand) {
  constexpr double alpha = 1.6732632423543772, scale = 1.0507009873554805;
  return floating(operand, [](const Operand& x) { return mul(Operand(elu(x, Operand(alpha, x.at())), x.at()), Operand(scale, x.at())); });
}
Tensor hard_sigmoid(const Operand& operand) {
  return floating(operand, [](const Operand& x) {
    const CallSite at = x.at();
    const Tensor line = add(Operand(mul(x, Operand(1.0 / 6, at)), at), Operand(0.5, at));
    return clip(Operand(line, at), Operand(0, at), Operand(1, at));
  });
}

// --- reductions ---

Tensor all(const Operand& x, const AxesOrAll& axes, bool keepdims) {
  const CallSite at = x.at();
  Shape reduced;
  for (size_t a = 0, rank = size_t(x.tensor().rank()); a < rank; ++a)
    if (axes.contains(a, rank)) reduced.push_back(x.tensor().shape()[a]);
  if (known(reduced)) return equal(Operand(count_nonzero(x, axes, keepdims), at), Operand(size_of(reduced).number(), at));
  const Tensor failing = sum(Operand(logical_not(Operand(as_bool(x), at)), at), axes, keepdims);
  return equal(Operand(failing, at), Operand(0, at));
}
Tensor any(const Operand& x, const AxesOrAll& axes, bool keepdims) {
  return not_equal(Operand(count_nonzero(x, axes, keepdims), x.at()), Operand(0, x.at()));
}
Tensor count_nonzero(const Operand& x, const AxesOrAll& axes, bool keepdims) { return sum(Operand(as_bool(x), x.at()), axes, keepdims); }

Tensor logsumexp(const Operand& operand, const AxesOrAll& axes, bool keepdims) {
  return floating(operand, [&](const Operand& x) {
    const CallSite at = x.at();
    auto o = [at](const Tensor& t) { return Operand(t, at); };
    bool empty = false;
    for (Dim d : x.tensor().shape()) empty = empty || d == Dim(0);
    if (empty) return log(o(sum(o(exp(x)), axes, keepdims)));
    // An infinite maximum is not subtracted; the exponentials then do not overflow.
    const size_t rank = size_t(x.tensor().rank());
    std::vector<std::pair<int64_t, int64_t>> ends(rank);  // -inf is the maximum of an empty axis, which an open length may turn out to be
    bool open = false;
    for (size_t a = 0; a < rank; ++a)
      if (axes.contains(a, rank) && !x.tensor().shape()[a].known()) ends[a].second = 1, open = true;
    const Operand never_empty = open ? o(pad(x, ends, PadMode::constant, Operand(-std::numeric_limits<double>::infinity(), at))) : x;
    const Tensor most = stop_gradient(o(max(never_empty, axes, true)));
    const Tensor shift = where(o(isfinite(o(most))), o(most), Operand(0.0, at));
    const Tensor total = sum(o(exp(o(sub(x, o(shift))))), axes, true);
    // If all are -inf: -inf, without a gradient.
    const Tensor none = equal(o(total), Operand(0, at)), some = where(o(none), Operand(1.0, at), o(total));
    const Tensor y = where(o(none), Operand(-std::numeric_limits<double>::infinity(), at), o(add(o(log(o(some))), o(shift))));
    return keepdims ? y : axes.all() ? reshape_to(o(y), {}) : squeeze(o(y), axes);
  });
}

Tensor squared_size(const Operand& x) {
  return is_complex(x.tensor().dtype()) ? sum(Operand(square(Operand(as_real(x), x.at())), x.at()), {-1}) : square(x);
}

Tensor var(const Operand& operand, const AxesOrAll& axes, bool keepdims, double ddof) {
  return floating(operand, [&](const Operand& x) {
    const CallSite at = x.at();
    auto o = [at](const Tensor& t) { return Operand(t, at); };
    const Tensor squares = squared_size(o(sub(x, o(mean(x, axes, true)))));
    if (ddof == 0) return mean(o(squares), axes, keepdims);
    const Tensor count = sum(o(ones_like(o(squares))), axes, keepdims);
    return div(o(sum(o(squares), axes, keepdims)), o(maximum(o(sub(o(count), Operand(ddof, at))), Operand(0, at))));
  });
}
Tensor std(const Operand& operand, const AxesOrAll& axes, bool keepdims, double ddof) {
  return floating(operand, [&](const Operand& x) {
    return but_at_zero(Operand(var(x, axes, keepdims, ddof), x.at()), [](const Operand& v) { return sqrt(v); });
  });
}

Tensor norm(const Operand& operand, double ord, const AxesOrAll& axes, bool keepdims) {
  return floating(operand, [&](const Operand& given) {
    const CallSite at = given.at();
    auto o = [at](const Tensor& t) { return Operand(t, at); };
    const Operand x = is_complex(given.tensor().dtype()) ? o(abs(given)) : given;
    if (std::isinf(ord)) return ord > 0 ? max(o(abs(x)), axes, keepdims) : min(o(abs(x)), axes, keepdims);
    if (ord == 0) return astype(o(count_nonzero(x, axes, keepdims)), x.tensor().dtype());
    if (ord == 1) return sum(o(abs(x)), axes, keepdims);
    if (ord != ord)
      throw Error(ErrorKind::invalid_argument, {.what = "norm: NaN is no order",
                                                .where = text(at.line()),
                                                .why = "a norm takes the ord-th root",
                                                .fix = "pass a number, or infinity"});
    if (ord == 2) return but_at_zero(o(sum(o(square(x)), axes, keepdims)), [](const Operand& v) { return sqrt(v); });
    const auto power = [&](double exponent) { return [exponent](const Operand& v) { return pow(v, Operand(exponent, v.at())); }; };
    const Tensor size = abs(x);
    if (ord > 0) return but_at_zero(o(sum(o(but_at_zero(o(size), power(ord))), axes, keepdims)), power(1 / ord));
    // Where an element is 0, its power is infinite and the norm 0.
    const Tensor none = equal(o(size), Operand(0, at)), some = where(o(none), Operand(1.0, at), o(size));
    const Tensor powers = where(o(none), Operand(std::numeric_limits<double>::infinity(), at), o(power(ord)(o(some))));
    return power(1 / ord)(o(sum(o(powers), axes, keepdims)));
  });
}

Tensor cumsum(const Operand& x, int axis, bool reverse, bool exclusive) {
  return apply_one(def::cumsum, ir::make_attrs(ops::CumsumAttrs{axis, reverse, exclusive}), std::array{x.resolve()}, x.at());
}

}  // namespace lamina
