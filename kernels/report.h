// print, check and check_numerics: values as text, and checks that stop the program.
#pragma once
#include <span>
#include <string>

#include "runtime/core/error.h"
#include "runtime/core/host_text.h"
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels {

// A text with placeholders: "{}" is the next value, "{{" and "}}" are braces. models: number of leading model axes of every value; each
// model has its own text.
struct PrintText {
  std::string format;
  int64_t summarize = 3;  // elements shown at both ends of an axis; -1: all
  int64_t models = 0;
  int64_t stream = 1;
  TextTargetRef target;  // null: the standard target of that number
};
struct CheckText {
  std::string message, why;  // formats; `message` takes the first values
  int64_t models = 0;
};

// A value's elements: "3.5", "[1 2 3]", "[[1 2]\n [3 4]]", "[0 1 2 ... 97 98 99]"; as few digits as read back. Any strides.
LAMINA_API std::string text_of(const View& value, int64_t summarize);
// The format with its values inserted.
LAMINA_API std::string filled(const std::string& format, std::span<const View> values, int64_t summarize);

// check_numerics' error for elements that are not finite. first: the number of the first one, in order, of `shape`; value: its text.
LAMINA_API Error not_finite(const std::string& message, int64_t nans, int64_t infinities, int64_t first, const std::string& value,
                            std::span<const int64_t> shape);

namespace cpu {

LAMINA_API void print(Stream&, std::span<const View* const> values, std::span<const View* const> nothing, const PrintText& text);
// values: the condition (bool, any shape: all elements must be true), then those of the text. Throws assertion.
LAMINA_API void check(Stream&, std::span<const View* const> values, std::span<const View* const> nothing, const CheckText& text);
// y = x; throws invalid_argument when an element is NaN or infinite. Both contiguous, of one floating-point dtype.
template <class T>
void check_numerics(Stream&, const View& x, const View& y, std::string message);

}  // namespace cpu

namespace cuda {
template <class T>
void check_numerics(Stream&, const View& x, const View& y, std::string message);
}  // namespace cuda
}  // namespace lamina::kernels
