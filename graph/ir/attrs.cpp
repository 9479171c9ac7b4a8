#include "graph/ir/attrs.h"

#include <charconv>
#include <cmath>
#include <cstring>

namespace lamina::ir {
namespace {

[[noreturn]] void bad_value(std::string_view text, const char* wanted) {
  throw Error(ErrorKind::invalid_argument,
              {.what = cat("'", text, "' is not ", wanted), .where = "an attribute", .why = "", .fix = "correct the text"});
}

template <class T>
std::string number_text(T v) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr};
}
template <class T>
void parse_number(std::string_view text, T& v, const char* wanted) {
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (code != std::errc() || end != text.data() + text.size()) bad_value(text, wanted);
}

// The comma-separated parts of "[a,b]".
std::vector<std::string_view> list_items(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') bad_value(text, "a list like [1,2]");
  text = text.substr(1, text.size() - 2);
  std::vector<std::string_view> out;
  while (!text.empty()) {
    size_t comma = text.find(',');
    out.push_back(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return out;
}

constexpr size_t kMostPrintedElements = 64;
constexpr int64_t kMostFilled = int64_t{64} << 20;  // bytes of a constant whose text is one number
constexpr char kHex[] = "0123456789abcdef";

// A number that reads back to the same bits, or "" when there is none (a NaN with a payload).
template <class T>
std::string element_text(T v) {
  if constexpr (std::is_same_v<T, bool>)
    return v ? "true" : "false";
  else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    float f = v;
    if (std::isnan(f)) return v.bits == T(NAN).bits ? "nan" : "";
    return number_text(f);
  } else if constexpr (std::is_floating_point_v<T>) {
    T quiet = T(NAN);
    if (std::isnan(v)) return std::memcmp(&v, &quiet, sizeof v) == 0 ? "nan" : "";
    return number_text(v);
  } else {
    return std::to_string(v);
  }
}
template <class T>
T parse_element(std::string_view text) {
  if constexpr (std::is_same_v<T, bool>) {
    bool b;
    parse_attr(text, b);
    return b;
  } else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    float f;
    if (text == "nan") return T(NAN);
    parse_number(text, f, "a number");
    return T(f);
  } else {
    T v;
    if constexpr (std::is_floating_point_v<T>)
      if (text == "nan") return T(NAN);
    parse_number(text, v, "a number");
    return v;
  }
}

}  // namespace

void bad_attribute(const char* op, const std::string& name, const std::string& known) {
  throw Error(ErrorKind::invalid_argument, {.what = cat(op, " has no attribute '", name, "'"),
                                            .where = "",
                                            .why = known.empty() ? cat(op, " has no attributes") : cat(op, " has: ", known),
                                            .fix = "check the spelling, or that the text was written by this version"});
}

std::string attr_text(bool v) { return v ? "true" : "false"; }
std::string attr_text(int v) { return std::to_string(v); }
std::string attr_text(int64_t v) { return std::to_string(v); }
std::string attr_text(float v) { return number_text(v); }
std::string attr_text(double v) { return number_text(v); }
std::string attr_text(const std::string& v) {
  std::string s = "\"";
  for (char c : v) {
    if (c == '"' || c == '\\') s += '\\';
    if (c == '\n')
      s += "\\n";
    else
      s += c;
  }
  return s + "\"";
}
std::string attr_text(DType v) { return name(v); }
std::string attr_text(const Shape& v) { return "[" + text(v) + "]"; }
std::string attr_text(const TensorType& v) { return text(v); }
std::string attr_text(const std::vector<int64_t>& v) {
  std::string s;
  for (int64_t i : v) s += (s.empty() ? "" : ",") + std::to_string(i);
  return "[" + s + "]";
}
std::string attr_text(const AxesOrAll& v) { return v.all() ? "all" : attr_text(v.named()); }

// f32[2]{1,2} | f32[100]{0...}: all equal | f32[1000]{0x3f80...}: the bytes
std::string attr_text(const Literal& v) {
  std::string s = text(v.type) + "{", elements;
  if (!v.bytes) return s + (v.type.dtype == DType::boolean ? "false...}" : "0...}");
  bool exact = !is_complex(v.type.dtype) && with_dtype(v.type.dtype, [&]<class T>() {
    const T* data = reinterpret_cast<const T*>(v.bytes->data());
    size_t n = v.bytes->size() / sizeof(T);
    bool same = n > 1;
    for (size_t i = 1; i < n && same; ++i) same = std::memcmp(data, data + i, sizeof(T)) == 0;
    if (!same && n > kMostPrintedElements) return false;
    for (size_t i = 0; i < (same ? 1 : n); ++i) {
      std::string e = element_text(data[i]);
      if (e.empty()) return false;
      elements += (i ? "," : "") + e;
    }
    if (same) elements += "...";
    return true;
  });
  if (exact) return s + elements + "}";
  s += "0x";
  for (std::byte b : *v.bytes) s += kHex[int(b) >> 4], s += kHex[int(b) & 15];
  return s + "}";
}

