// Factors and solutions of matrices, which are the last two axes of float32 or float64 values; the leading axes are equal. Part of ops.h.
#pragma once
#include "graph/ir/graph.h"

namespace lamina::ops {

struct TriangularAttrs {
  bool lower = true, transpose = false, unit = false;
  static constexpr auto fields = std::tuple{ir::field("lower", &TriangularAttrs::lower),
                                            ir::field("transpose", &TriangularAttrs::transpose), ir::field("unit", &TriangularAttrs::unit)};
};
struct QrAttrs {
  bool complete = false;
  static constexpr auto fields = std::tuple{ir::field("complete", &QrAttrs::complete)};
};
struct SvdAttrs {
  bool full = false;
  static constexpr auto fields = std::tuple{ir::field("full", &SvdAttrs::full)};
};

struct FftAttrs {
  bool inverse = false;
  static constexpr auto fields = std::tuple{ir::field("inverse", &FftAttrs::inverse)};
};

namespace def {
extern const ir::OpDef cholesky, eigh, qr, slogdet, solve, svd, triangular_solve;
}  // namespace def

// What each computes: kernels/linalg.h. With several results, result 0 is returned.
ir::Value cholesky(ir::Graph& g, ir::Value a);
ir::Value eigh(ir::Graph& g, ir::Value a);
ir::Value qr(ir::Graph& g, ir::Value a, bool complete = false);
ir::Value slogdet(ir::Graph& g, ir::Value a);
ir::Value solve(ir::Graph& g, ir::Value a, ir::Value b);
ir::Value svd(ir::Graph& g, ir::Value a, bool full = false);
ir::Value triangular_solve(ir::Graph& g, ir::Value a, ir::Value b, TriangularAttrs attrs);

}  // namespace lamina::ops
