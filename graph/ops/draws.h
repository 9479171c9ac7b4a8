// Draws besides uniform and normal ones. Part of ops.h.
#pragma once
#include "graph/ir/graph.h"

namespace lamina::ops {

struct RandomIntegersAttrs {
  TensorType type;
  int64_t low = 0, high = 1;
  static constexpr auto fields = std::tuple{ir::field("type", &RandomIntegersAttrs::type), ir::field("low", &RandomIntegersAttrs::low),
                                            ir::field("high", &RandomIntegersAttrs::high)};
};
struct TruncatedNormalAttrs {
  TensorType type;
  double mean = 0, deviation = 1;
  double low = -2, high = 2;  // of the result
  static constexpr auto fields = std::tuple{ir::field("type", &TruncatedNormalAttrs::type), ir::field("mean", &TruncatedNormalAttrs::mean),
                                            ir::field("deviation", &TruncatedNormalAttrs::deviation),
                                            ir::field("low", &TruncatedNormalAttrs::low), ir::field("high", &TruncatedNormalAttrs::high)};
};

namespace def {
extern const ir::OpDef random_integers, random_truncated_normal;
}  // namespace def

// Integers in [low, high), all equally likely; state as of the other draws.
ir::Value random_integers(ir::Graph& g, ir::Value state, const TensorType& type, int64_t low, int64_t high);
// Normal numbers conditioned to lie in [low, high].
ir::Value random_truncated_normal(ir::Graph& g, ir::Value state, const TensorType& type, double mean, double deviation, double low,
                                  double high);

}  // namespace lamina::ops
