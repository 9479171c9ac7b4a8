// Elements as text in NumPy's layout: shortest digits that read back exactly, aligned columns, lines of 75, long arrays summarised.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <vector>

#include "graph/frontend/tensor.h"

namespace lamina {
namespace {

constexpr int64_t kSummariseAbove = 1000, kEdge = 3;
constexpr size_t kLineWidth = 75;

// The shown elements of each axis: the first and last few, or all.
struct Layout {
  std::vector<int64_t> shape;
  bool summary = false;
  std::vector<int64_t> shown(size_t axis) const {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < shape[axis]; ++i)
      if (!summary || shape[axis] <= 2 * kEdge || i < kEdge || i >= shape[axis] - kEdge) out.push_back(i);
    return out;
  }
};

// A finite number's digits: the shortest that read back as the same value of its dtype.
struct Decimal {
  double exact = 0;
  std::string digits;  // without leading or trailing zeros; "" is zero
  int point = 0;       // value = 0.digits * 10^point
};

std::string printed(const char* format, int precision, double x) {
  char buffer[512];
  return std::string(buffer, size_t(std::snprintf(buffer, sizeof buffer, format, precision, x)));
}

template <class T>
Decimal shortest(T x) {
  Decimal d{double(x), "", 1};
  std::string s;
  if constexpr (std::is_floating_point_v<T>) {
    char buffer[64];
    s = std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, std::fabs(x), std::chars_format::scientific).ptr);
  } else {
    for (int precision = 0; precision < 12; ++precision) {
      s = printed("%.*e", precision, std::fabs(d.exact));
      if (T(std::stof(s)).bits == T(std::fabs(float(x))).bits) break;
    }
  }
  const size_t e = s.find('e');
  d.point = std::stoi(s.substr(e + 1)) + 1;
  for (char c : s.substr(0, e))
    if (c != '.') d.digits += c;
  while (!d.digits.empty() && d.digits.back() == '0') d.digits.pop_back();
  if (d.digits.empty()) d.point = 1;
  return d;
}

struct Parts {
  std::string whole, fraction;
};
Parts split(const std::string& s) {
  const size_t dot = s.find('.');
  Parts p{s.substr(0, dot), dot == std::string::npos ? "" : s.substr(dot + 1)};
  while (!p.fraction.empty() && p.fraction.back() == '0') p.fraction.pop_back();
  return p;
}
// At most `precision` digits after the point: the shortest ones if they suffice, else the rounded number.
Parts positional(const Decimal& d, int precision) {
  if (int(d.digits.size()) - d.point > precision) return split(printed("%.*f", precision, d.exact));
  Parts p{std::signbit(d.exact) ? "-" : "", ""};
  if (d.point <= 0) p.whole += '0';
  for (int i = 0; i < d.point; ++i) p.whole += i < int(d.digits.size()) ? d.digits[size_t(i)] : '0';
  if (d.digits.empty()) return p;
  p.fraction = std::string(size_t(std::max(0, -d.point)), '0');
  if (int(d.digits.size()) > std::max(d.point, 0)) p.fraction += d.digits.substr(size_t(std::max(d.point, 0)));
  return p;
}
Parts scientific(const Decimal& d, int precision, int& exponent) {
  if (int(d.digits.size()) > precision + 1) {
    const std::string s = printed("%.*e", precision, d.exact);
    exponent = std::stoi(s.substr(s.find('e') + 1));
    return split(s.substr(0, s.find('e')));
  }
  exponent = d.digits.empty() ? 0 : d.point - 1;
  return {(std::signbit(d.exact) ? "-" : "") + std::string(1, d.digits.empty() ? '0' : d.digits[0]),
          d.digits.size() > 1 ? d.digits.substr(1) : ""};
}
std::string exponent_text(int e) {
  std::string n = std::to_string(std::abs(e));
  return cat('e', e < 0 ? '-' : '+', n.size() < 2 ? "0" : "", n);
}

std::string special(double x) { return std::isnan(x) ? "nan" : x < 0 ? "-inf" : "inf"; }

