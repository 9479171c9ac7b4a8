// one_hot and iota: tensors computed from positions.
#include <gtest/gtest.h>

#include "graph/ops/ops.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

const OpCases one_hot_cases{"one_hot", [] {
                              std::vector<OpCase> out;
                              auto add = [&](Shape labels, DType dtype, int64_t classes, DType result, std::vector<double> values) {
                                out.push_back({.name = cat(dtype, "[", text(labels), "] of ", classes, " as ", result),
                                               .in = {{{dtype, labels}, 0, 0, values}},
                                               .attrs = ir::make_attrs(ops::OneHotAttrs{classes, result})});
                                out.back().reference = [classes](const std::vector<Tensor>& in) {
                                  std::vector<double> y;
                                  for (double label : in[0].values())
                                    for (int64_t c = 0; c < classes; ++c) y.push_back(label == double(c));
                                  return std::vector<std::vector<double>>{y};
                                };
                              };
                              for (DType result : kAnyDType) add({4}, DType::i64, 3, result, {2, 0, 1, 2});
                              for (DType dtype : kIntegers) add({2, 2}, dtype, 3, DType::f32, {2, 0, 1, 100});
                              add({3}, DType::i32, 3, DType::f32, {-1, 3, 1});  // out of range: zeros
                              add({}, DType::i32, 3, DType::f32, {1});
                              add({0}, DType::i32, 3, DType::f32, {});
                              add({2}, DType::i32, 0, DType::f32, {0, 1});
                              return out;
                            }};

const OpCases iota_cases{"iota", [] {
                           std::vector<OpCase> out;
                           for (DType dtype : kNumeric)
                             for (auto [shape, axis] : std::vector<std::pair<Shape, int>>{
                                      {{5}, 0}, {{2, 3}, 0}, {{2, 3}, -1}, {{2, 3, 4}, 1}, {{0, 2}, 0}, {{2, 0}, 0}, {{1}, 0}}) {
                               out.push_back({.name = cat(dtype, "[", text(shape), "] axis ", axis),
                                              .in = {},
                                              .attrs = ir::make_attrs(ops::IotaAttrs{{dtype, shape}, axis})});
                               const size_t a = size_t(axis < 0 ? axis + int(shape.size()) : axis);
                               out.back().reference = [shape = shape, a](const std::vector<Tensor>&) {
                                 return made(shape, [a](const Index& index) { return double(index[a]); });
                               };
                             }
                           return out;
                         }};

}  // namespace
}  // namespace lamina::tests
