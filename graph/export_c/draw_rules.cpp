// Draws: the words of kernels/shared/philox.h, so that what is drawn has the same bits.
#include <cmath>
#include <numbers>

#include "graph/export_c/rules.h"
#include "graph/ops/ops.h"

namespace lamina::c_text {
namespace {

using ir::Node;

// Loops over the generators and their blocks of `per_block` elements; inside, `word` is drawn, and close_blocks stores `value`.
int64_t open_blocks(Writer& w, const Operand& state, const Operand& y, int per_block) {
  const int64_t models = state.size() / 2, n = y.size() / std::max<int64_t>(1, models);
  w.loop("m", models);
  w.loop("b", (n + per_block - 1) / per_block);
  w("uint32_t word[4];");
  w("lm_philox_i64(", state.name, " + 2 * m, b, word);");
  return n;
}
void close_blocks(Writer& w, const std::string& name, int64_t n, int per_block, const std::string& value) {
  w("for (ptrdiff_t e = 0; e < ", per_block, " && b * ", per_block, " + e < ", n, "; ++e) {");
  w("const ptrdiff_t at = m * ", n, " + b * ", per_block, " + e;");
  w(name, "[at] = ", value, ";");
  w.end();
  w.end();
  w.end();
}

void write_dropout(Writer& w, const Node& node) {
  const float rate = ir::attrs_of<ops::DropoutAttrs>(*node.attrs).rate;
  const Operand &x = w.in[0], &state = w.in[1], &y = w.out[0];
  const DType type = x.dtype();
  const uint32_t below = uint32_t(double(rate) * 4294967296.0);
  const std::string kept = cat(x["at"], " * ", number(type, 1.0 / (1.0 - double(rate))));
  const int64_t n = open_blocks(w, state, y, 4);
  close_blocks(w, y.name, n, 4, below ? cat("word[e] < ", below, "u ? 0 : ", kept) : kept);
}

void write_uniform(Writer& w, const Node& node) {
  const auto& attrs = ir::attrs_of<ops::RandomAttrs>(*node.attrs);
  const Operand &state = w.in[0], &y = w.out[0];
  const bool wide = y.dtype() == DType::f64;
  const int64_t n = open_blocks(w, state, y, wide ? 2 : 4);
  const std::string low = number(DType::f64, attrs.a), high = number(DType::f64, attrs.b);
  w(c_type(y.dtype()), " drawn[4];");
  w("int i;");
  w("for (i = 0; i < ", wide ? 2 : 4, "; ++i) {");
  w("const ", c_type(y.dtype()), " v = ",
    wide ? cat(low, " + lm_unit_f64(word[2 * i], word[2 * i + 1]) * ", number(DType::f64, attrs.b - attrs.a))
         : cat(number(DType::f32, attrs.a), " + lm_unit_f32(word[i]) * ", number(DType::f32, attrs.b - attrs.a)),
    ";");
  w("drawn[i] = (double)v < ", high, " && (double)v >= ", low, " ? v : ", number(y.dtype(), attrs.a), ";");
  w.end();
  close_blocks(w, y.name, n, wide ? 2 : 4, "drawn[e]");
}

void write_normal(Writer& w, const Node& node) {
  const auto& attrs = ir::attrs_of<ops::RandomAttrs>(*node.attrs);
  const Operand &state = w.in[0], &y = w.out[0];
  const bool wide = y.dtype() == DType::f64;
  const char *type = c_type(y.dtype()), *f = wide ? "" : "f";
  const int64_t n = open_blocks(w, state, y, wide ? 2 : 4);
  w(type, " drawn[4];");
  w("int i;");
  w("for (i = 0; i < ", wide ? 2 : 4, "; i += 2) {");
  w("const ", type, " u1 = ", wide ? "1 - lm_unit_f64(word[0], word[1])" : "((float)word[i] + 1.0f) * 0x1p-32f",
    ", u2 = ", wide ? "lm_unit_f64(word[2], word[3])" : "lm_unit_f32(word[i + 1])", ";");
  w("const ", type, " radius = sqrt", f, "(-2 * log", f, "(u1)), angle = ", number(y.dtype(), 2 * std::numbers::pi), " * u2;");
  w("drawn[i] = radius * cos", f, "(angle);");
  w("drawn[i + 1] = radius * sin", f, "(angle);");
  w.end();
  close_blocks(w, y.name, n, wide ? 2 : 4, cat(number(y.dtype(), attrs.a), " + ", number(y.dtype(), attrs.b), " * drawn[e]"));
}

void write_integers(Writer& w, const Node& node) {
  const auto& attrs = ir::attrs_of<ops::RandomIntegersAttrs>(*node.attrs);
  const Operand &state = w.in[0], &y = w.out[0];
  const int64_t n = open_blocks(w, state, y, 2);
  close_blocks(w, y.name, n, 2,
               cat("(", c_type(y.dtype()), ")(UINT64_C(", uint64_t(attrs.low), ") + lm_scaled_i64(word[2 * e], word[2 * e + 1], UINT64_C(",
                   uint64_t(attrs.high) - uint64_t(attrs.low), ")))"));
}

void write_truncated(Writer& w, const Node& node) {
  const auto& attrs = ir::attrs_of<ops::TruncatedNormalAttrs>(*node.attrs);
  const Operand &state = w.in[0], &y = w.out[0];
  const double a = (attrs.low - attrs.mean) / attrs.deviation, b = (attrs.high - attrs.mean) / attrs.deviation;
  const bool turned = a > 0;  // the side of the smaller tail, where probabilities are exact
  auto below = [](double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); };
  const double first = below(turned ? -b : a), last = below(turned ? -a : b);
  const bool wide = y.dtype() == DType::f64;
  const int per_block = wide ? 2 : 4;
  auto text = [](double v) { return number(DType::f64, v); };
  const int64_t n = open_blocks(w, state, y, per_block);
  w("double drawn[4];");
  w("int i;");
  w("for (i = 0; i < ", per_block, "; ++i) {");
  w("const double u = ", wide ? "lm_unit_f64(word[2 * i], word[2 * i + 1]) + 0x1p-54" : "((double)word[i] + 0.5) * 0x1p-32", ";");
  w("const double p = fmin(fmax(", text(first), " + u * ", text(last - first), ", 0x1p-1074), 1 - 0x1p-53);");
  w("const double z = ", text(attrs.mean), " + ", text(attrs.deviation), " * ", turned ? "-" : "", "lm_normal_quantile_f64(p);");
  w("drawn[i] = fmin(fmax(z, ", text(attrs.low), "), ", text(attrs.high), ");");
  w.end();
  close_blocks(w, y.name, n, per_block, cat("(", c_type(y.dtype()), ")drawn[e]"));
}

}  // namespace

std::vector<Rule> draw_rules() {
  return {{&ops::def::dropout, write_dropout},
          {&ops::def::random_uniform, write_uniform},
          {&ops::def::random_normal, write_normal},
          {&ops::def::random_integers, write_integers},
          {&ops::def::random_truncated_normal, write_truncated}};
}

}  // namespace lamina::c_text
