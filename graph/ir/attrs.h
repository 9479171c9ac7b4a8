// Attributes: a plain struct per op, described once by `fields`. Printing, parsing, equality, hashing and the substitution of symbols all
// follow from that description.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

#include "graph/ir/literal.h"
#include "runtime/core/error.h"
#include "runtime/core/type.h"

namespace lamina::ir {

template <class S, class T>
struct Field {
  const char* name;
  T S::* member;
};
template <class S, class T>
constexpr Field<S, T> field(const char* name, T S::* member) {
  return {name, member};
}

using AttrText = std::vector<std::pair<std::string, std::string>>;  // {"axis", "-1"}, in the order of `fields`

class LAMINA_API AttrsBase {
 public:
  virtual ~AttrsBase() = default;
  virtual AttrText text() const = 0;
  virtual bool equals(const AttrsBase&) const = 0;
  virtual uint64_t hash() const = 0;  // equal attributes have equal hashes
  // The same attributes with symbols replaced by numbers.
  virtual std::shared_ptr<const AttrsBase> with_dims(const DimBindings&) const = 0;
};
using AttrsRef = std::shared_ptr<const AttrsBase>;

// Text of one attribute; parsing it gives exactly the same value. Enums declare attr_text and parse_attr beside their definition.
LAMINA_API std::string attr_text(bool v);
LAMINA_API std::string attr_text(int v);
LAMINA_API std::string attr_text(int64_t v);
LAMINA_API std::string attr_text(float v);
LAMINA_API std::string attr_text(double v);
LAMINA_API std::string attr_text(const std::string& v);  // quoted
LAMINA_API std::string attr_text(DType v);
LAMINA_API std::string attr_text(const Shape& v);  // [2,n]
LAMINA_API std::string attr_text(const TensorType& v);
LAMINA_API std::string attr_text(const std::vector<int64_t>& v);  // [0,1]
LAMINA_API std::string attr_text(const AxesOrAll& v);             // all, [0,1]
LAMINA_API std::string attr_text(const Literal& v);
LAMINA_API void parse_attr(std::string_view text, bool& v);
LAMINA_API void parse_attr(std::string_view text, int& v);
LAMINA_API void parse_attr(std::string_view text, int64_t& v);
LAMINA_API void parse_attr(std::string_view text, float& v);
LAMINA_API void parse_attr(std::string_view text, double& v);
LAMINA_API void parse_attr(std::string_view text, std::string& v);
LAMINA_API void parse_attr(std::string_view text, DType& v);
LAMINA_API void parse_attr(std::string_view text, Shape& v);
LAMINA_API void parse_attr(std::string_view text, TensorType& v);
LAMINA_API void parse_attr(std::string_view text, std::vector<int64_t>& v);
LAMINA_API void parse_attr(std::string_view text, AxesOrAll& v);
LAMINA_API void parse_attr(std::string_view text, Literal& v);

template <class T>
bool same_attr(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>)
    return attr_text(a) == attr_text(b);  // NaN equals NaN, -0 is not 0
  else
    return a == b;
}

// Equal attributes have equal hashes. A Literal is hashed by its type only.
template <class T>
uint64_t attr_hash(const T& v) {
  auto mix = [](uint64_t h, uint64_t word) { return (h ^ word) * 0x9e3779b97f4a7c15u ^ h >> 29; };
  if constexpr (std::is_same_v<T, Dim>)
    return uint64_t(v.code());
  else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
    return uint64_t(v);
  else if constexpr (std::is_floating_point_v<T>)
    return std::hash<T>()(v);
  else if constexpr (std::is_same_v<T, std::string>)
    return std::hash<std::string>()(v);
  else if constexpr (std::is_same_v<T, TensorType>)
    return mix(uint64_t(v.dtype) + 1, attr_hash(v.shape));
  else if constexpr (std::is_same_v<T, Literal>)
    return attr_hash(v.type);
  else if constexpr (std::is_same_v<T, AxesOrAll>)
    return mix(v.all(), attr_hash(v.named()));
  else {
    uint64_t h = v.size() + 0x51ed270b;
    for (const auto& one : v) h = mix(h, attr_hash(one));
    return h;
  }
}

struct NoAttrs {
  static constexpr auto fields = std::tuple{};
};

[[noreturn]] LAMINA_API void bad_attribute(const char* op, const std::string& name, const std::string& known);

template <class S>
class Attrs final : public AttrsBase {
 public:
  explicit Attrs(S v = {}) : value(std::move(v)) {}
  const S value;

  AttrText text() const override {
    AttrText out;
    std::apply([&](auto... f) { (out.emplace_back(f.name, attr_text(value.*f.member)), ...); }, S::fields);
    return out;
  }
  bool equals(const AttrsBase& other) const override {
    if (typeid(other) != typeid(*this)) return false;
    const S& o = static_cast<const Attrs&>(other).value;
    return std::apply([&](auto... f) { return (same_attr(value.*f.member, o.*f.member) && ...); }, S::fields);
  }
  uint64_t hash() const override {
    uint64_t h = 1;
    std::apply([&](auto... f) { ((h = h * 0x9e3779b97f4a7c15u + attr_hash(value.*f.member) + (h >> 31)), ...); }, S::fields);
    return h;
  }
  AttrsRef with_dims(const DimBindings& bindings) const override {
    S out = value;
    auto replace = [&](auto& v) {
      using T = std::remove_reference_t<decltype(v)>;
      if constexpr (std::is_same_v<T, Shape>) v = substitute(v, bindings);
      if constexpr (std::is_same_v<T, TensorType>) v.shape = substitute(v.shape, bindings);
    };
    std::apply([&](auto... f) { (replace(out.*f.member), ...); }, S::fields);
    return std::make_shared<Attrs>(std::move(out));
  }
  // Fields that are not given keep their defaults. An unknown name is an error that lists the known ones.
  static AttrsRef parse(const char* op, const AttrText& in) {
    S v{};
    std::string names;
    std::apply([&](auto... f) { ((names += (names.empty() ? "" : ", ") + std::string(f.name)), ...); }, S::fields);
    for (auto& [key, text] : in) {
      bool found = false;
      auto read = [&](auto f) {
        if (key == f.name) parse_attr(text, v.*f.member), found = true;
      };
      std::apply([&](auto... f) { (read(f), ...); }, S::fields);
      if (!found) bad_attribute(op, key, names);
    }
    return std::make_shared<Attrs>(std::move(v));
  }
};

template <class S>
const S& attrs_of(const AttrsBase& attrs) {
  return static_cast<const Attrs<S>&>(attrs).value;
}
template <class S>
AttrsRef make_attrs(S v) {
  return std::make_shared<Attrs<S>>(std::move(v));
}

}  // namespace lamina::ir
