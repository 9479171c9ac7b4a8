// How exactly matrix products of float32 are computed, by name. The names say what happens to the operands; sums are float32 in all of
// them, and so are the operands in memory, so weights, gradients and what an optimizer keeps are never rounded.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/core/export.h"

namespace lamina {

enum class Precision : uint8_t {
  float32,  // operands as they are, one rounding per multiply-add
  tf32,     // each operand rounded to 11 significant bits, half way cases away from zero
  tf32x3,   // "3xtf32": each operand is the sum of two tf32 numbers; the product of the two small parts is left out
  bf16,     // each operand rounded to 8 significant bits, half way cases to even
};
inline constexpr int kPrecisions = 4;

LAMINA_API const char* name(Precision precision);
// "float32", "tf32", "3xtf32" or "bf16"; throws not_found, with the choices, for anything else.
LAMINA_API Precision parse_precision(const std::string& name);

namespace config {
// What products get that are made from now on, eager ones and those of functions traced from now on, in the whole process. Where nothing
// faster is to be had (on the CPU, and where a product is no section's and no library's) they are computed in float32 all the same.
LAMINA_API void set_matmul_precision(Precision precision);
LAMINA_API Precision matmul_precision();
}  // namespace config

}  // namespace lamina
