#include "graph/export_c/row_functions.h"

#include <vector>

namespace lamina::c_text {
namespace {

// Two rows by four terms at a time: eight numbers stay in registers while the inner loop runs along memory, which every compiler makes
// vector code of. c is taken in blocks that stay in the first cache.
constexpr const char* kMadd =
    R"(static void lm_madd_$S(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, const $T *restrict a, ptrdiff_t ai, ptrdiff_t ak, const $T *restrict b,
                        ptrdiff_t bk, $T *restrict c, ptrdiff_t ci) { /* c[m,n] += a[m,k] b[k,n] */
  ptrdiff_t i, j, l, j0, i0;
  for (j0 = 0; j0 < n; j0 += 128) {
    const ptrdiff_t columns = n - j0 < 128 ? n - j0 : 128;
    for (i0 = 0; i0 < m; i0 += 32) {
      const ptrdiff_t end = m - i0 < 32 ? m : i0 + 32;
      for (l = 0; l + 4 <= k; l += 4) {
        const $T *restrict b0 = b + l * bk + j0, *restrict b1 = b0 + bk, *restrict b2 = b1 + bk, *restrict b3 = b2 + bk;
        for (i = i0; i + 2 <= end; i += 2) {
          const $T *p = a + i * ai + l * ak, *q = p + ai;
          const $U p0 = ($U)p[0], p1 = ($U)p[ak], p2 = ($U)p[2 * ak], p3 = ($U)p[3 * ak];
          const $U q0 = ($U)q[0], q1 = ($U)q[ak], q2 = ($U)q[2 * ak], q3 = ($U)q[3 * ak];
          $T *restrict c0 = c + i * ci + j0, *restrict c1 = c0 + ci;
          for (j = 0; j < columns; ++j) {
            c0[j] = ($T)(($U)c0[j] + p0 * ($U)b0[j] + p1 * ($U)b1[j] + p2 * ($U)b2[j] + p3 * ($U)b3[j]);
            c1[j] = ($T)(($U)c1[j] + q0 * ($U)b0[j] + q1 * ($U)b1[j] + q2 * ($U)b2[j] + q3 * ($U)b3[j]);
          }
        }
        if (i < end) {
          const $T *p = a + i * ai + l * ak;
          const $U p0 = ($U)p[0], p1 = ($U)p[ak], p2 = ($U)p[2 * ak], p3 = ($U)p[3 * ak];
          $T *restrict c0 = c + i * ci + j0;
          for (j = 0; j < columns; ++j) c0[j] = ($T)(($U)c0[j] + p0 * ($U)b0[j] + p1 * ($U)b1[j] + p2 * ($U)b2[j] + p3 * ($U)b3[j]);
        }
      }
      for (l = k - k % 4; l < k; ++l)
        for (i = i0; i < end; ++i) {
          const $U p0 = ($U)a[i * ai + l * ak];
          const $T *restrict b0 = b + l * bk + j0;
          $T *restrict c0 = c + i * ci + j0;
          for (j = 0; j < columns; ++j) c0[j] = ($T)(($U)c0[j] + p0 * ($U)b0[j]);
        }
    }
  }
}
)";

