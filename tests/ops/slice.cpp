// slice and pad_slice.
#include <gtest/gtest.h>

#include <limits>

#include "graph/ops/ops.h"
#include "runtime/core/error.h"
#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

// The indices that begin, end and step select on an axis, enumerated one by one.
Index places(int64_t begin, int64_t end, int64_t step, int64_t length) {
  if (step > 0 && begin < 0) begin = std::max<int64_t>(0, begin + length);
  if (step > 0 && end < 0) end += length;
  if (step < 0) begin = std::min(begin, length - 1);
  Index out;
  for (int64_t i = begin; (step > 0 ? i < end && i < length : i > end && i >= 0); i += step) out.push_back(i);
  return out;
}

const OpCases slice_cases{
    "slice", [] {
      std::vector<OpCase> out;
      auto add = [&](Shape from, Index begin, Index end, Index step) {
        out.push_back({.name = cat("[", text(from), "] ", ir::attr_text(begin), ":", ir::attr_text(end), ":", ir::attr_text(step)),
                       .in = {{f32(from)}},
                       .attrs = ir::make_attrs(ops::SliceAttrs{begin, end, step, {}, {}})});
        out.back().reference = [=](const std::vector<Tensor>& in) {
          std::vector<Index> of_axis;
          Shape to;
          for (size_t a = 0; a < from.size(); ++a)
            of_axis.push_back(places(begin[a], end[a], step[a], from[a].number())), to.push_back(Dim(int64_t(of_axis[a].size())));
          return made(to, [&](Index index) {
            for (size_t a = 0; a < index.size(); ++a) index[a] = of_axis[a][size_t(index[a])];
            return in[0].at(place(from, index));
          });
        };
        out.back().dtypes = kAnyDType;
        out.back().ulps = 0;
      };
      add({7}, {1}, {5}, {1});
      add({7}, {1}, {7}, {2});
      add({7}, {0}, {7}, {3});
      add({7}, {6}, {-1}, {-1});
      add({7}, {5}, {0}, {-2});
      add({7}, {-3}, {kEnd}, {1});
      add({7}, {-30}, {-2}, {1});
      add({7}, {kEnd}, {-1}, {-3});
      add({7}, {2}, {100}, {1});
      add({7}, {5}, {2}, {1});  // empty
      add({7}, {9}, {20}, {1});
      add({4, 6}, {1, 0}, {3, 6}, {1, 2});
      add({4, 6}, {3, 5}, {-1, -1}, {-1, -1});
      add({2, 3, 4}, {0, 1, 0}, {2, 2, 4}, {1, 1, 3});
      add({0, 3}, {0, 0}, {0, 2}, {1, 1});
      add({0}, {kEnd}, {-1}, {-1});
      add({}, {}, {}, {});
      return out;
    }};

const OpCases pad_slice_cases{
    "pad_slice", [] {
      std::vector<OpCase> out;
      auto add = [&](Shape from, Shape to, Index begin, Index step) {
        out.push_back({.name = cat("[", text(from), "] in [", text(to), "] at ", ir::attr_text(begin), " by ", ir::attr_text(step)),
                       .in = {{f32(from)}},
                       .attrs = ir::make_attrs(ops::PadSliceAttrs{to, begin, step, {}})});
        out.back().reference = [=](const std::vector<Tensor>& in) {
          std::vector<double> y(size_t(size_of(to).number()));
          each_index(from, [&](Index index) {
            const double v = in[0].at(place(from, index));
            for (size_t a = 0; a < index.size(); ++a)
              index[a] =
                  (step[a] > 0 && begin[a] < 0 ? begin[a] + to[a].number() : std::min(begin[a], to[a].number())) + index[a] * step[a];
            y[size_t(place(to, index))] = v;
          });
          return std::vector<std::vector<double>>{y};
        };
        out.back().dtypes = kAnyDType;
        out.back().ulps = 0;
      };
      add({3}, {7}, {2}, {1});
      add({3}, {7}, {1}, {2});
      add({3}, {7}, {6}, {-2});
      add({2}, {7}, {-2}, {1});
      add({2, 3}, {4, 6}, {1, 5}, {2, -2});
      add({0}, {3}, {0}, {1});
      add({0, 2}, {0, 3}, {0, 1}, {1, 1});
      add({}, {}, {}, {});
      add({1}, {1}, {0}, {1});
      return out;
    }};

std::string sliced(const std::string& type, Index begin, Index end, Index step) {
  ir::Graph g;
  const ir::Value x = g.add_input(parse_type(type));
  return text(g.type(ops::slice(g, x, std::move(begin), std::move(end), std::move(step))));
}

TEST(Slice, OfUnknownLengthKeepsTheDimension) {
  EXPECT_EQ(sliced("f32[n]", {0}, {kEnd}, {1}), "f32[n]");
  EXPECT_EQ(sliced("f32[n]", {2}, {kEnd}, {1}), "f32[-2+n]");
  EXPECT_EQ(sliced("f32[n]", {1}, {-1}, {1}), "f32[-2+n]");
  EXPECT_EQ(sliced("f32[n]", {0}, {5}, {1}), "f32[5]");
  EXPECT_EQ(sliced("f32[n]", {-3}, {kEnd}, {1}), "f32[3]");
  EXPECT_EQ(sliced("f32[n]", {-3}, {-1}, {1}), "f32[2]");
  EXPECT_EQ(sliced("f32[n]", {kEnd}, {-1}, {-1}), "f32[n]");
  EXPECT_EQ(sliced("f32[n]", {0}, {6}, {2}), "f32[3]");
  EXPECT_EQ(sliced("f32[n,4]", {0, 1}, {kEnd, 3}, {1, 1}), "f32[n,2]");
  EXPECT_THROW(sliced("f32[n]", {0}, {kEnd}, {2}), Error);
}

TEST(Slice, RefusesWhatDoesNotFit) {
  EXPECT_THROW(sliced("f32[4,4]", {0}, {4}, {1}), Error);
  EXPECT_THROW(sliced("f32[4]", {0}, {4}, {std::numeric_limits<int64_t>::min()}), Error);
  EXPECT_THROW(sliced("f32[4]", {std::numeric_limits<int64_t>::min()}, {4}, {1}), Error);
  ir::Graph g;
  const ir::Value x = g.add_input(f32({4}));
  for (const ops::SliceAttrs& a : {ops::SliceAttrs{{1}, {}, {1}, {}, {4}}, ops::SliceAttrs{{0}, {}, {1}, {2}, {3}},
                                   ops::SliceAttrs{{0}, {}, {-1}, {}, {2}}, ops::SliceAttrs{{0}, {}, {1}, {1, 2}, {1}}})
    EXPECT_THROW(g.add(ops::def::slice, ir::make_attrs(a), {x}), Error) << ir::make_attrs(a)->text()[0].second;
  EXPECT_THROW(ops::pad_slice(g, x, {4}, {1}, {1}), Error);
  EXPECT_THROW(ops::pad_slice(g, x, {20}, {1}, {7}), Error);
  EXPECT_THROW(ops::pad_slice(g, x, {4, 4}, {0}, {1}), Error);
}

}  // namespace
}  // namespace lamina::tests
