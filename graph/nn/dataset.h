// Dataset: elements read one by one or batch by batch. A value type: each method returns a new Dataset. Every pass starts anew, so one
// Dataset serves all epochs.
//
//   auto feed = lm::data::Dataset::from_tensor_slices({images, labels}).shuffle(4000, seed).batch(20);
//   for (const auto& batch : feed) step(batch[0], batch[1]);
#pragma once
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/frontend/tensor.h"
#include "graph/nn/elements.h"
#include "graph/nn/read_ahead.h"

namespace lamina::data {

// As a number of threads: one per core. As the length of a prefetch: grows as the consumer has to wait.
inline constexpr int64_t AUTOTUNE = kAutomatic;

class LAMINA_API Dataset {
 public:
  using Element = data::Element;

  // A move copies: the Dataset that was moved from stays as it was.
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;

  // --- where elements come from ---
  // Element i is component[i] of each tensor. Throws invalid_argument unless there is a tensor, each has at least one dimension, and all
  // first dimensions agree. The tensors are kept on the host, not copied per pass.
  static Dataset from_tensor_slices(std::vector<Tensor> components);
  // 0, ..., n - 1 as i64 scalars.
  static Dataset range(int64_t n);
  // Every pass calls `start` for a function that gives the next element, or false at the end. size: the number of elements, where it is
  // known.
  static Dataset from_generator(std::function<Generator()> start, std::optional<int64_t> size = std::nullopt);
  // One element of each side by side, up to the end of the shortest.
  static Dataset zip(const std::vector<Dataset>& parts);

  // --- which elements, in which order ---
  // Draws each element from a window of the next `window` ones; every pass has another order. All orders follow from the seed, by default
  // taken from random::set_seed's.
  Dataset shuffle(int64_t window, std::optional<uint64_t> seed = std::nullopt) const;
  // Joins several passes into one; without a number it never ends.
  Dataset repeat(std::optional<int64_t> times = std::nullopt) const;
  Dataset take(int64_t n) const;
  Dataset skip(int64_t n) const;
  Dataset filter(Predicate keep) const;
  // The elements of the Dataset that `make` gives for each element: `cycle` of them are read in turns, `block` elements at a time. One that
  // ends gives its turn to the next.
  Dataset interleave(std::function<Dataset(const Element&, int64_t item)> make, int64_t cycle = 4, int64_t block = 1) const;
  // Parts of these lengths, which add up to size(); each element is in one of them, chosen by the seed. Throws
  // invalid_argument after shuffle(), which is for the parts.
  std::vector<Dataset> random_split(const std::vector<int64_t>& lengths, std::optional<uint64_t> seed = std::nullopt) const;

  // --- what they are ---
  // Joins n consecutive elements along a new first axis. The last batch is smaller, or dropped. Throws invalid_argument unless n is
  // positive; a pass throws when elements differ in shape or dtype.
  Dataset batch(int64_t n, bool drop_remainder = false) const;
  // The same for elements of different lengths: shorter ones are filled up with a number.
  Dataset padded_batch(int64_t n, double value = 0, bool drop_remainder = false) const;
  // function(element, item), in `threads` threads at once (1: in the one that asks; AUTOTUNE: one per core). Order is kept, and an
  // exception comes at the step that asks for its item. What it draws follows from the seed, the pass and the item alone, here and in the
  // functions of the other steps.
  Dataset map(MapFunction function, int64_t threads = 1) const;

  // --- when they are read ---
  // Keeps the elements of the first whole pass in memory.
  Dataset cache() const;
  // A thread reads up to n elements ahead (AUTOTUNE: as many as it takes, within 256 MiB).
  Dataset prefetch(int64_t n = AUTOTUNE) const;

  std::optional<int64_t> size() const { return elements_->size(); }  // elements per pass; empty when endless or unknown
  bool endless() const { return elements_->endless(); }

  // One pass. It stays valid after its Dataset is gone.
  class LAMINA_API Pass {
   public:
    explicit Pass(const Dataset& dataset) : elements_(dataset.elements_->start()) {}
    // The next element, on the current device; false at the end.
    bool next(Element& out);
    // Passes over the next n elements, without reading them where that is possible; returns how many there were.
    int64_t skip(int64_t n) { return elements().skip(n); }

   private:
    ElementPass& elements() const;  // throws state after a move
    std::unique_ptr<ElementPass> elements_;
  };
  Pass pass() const { return Pass(*this); }

  class Iterator {
   public:
    using value_type = Element;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(const Dataset& dataset) : pass_(std::make_shared<Pass>(dataset)) { ++*this; }
    const Element& operator*() const { return element_; }
    Iterator(const Iterator&) = default;  // a move copies
    Iterator& operator=(const Iterator&) = default;
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
  explicit Dataset(ElementsRef elements) : elements_(std::move(elements)) {}
  // The same step on rows, where the elements are rows that have not been read yet, or on elements.
  template <template <class> class Step, class... A>
  Dataset stepped(const A&... arguments) const;
  ElementsRef elements_;
};

}  // namespace lamina::data
