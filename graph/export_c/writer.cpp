#include "graph/export_c/writer.h"

#include <cmath>
#include <cstdio>
#include <cstring>

namespace lamina::c_text {

const char* c_type(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8: return "uint8_t";
    case DType::i8: return "int8_t";
    case DType::i16: return "int16_t";
    case DType::i32: return "int32_t";
    case DType::i64: return "int64_t";
    case DType::f32: return "float";
    case DType::f64: return "double";
    case DType::u16: return "uint16_t";
    case DType::u32: return "uint32_t";
    case DType::u64: return "uint64_t";
    case DType::f16:
    case DType::bf16:
    case DType::c64:
    case DType::c128: break;
  }
  throw Error(ErrorKind::invalid_argument,
              {.what = cat("export_c: the program has a value of dtype ", numpy_name(dtype)),
               .where = "",
               .why = "what a loop or a branch carries is of a type of C99",
               .fix = is_complex(dtype) ? "carry the parts of complex numbers: lm.as_real(x)" : "use float32"});
}

const char* suffix(DType dtype) { return name(dtype); }
const char* member(DType dtype) { return dtype == DType::boolean ? "b8" : name(dtype); }

std::string number(DType dtype, double value) {
  if (!is_floating(dtype))
    return number(dtype, ir::Literal::filled({dtype, {}}, value).bytes ? ir::Literal::filled({dtype, {}}, value).bytes->data() : nullptr);
  if (dtype == DType::f32) value = double(float(value));
  if (value != value) return dtype == DType::f32 ? "NAN" : "(double)NAN";
  const std::string cast = dtype == DType::f32 ? "" : "(double)";
  if (std::isinf(value)) return value > 0 ? cat(cast, "INFINITY") : cat(cast, "-INFINITY");
  char text[40];
  std::snprintf(text, sizeof text, dtype == DType::f32 ? "%.9g" : "%.17g", value);
  std::string out = text;
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return dtype == DType::f32 ? out + "f" : out;
}

std::string number(DType dtype, const void* element) {
  if (!element) return is_floating(dtype) ? number(dtype, 0.0) : "0";
  return with_dtype(dtype, [&]<class T>() -> std::string {
    T value;
    std::memcpy(&value, element, sizeof value);
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
      return number(dtype, double(value));
    else if constexpr (std::is_same_v<T, int64_t>)
      return value == INT64_MIN ? "(-INT64_C(9223372036854775807) - 1)" : cat("INT64_C(", value, ")");
    else if constexpr (std::is_same_v<T, uint64_t>)
      return cat("UINT64_C(", value, ")");
    else if constexpr (std::is_same_v<T, uint32_t>)
      return cat("UINT32_C(", value, ")");
    else if constexpr (std::is_same_v<T, int32_t>)
      return value == INT32_MIN ? "(-2147483647 - 1)" : cat(value);
    else if constexpr (std::is_integral_v<T>)
      return cat(int(value));
    else
      internal_error("export_c: a number of a half type");
  });
}

bool has_word(const std::string& text, const std::string& word) {
  auto in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size())
    if ((at == 0 || !in_name(text[at - 1])) && (at + word.size() == text.size() || !in_name(text[at + word.size()]))) return true;
  return false;
}

void Code::line(const std::string& line) {
  if (!line.empty() && line[0] == '}') --depth_;
  text += std::string(size_t(depth_) * 2, ' ') + line + "\n";
  if (!line.empty() && line.back() == '{') ++depth_;
}

void Writer::loop(const std::string& variable, int64_t count) {
  line(cat("for (ptrdiff_t ", variable, " = 0; ", variable, " < ", count, "; ++", variable, ") {"));
}

void Writer::may_fail() {
  if (!fails) line("int bad = 0;");
  fails = true;
}

std::vector<int64_t> shape_of(const View& view) { return {view.shape, view.shape + view.rank}; }

std::vector<int64_t> strides_for(const View& view, const std::vector<int64_t>& shape) {
  std::vector<int64_t> out(shape.size(), 0);
  const size_t missing = shape.size() - size_t(view.rank);
  for (size_t a = missing; a < shape.size(); ++a)
    if (view.shape[a - missing] != 1) out[a] = view.strides[a - missing];
  return out;
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> out(shape.size());
  int64_t step = 1;
  for (size_t a = shape.size(); a-- > 0; step *= shape[a]) out[a] = step;
  return out;
}

std::string index_text(std::span<const std::string> variables, std::span<const int64_t> strides) {
  std::string out;
  for (size_t i = 0; i < variables.size(); ++i) {
    if (strides[i] == 0) continue;
    const std::string sign = out.empty() ? (strides[i] < 0 ? "-" : "") : strides[i] < 0 ? " - " : " + ";
    out += sign + variables[i];
    if (std::abs(strides[i]) != 1) out += cat(" * ", std::abs(strides[i]));
  }
  return out.empty() ? "0" : out;
}

Writer::Nest Writer::loops(const std::vector<int64_t>& shape, const std::vector<std::vector<int64_t>>& strides) {
  std::vector<int64_t> lengths;
  std::vector<std::vector<int64_t>> kept(strides.size());
  for (size_t a = 0; a < shape.size(); ++a) {
    if (shape[a] == 1) continue;
    bool joins = !lengths.empty();
    for (size_t i = 0; i < strides.size() && joins; ++i) joins = kept[i].back() == strides[i][a] * shape[a];
    if (!joins) lengths.push_back(1);
    lengths.back() *= shape[a];
    for (size_t i = 0; i < strides.size(); ++i) joins ? void(kept[i].back() = strides[i][a]) : kept[i].push_back(strides[i][a]);
  }
  Nest out;
  std::vector<std::string> variables;
  const int nest = nests_++;
  for (size_t d = 0; d < lengths.size(); ++d) {
    variables.push_back(cat(char('i' + nest % 8), nest < 8 ? "" : cat("_", nest / 8, "_"), d));
    loop(variables.back(), lengths[d]);
  }
  if (lengths.empty()) line("{");
  out.loops = int(std::max<size_t>(1, lengths.size()));
  for (const auto& own : kept) out.at.push_back(index_text(variables, own));
  return out;
}

void Writer::close(const Nest& nest) {
  for (int i = 0; i < nest.loops; ++i) end();
}

}  // namespace lamina::c_text
