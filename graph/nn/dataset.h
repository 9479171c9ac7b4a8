// Dataset: tensors read slice by slice or batch by batch. A value type: each method returns a new Dataset. Every pass starts anew, so one
// Dataset serves all epochs.
//
//   auto feed = lm::data::Dataset::from_tensor_slices({images, labels}).shuffle(4000, seed).batch(20);
//   for (const auto& batch : feed) step(batch[0], batch[1]);
#pragma once
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "graph/frontend/tensor.h"
#include "runtime/data/row_order.h"

namespace lamina::data {

class LAMINA_API Dataset {
 public:
  using Element = std::vector<Tensor>;  // one tensor per component

  // Element i is component[i] of each tensor. Throws invalid_argument unless there is a tensor, each has at least one dimension, and all
  // first dimensions agree. The tensors are kept on the host, not copied per pass.
  static Dataset from_tensor_slices(std::vector<Tensor> components);

  // Stacks n consecutive elements along a new first axis. The last batch is smaller, or dropped. Throws invalid_argument unless n is
  // positive.
  Dataset batch(int64_t n, bool drop_remainder = false) const;
  // Draws each element from a window of the next `window` ones; every pass has another order. All orders follow from the seed, by default
  // taken from random::set_seed's.
  Dataset shuffle(int64_t window, std::optional<uint64_t> seed = std::nullopt) const;
  // Joins several passes into one; without a number it never ends.
  Dataset repeat(std::optional<int64_t> times = std::nullopt) const;

  std::optional<int64_t> size() const { return order_->size(); }  // elements per pass; empty when endless
  size_t components() const { return sources_->size(); }

  // One pass. It stays valid after its Dataset is gone.
  class LAMINA_API Pass {
   public:
    explicit Pass(const Dataset& dataset);
    // The next element, on the current device; false at the end.
    bool next(Element& out);

   private:
    std::shared_ptr<const std::vector<Tensor>> sources_;
    std::unique_ptr<RowPass> rows_;
    Rows now_;
  };
  Pass pass() const { return Pass(*this); }

  class Iterator {
   public:
    using value_type = Element;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(const Dataset& dataset) : pass_(std::make_shared<Pass>(dataset)) { ++*this; }
    const Element& operator*() const { return element_; }
    Iterator& operator++() {
      more_ = pass_->next(element_);
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !more_; }

   private:
    std::shared_ptr<Pass> pass_;
    Element element_;
    bool more_ = false;
  };
  Iterator begin() const { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  Dataset(std::shared_ptr<const std::vector<Tensor>> sources, RowOrderRef order) : sources_(std::move(sources)), order_(std::move(order)) {}
  std::shared_ptr<const std::vector<Tensor>> sources_;  // on the host
  RowOrderRef order_;
};

}  // namespace lamina::data
