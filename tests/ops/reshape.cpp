// reshape, transpose and broadcast_to, whose results are always or mostly views.
#include <gtest/gtest.h>

#include "graph/ops/ops.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

const OpCases reshape_cases{
    "reshape", [] {
      std::vector<OpCase> out;
      auto add = [&](Shape from, Shape to) {
        out.push_back(
            {.name = cat("[", text(from), "] to [", text(to), "]"), .in = {{f32(from)}}, .attrs = ir::make_attrs(ops::ShapeAttrs{to})});
        out.back().reference = [](const std::vector<Tensor>& in) { return std::vector<std::vector<double>>{in[0].values()}; };
        out.back().dtypes = kAnyDType;
        if (size_of(from).number() > 100) out.back().no_differences = "the smaller cases show it";
        out.back().ulps = 0;
      };
      add({2, 3}, {3, 2});
      add({2, 3, 4}, {6, 4});
      add({2, 3, 4}, {24});
      add({6}, {1, 2, 1, 3});
      add({1}, {});
      add({}, {1, 1});
      add({0, 3}, {5, 0, 2});
      add({20, 28, 28}, {20, 784});
      return out;
    }};

const OpCases transpose_cases{"transpose", [] {
                                std::vector<OpCase> out;
                                auto add = [&](Shape from, std::vector<int64_t> axes) {
                                  out.push_back({.name = cat("[", text(from), "] ", ir::attr_text(axes)),
                                                 .in = {{f32(from)}},
                                                 .attrs = ir::make_attrs(ops::TransposeAttrs{axes})});
                                  out.back().reference = [axes](const std::vector<Tensor>& in) {
                                    const Shape& shape = in[0].type.shape;
                                    Shape to;
                                    for (int64_t a : axes) to.push_back(shape[size_t(a)]);
                                    return made(to, [&](const Index& index) {
                                      Index from_index(index.size());
                                      for (size_t i = 0; i < axes.size(); ++i) from_index[size_t(axes[i])] = index[i];
                                      return in[0].at(place(shape, from_index));
                                    });
                                  };
                                  out.back().dtypes = kAnyDType;
                                  if (size_of(from).number() > 100) out.back().no_differences = "the smaller cases show it";
                                  out.back().ulps = 0;
                                };
                                add({2, 3}, {1, 0});
                                add({2, 3}, {0, 1});
                                add({2, 3, 4}, {2, 0, 1});
                                add({2, 3, 4}, {0, 2, 1});
                                add({}, {});
                                add({5}, {0});
                                add({3, 0}, {1, 0});
                                add({1, 4, 1}, {2, 1, 0});
                                add({40, 50}, {1, 0});
                                return out;
                              }};

const OpCases broadcast_to_cases{
    "broadcast_to", [] {
      std::vector<OpCase> out;
      auto add = [&](Shape from, Shape to) {
        out.push_back(
            {.name = cat("[", text(from), "] to [", text(to), "]"), .in = {{f32(from)}}, .attrs = ir::make_attrs(ops::ShapeAttrs{to})});
        out.back().reference = [to](const std::vector<Tensor>& in) {
          const Shape& shape = in[0].type.shape;
          return made(to, [&](const Index& index) {
            Index from_index(index.end() - int64_t(shape.size()), index.end());
            for (size_t a = 0; a < shape.size(); ++a)
              if (shape[a] == Dim(1)) from_index[a] = 0;
            return in[0].at(place(shape, from_index));
          });
        };
        out.back().dtypes = kAnyDType;
        if (size_of(from).number() > 100) out.back().no_differences = "the smaller cases show it";
        out.back().ulps = 0;
      };
      add({}, {2, 3});
      add({3}, {2, 3});
      add({2, 1}, {2, 3});
      add({1, 3}, {4, 2, 3});
      add({2, 3}, {2, 3});
      add({1}, {0});
      add({0, 1}, {2, 0, 3});
      add({1, 1}, {1, 1});
      return out;
    }};

}  // namespace
}  // namespace lamina::tests