// For scientific notation: `digits` exact digits after the point; zeros where rounding would change the exponent.
std::string all_digits(double x, int digits, int exponent) {
  const std::string s = printed("%.*e", digits, x);
  const size_t dot = s.find('.'), e = s.find('e');
  return std::stoi(s.substr(e + 1)) == exponent && dot != std::string::npos ? s.substr(dot + 1, e - dot - 1)
                                                                            : std::string(size_t(digits), '0');
}

// A single number.
template <class T>
std::string float_alone(T x) {
  if (!std::isfinite(double(x))) return special(x);
  const double a = std::fabs(double(x)), large = sizeof(T) == 8 ? 1e16 : sizeof(T) == 4 ? 1e6 : 1e3;
  if (a != 0 && (a < 1e-4 || a >= large)) {
    int e;
    Parts p = scientific(shortest(x), 100, e);
    return p.whole + (p.fraction.empty() ? "" : "." + p.fraction) + exponent_text(e);
  }
  Parts p = positional(shortest(x), 100);
  return p.whole + "." + (p.fraction.empty() ? "0" : p.fraction);
}

// All shown elements, in a common format.
template <class T>
std::vector<std::string> format_floats(const std::vector<T>& x) {
  constexpr int precision = 8;
  double high = 0, low = INFINITY;
  bool any_special = false;
  for (double v : x) {
    any_special |= !std::isfinite(v);
    if (std::isfinite(v) && v != 0) high = std::max(high, std::fabs(v)), low = std::min(low, std::fabs(v));
  }
  bool exponents = high > 0 && (high >= (sizeof(T) == 8 ? 1e8 : sizeof(T) == 4 ? 1e6 : 1e3) || low < 1e-4 || high / low > 1000);
  std::vector<Parts> parts(x.size());
  std::vector<int> exponent(x.size());
  size_t left = 0, right = 0, exponent_width = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(double(x[i]))) continue;
    parts[i] = exponents ? scientific(shortest(x[i]), precision, exponent[i]) : positional(shortest(x[i]), precision);
    left = std::max(left, parts[i].whole.size());
    right = std::max(right, parts[i].fraction.size());
    if (exponents) exponent_width = std::max(exponent_width, exponent_text(exponent[i]).size());
  }
  if (any_special)
    for (double v : x)
      if (!std::isfinite(v)) {
        size_t need = special(v).size(), have = right + 1 + exponent_width;
        if (need > have) left = std::max(left, need - have);
      }
  std::vector<std::string> out;
  for (size_t i = 0; i < x.size(); ++i) {
    std::string s;
    if (!std::isfinite(double(x[i]))) {
      s = special(x[i]);
      s.insert(0, left + 1 + right + exponent_width - s.size(), ' ');
    } else {
      if (exponents && parts[i].fraction.size() < right) parts[i].fraction = all_digits(double(x[i]), int(right), exponent[i]);
      s = std::string(left - parts[i].whole.size(), ' ') + parts[i].whole + "." + parts[i].fraction;
      s.append(right - parts[i].fraction.size(), ' ');
      if (exponents) {
        std::string e = exponent_text(exponent[i]);
        if (e.size() < exponent_width) e.insert(2, exponent_width - e.size(), '0');
        s += e;
      }
    }
    out.push_back(s);
  }
  return out;
}

std::vector<std::string> right_aligned(std::vector<std::string> all) {
  size_t width = 0;
  for (auto& s : all) width = std::max(width, s.size());
  for (auto& s : all) s.insert(0, width - s.size(), ' ');
  return all;
}