void parse_attr(std::string_view text, bool& v) {
  if (text != "true" && text != "false") bad_value(text, "true or false");
  v = text == "true";
}
void parse_attr(std::string_view text, int& v) { parse_number(text, v, "a whole number"); }
void parse_attr(std::string_view text, int64_t& v) { parse_number(text, v, "a whole number"); }
void parse_attr(std::string_view text, float& v) { v = parse_element<float>(text); }
void parse_attr(std::string_view text, double& v) { v = parse_element<double>(text); }
void parse_attr(std::string_view text, std::string& v) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') bad_value(text, "a quoted text");
  v.clear();
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' && i + 2 < text.size())
      v += text[++i] == 'n' ? '\n' : text[i];
    else
      v += text[i];
  }
}
void parse_attr(std::string_view text, DType& v) { v = parse_dtype(text); }
void parse_attr(std::string_view text, Shape& v) {
  v.clear();
  for (std::string_view item : list_items(text)) v.push_back(Dim::parse(item));
}
void parse_attr(std::string_view text, TensorType& v) { v = parse_type(text); }
void parse_attr(std::string_view text, std::vector<int64_t>& v) {
  v.clear();
  for (std::string_view item : list_items(text)) parse_number(item, v.emplace_back(), "a whole number");
}
void parse_attr(std::string_view text, AxesOrAll& v) {
  if (text == "all") return void(v = {});
  Axes named;
  parse_attr(text, named);
  v = std::move(named);
}
void parse_attr(std::string_view text, Literal& v) {
  size_t open = text.find('{');
  if (open == std::string_view::npos || text.back() != '}') bad_value(text, "a constant like f32[2]{1,2}");
  v.type = parse_type(text.substr(0, open));
  std::string_view body = text.substr(open + 1, text.size() - open - 2);
  int64_t bytes = byte_size(v.type);
  if (bytes > (int64_t(1) << 31)) bad_value(text.substr(0, open), "a constant of less than 2 GiB");
  if (body.starts_with("0x")) {
    body.remove_prefix(2);
    if (int64_t(body.size()) != 2 * bytes) bad_value(text.substr(0, open), "followed by as many bytes as its type has");
    std::vector<std::byte> out(static_cast<size_t>(bytes));
    for (size_t i = 0; i < out.size(); ++i) {
      auto digit = [&](char c) -> int {
        const char* p = std::strchr(kHex, c);
        if (!c || !p) bad_value(body.substr(2 * i, 2), "a byte");
        return int(p - kHex);
      };
      out[i] = std::byte(digit(body[2 * i]) << 4 | digit(body[2 * i + 1]));
    }
    v.bytes = std::make_shared<const std::vector<std::byte>>(std::move(out));
    return;
  }
  bool same = body.ends_with("...");
  if (same) body.remove_suffix(3);
  if (same && body == (v.type.dtype == DType::boolean ? "false" : "0")) return void(v.bytes = nullptr);
  if (is_complex(v.type.dtype)) bad_value(text, "a complex constant as its bytes");
  // A short text must not take much memory.
  if (same && bytes > kMostFilled) bad_value(text, "a constant of one number of at most 64 MiB");
  if (!same && int64_t(body.size()) + 1 < 2 * (bytes / int64_t(size_of(v.type.dtype))))
    bad_value(text, "a constant with as many elements as its type");
  auto out = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(bytes));
  with_dtype(v.type.dtype, [&]<class T>() {
    T* data = reinterpret_cast<T*>(out->data());
    size_t n = out->size() / sizeof(T), i = 0;
    if (same) {
      T element = parse_element<T>(body);
      for (; i < n; ++i) data[i] = element;
      return;
    }
    while (!body.empty()) {
      size_t comma = body.find(',');
      if (i == n) bad_value(text, "a constant with as many elements as its type");
      data[i++] = parse_element<T>(body.substr(0, comma));
      body = comma == std::string_view::npos ? std::string_view() : body.substr(comma + 1);
    }
    if (i != n) bad_value(text, "a constant with as many elements as its type");
  });
  v.bytes = std::move(out);
}

}  // namespace lamina::ir
