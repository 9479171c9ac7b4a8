#include "kernels/section/block_section.h"

#include <atomic>

#include "runtime/device/backend.h"

namespace lamina::section {

BlockSection::~BlockSection() {
  for (OnDevice& d : copies) {
    try {
      d.stream.backend->free(d.stream, d.program, plan.bytes.size());
      d.stream.backend->free(d.stream, d.state, d.state_bytes);
      if (d.windows) d.stream.backend->free(d.stream, d.windows, d.windows_bytes);
      if (d.rings) d.infeed_stream.backend->free(d.infeed_stream, d.rings, size_t(plan.infeed.bytes));
      if (d.infeed_stream.backend) d.infeed_stream.backend->destroy_stream(d.infeed_stream);
    } catch (...) {  // the backend has been destroyed before us
    }
  }
}

namespace {
std::atomic<const BlockRunner*> the_runner{nullptr};
}
void set_block_runner(const BlockRunner* runner) { the_runner = runner; }
const BlockRunner* block_runner() { return the_runner; }

}  // namespace lamina::section
