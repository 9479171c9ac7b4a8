// gather and scatter_add.
#include <gtest/gtest.h>

#include "graph/ops/ops.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

// Calls f(index in the gathered tensor, index in the whole one) for every gathered element.
template <class F>
void each_pick(const Shape& whole, const Tensor& indices, const Shape& picked, size_t axis, size_t batch_axes, F f) {
  const Shape& own = indices.type.shape;
  each_index(picked, [&](const Index& at) {
    Index of_indices(at.begin(), at.begin() + int64_t(batch_axes));
    for (size_t i = batch_axes; i < own.size(); ++i) of_indices.push_back(at[axis + i - batch_axes]);
    int64_t index = int64_t(indices.at(place(own, of_indices)));
    if (index < 0) index += whole[axis].number();
    Index of_whole(at.begin(), at.begin() + int64_t(axis));
    of_whole.push_back(index);
    of_whole.insert(of_whole.end(), at.begin() + int64_t(axis + own.size() - batch_axes), at.end());
    f(place(picked, at), place(whole, of_whole));
  });
}

struct Layout {
  Shape whole, indices;
  int axis, batch_axes;
  std::vector<double> values;  // of the indices
  DType index_dtype = DType::i64;
  size_t front() const { return size_t(axis < 0 ? axis + int(whole.size()) : axis); }
  Shape picked() const {
    Shape out(whole.begin(), whole.begin() + int64_t(front()));
    out.insert(out.end(), indices.begin() + batch_axes, indices.end());
    out.insert(out.end(), whole.begin() + int64_t(front()) + 1, whole.end());
    return out;
  }
  std::string name() const {
    return cat("[", text(whole), "] at ", index_dtype, "[", text(indices), "] axis ", axis, " batch axes ", batch_axes);
  }
};

const std::vector<Layout> kLayouts{
    {{5}, {3}, 0, 0, {4, 0, -1}},
    {{5}, {}, 0, 0, {2}},
    {{5, 2}, {3}, 0, 0, {4, 4, -5}, DType::i32},
    {{3, 5}, {2, 2}, 1, 0, {0, 4, -2, 4}},
    {{3, 5}, {2, 2}, -1, 0, {0, 1, 1, 1}},
    {{2, 4, 3}, {5}, 1, 0, {3, 0, 0, -4, 1}, DType::i8},
    {{2, 5, 3}, {2, 4}, 1, 1, {0, 4, 2, 2, 1, -1, 0, 3}},
    {{2, 3, 4}, {2, 2}, 2, 1, {3, 0, 1, 1}, DType::u8},
    {{2, 3, 4}, {2, 3}, 2, 2, {3, 0, 1, 1, -4, -1}, DType::i16},
    {{0, 3}, {0}, 0, 0, {}},
    {{5, 0}, {2}, 0, 0, {1, 2}},
    {{4, 3}, {0, 2}, 0, 0, {}},
};

const OpCases gather_cases{"gather", [] {
                             std::vector<OpCase> out;
                             for (const Layout& l : kLayouts) {
                               out.push_back({.name = l.name(),
                                              .in = {{f32(l.whole)}, {{l.index_dtype, l.indices}, 0, 0, l.values}},
                                              .attrs = ir::make_attrs(ops::GatherAttrs{l.axis, l.batch_axes})});
                               out.back().reference = [l](const std::vector<Tensor>& in) {
                                 std::vector<double> y(size_t(size_of(l.picked()).number()));
                                 each_pick(l.whole, in[1], l.picked(), l.front(), size_t(l.batch_axes),
                                           [&](int64_t picked, int64_t whole) { y[size_t(picked)] = in[0].at(whole); });
                                 return std::vector<std::vector<double>>{y};
                               };
                               out.back().dtypes = kAnyDType;
                               out.back().ulps = 0;
                             }
                             return out;
                           }};

const OpCases scatter_add_cases{"scatter_add", [] {
                                  std::vector<OpCase> out;
                                  for (const Layout& l : kLayouts) {
                                    out.push_back({.name = l.name(),
                                                   .in = {{f32(l.picked())}, {{l.index_dtype, l.indices}, 0, 0, l.values}},
                                                   .attrs = ir::make_attrs(ops::ScatterAttrs{l.whole, l.axis, l.batch_axes})});
                                    out.back().reference = [l](const std::vector<Tensor>& in) {
                                      std::vector<double> y(size_t(size_of(l.whole).number()));
                                      each_pick(l.whole, in[1], l.picked(), l.front(), size_t(l.batch_axes),
                                                [&](int64_t picked, int64_t whole) { y[size_t(whole)] += in[0].at(picked); });
                                      return std::vector<std::vector<double>>{y};
                                    };
                                    out.back().dtypes = kNumeric;
                                    out.back().ulps = 3, out.back().of_largest = 1;
                                  }
                                  return out;
                                }};

}  // namespace
}  // namespace lamina::tests
