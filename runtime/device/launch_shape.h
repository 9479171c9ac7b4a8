// Launch configuration of a GPU kernel: threads, blocks, and which blocks must be co-resident.
#pragma once

namespace lamina {

struct Grid {
  unsigned x = 1, y = 1;
};
struct LaunchShape {
  Grid grid;
  unsigned threads = 256;
  unsigned shared_bytes = 0;
  bool cooperative = false;  // all blocks must be resident
};

}  // namespace lamina
