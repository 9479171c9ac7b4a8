// Makers of random nodes that sort, search, index and scatter.
#pragma once
#include "tests/graph/graph_builder.h"

namespace lamina::tests {

class OrderMakers : protected GraphBuilder {
 protected:
  using GraphBuilder::GraphBuilder;

  // Rejects values so close to each other that rounding could reorder them.
  void need_distinct(std::initializer_list<Value> values) {
    std::vector<double> all;
    for (Value v : values) {
      const std::vector<double> own = tensor(v).values();
      all.insert(all.end(), own.begin(), own.end());
    }
    std::sort(all.begin(), all.end());
    for (size_t i = 1; i < all.size(); ++i)
      if (all[i] - all[i - 1] < kMargin) reject();
  }
  Value any_integers() {
    return any([](const TensorType& t) { return is_integer(t.dtype) && t.rank() >= 1; });
  }

  void sort() {
    const Value x = any_float(1);
    need_distinct({x});
    give(ops::sort(g(), x, number(-int(type(x).rank()), int(type(x).rank()) - 1), chance(0.3)));
  }
  void argsort() {
    const Value x = chance(0.5) ? any_integers() : any_float(1);
    if (is_floating(type(x).dtype)) need_distinct({x});
    give(ops::argsort(g(), x, number(-int(type(x).rank()), int(type(x).rank()) - 1), chance(0.3)));
  }
  void top_k() {
    const Value x = any_float(1);
    need_distinct({x});
    const Value top = ops::top_k(g(), x, number(1, int(type(x).shape.back().number())));
    give(top);
    if (chance(0.5)) give({top.node, 1});
  }
  void unique() {
    const Value u = ops::unique(g(), any_integers());
    for (int r = 0; r < 4; ++r) give({u.node, r});
  }
  void searchsorted() {
    const Value x = any_integers();
    const Value row = ops::sort(g(), ops::reshape(g(), x, {size_of(type(x).shape)}));
    const auto same = values_where([&](const TensorType& t) { return t.dtype == type(x).dtype; });
    give(ops::searchsorted(g(), row, pick(same), chance(0.5)));
  }
  void nonzero() {
    const Value places = ops::nonzero(g(), any([](const TensorType& t) { return t.dtype == DType::boolean && t.rank() >= 1; }));
    give(places);
    give({places.node, 1});
  }
  void ravel_index() {
    const Value x = any_float(2);
    const Shape shape = type(x).shape;
    const Dim count = number(1, 4);
    const Value places = ops::ravel_index(
        g(), {indices(count, shape[0].number()), indices(chance(0.5) ? count : Dim(1), shape[1].number())}, {shape[0], shape[1]});
    Shape merged{shape[0] * shape[1]};
    merged.insert(merged.end(), shape.begin() + 2, shape.end());
    give(ops::gather(g(), ops::reshape(g(), x, merged), places, 0));
  }
  void scatter() {
    const Value x = any_float(1);
    const auto same = values_where([&](const TensorType& t) { return t == type(x); });
    const Value other = pick(same), at = indices(number(1, 4), type(x).shape[0].number());
    const auto mode = pick(
        std::vector{ops::ScatterMode::set, ops::ScatterMode::add, ops::ScatterMode::mul, ops::ScatterMode::min, ops::ScatterMode::max});
    if (mode == ops::ScatterMode::mul) need_nonzero(other, 0.05);  // the gradient divides by the factors
    if (mode == ops::ScatterMode::min || mode == ops::ScatterMode::max) need_distinct({x, other});
    give(ops::scatter(g(), ops::gather(g(), other, at, 0), at, x, mode));
  }
  void random_integers() { give(ops::random_integers(g(), next_state(), {pick(std::vector{DType::i32, DType::i64}), {rows_, n_}}, -3, 4)); }
  void truncated_normal() { give(ops::random_truncated_normal(g(), next_state(), {floating(), {rows_, n_}}, 0.25, 0.5, -1, 1.5)); }
};

}  // namespace lamina::tests
