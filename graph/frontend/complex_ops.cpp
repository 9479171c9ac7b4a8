// Ops on complex numbers, as ops on their real and imaginary parts. Gradients, vmap, fusion and kernels are then those of real numbers. A
// gradient of z = a + bi is dL/da + i dL/db, the direction of steepest ascent.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "graph/frontend/device.h"
#include "graph/frontend/eager.h"
#include "graph/frontend/factories.h"
#include "graph/frontend/rare_dtypes.h"
#include "graph/ops/draws.h"
#include "graph/ops/indexing.h"
#include "graph/ops/ops.h"

namespace lamina {
namespace def = ops::def;
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
constexpr double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN(), kPi = 3.141592653589793;

// A real tensor, or a number, in formulas.
struct Real {
  Tensor t;
  CallSite at;
  Real of(const ir::OpDef& op) const { return {apply_one(op, nullptr, std::span(&t, 1), at), at}; }
  Real with(const ir::OpDef& op, const Real& b) const { return {apply_one(op, nullptr, std::array{t, b.t}, at), at}; }
  Real number(double x) const {
    const Beside there(t.device());
    return {scalar(x, t.dtype()), at};
  }
};
Real operator+(const Real& a, const Real& b) { return a.with(def::add, b); }
Real operator-(const Real& a, const Real& b) { return a.with(def::sub, b); }
Real operator*(const Real& a, const Real& b) { return a.with(def::mul, b); }
Real operator/(const Real& a, const Real& b) { return a.with(def::div, b); }
Real operator+(const Real& a, double b) { return a + a.number(b); }
Real operator-(const Real& a, double b) { return a - a.number(b); }
Real operator*(const Real& a, double b) { return a * a.number(b); }
Real operator-(double a, const Real& b) { return b.number(a) - b; }
Real operator-(const Real& a) { return a.of(def::neg); }
Real operator&(const Real& a, const Real& b) { return a.with(def::logical_and, b); }
Real operator|(const Real& a, const Real& b) { return a.with(def::logical_or, b); }
Real operator!(const Real& a) { return a.of(def::logical_not); }
Real operator<(const Real& a, double b) { return a.with(def::less, a.number(b)); }
Real is(const Real& a, double b) { return a.with(def::equal, a.number(b)); }
Real choose(const Real& condition, const Real& a, const Real& b) {
  return {apply_one(def::where, nullptr, std::array{condition.t, a.t, b.t}, a.at), a.at};
}
Real choose(const Real& condition, double a, const Real& b) { return choose(condition, b.number(a), b); }
Real abs(const Real& a) { return a.of(def::abs); }
Real sqrt(const Real& a) { return a.of(def::sqrt); }
Real atan2(const Real& a, const Real& b) { return a.with(def::atan2, b); }
// |a|, of which 0 is no kink: the slope there is that of positive numbers.
Real size_of(const Real& a) { return choose(a < 0, -a, a); }
// a or -a, by b's sign, of a zero too.
Real with_sign(const Real& a, const Real& b) {
  const Real negative = (b < 0) | (is(b, 0) & (b.of(def::reciprocal) < 0));
  return choose(negative, -a, a);
}
// A scale, which the result does not depend on.
Real fixed(const Real& a) { return a.of(def::stop_gradient); }

struct Complex {
  Real re, im;
};
Complex operator*(const Complex& z, const Complex& w) { return {z.re * w.re - z.im * w.im, z.re * w.im + z.im * w.re}; }
Complex operator*(const Complex& z, double x) { return {z.re * x, z.im * x}; }
Complex plus(const Complex& z, double x) { return {z.re + x, z.im}; }
Complex times_i(const Complex& z) { return {-z.im, z.re}; }
Complex over_i(const Complex& z) { return {z.im, -z.re}; }

// The larger part's size, at which both are scaled so that squares neither overflow nor underflow; 1 for 0 and infinities.
Real scale_of(const Complex& z) {
  const Real largest = abs(z.re).with(def::maximum, abs(z.im));
  return fixed(choose(is(largest, 0) | largest.of(def::isinf), 1, largest));
}
Real size_of(const Complex& z) {
  const Real scale = scale_of(z), a = z.re / scale, b = z.im / scale;
  const Real sum = a * a + b * b, none = is(sum, 0);
  const Real infinite = z.re.of(def::isinf) | z.im.of(def::isinf);
  return choose(infinite, kInf, choose(none, 0, sqrt(choose(none, 1, sum)) * scale));
}
// R. Smith's, "Algorithm 116: Complex division" (1962): by the smaller part of w over the larger one, so that squares do not overflow.
Complex operator/(const Complex& z, const Complex& w) {
  const Real steep = abs(w.re).with(def::less, abs(w.im));
  const Real large = choose(steep, w.im, w.re), small = choose(steep, w.re, w.im);
  const Real ratio = small / choose(is(large, 0), 1, large), size = large + small * ratio;
  const Real a = choose(steep, z.im, z.re), b = choose(steep, z.re, z.im), im = (b - a * ratio) / size;
  return {(a + b * ratio) / size, choose(steep, -im, im)};
}
// As z / w with z = 1, of which no zero but those of w takes part: of 1 + 0i it is 1 - 0i.
Complex reciprocal(const Complex& w) {
  const Real steep = abs(w.re).with(def::less, abs(w.im));
  const Real large = choose(steep, w.im, w.re), small = choose(steep, w.re, w.im);
  const Real ratio = small / choose(is(large, 0), 1, large), size = large + small * ratio, most = size.of(def::reciprocal),
             rest = ratio / size;
  return {choose(steep, rest, most), -choose(steep, most, rest)};
}
// Annex G of C99 and the array API standard say what functions of zeros, infinities and NaNs are. Where the formula holds for them too, the
// formula stands; a choice is made only for numbers that are not finite, so that gradients are those of the formula.
Real finite(const Real& a) { return a.of(def::isfinite); }
// For float32, or float64.
double either(const Real& a, double of_f32, double of_f64) { return a.t.dtype() == DType::f32 ? of_f32 : of_f64; }
// a = shift + rest where e^a would overflow, and `grown` is e^|shift|: e^rest times a small cosine may still be a number.
struct Grown {
  Real rest, grown;
};
Grown grown(const Real& a, const Real& size) {
  const double shift = 64;
  const Real far = a.number(either(a, 88, 709)).with(def::less, size);
  return {choose(far, with_sign(size - shift, a), a), choose(far, std::exp(shift), a.number(1))};
}
// cos b and sin b. Where a is infinite and b has no direction, cos b is 1: an infinity of some sign.
Complex direction(const Real& a, const Real& b) { return {choose(a.of(def::isinf) & !finite(b), 1, b.of(def::cos)), b.of(def::sin)}; }
Complex exp(const Complex& z) {
  const Grown g = grown(z.re, z.re);
  const Real none = is(z.re, -kInf) & !finite(z.im);
  const Complex way = direction(z.re, z.im);
  const Real rest = g.rest.of(def::exp);
  return {choose(none, 0, rest * way.re * g.grown), choose(none, 0, choose(is(z.im, 0) & !finite(z.re), z.im, rest * way.im * g.grown))};
}
Complex expm1(const Complex& z) {
  const Complex e = exp(z);
  const Real half = (z.im * 0.5).of(def::sin), real = z.re.of(def::expm1);
  const Real far = z.re.number(40).with(def::less, z.re);
  const Real re = choose(far, e.re - 1, choose(is(z.re, -kInf), -1, real * z.im.of(def::cos) - half * half * 2));
  return {choose(is(z.im, 0), real + fixed(abs(z.im)), re), e.im};  // of a zero that is real +0
}
// z * 2^(2 power), by which its size is neither subnormal nor beyond the largest number.
struct Lifted {
  Complex z;
  Real root, power;  // 2^-power
};
Lifted lifted(const Complex& z) {
  const Real largest = abs(z.re).with(def::maximum, abs(z.im));
  const Real tiny = largest < either(z.re, 1e-30, 1e-290), huge = largest.number(either(z.re, 8e37, 4e307)).with(def::less, largest);
  const auto pick = [&](double of_tiny, double of_huge, double other) {
    return choose(tiny, of_tiny, choose(huge, of_huge, z.re.number(other)));
  };
  const Real factor = pick(std::exp2(108), 0.25, 1);
  return {{z.re * factor, z.im * factor}, pick(std::exp2(-54), 2, 1), pick(54, -1, 0)};
}
// log|z|, also near |z| = 1.
Complex log(const Complex& z) {
  const Real a = abs(z.re), b = abs(z.im), high = a.with(def::maximum, b), low = a.with(def::minimum, b);
  const Real near = (high < 2) & !(high < 0.5);
  const Real small_high = choose(near, high, high.number(1)), small_low = choose(near, low, low.number(0));
  const Real close = ((small_high - 1) * (small_high + 1) + small_low * small_low).of(def::log1p) * 0.5;
  const Lifted up = lifted(z);
  return {choose(near, close, size_of(up.z).of(def::log) - up.power * 1.3862943611198906), atan2(z.im, z.re)};
}
Complex log1p(const Complex& z) {
  const Real small = size_of(z) < 0.5, a = choose(small, z.re, z.re.number(0)), b = choose(small, z.im, z.im.number(0));
  const Complex moved = log(plus(z, 1));
  return {choose(small, (a * (a + 2) + b * b).of(def::log1p) * 0.5, moved.re), moved.im};
}
Complex sqrt(const Complex& given) {
  const Lifted up = lifted(given);
  const Complex& z = up.z;
  const Real size = size_of(z), none = is(size, 0), infinite = z.im.of(def::isinf);
  const Real root = sqrt(choose(none, 1, size_of(z.re) * 0.5 + size * 0.5)), twice = root * 2, left = z.re < 0;
  const Real re = choose(left, with_sign(z.im, z.im) / twice, root), im = choose(left, with_sign(root, z.im), z.im / twice);
  return {choose(infinite, kInf, choose(none, 0, re * up.root)), choose(none | infinite, z.im, im * up.root)};
}
Complex sinh(const Complex& z) {
  const Grown g = grown(z.re, size_of(z.re));
  const Complex way = direction(z.re, z.im);
  const Real re = g.rest.of(def::sinh) * way.re * g.grown, im = g.rest.of(def::cosh) * way.im * g.grown;
  return {choose(is(z.re, 0) & !finite(z.im), z.re, re), choose(is(z.im, 0) & !finite(z.re), z.im, im)};
}
Complex cosh(const Complex& z) {
  const Grown g = grown(z.re, size_of(z.re));
  const Complex way = direction(z.re, z.im);
  const Real re = g.rest.of(def::cosh) * way.re * g.grown, im = g.rest.of(def::sinh) * way.im * g.grown;
  const Real far = is(z.im, 0) & !finite(z.re);
  return {re, choose(is(z.re, 0) & !finite(z.im), z.re, choose(far, choose(z.re < 0, -z.im, z.im), im))};
}
// Over sinh(a)^2 + cos(b)^2, of which both parts are positive: nothing cancels. Beyond 22 the real part is 1 in every dtype.
Complex tanh(const Complex& z) {
  const Real far = !(abs(z.re) < 22), a = choose(far, 0, z.re), infinite = z.re.of(def::isinf), odd = !finite(z.im);
  const Real s = a.of(def::sinh), c = z.im.of(def::cos), turn = z.im.of(def::sin) * c, below = s * s + c * c;
  const Real one = z.re.of(def::sign), rest = turn * (abs(z.re) * -2.0).of(def::exp) * 4;
  const Real re = choose(far, choose(infinite, one, one + turn * 0), s * a.of(def::cosh) / choose(is(below, 0), 1, below));
  const Real im = choose(far, rest, turn / choose(is(below, 0), 1, below));
  const Real zero = choose(z.im.of(def::isnan), 0, with_sign(z.im.number(0), z.im));
  return {choose(is(z.re, 0) & odd, z.re, re), choose(infinite, zero, choose(is(z.im, 0) & z.re.of(def::isnan), z.im, im))};
}
// The inverse functions are W. Kahan's, "Branch cuts for complex elementary functions" (1987); where a square would overflow, and at
// infinities, they are log(2z), of which the rest is below the last bit.
struct Far {
  Real is;
  Complex near, z;  // z where it is near, else 0; z where it is far, else 1
  Real log() const { return size_of(z * 0.5).of(def::log) + 1.3862943611198906; }
};
Far far_from(const Complex& z) {
  const Real limit = z.re.number(either(z.re, 1e18, 1e150)), largest = abs(z.re).with(def::maximum, abs(z.im));
  const Real far = limit.with(def::less, largest) | z.re.of(def::isinf) | z.im.of(def::isinf);
  return {far, {choose(far, 0, z.re), choose(far, 0, z.im)}, {choose(far, z.re, z.re.number(1)), choose(far, z.im, z.im.number(0))}};
}
Complex asinh(const Complex& z) {
  const Far f = far_from(z);
  const Complex& n = f.near;
  const Complex s1 = sqrt(Complex{n.im + 1, -n.re}), s2 = sqrt(Complex{1 - n.im, n.re});
  const Real im = choose(f.is, atan2(f.z.im, abs(f.z.re)), atan2(n.im, s1.re * s2.re - s1.im * s2.im));
  return {choose(f.is, with_sign(f.log(), z.re), (s1.re * s2.im - s2.re * s1.im).of(def::asinh)),
          choose(is(z.im, 0) & z.re.of(def::isnan), z.im, im)};
}
// pi / 2 for a NaN above or below 0, where the other part is known all the same.
Real beside_zero(const Complex& z, const Real& part) { return choose(is(z.re, 0) & z.im.of(def::isnan), kPi / 2, part); }
Complex acosh(const Complex& z) {
  const Far f = far_from(z);
  const Complex s1 = sqrt(plus(f.near, -1)), s2 = sqrt(plus(f.near, 1));
  return {choose(f.is, f.log(), (s1.re * s2.re + s1.im * s2.im).of(def::asinh)),
          beside_zero(z, choose(f.is, atan2(f.z.im, f.z.re), atan2(s1.im, s2.re) * 2))};
}
Complex acos(const Complex& z) {
  const Far f = far_from(z);
  const Complex s1 = sqrt(Complex{1 - f.near.re, -f.near.im}), s2 = sqrt(plus(f.near, 1));
  const Real im = choose(f.is, -with_sign(f.log(), z.im), (s2.re * s1.im - s2.im * s1.re).of(def::asinh));
  return {beside_zero(z, choose(f.is, atan2(abs(f.z.im), f.z.re), atan2(s1.re, s2.re) * 2)), im};
}
// Far away 1 / z, and i pi / 2 of the side.
Complex atanh(const Complex& z) {
  const Far f = far_from(z);
  const Complex& n = f.near;
  const Real a = size_of(n.re), off = 1 - a, b2 = n.im * n.im, infinite = z.re.of(def::isinf) | z.im.of(def::isinf);
  const Real pole = is(off, 0) & (abs(n.im) < either(n.im, 1e-18, 1e-150));  // where b^2 would be 0
  const Real beside = choose(pole, abs(n.im), n.im.number(1)).of(def::log) * -0.5 + 0.34657359027997264;
  const Real size = choose(pole, beside, (a * 4 / (off * off + b2)).of(def::log1p) * 0.25), near = choose(n.re < 0, -size, size);
  const Real zero = choose(z.re.of(def::isnan), 0, with_sign(z.re.number(0), z.re));
  const Real re = choose(f.is, choose(infinite, zero, reciprocal(f.z).re), near);
  const Real side = choose(z.im.of(def::isnan), kNaN, with_sign(z.im.number(kPi / 2), z.im));
  return {choose(is(z.re, 0) & z.im.of(def::isnan), z.re, re), choose(f.is, side, atan2(n.im * 2, off * (a + 1) - b2) * 0.5)};
}
Complex pow(const Complex& z, const Complex& w) {
  const Real zero = is(z.re, 0) & is(z.im, 0), one = is(w.re, 0) & is(w.im, 0), special = zero | one;
  const Real of_zero = choose(w.re.number(0).with(def::less, w.re), 0, w.re.number(kNaN));
  const Complex base{choose(special, z.re.number(1), z.re), choose(special, z.im.number(0), z.im)};
  const Complex y = exp(w * log(base));
  return {choose(one, 1, choose(zero, of_zero, y.re)), choose(one, 0, choose(zero, of_zero, y.im))};
}
// An infinity beside a finite part has the direction of its axis.
Complex sign(const Complex& z) {
  const Real scale = scale_of(z), a = z.re.of(def::isinf), b = z.im.of(def::isinf), axis = (a | b) & !(a & b);
  const Real re = choose(axis, choose(a, z.re.of(def::sign), z.re * 0), z.re / scale);
  const Real im = choose(axis, choose(b, z.im.of(def::sign), z.im * 0), z.im / scale);
  const Real size = size_of(Complex{re, im}), none = is(size, 0), some = choose(none, 1, size);
  return {choose(none, 0, re / some), choose(none, 0, im / some)};
}

// --- between tensors and parts ---

struct Call {
  const ir::OpDef& op;
  const ir::AttrsRef& attrs;
  std::span<const Tensor> in;
  CallSite at;