// c[m,n] += a[m,k] b[n,k]^T: columns of b lie in rows, and are turned 64 at a time into t[64 k]. Four rows are interleaved in two loops
// along memory, which every compiler makes vector code of.
constexpr const char* kMaddTurned =
    R"(static void lm_turn_$S(ptrdiff_t n, ptrdiff_t k, const $T *restrict b, ptrdiff_t bj, $T *restrict t) { /* t[l,j] = b[j,l] */
  $T u[64], v[64];
  ptrdiff_t i, j, l;
  for (j = 0; j + 4 <= n; j += 4) {
    const $T *restrict b0 = b + j * bj, *restrict b1 = b0 + bj, *restrict b2 = b1 + bj, *restrict b3 = b2 + bj;
    for (l = 0; l + 16 <= k; l += 16) {
      for (i = 0; i < 16; ++i) u[2 * i] = b0[l + i], u[2 * i + 1] = b2[l + i];
      for (i = 0; i < 16; ++i) u[32 + 2 * i] = b1[l + i], u[33 + 2 * i] = b3[l + i];
      for (i = 0; i < 32; ++i) v[2 * i] = u[i], v[2 * i + 1] = u[32 + i];
      for (i = 0; i < 16; ++i) memcpy(t + (l + i) * 64 + j, v + 4 * i, 4 * sizeof *v);
    }
    for (l = k - k % 16; l < k; ++l) t[l * 64 + j] = b0[l], t[l * 64 + j + 1] = b1[l], t[l * 64 + j + 2] = b2[l], t[l * 64 + j + 3] = b3[l];
  }
  for (; j < n; ++j)
    for (l = 0; l < k; ++l) t[l * 64 + j] = b[j * bj + l];
}
static void lm_madd_turned_$S(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, const $T *restrict a, ptrdiff_t ai, ptrdiff_t ak,
                               const $T *restrict b, ptrdiff_t bj, $T *restrict c, ptrdiff_t ci, $T *restrict t) {
  /* c[m,n] += a[m,k] b[n,k]^T */
  ptrdiff_t j0;
  for (j0 = 0; j0 < n; j0 += 64) {
    const ptrdiff_t columns = n - j0 < 64 ? n - j0 : 64;
    lm_turn_$S(columns, k, b + j0 * bj, bj, t);
    lm_madd_$S(m, columns, k, a, ai, ak, t, 64, c + j0, ci);
  }
}
)";

// As kernels/reduce.h says: runs of 1024 by 32 lanes, the runs added pairwise; of columns blocks of 32 rows. @ is the operation, OP(a, b)
// joins two, FIRST is what a lane begins with.
constexpr const char* kRun = R"(static $T lm_run_@_$S(const $T *restrict x, ptrdiff_t n) {
  $T s[32];
  ptrdiff_t i, c, d;
  for (c = 0; c < 32; ++c) s[c] = FIRST;
  for (i = 0; i + 32 <= n; i += 32)
    for (c = 0; c < 32; ++c) s[c] = OP(s[c], x[i + c]);
  for (c = 0; i + c < n; ++c) s[c] = OP(s[c], x[i + c]);
  for (d = 16; d > 0; d /= 2)
    for (c = 0; c < d; ++c) s[c] = OP(s[c], s[c + d]);
  return s[0];
}
)";
constexpr const char* kRow = R"(static $T lm_row_@_$S(const $T *restrict x, ptrdiff_t n) {
  $T level[48], part;
  uint64_t parts = 0, c;
  ptrdiff_t first;
  int b;
  if (n <= 1024) return lm_run_@_$S(x, n);
  for (first = 0; first < n; first += 1024) {
    part = lm_run_@_$S(x + first, n - first < 1024 ? n - first : 1024);
    for (b = 0, c = parts++; c & 1; c >>= 1, ++b) part = OP(level[b], part);
    level[b] = part;
  }
  for (b = 0; !(parts >> b & 1); ++b) {
  }
  for (part = level[b++]; parts >> b; ++b)
    if (parts >> b & 1) part = OP(level[b], part);
  return part;
}
)";
constexpr const char* kColumns =
    R"(static void lm_columns_@_$S(const $T *restrict x, ptrdiff_t rows, ptrdiff_t step, ptrdiff_t n, $T *restrict y) { /* n <= 64 */
  $T level[26][64];
  uint64_t blocks = 0, c;
  ptrdiff_t i, j, end;
  int b, any = 0;
  if (rows <= 32) {
    for (j = 0; j < n; ++j) y[j] = x[j];
    for (i = 1; i < rows; ++i)
      for (j = 0; j < n; ++j) y[j] = OP(y[j], x[i * step + j]);
    return;
  }
  for (i = 0; i < rows;) {
    for (j = 0; j < n; ++j) y[j] = x[i * step + j];
    end = rows - i < 32 ? rows : i + 32;
    for (++i; i < end; ++i)
      for (j = 0; j < n; ++j) y[j] = OP(y[j], x[i * step + j]);
    for (b = 0, c = blocks++; c & 1; c >>= 1, ++b)
      for (j = 0; j < n; ++j) y[j] = OP(level[b][j], y[j]);
    for (j = 0; j < n; ++j) level[b][j] = y[j];
  }
  for (b = 0; blocks >> b; ++b) {
    if (!(blocks >> b & 1)) continue;
    for (j = 0; j < n; ++j) y[j] = any ? OP(level[b][j], y[j]) : level[b][j];
    any = 1;
  }
}
)";

