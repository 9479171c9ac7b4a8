#include "runtime/core/precision.h"

#include <atomic>

#include "runtime/core/error.h"

namespace lamina {
namespace {
std::atomic<Precision> of_products{Precision::float32};
}  // namespace

const char* name(Precision precision) {
  switch (precision) {
    case Precision::float32: return "float32";
    case Precision::tf32: return "tf32";
    case Precision::tf32x3: return "3xtf32";
    case Precision::bf16: return "bf16";
  }
  return "?";
}

Precision parse_precision(const std::string& text) {
  std::vector<std::string> names;
  for (int i = 0; i < kPrecisions; ++i) {
    names.emplace_back(name(Precision(i)));
    if (text == names.back()) return Precision(i);
  }
  throw unknown_name("precision of matrix products", text, std::move(names));
}

namespace config {
void set_matmul_precision(Precision precision) { of_products = precision; }
Precision matmul_precision() { return of_products.load(std::memory_order_relaxed); }
}  // namespace config

}  // namespace lamina
