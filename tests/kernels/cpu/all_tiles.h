// All Tiles that can run here: those of the machine's instruction sets, and the widest as portable vectors, so that the paths for 32
// registers also run on machines with 16.
#pragma once
#include <string>
#include <vector>

#include "kernels/cpu/tiles.h"

namespace lamina::kernels::cpu {

struct NamedTiles {
  std::string name;
  const Tiles& tiles;
};
std::vector<NamedTiles> all_tiles();
std::vector<std::string> runnable_isas();  // for config::set_cpu_isa

}  // namespace lamina::kernels::cpu
