#include "kernels/report.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "runtime/core/error.h"

namespace lamina::kernels {
namespace {

// The shortest digits that read back exactly, formatted as by Python's repr, without a trailing ".0".
template <class T>
std::string number_text(T value) {
  const double x = double(value);
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  char buffer[64];
  std::string s;
  if constexpr (std::is_floating_point_v<T>) {
    s.assign(buffer, std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr);
  } else {
    for (int precision = 0; precision < 12; ++precision) {
      std::snprintf(buffer, sizeof buffer, "%.*e", precision, x);
      s = buffer;
      if (T(std::stof(s)).bits == value.bits) break;
    }
  }
  const size_t e = s.find('e');
  const int exponent = std::stoi(s.substr(e + 1));
  std::string digits;
  for (char c : s.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  while (digits.size() > 1 && digits.back() == '0') digits.pop_back();
  std::string out = s[0] == '-' ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) out += "." + digits.substr(1);
    std::snprintf(buffer, sizeof buffer, "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
    return out + buffer;
  }
  if (exponent < 0) return out + "0." + std::string(size_t(-exponent - 1), '0') + digits;
  if (int(digits.size()) <= exponent + 1) return out + digits + std::string(size_t(exponent + 1) - digits.size(), '0');
  return out + digits.substr(0, size_t(exponent) + 1) + "." + digits.substr(size_t(exponent) + 1);
}

template <class T>
std::string element_text(T value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "True" : "False";
  else if constexpr (std::is_integral_v<T>)
    return std::to_string(value);
  else
    return number_text(value);
}

struct Writer {
  const View& view;
  int64_t summarize;
  std::string out = {};

  void element(int64_t offset) {
    if (is_complex(view.dtype)) {
      const auto part = [&](int which) {
        const char* at =
            static_cast<const char*>(view.data) + offset * int64_t(size_of(view.dtype)) + which * int64_t(size_of(view.dtype) / 2);
        double value = 0;
        if (float narrow; view.dtype == DType::c64)
          std::memcpy(&narrow, at, sizeof narrow), value = double(narrow);
        else
          std::memcpy(&value, at, sizeof value);
        return value;
      };
      out += number_text(part(0)) + (std::signbit(part(1)) ? "-" : "+") + number_text(std::fabs(part(1))) + "j";
      return;
    }
    with_dtype(view.dtype, [&]<class T>() {
      T value;
      std::memcpy(&value, static_cast<const char*>(view.data) + offset * int64_t(sizeof(T)), sizeof(T));
      out += element_text(value);
    });
  }
  void axis(int a, int64_t offset) {
    if (a == view.rank) return element(offset);
    const int64_t length = view.shape[a];
    const bool cut = summarize >= 0 && length > 2 * summarize;
    const std::string between = a + 1 == view.rank ? " " : std::string(size_t(view.rank - a - 1), '\n') + std::string(size_t(a + 1), ' ');
    out += '[';
    for (int64_t i = 0; i < length; ++i) {
      if (i) out += between;
      if (cut && i == summarize) {
        out += "...";
        if (summarize == 0) break;
        i = length - summarize - 1;
        continue;
      }
      axis(a + 1, offset + i * view.strides[a]);
    }
    out += ']';
  }
};

// The part of a value for model n of its leading axes.
View of_model(const View& all, int64_t axes, int64_t n) {
  View one = all;
  one.rank = all.rank - int32_t(axes);
  int64_t offset = 0;
  for (int64_t a = axes - 1; a >= 0; --a) {
    offset += n % all.shape[a] * all.strides[a];
    n /= all.shape[a];
  }
  for (int i = 0; i < one.rank; ++i) one.shape[i] = all.shape[i + axes], one.strides[i] = all.strides[i + axes];
  one.data = static_cast<char*>(all.data) + offset * int64_t(size_of(all.dtype));
  return one;
}
int64_t model_count(const View& all, int64_t axes) {
  int64_t n = 1;
  for (int64_t a = 0; a < axes; ++a) n *= all.shape[a];
  return n;
}

// Calls f(offset, index) for each element, in row-major order, until it returns false.
template <class F>
void each_element(const View& view, F&& f) {
  std::vector<int64_t> index(size_t(view.rank));
  int64_t offset = 0;
  for (int64_t n = view.size(); n > 0; --n) {
    if (!f(offset, index)) return;
    for (int a = view.rank - 1; a >= 0; --a) {
      offset += view.strides[a];
      if (++index[size_t(a)] < view.shape[a]) break;
      offset -= view.strides[a] * view.shape[a];
      index[size_t(a)] = 0;
    }
  }
}

std::string index_text(const std::vector<int64_t>& index) {
  std::string s = "[";
  for (size_t i = 0; i < index.size(); ++i) s += cat(i ? ", " : "", index[i]);
  return s + "]";
}

std::string fill_text(const std::string& format, std::span<const View> values, size_t& next, int64_t summarize) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    const char c = format[i], after = i + 1 < format.size() ? format[i + 1] : '\0';
    if (c == '{' && after == '}') {
      if (next < values.size()) out += text_of(values[next++], summarize);
      ++i;
    } else {
      out += c;
      if ((c == '{' || c == '}') && c == after) ++i;
    }
  }
  return out;
}

}  // namespace