// Adds brackets, separators and line breaks to the shown elements' texts.
class Writer {
 public:
  Writer(const Layout& layout, std::vector<std::string> words) : layout_(layout), words_(std::move(words)) {}
  std::string write(size_t axis, const std::string& indent, size_t width) {
    const size_t axes_left = layout_.shape.size() - axis;
    const int64_t count = layout_.shape[axis];
    const std::vector<int64_t> shown = layout_.shown(axis);
    std::string s;
    if (axes_left == 1) {
      std::string line = indent;
      auto extend = [&](const std::string& word) {
        if (line.size() + word.size() > width - 1) {
          while (!line.empty() && line.back() == ' ') line.pop_back();
          s += line + "\n";
          line = indent;
        }
        line += word;
      };
      for (size_t k = 0; k < shown.size(); ++k) {
        if (k && shown[k] != shown[k - 1] + 1) extend("..."), line += ' ';
        extend(words_[next_++]);
        if (shown[k] != count - 1) line += ' ';
      }
      s += line;
    } else {
      for (size_t k = 0; k < shown.size(); ++k) {
        if (k) s += std::string(axes_left - 1, '\n');
        if (k && shown[k] != shown[k - 1] + 1) s += indent + "..." + std::string(axes_left - 1, '\n');
        s += indent + write(axis + 1, indent + ' ', width - 1);
      }
    }
    return "[" + s.substr(indent.size()) + "]";
  }

 private:
  const Layout& layout_;
  std::vector<std::string> words_;
  size_t next_ = 0;
};

void collect(const Layout& layout, size_t axis, int64_t offset, std::vector<int64_t>& out) {
  if (axis == layout.shape.size()) {
    out.push_back(offset);
    return;
  }
  for (int64_t i : layout.shown(axis)) collect(layout, axis + 1, offset * layout.shape[axis] + i, out);
}

}  // namespace

std::string Tensor::values_text() const {
  const TensorData& d = concrete("the text");
  Layout layout{numbers(d.type->shape)};
  int64_t count = size();
  if (count == 0) return "[]";
  layout.summary = count > kSummariseAbove;
  std::vector<int64_t> offsets;
  collect(layout, 0, 0, offsets);
  std::vector<std::byte> raw(static_cast<size_t>(byte_size(*d.type)));
  copy_to_host(raw.data(), raw.size());
  const bool alone = layout.shape.empty();
  const bool complex = is_complex(d.type->dtype);
  std::vector<std::string> words = with_dtype(complex ? part_of(d.type->dtype) : d.type->dtype, [&]<class T>() {
    std::vector<std::string> out;
    auto element = [&](int64_t i) {
      T v;
      std::memcpy(&v, raw.data() + size_t(i) * sizeof(T), sizeof(T));
      return v;
    };
    if constexpr (std::is_same_v<T, bool>) {
      for (int64_t i : offsets) out.push_back(element(i) ? alone ? "True" : " True" : "False");
    } else if constexpr (std::is_integral_v<T>) {
      for (int64_t i : offsets) out.push_back(std::to_string(element(i)));
    } else {
      std::vector<T> x;
      if (complex) {
        std::vector<T> y;
        std::vector<char> signs;
        for (int64_t i : offsets) {
          const T imaginary = element(2 * i + 1);
          x.push_back(element(2 * i)), y.push_back(T(std::fabs(double(imaginary)))),
              signs.push_back(std::signbit(double(imaginary)) ? '-' : '+');
        }
        const std::vector<std::string> re = alone ? std::vector{float_alone(x[0])} : format_floats(x);
        const std::vector<std::string> im = alone ? std::vector{float_alone(y[0])} : format_floats(y);
        for (size_t i = 0; i < re.size(); ++i) {
          const std::string digits = im[i].substr(std::min(im[i].find_first_not_of(' '), im[i].size()));
          const size_t end = digits.find_last_not_of(' ') + 1;
          out.push_back(re[i] + signs[i] + digits.substr(0, end) + "j" + digits.substr(end) +
                        std::string(im[i].size() - digits.size(), ' '));
        }
        return out;
      }
      for (int64_t i : offsets) x.push_back(element(i));
      return alone ? std::vector{float_alone(x[0])} : format_floats(x);
    }
    return alone ? out : right_aligned(out);
  });
  return alone ? words[0] : Writer(layout, std::move(words)).write(0, " ", kLineWidth);
}

}  // namespace lamina
