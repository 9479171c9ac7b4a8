// How many threads a kernel of a GPU is started with, and which of them must run at once.
#pragma once

namespace lamina {

struct Grid {
  unsigned x = 1, y = 1;
};
struct LaunchShape {
  Grid grid;
  unsigned threads = 256;
  unsigned shared_bytes = 0;
  bool cooperative = false;  // all blocks are resident
  bool cluster = false;      // all blocks are one cluster
};

}  // namespace lamina