std::string text_of(const View& value, int64_t summarize) {
  Writer writer{value, summarize};
  writer.axis(0, 0);
  return std::move(writer.out);
}

std::string filled(const std::string& format, std::span<const View> values, int64_t summarize) {
  size_t next = 0;
  return fill_text(format, values, next, summarize);
}

Error not_finite(const std::string& message, int64_t nans, int64_t infinities, int64_t first, const std::string& value,
                 std::span<const int64_t> shape) {
  std::vector<int64_t> index(shape.size());
  int64_t n = 1, rest = first;
  for (size_t a = shape.size(); a-- > 0; rest /= shape[a], n *= shape[a]) index[a] = rest % shape[a];
  return Error(ErrorKind::invalid_argument,
               {.what = cat("check_numerics: ", message.empty() ? "the values are not all finite" : message),
                .where = "",
                .why = cat(nans, " NaN and ", infinities, " infinite of ", n, n == 1 ? " element" : " elements", ", the first at ",
                           index_text(index), ": ", value),
                .fix = "look at what computes it: a division by 0, a log of 0, an overflow"});
}

namespace cpu {

void print(Stream&, std::span<const View* const> values, std::span<const View* const>, const PrintText& text) {
  const int64_t models = values.empty() ? 1 : model_count(*values[0], text.models);
  for (int64_t m = 0; m < models; ++m) {
    std::vector<View> own;
    for (const View* v : values) own.push_back(of_model(*v, text.models, m));
    write_text(text.stream, text.target, filled(text.format, own, text.summarize));
  }
}

void check(Stream&, std::span<const View* const> values, std::span<const View* const>, const CheckText& text) {
  const int64_t models = model_count(*values[0], text.models);
  for (int64_t m = 0; m < models; ++m) {
    const View condition = of_model(*values[0], text.models, m);
    int64_t failed = 0;
    std::vector<int64_t> first;
    each_element(condition, [&](int64_t offset, const std::vector<int64_t>& index) {
      if (!condition.as<const bool>()[offset] && failed++ == 0) first = index;
      return true;
    });
    if (!failed) continue;
    std::vector<View> own;
    for (const View* v : values.subspan(1)) own.push_back(of_model(*v, text.models, m));
    size_t next = 0;
    std::string what = fill_text(text.message, own, next, 3), why = fill_text(text.why, own, next, 3);
    if (condition.rank)
      why = cat(failed, " of ", condition.size(), " are false, the first at ", index_text(first), why.empty() ? "" : "; ", why);
    if (text.models) why = cat("of model ", m, why.empty() ? "" : ": ", why);
    throw Error(ErrorKind::assertion, {.what = std::move(what), .where = "", .why = std::move(why), .fix = ""});
  }
}

template <class T>
void check_numerics(Stream&, const View& x, const View& y, std::string message) {
  const int64_t n = x.size();
  const T* in = x.as<const T>();
  int64_t nans = 0, infinities = 0, first = -1;
  for (int64_t i = 0; i < n; ++i) {
    const double value = double(in[i]);
    if (std::isfinite(value)) continue;
    if (first < 0) first = i;
    ++(std::isnan(value) ? nans : infinities);
  }
  if (first >= 0) throw not_finite(message, nans, infinities, first, number_text(in[first]), {x.shape, size_t(x.rank)});
  if (n && y.data != x.data) std::memcpy(y.data, x.data, size_t(n) * sizeof(T));
}

template void check_numerics<float>(Stream&, const View&, const View&, std::string);
template void check_numerics<double>(Stream&, const View&, const View&, std::string);
template void check_numerics<f16>(Stream&, const View&, const View&, std::string);
template void check_numerics<bf16>(Stream&, const View&, const View&, std::string);

}  // namespace cpu
}  // namespace lamina::kernels
