// Red zones: memory around buffers that no kernel may touch.
#pragma once

namespace lamina::kernels::cuda {

bool in_red_zone(const void* address);
bool has_red_zone(const void* begin, const void* end);  // whether a red zone overlaps it

}  // namespace lamina::kernels::cuda
