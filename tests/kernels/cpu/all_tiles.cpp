#include "tests/kernels/cpu/all_tiles.h"

#include "runtime/core/config.h"

namespace lamina::kernels::cpu {

namespace wide_tiles {
extern const Tiles kTiles;
}

std::vector<std::string> runnable_isas() {
  std::vector<std::string> isas{"scalar"};
  if (config::best_cpu_isa() != "scalar") isas.push_back("avx2");
  if (config::best_cpu_isa() == "avx512") isas.push_back("avx512");
  return isas;
}

std::vector<NamedTiles> all_tiles() {
  std::vector<NamedTiles> all{{"wide", wide_tiles::kTiles}};
  const std::string before = config::cpu_isa();
  for (const std::string& isa : runnable_isas()) {
    config::set_cpu_isa(isa);
    all.push_back({isa, tiles()});
  }
  config::set_cpu_isa(before);
  return all;
}

}  // namespace lamina::kernels::cpu