  Tensor run(const ir::OpDef& with, ir::AttrsRef a, const Tensor& x) const { return apply_one(with, std::move(a), std::span(&x, 1), at); }
  Tensor pairs(const Tensor& z) const { return run(def::as_real, nullptr, z); }
  Tensor joined(const Tensor& pairs) const { return run(def::as_complex, nullptr, pairs); }
  Real part(const Tensor& z, int64_t which) const {
    const Tensor all = pairs(z);
    ops::SliceAttrs cut;
    for (int i = 0; i < z.rank(); ++i) cut.begin.push_back(0), cut.end.push_back(kEnd), cut.step.push_back(1);
    cut.begin.push_back(which), cut.end.push_back(which + 1), cut.step.push_back(1);
    return {run(def::reshape, ir::make_attrs(ops::ShapeAttrs{z.shape()}), run(def::slice, ir::make_attrs(std::move(cut)), all)), at};
  }
  Complex parts(const Tensor& z) const {
    if (is_complex(z.dtype())) return {part(z, 0), part(z, 1)};
    const Real x{z, at};
    return {x, x.number(0)};
  }
  Tensor joined(const Complex& z) const {
    std::vector<Tensor> both;
    const Shape full = broadcast(z.re.t.shape(), z.im.t.shape());
    for (const Real* x : {&z.re, &z.im}) {
      Tensor t = x->t;
      if (t.shape() != full) t = run(def::broadcast_to, ir::make_attrs(ops::ShapeAttrs{full}), t);
      Shape shape = full;
      shape.emplace_back(1);
      both.push_back(run(def::reshape, ir::make_attrs(ops::ShapeAttrs{std::move(shape)}), t));
    }
    return joined(apply_one(def::concat, ir::make_attrs(ops::AxisAttrs{int(full.size())}), both, at));
  }
  int axis(int a, const Tensor& z) const { return a < 0 ? a + z.rank() : a; }
  // The op with other attributes on the pairs.
  template <class A>
  Tensor moved(A attrs_of_pairs) const {
    return joined(run(op, ir::make_attrs(std::move(attrs_of_pairs)), pairs(in[0])));
  }
  template <class A>
  A own() const {
    return ir::attrs_of<A>(*attrs);
  }
};

// --- ops of which every operand has the same part ---

using Unary = Complex (*)(const Complex&);
Unary function_of(const ir::OpDef& op) {
  struct Row {
    const ir::OpDef* op;
    Unary f;
  };
  using C = Complex;
  static constexpr Row kRows[] = {
      {&def::acos, acos},
      {&def::acosh, acosh},
      {&def::asin, [](const C& z) { return over_i(asinh(times_i(z))); }},
      {&def::asinh, asinh},
      {&def::atan, [](const C& z) { return over_i(atanh(times_i(z))); }},
      {&def::atanh, atanh},
      {&def::cos, [](const C& z) { return cosh(times_i(z)); }},
      {&def::cosh, cosh},
      {&def::exp, exp},
      {&def::exp2, [](const C& z) { return exp(z * 0.6931471805599453); }},
      {&def::expm1, expm1},
      {&def::log, log},
      {&def::log10, [](const C& z) { return log(z) * 0.4342944819032518; }},
      {&def::log1p, log1p},
      {&def::log2, [](const C& z) { return log(z) * 1.4426950408889634; }},
      {&def::reciprocal, reciprocal},
      {&def::rsqrt, [](const C& z) { return reciprocal(sqrt(z)); }},
      {&def::sign, sign},
      {&def::sin, [](const C& z) { return over_i(sinh(times_i(z))); }},
      {&def::sinh, sinh},
      {&def::sqrt, sqrt},
      {&def::square, [](const C& z) { return z * z; }},
      {&def::tan, [](const C& z) { return over_i(tanh(times_i(z))); }},
      {&def::tanh, tanh},
  };
  for (const Row& row : kRows)
    if (row.op == &op) return row.f;
  return nullptr;
}

bool elementwise(const Call& c, Tensor& out) {
  const ir::OpDef& op = c.op;
  if (&op == &def::where) {
    if (is_complex(c.in[0].dtype()) || c.in[1].dtype() != c.in[2].dtype()) return false;
    Shape shape = c.in[0].shape();
    shape.emplace_back(1);
    const Tensor condition = c.run(def::reshape, ir::make_attrs(ops::ShapeAttrs{std::move(shape)}), c.in[0]);
    return out = c.joined(apply_one(op, nullptr, std::array{condition, c.pairs(c.in[1]), c.pairs(c.in[2])}, c.at)), true;
  }
  if (c.in.size() == 2 && c.in[0].dtype() != c.in[1].dtype()) return false;  // the op refuses it
  if (&op == &def::add || &op == &def::sub)
    return out = c.joined(apply_one(op, nullptr, std::array{c.pairs(c.in[0]), c.pairs(c.in[1])}, c.at)), true;
  if (&op == &def::neg) return out = c.joined(c.run(op, nullptr, c.pairs(c.in[0]))), true;
  if (&op == &def::abs) return out = size_of(c.parts(c.in[0])).t, true;
  if (const Unary f = function_of(op)) return out = c.joined(f(c.parts(c.in[0]))), true;
  if (&op == &def::mul) return out = c.joined(c.parts(c.in[0]) * c.parts(c.in[1])), true;
  if (&op == &def::div) return out = c.joined(c.parts(c.in[0]) / c.parts(c.in[1])), true;
  if (&op == &def::pow) return out = c.joined(pow(c.parts(c.in[0]), c.parts(c.in[1]))), true;
  if (&op == &def::equal || &op == &def::not_equal) {
    const Complex z = c.parts(c.in[0]), w = c.parts(c.in[1]);
    const Real same = z.re.with(def::equal, w.re) & z.im.with(def::equal, w.im);
    return out = (&op == &def::equal ? same : !same).t, true;
  }
  if (&op == &def::isnan || &op == &def::isinf || &op == &def::isfinite) {
    const Complex z = c.parts(c.in[0]);
    const Real a = z.re.of(op), b = z.im.of(op);
    return out = (&op == &def::isfinite ? a & b : a | b).t, true;
  }
  return false;
}

bool convert(const Call& c, Tensor& out) {
  const DType to = c.own<ops::DTypeAttrs>().dtype;
  const Tensor& x = c.in[0];
  const auto cast = [&](const Tensor& t, DType d) {
    return t.dtype() == d ? t : c.run(def::astype, ir::make_attrs(ops::DTypeAttrs{d}), t);
  };
  if (is_complex(x.dtype()) && is_complex(to)) return out = x.dtype() == to ? x : c.joined(cast(c.pairs(x), part_of(to))), true;
  if (is_complex(to)) return out = c.joined(c.parts(cast(x, part_of(to)))), true;
  if (to == DType::boolean) {
    const Complex z = c.parts(x);
    return out = (!(is(z.re, 0) & is(z.im, 0))).t, true;
  }
  throw Error(ErrorKind::type, {.what = cat("astype: complex numbers do not become ", numpy_name(to), " by themselves"),
                                .where = text(c.at.line()),
                                .why = "the imaginary part would be lost",
                                .fix = cat("write lm.astype(lm.real(x), lm.", numpy_name(to), ")")});
}

// --- ops along axes ---

Axes named(const AxesOrAll& axes, const Tensor& z) {
  Axes all;
  for (int a = 0; a < z.rank(); ++a)
    if (axes.contains(size_t(a), size_t(z.rank()))) all.push_back(a);
  return all;
}

// The product over axes, halving them: a tree, whose order depends on lengths alone.
Tensor product(const Call& c) {
  const auto own = c.own<ops::ReduceAttrs>();
  const Tensor& z = c.in[0];
  const Axes over = named(own.axes, z);
  std::vector<int64_t> order(over.begin(), over.end());
  Shape kept, rest;
  for (int a = 0; a < z.rank(); ++a) {
    const bool reduced = std::find(over.begin(), over.end(), a) != over.end();
    if (!reduced) order.push_back(a), rest.push_back(z.shape()[size_t(a)]);
    if (!reduced || own.keepdims) kept.push_back(reduced ? Dim(1) : z.shape()[size_t(a)]);
  }
  Dim length = 1;
  for (int64_t a : over) length = length * z.shape()[size_t(a)];
  if (!length.known())
    throw Error(ErrorKind::invalid_argument, {.what = cat("prod: the length of an axis of ", z.type(), " is open"),
                                              .where = text(c.at.line()),
                                              .why = "products of complex numbers are taken over lengths that are known while tracing",
                                              .fix = "give the axis a length in the input_signature"});
  Shape shape = rest;
  shape.insert(shape.begin(), length);
  const auto reshaped = [&](const Tensor& t, Shape s) { return c.run(def::reshape, ir::make_attrs(ops::ShapeAttrs{std::move(s)}), t); };
  Tensor x = reshaped(c.run(def::transpose, ir::make_attrs(ops::TransposeAttrs{order}), z), shape);
  int64_t n = length.number();
  const auto rows = [&](int64_t begin, int64_t end) {
    ops::SliceAttrs cut;
    for (size_t i = 0; i < shape.size(); ++i) cut.begin.push_back(0), cut.end.push_back(kEnd), cut.step.push_back(1);
    cut.begin[0] = begin, cut.end[0] = end;
    return c.run(def::slice, ir::make_attrs(std::move(cut)), x);
  };
  if (n == 0) {
    const Tensor one = scalar(1, z.dtype());
    return c.run(def::broadcast_to, ir::make_attrs(ops::ShapeAttrs{kept}), one);
  }
  for (; n > 1; n = n / 2 + n % 2) {
    const int64_t half = n / 2;
    const Tensor both = apply_one(def::mul, nullptr, std::array{rows(0, half), rows(half, 2 * half)}, c.at);
    x = n % 2 ? apply_one(def::concat, ir::make_attrs(ops::AxisAttrs{0}), std::array{both, rows(n - 1, n)}, c.at) : both;
  }
  return reshaped(x, kept);
}

bool reduced(const Call& c, Tensor& out) {
  if (&c.op == &def::sum || &c.op == &def::mean) {
    const auto own = c.own<ops::ReduceAttrs>();
    return out = c.moved(ops::ReduceAttrs{named(own.axes, c.in[0]), own.keepdims}), true;
  }
  if (&c.op == &def::prod) return out = product(c), true;
  if (&c.op == &def::cumsum) {
    auto own = c.own<ops::CumsumAttrs>();
    own.axis = c.axis(own.axis, c.in[0]);
    return out = c.moved(own), true;
  }
  if (&c.op == &def::matmul) {
    if (c.in[0].dtype() != c.in[1].dtype()) return false;
    const Complex z = c.parts(c.in[0]), w = c.parts(c.in[1]);
    const auto product = [&](const Real& a, const Real& b) { return Real{apply_one(c.op, c.attrs, std::array{a.t, b.t}, c.at), c.at}; };
    return out = c.joined(Complex{product(z.re, w.re) - product(z.im, w.im), product(z.re, w.im) + product(z.im, w.re)}), true;
  }
  return false;
}

// --- ops that move elements ---

bool moved(const Call& c, Tensor& out) {
  const ir::OpDef& op = c.op;
  if (&op == &def::reshape || &op == &def::broadcast_to) {
    auto own = c.own<ops::ShapeAttrs>();
    own.shape.emplace_back(2);
    return out = c.moved(own), true;
  }
  if (&op == &def::transpose) {
    auto own = c.own<ops::TransposeAttrs>();
    own.axes.push_back(c.in[0].rank());
    return out = c.moved(own), true;
  }
  if (&op == &def::slice) {
    auto own = c.own<ops::SliceAttrs>();
    own.begin.push_back(0), own.step.push_back(1);
    if (!own.end.empty() || own.size.empty()) own.end.push_back(kEnd);
    if (!own.offset.empty()) own.offset.emplace_back(0);
    if (!own.size.empty()) own.size.emplace_back(2);
    return out = c.moved(own), true;
  }
  if (&op == &def::pad_slice) {
    auto own = c.own<ops::PadSliceAttrs>();
    own.shape.emplace_back(2), own.begin.push_back(0), own.step.push_back(1);
    if (!own.offset.empty()) own.offset.emplace_back(0);
    return out = c.moved(own), true;
  }
  if (&op == &def::concat) {
    std::vector<Tensor> pairs;
    for (const Tensor& t : c.in) {
      if (t.dtype() != c.in[0].dtype()) return false;
      pairs.push_back(c.pairs(t));
    }
    const int axis = c.own<ops::AxisAttrs>().axis;
    return out = c.joined(apply_one(op, ir::make_attrs(ops::AxisAttrs{c.axis(axis, c.in[0])}), pairs, c.at)), true;
  }
  if (&op == &def::gather) {
    auto own = c.own<ops::GatherAttrs>();
    own.axis = c.axis(own.axis, c.in[0]);
    return out = c.joined(apply_one(op, ir::make_attrs(own), std::array{c.pairs(c.in[0]), c.in[1]}, c.at)), true;
  }
  if (&op == &def::scatter_add) {
    auto own = c.own<ops::ScatterAttrs>();
    if (own.axis < 0) own.axis += int(own.shape.size());
    own.shape.emplace_back(2);
    return out = c.joined(apply_one(op, ir::make_attrs(std::move(own)), std::array{c.pairs(c.in[0]), c.in[1]}, c.at)), true;
  }
  if (&op == &def::scatter) {
    const auto mode = c.own<ops::ScatterIntoAttrs>().mode;
    if ((mode != ops::ScatterMode::set && mode != ops::ScatterMode::add) || c.in[0].dtype() != c.in[2].dtype()) return false;
    return out = c.joined(apply_one(op, c.attrs, std::array{c.pairs(c.in[0]), c.in[1], c.pairs(c.in[2])}, c.at)), true;
  }
  if (&op == &def::check_numerics) return out = c.joined(c.run(op, c.attrs, c.pairs(c.in[0]))), true;
  return false;
}

// What the op refuses of real numbers it refuses of complex ones: above all an axis out of range, which the parts, having one axis more,
// would take. Dtypes are left to the op's own rule.
void refuse_as_of_reals(const Call& c) {
  std::vector<TensorType> reals;
  for (const Tensor& t : c.in) reals.push_back({is_complex(t.dtype()) ? part_of(t.dtype()) : t.dtype(), t.shape()});
  const ir::AttrsRef attrs = c.attrs ? c.attrs : c.op.parse_attrs(c.op.name, {});
  try {
    c.op.infer({*attrs, reals, {}});
  } catch (const Error& e) {
    if (e.kind == ErrorKind::type) return;
    Error::Parts parts = e.parts;
    for (size_t i = 0; i < reals.size(); ++i) {
      const std::string real = cat(reals[i]), own = cat(c.in[i].type());
      for (std::string* said : {&parts.what, &parts.why})
        for (size_t at = 0; own != real && (at = said->find(real, at)) != std::string::npos; at += own.size())
          said->replace(at, real.size(), own);
    }
    const Error refused(e.kind, parts);
    throw c.at.line().known() ? refused.at(text(c.at.line())) : refused;
  }
}

// Ops that take any dtype as it is, and those of regions, whose bodies are traced with complex values.
bool takes_any(const ir::OpDef& op) {
  static constexpr const ir::OpDef* kAny[] = {&def::as_real,
                                              &def::as_complex,
                                              &def::stop_gradient,
                                              &def::to_device,
                                              &def::print,
                                              &def::check,
                                              &def::after,
                                              &def::assign,
                                              &def::cond,
                                              &def::while_loop,
                                              &def::scan,
                                              &def::checkpoint,
                                              &def::custom_gradient,
                                              &def::with_length,
                                              &def::cholesky,
                                              &def::eigh,
                                              &def::qr,
                                              &def::slogdet,
                                              &def::solve,
                                              &def::svd,
                                              &def::triangular_solve};
  return std::find(std::begin(kAny), std::end(kAny), &op) != std::end(kAny);
}

}  // namespace

