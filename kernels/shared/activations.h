// Activations, their gradients, and the normal distribution behind gelu, for float and double. Compiled by g++ and nvcc alike.
//
// A gradient takes dy and the activation's result y where that is enough (relu, tanh, sigmoid, softplus, leaky_relu), otherwise its input x
// (elu, gelu, silu). For floats, sigmoid and softplus are within 2 ulp, silu and elu within 4, gelu within 7, gelu_tanh within 4 down to
// -4. Gradients are as accurate, except near their zeros.
#pragma once
#include "kernels/shared/scalar_math.h"

namespace lamina::kernels {
namespace scalar {
#if defined(LAMINA_ISA)
inline namespace LAMINA_ISA {  // one copy per instruction set: the linker must not merge them
#endif

// Beyond this distance from 0, an activation is x or 0.
template <class T>
inline constexpr T kFar = sizeof(T) == 4 ? T(110) : T(800);
template <class T>
LAMINA_SCALAR T at_least(T x, T low) {
  return x < low ? low : x;  // NaN for NaN
}
template <class T>
LAMINA_SCALAR T within(T x, T limit) {
  T c = at_least(x, -limit);
  return c > limit ? limit : c;
}

// log(1 + e) for 0 <= e <= 1, as 2 atanh(e / (2 + e)).
LAMINA_SCALAR float log1p_to_1(float e) {
  float s = e / (2.0f + e), z = s * s;
  float p = 2.430088222e-01f;
  p = p * z + 2.142767012e-01f;
  p = p * z + 2.861688435e-01f;
  p = p * z + 3.999887705e-01f;
  p = p * z + 6.666667461e-01f;
  return (s + s) + s * (z * p);
}
LAMINA_SCALAR double log1p_to_1(double e) { return log1p(e); }

// exp(x) - 1 for x <= 0.
LAMINA_SCALAR float expm1_below_0(float x) {
  float near = that_matters(x);
  float p = 1.197208883e-03f;
  p = p * near + 8.260978386e-03f;
  p = p * near + 4.165419936e-02f;
  p = p * near + 1.666657329e-01f;
  p = p * near + 4.999999702e-01f;
  float small = x + near * near * p, large = exp(near) - 1.0f;  // both: a branch would keep loops from vectorising
  return x < -0.35f ? large : small;
}
LAMINA_SCALAR double expm1_below_0(double x) { return expm1(x); }

// --- sigmoid, softplus ---
// From e^-|x|, which does not overflow; the rounding error of 1 + e is added back.
template <class T>
LAMINA_SCALAR T sigmoid(T x) {
  T e = exp(-absolute(that_matters(x))), sum = T(1) + e, lost = e - (sum - T(1));
  T y = (x < 0 ? e : T(1)) / sum;
  return y - y * (lost * (x < 0 ? T(1) - y : y));  // the last factor is 1 / sum
}
template <class T>
LAMINA_SCALAR T sigmoid_grad(T dy, T y) {
  return dy * (y * (T(1) - y));
}
template <class T>
LAMINA_SCALAR T softplus(T x) {
  return (x > 0 ? x : T(0)) + log1p_to_1(exp(-absolute(x)));
}
template <class T>
LAMINA_SCALAR T softplus_grad(T dy, T y) {
  return dy * -expm1_below_0(-y);  // sigmoid(x) = 1 - exp(-softplus(x))
}
// log(exp(a) + exp(b)).
template <class T>
LAMINA_SCALAR T logaddexp(T a, T b) {
  T far = a == b ? T(0) : absolute(a - b);  // also for equal infinities
  return (a > b ? a : b) + log1p_to_1(exp(-far));
}

// --- with straight parts ---
template <class T>
LAMINA_SCALAR T relu(T x) {
  return x <= 0 ? T(0) : x;
}
template <class T>
LAMINA_SCALAR T relu_grad(T dy, T y) {
  return y > 0 ? dy : T(0);
}
template <class T>
LAMINA_SCALAR T leaky_relu(T x, T slope) {
  return x > 0 ? x : slope * x;
}
template <class T>
LAMINA_SCALAR T leaky_relu_grad(T dy, T y, T slope) {
  return y > 0 ? dy : slope * dy;
}
template <class T>
LAMINA_SCALAR T elu(T x, T alpha) {
  T below = alpha * expm1_below_0(x > 0 ? T(0) : x);
  return x > 0 ? x : below;
}
template <class T>
LAMINA_SCALAR T elu_grad(T dy, T x, T alpha) {
  T below = dy * (alpha * exp(x > 0 ? T(0) : x));
  return x > 0 ? dy : below;
}

template <class T>
LAMINA_SCALAR T tanh_grad(T dy, T y) {
  T near = that_matters(y);
  return dy * (T(1) - near * near);
}

// --- x times a share ---
template <class T>
LAMINA_SCALAR T silu(T x) {
  T c = at_least(x, -kFar<T>);
  return c * sigmoid(c);
}
template <class T>
LAMINA_SCALAR T silu_grad(T dy, T x) {
  T c = within(x, kFar<T>), y = sigmoid(c);
  return dy * (y * (T(1) + c * (T(1) - y)));
}

// The standard normal distribution function at x, and its density.
template <class T>
struct Normal {
  T share, density;
};
// With a = |x|, the tail is e^(-a^2/2) t q(t), t = 1 / (1 + 0.35 a). a^2 is split in two, because the exponential amplifies its error.
LAMINA_SCALAR Normal<float> normal(float x) {
  float a = absolute(x), near = that_matters<-15>(a), high = float_of(bits_of(near) & int(0xfffff000u));
  float e = exp_of<true>(-0.5f * high * high, -0.5f * (near - high) * (near + high));
  float t = 1.0f / (1.0f + 0.35f * a);
  float square = t * t;  // in pairs: shorter dependence chains
  float p = -2.914614789e-02f * square + (1.439727247e-01f * t - 2.557163239e-01f);
  p = p * square + (1.591764688e-01f * t - 2.311135456e-02f);
  p = p * square + (1.055086106e-01f * t + 1.198327243e-01f);
  p = p * square + (1.398618817e-01f * t + 1.396214068e-01f);
  float tail = e * (t * p);
  return {x < 0 ? tail : 1.0f - tail, e * 0.398942280f};
}
LAMINA_SCALAR Normal<double> normal(double x) { return {0.5 * erfc(-x * 0.7071067811865476), exp(-0.5 * x * x) * 0.3989422804014327}; }
// x times the standard normal distribution function (Hendrycks and Gimpel, "Gaussian error linear units", 2016).
template <class T>
LAMINA_SCALAR T gelu(T x) {
  constexpr T far = sizeof(T) == 4 ? T(15) : T(40);
  T c = at_least(x, -far);
  return c * normal(c > far ? far : c).share;
}
template <class T>
LAMINA_SCALAR T gelu_grad(T dy, T x) {
  T c = within(x, sizeof(T) == 4 ? T(15) : T(40));
  Normal<T> n = normal(c);
  return dy * (n.share + c * n.density);
}
// The same paper's approximation: x (1 + tanh(u)) / 2 = x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3).
template <class T>
LAMINA_SCALAR T gelu_tanh(T x) {
  T c = at_least(x, T(-30)), near = that_matters(c);
  return c * sigmoid(c * (T(1.5957691216057308) + T(0.07135481627260025) * (near * near)));
}
template <class T>
LAMINA_SCALAR T gelu_tanh_grad(T dy, T x) {
  T c = within(x, T(30)), near = that_matters(c), square = near * near;
  T y = sigmoid(c * (T(1.5957691216057308) + T(0.07135481627260025) * square));
  return dy * (y + c * (y * (T(1) - y) * (T(1.5957691216057308) + T(0.21406444881780076) * square)));
}

#if defined(LAMINA_ISA)
}
#endif
}  // namespace scalar
}  // namespace lamina::kernels
