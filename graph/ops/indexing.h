// Elements by position: flattening several indices, writing at indices, finding where a condition holds. Part of ops.h.
#pragma once
#include <vector>

#include "graph/ir/graph.h"
#include "kernels/scatter.h"

namespace lamina::kernels {
LAMINA_API std::string attr_text(ScatterMode v);
LAMINA_API void parse_attr(std::string_view text, ScatterMode& v);
}  // namespace lamina::kernels

namespace lamina::ops {

using kernels::ScatterMode;

struct RavelIndexAttrs {
  Shape lengths;  // of the axes that the inputs index
  static constexpr auto fields = std::tuple{ir::field("lengths", &RavelIndexAttrs::lengths)};
};
struct ScatterIntoAttrs {
  ScatterMode mode = ScatterMode::set;
  int batch_axes = 0;  // leading axes that updates, indices and x share; indices refer to the axis after them
  static constexpr auto fields =
      std::tuple{ir::field("mode", &ScatterIntoAttrs::mode), ir::field("batch_axes", &ScatterIntoAttrs::batch_axes)};
};

namespace def {
extern const ir::OpDef nonzero, ravel_index, scatter;
}  // namespace def

// Flattens indices into axes of these lengths, i64: (i, j) -> i * lengths[1] + j. The inputs broadcast; negative indices count from the
// end; an index out of range is an error of kind index at run time.
ir::Value ravel_index(ir::Graph& g, std::vector<ir::Value> places, Shape lengths);
// x with updates written, added, ... at integer indices along axis `batch_axes`, in order: for set, the last update counts.
//   x [P..., L, B...]   indices [P..., I...]   updates [P..., I..., B...]   with batch_axes = the number of P
ir::Value scatter(ir::Graph& g, ir::Value updates, ir::Value indices, ir::Value x, ScatterMode mode, int batch_axes = 0);
// condition (bool) [..., n] -> result 0: i64 [..., n], the indices along the last axis where it holds, in order, padded with n; result 1:
// i64 [...], their number.
ir::Value nonzero(ir::Graph& g, ir::Value condition);

}  // namespace lamina::ops
