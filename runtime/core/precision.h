// Precision of float32 matrix products. A name says how operands are rounded inside the product. Sums are float32 in all of them, and so
// are operands in memory: weights, gradients and optimizer state are never rounded.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/core/export.h"

namespace lamina {

enum class Precision : uint8_t {
  float32,  // operands are not rounded; one rounding per multiply-add
  tf32,     // each operand rounded to 11 significant bits, ties away from zero
  tf32x3,   // "3xtf32": each operand is split into two tf32 numbers; the product of the two small parts is dropped
  bf16,     // each operand rounded to 8 significant bits, ties to even
};
inline constexpr int kPrecisions = 4;

LAMINA_API const char* name(Precision precision);
// "float32", "tf32", "3xtf32" or "bf16"; otherwise throws not_found with the choices.
LAMINA_API Precision parse_precision(const std::string& name);

namespace config {
// Sets the process's precision for products made from now on, eager or traced. Where nothing faster exists (on the CPU, and for products
// that no library computes), float32 is used.
LAMINA_API void set_matmul_precision(Precision precision);
LAMINA_API Precision matmul_precision();
}  // namespace config

}  // namespace lamina
