// Sequences of elements: what a Dataset reads. An element is a list of tensors on the host.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "graph/frontend/tensor.h"
#include "graph/functions/random.h"
#include "runtime/data/row_order.h"

namespace lamina::data {

using Element = std::vector<Tensor>;  // one tensor per component
using Elements = Sequence<Element>;
using ElementsRef = SequenceRef<Element>;
using ElementPass = PassOf<Element>;

// Makes an element of another one. `item` counts the elements of a pass from 0. May run in several threads at once.
using MapFunction = std::function<Element(const Element& element, int64_t item)>;
using Predicate = std::function<bool(const Element& element, int64_t item)>;
// Gives the next element; false at the end.
using Generator = std::function<bool(Element& out)>;

// Rows of tensors of equal first dimension, which are on the host.
class Rowed final : public Elements {
 public:
  using Sources = std::shared_ptr<const std::vector<Tensor>>;
  Rowed(Sources sources, RowOrderRef order) : sources_(std::move(sources)), order_(std::move(order)) {}
  std::unique_ptr<ElementPass> start() const override;
  std::optional<int64_t> size() const override { return order_->size(); }
  bool endless() const override { return order_->endless(); }
  bool reordered() const override { return order_->reordered(); }
  // The same rows in another order.
  ElementsRef with(RowOrderRef order) const { return std::make_shared<Rowed>(sources_, std::move(order)); }
  const RowOrderRef& order() const { return order_; }

 private:
  Sources sources_;
  RowOrderRef order_;
};

// `seed`: what a step's function draws follows from it, the number of the pass and the item, so that it is the same in any thread and when
// an element is made again.

// 0, ..., n - 1 as i64 scalars.
ElementsRef counted_elements(int64_t n);
// Each pass asks `start` for a generator. size: the number of elements, where it is known.
ElementsRef generated_elements(std::function<Generator()> start, std::optional<int64_t> size, uint64_t seed);
// Joins n elements along a new first axis. They have equal shapes; or, with `padding`, shorter ones are filled up with that number to the
// longest of their batch.
ElementsRef batched_elements(ElementsRef from, int64_t n, bool drop_remainder, std::optional<double> padding);
ElementsRef filtered_elements(ElementsRef from, Predicate keep, uint64_t seed);
// The elements of the sequence that `make` gives for each element; `cycle` of them are read in turns, `block` elements at a time. One that
// ends gives its turn to the next; at its place's next turn another one begins.
ElementsRef interleaved_elements(ElementsRef from, std::function<ElementsRef(const Element&, int64_t item)> make, int64_t cycle,
                                 int64_t block, uint64_t seed);
// One element of each sequence side by side, up to the end of the shortest.
ElementsRef zipped_elements(std::vector<ElementsRef> parts);
// Keeps the elements of the first whole pass in memory; later passes read them there.
ElementsRef cached_elements(ElementsRef from);

// The seeds of a step's passes.
class PassSeeds {
 public:
  explicit PassSeeds(uint64_t seed) : seed_(seed) {}
  uint64_t next() const { return random::mixed(seed_, passes_++); }

 private:
  uint64_t seed_;
  mutable std::atomic<uint64_t> passes_{0};
};

// f(), whose Errors name the item: "item 3 of map".
template <class F>
auto for_item(const char* step, int64_t item, F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    throw e.at(cat("item ", item, " of ", step));
  }
}
// The same for a function of the user's, which draws by the seed of the pass and the item.
template <class F>
auto for_item(const char* step, int64_t item, uint64_t pass_seed, F&& f) {
  const random::SeedScope seeds(random::mixed(pass_seed, uint64_t(item)));
  return for_item(step, item, std::forward<F>(f));
}

}  // namespace lamina::data
