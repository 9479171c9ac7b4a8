#include "runtime/core/dtype.h"

#include <iterator>

#include "runtime/core/error.h"

namespace lamina {
namespace {
constexpr const char* kNames[] = {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "u16", "u32", "u64", "c64", "c128"};
constexpr const char* kNumpyNames[] = {"bool",    "uint8",   "int8",   "int16",  "int32",  "int64",     "float16",   "bfloat16",
                                       "float32", "float64", "uint16", "uint32", "uint64", "complex64", "complex128"};
}  // namespace

const char* name(DType d) { return size_t(d) < std::size(kNames) ? kNames[size_t(d)] : "no dtype"; }
const char* numpy_name(DType d) { return size_t(d) < std::size(kNumpyNames) ? kNumpyNames[size_t(d)] : "no dtype"; }

DType parse_dtype(std::string_view text) {
  for (DType d : kDTypes)
    if (text == name(d) || text == numpy_name(d)) return d;
  throw unknown_name("dtype", std::string(text), {std::begin(kNumpyNames), std::end(kNumpyNames)});
}

void throw_no_real_numbers(DType complex) {
  throw Error(ErrorKind::type, {.what = cat("elements of ", numpy_name(complex), " are not real numbers"),
                                .where = "",
                                .why = "this function is defined for real numbers",
                                .fix = "pass lm.real(x), lm.imag(x) or lm.abs(x)"});
}

}  // namespace lamina