constexpr const char* kSoftmaxRow = R"(static void lm_softmax_row_$S(const $T *x, $T *y, ptrdiff_t n, ptrdiff_t step) {
  $T most = x[0];
  double sum = 0;
  ptrdiff_t i;
  for (i = 1; i < n; ++i) most = lm_maximum_$S(most, x[i * step]);
  for (i = 0; i < n; ++i) y[i * step] = lm_exp_$S(x[i * step] - most);
  for (i = 0; i < n; ++i) sum += (double)y[i * step];
  for (i = 0; i < n; ++i) y[i * step] = ($T)((double)y[i * step] / sum);
}
)";
constexpr const char* kLogSoftmaxRow = R"(static void lm_log_softmax_row_$S(const $T *x, $T *y, ptrdiff_t n, ptrdiff_t step) {
  $T most = x[0], log_sum;
  double sum = 0;
  ptrdiff_t i;
  for (i = 1; i < n; ++i) most = lm_maximum_$S(most, x[i * step]);
  for (i = 0; i < n; ++i) y[i * step] = lm_exp_$S(x[i * step] - most);
  for (i = 0; i < n; ++i) sum += (double)y[i * step];
  log_sum = ($T)log(sum);
  for (i = 0; i < n; ++i) y[i * step] = x[i * step] - most - log_sum;
}
)";
constexpr const char* kCrossEntropyRow =
    R"(static $T lm_cross_entropy_row_$S(const $T *restrict x, $T *restrict y, ptrdiff_t n, int64_t label) {
  /* the loss; y: probabilities */
  $T most = x[0];
  double sum = 0;
  ptrdiff_t i;
  for (i = 1; i < n; ++i) most = lm_maximum_$S(most, x[i]);
  for (i = 0; i < n; ++i) y[i] = lm_exp_$S(x[i] - most);
  for (i = 0; i < n; ++i) sum += (double)y[i];
  for (i = 0; i < n; ++i) y[i] = ($T)((double)y[i] / sum);
  return ($T)(log(sum) - (double)(x[label] - most));
}
)";

// A NaN is larger than every number. Equal elements keep their order, which heaps alone do not: the places decide.
constexpr const char* kBefore = R"(static inline int lm_before_$S($T a, $T b) {
  return a < b || (b != b && a == a);
}
)";
constexpr const char* kBeforeInteger = R"(static inline int lm_before_$S($T a, $T b) {
  return a < b;
}
)";
constexpr const char* kArgsort =
    R"(static inline int lm_place_before_$S(const $T *x, ptrdiff_t step, int64_t a, int64_t b, int descending) {
  const $T va = x[a * step], vb = x[b * step];
  if (lm_before_$S(va, vb)) return !descending;
  if (lm_before_$S(vb, va)) return descending;
  return a < b;
}
static void lm_argsort_$S(const $T *x, ptrdiff_t step, int64_t *p, ptrdiff_t n, int descending) {
  ptrdiff_t i, end, root, child;
  for (i = 0; i < n; ++i) p[i] = i;
  for (i = n / 2, end = n; end > 1;) {
    int64_t moved;
    if (i > 0) {
      moved = p[--i];
    } else {
      moved = p[--end];
      p[end] = p[0];
    }
    for (root = i; (child = 2 * root + 1) < end; root = child) {
      if (child + 1 < end && lm_place_before_$S(x, step, p[child], p[child + 1], descending)) ++child;
      if (!lm_place_before_$S(x, step, moved, p[child], descending)) break;
      p[root] = p[child];
    }
    p[root] = moved;
  }
}
)";

