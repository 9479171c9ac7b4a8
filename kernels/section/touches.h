// The memory model of the block plan validator: which steps last touched which bytes.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

namespace lamina::section {

struct Place {  // index in a block's list
  int block = 0, at = 0;
  bool early = false;  // of an access: before the waits of an early chain's first step
};

// The last access to some bytes.
struct Touch {
  Place place;
  int step = 0, operand = 0;
  bool shared = false;
  int element = -1;            // of the path
  int64_t begin = 0, end = 0;  // in the first iteration
};
struct Cell {
  int64_t end = 0;
  std::vector<Touch> writers, readers;
};
using Memory = std::map<int64_t, Cell>;  // keyed by begin

}  // namespace lamina::section
