// Dim and Shape. A dimension is a number, an expression over named symbols ("n", "n*28"), or a run-time slot ("?3": a length known only
// from data).
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/export.h"

namespace lamina {

// No number in the text of a dimension and no result of an op is larger, in bytes or along an axis: it is what a processor can address.
// So sums of a few of them do not overflow.
inline constexpr int64_t kMostBytes = int64_t{1} << 47;

class LAMINA_API Dim {
 public:
  constexpr Dim() = default;
  // Throws invalid_argument for a negative number.
  constexpr Dim(int64_t number) : code_(number) {
    if (number < 0) throw_negative(number);
  }
  static constexpr Dim of_code(int64_t code) {  // what code() gave
    Dim out;
    out.code_ = code;
    return out;
  }
  static Dim symbol(std::string_view name);  // a letter, then letters, digits or _; "?" in front for a run-time slot
  static Dim fresh(std::string_view stem);   // a symbol that is not in use
  static Dim parse(std::string_view text);   // what text() prints

  constexpr bool known() const { return code_ >= 0; }
  bool is_slot() const;
  int64_t number() const;  // throws when it is unknown
  std::string text() const;
  constexpr bool operator==(const Dim&) const = default;
  constexpr int64_t code() const { return code_; }  // a hash key: equal exactly when the dimensions are equal

 private:
  [[noreturn]] static void throw_negative(int64_t number);
  int64_t code_ = 0;  // a number, or -1 - index into the table of expressions
};

LAMINA_API Dim operator+(Dim a, Dim b);
LAMINA_API Dim operator-(Dim a, Dim b);
LAMINA_API Dim operator*(Dim a, Dim b);
LAMINA_API Dim operator/(Dim a, Dim b);  // throws invalid_argument when it does not divide evenly
inline std::ostream& operator<<(std::ostream& out, Dim d) { return out << d.text(); }

// The values of symbols in one call: numbers, or the code() of expressions.
using DimBindings = std::map<std::string, int64_t>;
LAMINA_API Dim substitute(Dim d, const DimBindings& bindings);
// Binds the symbols of `pattern` to match a length; false on a contradiction.
LAMINA_API bool match(Dim pattern, int64_t length, DimBindings& bindings);
// The same from a length that may be an expression; a symbol then stands for its code(). False when `pattern` is no lone symbol and another
// expression.
LAMINA_API bool match(Dim pattern, Dim length, DimBindings& bindings);

using Shape = std::vector<Dim>;
LAMINA_API bool known(const Shape& shape);
LAMINA_API std::string text(const Shape& shape);              // "2,n"
LAMINA_API Dim size_of(const Shape& shape);                   // the product; throws invalid_argument when it does not fit 63 bits
LAMINA_API std::vector<int64_t> numbers(const Shape& shape);  // throws when a dimension is unknown
LAMINA_API Shape substitute(const Shape& shape, const DimBindings& bindings);
// NumPy's broadcasting of two shapes; throws invalid_argument. An unknown dimension is compatible with itself and 1.
LAMINA_API Shape broadcast(const Shape& a, const Shape& b);
// The axis counted from the front. Throws invalid_argument with `op` and the type when it is out of range.
LAMINA_API int normalize_axis(const char* op, int64_t axis, size_t rank);

using Axes = std::vector<int64_t>;
// The axes of an op: all of them by default, or a list, which may be empty. Negative axes count from the end.
class AxesOrAll {
 public:
  AxesOrAll() = default;
  AxesOrAll(Axes axes) : named_(std::move(axes)), all_(false) {}
  AxesOrAll(std::initializer_list<int64_t> axes) : named_(axes), all_(false) {}
  bool all() const { return all_; }
  const Axes& named() const { return named_; }  // none where it is all
  // Whether `axis`, counted from the front, is one of them.
  bool contains(size_t axis, size_t rank) const {
    for (int64_t a : named())
      if (size_t(a < 0 ? a + int64_t(rank) : a) == axis) return true;
    return all();
  }
  bool operator==(const AxesOrAll&) const = default;

 private:
  Axes named_;
  bool all_ = true;
};

}  // namespace lamina