bool apply_complex(const ir::OpDef& op, const ir::AttrsRef& attrs, std::span<const Tensor> inputs, CallSite at, std::vector<Tensor>& out) {
  if (takes_any(op)) return false;
  const Call call{op, attrs, inputs, at};
  Tensor one;
  if (&op != &def::astype) refuse_as_of_reals(call);
  if (&op == &def::astype ? convert(call, one) : elementwise(call, one) || reduced(call, one) || moved(call, one)) return out = {one}, true;
  const auto complex = std::find_if(inputs.begin(), inputs.end(), [](const Tensor& t) { return is_complex(t.dtype()); });
  for (const Tensor& t : inputs)
    if (&t != &*complex && is_floating(t.dtype()))
      throw Error(ErrorKind::type, {.what = cat(op.name, ": ", inputs[0].type(), " and ",
                                                t.type() == inputs[0].type() ? complex->type() : t.type(), " have different dtypes"),
                                    .where = text(at.line()),
                                    .why = "tensors are never converted silently",
                                    .fix = same_dtype_advice(complex->dtype(), t.dtype())});
  throw Error(ErrorKind::type, {.what = cat(op.name, ": ", complex->type(), " is complex"),
                                .where = text(at.line()),
                                .why = cat(op.name, " is defined for real numbers"),
                                .fix = "pass lm.real(x), lm.imag(x) or lm.abs(x)"});
}

}  // namespace lamina