// Philox 4x32-10: block `block` of draw state[1] of the generator state[0].
constexpr const char* kPhilox = R"(static void lm_philox_i64(const int64_t *state, int64_t block, uint32_t word[4]) {
  uint32_t key0 = (uint32_t)(uint64_t)state[0], key1 = (uint32_t)((uint64_t)state[0] >> 32);
  uint32_t c0 = (uint32_t)(uint64_t)block, c1 = (uint32_t)((uint64_t)block >> 32);
  uint32_t c2 = (uint32_t)(uint64_t)state[1], c3 = (uint32_t)((uint64_t)state[1] >> 32);
  int round;
  for (round = 0; round < 10; ++round) {
    const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ key0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ key1;
    c3 = (uint32_t)p0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  word[0] = c0;
  word[1] = c1;
  word[2] = c2;
  word[3] = c3;
}
)";
constexpr const char* kUnit = R"(static inline float lm_unit_f32(uint32_t word) {
  return (float)(word >> 8) * 0x1p-24f;
}
)";
constexpr const char* kUnitDouble = R"(static inline double lm_unit_f64(uint32_t low, uint32_t high) {
  return (double)((((uint64_t)high << 32) | low) >> 11) * 0x1p-53;
}
)";
constexpr const char* kScaled =
    R"(static inline uint64_t lm_scaled_i64(uint32_t low, uint32_t high, uint64_t range) { /* the upper half of bits * range */
  const uint64_t r0 = range & 0xffffffffu, r1 = range >> 32, p0 = low * r0, p1 = high * r0, p2 = low * r1;
  const uint64_t middle = (p0 >> 32) + (p1 & 0xffffffffu) + (p2 & 0xffffffffu);
  return high * r1 + (p1 >> 32) + (p2 >> 32) + (middle >> 32);
}
)";
constexpr const char* kNormalQuantile = R"(static double lm_ratio_f64(const double a[8], const double b[8], double r) {
  double above = a[7], below = b[7];
  int i;
  for (i = 6; i >= 0; --i) {
    above = above * r + a[i];
    below = below * r + b[i];
  }
  return above / below;
}
static double lm_normal_quantile_f64(double p) { /* Wichura, AS 241 */
  static const double ka[8] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
                               4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3};
  static const double kb[8] = {1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
                               2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3};
  static const double kc[8] = {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
                               1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static const double kd[8] = {1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
                               1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9};
  static const double ke[8] = {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
                               2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static const double kf[8] = {1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
                               7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15};
  const double q = p - 0.5;
  double r, z;
  if (fabs(q) <= 0.425) return q * lm_ratio_f64(ka, kb, 0.180625 - q * q);
  r = sqrt(-log(q < 0 ? p : 1 - p));
  z = r <= 5 ? lm_ratio_f64(kc, kd, r - 1.6) : lm_ratio_f64(ke, kf, r - 5);
  return q < 0 ? -z : z;
}
)";

std::string with(std::string text, const std::string& mark, const std::string& now) {
  for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += now.size()) text.replace(at, mark.size(), now);
  return text;
}

// A reduction's function: OP(a, b) written out.
std::string reduction(std::string text, const std::string& op) {
  const std::string join = op == "max" ? "lm_maximum_$S" : op == "min" ? "lm_minimum_$S" : op == "prod" ? "lm_mul_$S" : "lm_add_$S";
  text = with(std::move(text), "@", op);
  text = with(std::move(text), "OP(", join + "(");
  return with(std::move(text), "FIRST", op == "sum" ? "0" : op == "prod" ? "1" : "x[0]");
}

}  // namespace

std::string row_function(const std::string& name, DType dtype) {
  const bool floats = is_floating(dtype), wide = floats || dtype == DType::i32 || dtype == DType::i64;
  if (wide && name == "madd") return kMadd;
  if (wide && name == "madd_turned") return kMaddTurned;
  if (floats || dtype == DType::i64)
    for (const char* op : {"sum", "max", "min", "prod"}) {
      if (name == std::string("run_") + op) return reduction(kRun, op);
      if (name == std::string("row_") + op) return reduction(kRow, op);
      if (name == std::string("columns_") + op) return reduction(kColumns, op);
    }
  if (floats && name == "softmax_row") return kSoftmaxRow;
  if (floats && name == "log_softmax_row") return kLogSoftmaxRow;
  if (floats && name == "cross_entropy_row") return kCrossEntropyRow;
  if (name == "before") return floats ? kBefore : kBeforeInteger;
  if (name == "argsort") return kArgsort;
  if (dtype == DType::i64 && name == "philox") return kPhilox;
  if (dtype == DType::i64 && name == "scaled") return kScaled;
  if (dtype == DType::f32 && name == "unit") return kUnit;
  if (dtype == DType::f64 && name == "unit") return kUnitDouble;
  if (dtype == DType::f64 && name == "normal_quantile") return kNormalQuantile;
  return "";
}

}  // namespace lamina::c_text
