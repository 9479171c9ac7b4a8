#include "kernels/cpu/tiles.h"

#include "runtime/core/config.h"

namespace lamina::kernels::cpu {

namespace scalar {
extern const Tiles kTiles;
}
#ifdef LAMINA_HAS_AVX
namespace avx2 {
extern const Tiles kTiles;
}
namespace avx512 {
extern const Tiles kTiles;
}
#endif

const Tiles& tiles() {
#ifdef LAMINA_HAS_AVX
  const std::string& isa = config::cpu_isa();
  if (isa == "avx512") return avx512::kTiles;
  if (isa == "avx2") return avx2::kTiles;
#endif
  return scalar::kTiles;
}

}  // namespace lamina::kernels::cpu
