// Memory around buffers that no kernel may touch.
#pragma once

namespace lamina::kernels::cuda {

bool in_red_zone(const void* address);
bool has_red_zone(const void* begin, const void* end);  // whether one touches it

}  // namespace lamina::kernels::cuda
