#include "runtime/core/dtype.h"

#include "runtime/core/error.h"

namespace lamina {
namespace {
constexpr const char* kNames[] = {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};
constexpr const char* kNumpyNames[] = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"};
}  // namespace

const char* name(DType d) { return kNames[size_t(d)]; }
const char* numpy_name(DType d) { return kNumpyNames[size_t(d)]; }

DType parse_dtype(std::string_view text) {
  for (DType d : kDTypes)
    if (text == name(d) || text == numpy_name(d)) return d;
  throw unknown_name("dtype", std::string(text), {std::begin(kNumpyNames), std::end(kNumpyNames)});
}

}  // namespace lamina
