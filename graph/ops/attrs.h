// Attribute structs that passes, gradients and the frontend also need. The op's own file explains them.
#pragma once
#include "graph/ir/attrs.h"
#include "kernels/section/table.h"
#include "runtime/core/precision.h"

namespace lamina::section {
LAMINA_API std::string attr_text(Activation v);
LAMINA_API void parse_attr(std::string_view text, Activation& v);
}  // namespace lamina::section
namespace lamina {
LAMINA_API std::string attr_text(Precision v);
LAMINA_API void parse_attr(std::string_view text, Precision& v);
}  // namespace lamina

namespace lamina::ops {

using ir::field;

struct ActivationAttrs {
  section::Activation activation = section::Activation::none;
  float alpha = 0;                           // of elu; for leaky_relu the slope
  Precision precision = Precision::float32;  // of the matrix product before the activation
  static constexpr auto fields = std::tuple{field("activation", &ActivationAttrs::activation), field("alpha", &ActivationAttrs::alpha),
                                            field("precision", &ActivationAttrs::precision)};
};
struct ArgmaxAttrs {
  int axis = -1;
  bool keepdims = false;
  static constexpr auto fields = std::tuple{field("axis", &ArgmaxAttrs::axis), field("keepdims", &ArgmaxAttrs::keepdims)};
};
struct AxisAttrs {
  int axis = -1;
  static constexpr auto fields = std::tuple{field("axis", &AxisAttrs::axis)};
};
struct CumsumAttrs {
  int axis = -1;
  bool reverse = false, exclusive = false;
  static constexpr auto fields =
      std::tuple{field("axis", &CumsumAttrs::axis), field("reverse", &CumsumAttrs::reverse), field("exclusive", &CumsumAttrs::exclusive)};
};
struct DenseUpdateAttrs {
  int64_t weight_extras = 0;
  Precision precision = Precision::float32;  // of dw; db is a plain sum
  int64_t leaves = 1;                        // of the batch (kernels/leaves.h): the regions take the gradient of each
  static constexpr auto fields = std::tuple{field("weight_extras", &DenseUpdateAttrs::weight_extras),
                                            field("precision", &DenseUpdateAttrs::precision), field("leaves", &DenseUpdateAttrs::leaves)};
};
struct DropoutAttrs {
  float rate = 0.5f;
  int64_t first = 0;  // number of x's first element among those of the draw
  static constexpr auto fields = std::tuple{field("rate", &DropoutAttrs::rate), ir::field("first", &DropoutAttrs::first)};
};
struct DTypeAttrs {
  DType dtype = DType::f32;
  static constexpr auto fields = std::tuple{field("dtype", &DTypeAttrs::dtype)};
};
struct GatherAttrs {
  int axis = 0;
  int batch_axes = 0;  // leading axes that x and indices share
  static constexpr auto fields = std::tuple{field("axis", &GatherAttrs::axis), field("batch_axes", &GatherAttrs::batch_axes)};
};
struct IotaAttrs {
  TensorType type;
  int axis = 0;
  static constexpr auto fields = std::tuple{field("type", &IotaAttrs::type), field("axis", &IotaAttrs::axis)};
};
struct MatmulAttrs {
  bool transpose_a = false, transpose_b = false;
  Precision precision = Precision::float32;  // for f32 operands
  static constexpr auto fields = std::tuple{field("transpose_a", &MatmulAttrs::transpose_a),
                                            field("transpose_b", &MatmulAttrs::transpose_b), field("precision", &MatmulAttrs::precision)};
};
struct PrecisionAttrs {
  Precision precision = Precision::float32;  // for f32 operands
  static constexpr auto fields = std::tuple{field("precision", &PrecisionAttrs::precision)};
};
struct OneHotAttrs {
  int64_t classes = 0;
  DType dtype = DType::f32;
  static constexpr auto fields = std::tuple{field("classes", &OneHotAttrs::classes), field("dtype", &OneHotAttrs::dtype)};
};
struct PadSliceAttrs {
  Shape shape;
  std::vector<int64_t> begin, step;
  Shape offset;  // added to begin, for offsets known only as symbolic dimensions; empty: zeros
  static constexpr auto fields = std::tuple{field("shape", &PadSliceAttrs::shape), field("begin", &PadSliceAttrs::begin),
                                            field("step", &PadSliceAttrs::step), field("offset", &PadSliceAttrs::offset)};
};
struct RandomAttrs {
  TensorType type;
  double a = 0, b = 1;  // low and high, or mean and standard deviation
  static constexpr auto fields = std::tuple{field("type", &RandomAttrs::type), field("a", &RandomAttrs::a), field("b", &RandomAttrs::b)};
};
struct ReduceAttrs {
  AxesOrAll axes;
  bool keepdims = false;
  static constexpr auto fields = std::tuple{field("axes", &ReduceAttrs::axes), field("keepdims", &ReduceAttrs::keepdims)};
};
struct ScatterAttrs {
  Shape shape;
  int axis = 0;
  int batch_axes = 0;  // leading axes that updates, indices and shape share
  static constexpr auto fields =
      std::tuple{field("shape", &ScatterAttrs::shape), field("axis", &ScatterAttrs::axis), field("batch_axes", &ScatterAttrs::batch_axes)};
};
struct ShapeAttrs {
  Shape shape;
  static constexpr auto fields = std::tuple{field("shape", &ShapeAttrs::shape)};
};
struct SliceAttrs {
  std::vector<int64_t> begin, end, step;
  Shape offset, size;  // offset as in PadSliceAttrs; size: the result's shape, which replaces end
  static constexpr auto fields =
      std::tuple{field("begin", &SliceAttrs::begin), field("end", &SliceAttrs::end), field("step", &SliceAttrs::step),
                 field("offset", &SliceAttrs::offset), field("size", &SliceAttrs::size)};
};
struct TransposeAttrs {
  std::vector<int64_t> axes;
  static constexpr auto fields = std::tuple{field("axes", &TransposeAttrs::axes)};
};

}  // namespace lamina::ops
