#include "graph/nn/elements.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "graph/nn/host_tensor.h"
#include "runtime/core/mutex.h"

namespace lamina::data {
namespace {

[[noreturn]] void refuse(ErrorKind kind, const std::string& what, const std::string& why, const std::string& fix) {
  throw Error(kind, {.what = what, .where = "", .why = why, .fix = fix});
}

// --- where elements come from ---

class RowedPass final : public ElementPass {
 public:
  RowedPass(Rowed::Sources sources, const RowOrder& order) : sources_(std::move(sources)), rows_(order.start()) {}
  bool next(Element& out) override {
    if (!rows_->next(now_)) return false;
    out.clear();
    for (const Tensor& source : *sources_) {
      TensorType type{source.dtype(), Shape(now_.stack.begin(), now_.stack.end())};
      type.shape.insert(type.shape.end(), source.shape().begin() + 1, source.shape().end());
      const int64_t bytes = byte_size(type), row_bytes = now_.rows.empty() ? 0 : bytes / static_cast<int64_t>(now_.rows.size());
      auto host = std::make_shared<Buffer>(Device{}, static_cast<size_t>(bytes));
      gather_rows(host->data(), source.data(), row_bytes, now_.rows);
      out.push_back(Tensor(std::move(host), type));
    }
    return true;
  }
  int64_t skip(int64_t n) override { return rows_->skip(n); }

 private:
  Rowed::Sources sources_;
  std::unique_ptr<RowPass> rows_;
  Rows now_;
};

class Counted final : public Elements {
 public:
  explicit Counted(int64_t n) : rows_(all_rows(n)) {}
  std::unique_ptr<ElementPass> start() const override { return std::make_unique<Pass>(rows_->start()); }
  std::optional<int64_t> size() const override { return rows_->size(); }

 private:
  struct Pass final : ElementPass {
    explicit Pass(std::unique_ptr<RowPass> rows) : rows(std::move(rows)) {}
    bool next(Element& out) override {
      Rows row;
      if (!rows->next(row)) return false;
      auto number = std::make_shared<Buffer>(Device{}, sizeof(int64_t));
      std::memcpy(number->data(), row.rows.data(), sizeof(int64_t));
      out.assign(1, Tensor(std::move(number), {DType::i64, {}}));
      return true;
    }
    int64_t skip(int64_t n) override { return rows->skip(n); }
    std::unique_ptr<RowPass> rows;
  };
  RowOrderRef rows_;
};

class Generated final : public Elements {
 public:
  Generated(std::function<Generator()> start, std::optional<int64_t> size, uint64_t seed)
      : start_(std::move(start)), size_(size), seeds_(seed) {}
  std::unique_ptr<ElementPass> start() const override { return std::make_unique<Pass>(start_, seeds_.next()); }
  std::optional<int64_t> size() const override { return size_; }

 private:
  struct Pass final : ElementPass {
    Pass(std::function<Generator()> start, uint64_t seed) : start(std::move(start)), seed(seed) {}
    bool next(Element& out) override {
      if (ended) return false;
      ended = true;  // a generator that has failed gives nothing more
      ended = !for_item("the generator", item, seed, [&] {
        if (!generator) generator = start();
        return given(generator, "a generator")(out);
      });
      ++item;
      return !ended;
    }
    std::function<Generator()> start;
    uint64_t seed;
    Generator generator;
    bool ended = false;
    int64_t item = 0;
  };
  std::function<Generator()> start_;
  std::optional<int64_t> size_;
  PassSeeds seeds_;
};

// --- joining ---

struct Stack {
  std::optional<double> padding;
  void operator()(std::vector<Element>& items, Element& out) const {
    out.clear();
    const size_t components = items.front().size();
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].size() != components)
        refuse(ErrorKind::invalid_argument, cat("Dataset: element ", i, " of a batch has ", items[i].size(), " tensors"),
               cat("element 0 has ", components), "make all elements alike");
    }
    for (size_t c = 0; c < components; ++c) out.push_back(joined(items, c));
  }

  Tensor joined(const std::vector<Element>& items, size_t c) const {
    const TensorType& first = items.front()[c].type();
    TensorType type{first.dtype, first.shape};
    for (size_t i = 1; i < items.size(); ++i) {
      const TensorType& other = items[i][c].type();
      const bool fits = other.dtype == first.dtype && (padding ? other.rank() == first.rank() : other.shape == first.shape);
      if (!fits) {
        refuse(other.dtype == first.dtype ? ErrorKind::invalid_argument : ErrorKind::type,
               cat("Dataset: a batch cannot join ", first, " and ", other), cat("element ", i, " of the batch differs from element 0"),
               other.rank() == first.rank() && other.dtype == first.dtype ? "use padded_batch(), or give all elements one shape"
                                                                          : "give all elements one dtype and number of dimensions");
      }
      for (size_t d = 0; padding && d < other.rank(); ++d)
        if (other.shape[d].number() > type.shape[d].number()) type.shape[d] = other.shape[d];
    }
    const TensorType one = type;
    type.shape.insert(type.shape.begin(), int64_t(items.size()));
    auto buffer = std::make_shared<Buffer>(Device{}, static_cast<size_t>(byte_size(type)));
    auto* to = static_cast<std::byte*>(buffer->data());
    const size_t bytes = size_t(byte_size(one));
    if (padding) fill(to, bytes * items.size(), type.dtype);
    for (const Element& item : items) {
      if (bytes > 0) copy_into(to, one, item[c]);
      to += bytes;
    }
    return Tensor(std::move(buffer), type);
  }

  void fill(std::byte* to, size_t bytes, DType dtype) const {
    const Tensor number = nn::host_tensor(std::span<const double>(&*padding, 1), {dtype, {}}, Device{});
    const size_t size = size_of(dtype);
    for (size_t at = 0; at < bytes; at += size) std::memcpy(to + at, number.data(), size);
  }

  // The elements of t at the start of each axis of `whole`.
  static void copy_into(std::byte* to, const TensorType& whole, const Tensor& t) {
    const auto* from = static_cast<const std::byte*>(t.data());
    if (t.shape() == whole.shape) {
      std::memcpy(to, from, size_t(byte_size(whole)));
      return;
    }
    std::vector<int64_t> sizes = numbers(t.shape()), steps(sizes.size(), 1);
    for (size_t d = sizes.size(); d-- > 1;) steps[d - 1] = steps[d] * whole.shape[d].number();
    if (t.size() == 0) return;
    const size_t item = size_of(t.dtype()), run = size_t(sizes.back()) * item;
    std::vector<int64_t> place(sizes.size(), 0);
    while (true) {
      int64_t offset = 0;
      for (size_t d = 0; d < place.size(); ++d) offset += place[d] * steps[d];
      std::memcpy(to + size_t(offset) * item, from, run);
      from += run;
      size_t d = place.size() - 1;
      while (d > 0 && ++place[d - 1] == sizes[d - 1]) place[--d] = 0;
      if (d == 0) return;
    }
  }
};

// --- choosing ---

class Filtered final : public Elements {
 public:
  Filtered(ElementsRef from, Predicate keep, uint64_t seed) : from_(std::move(from)), keep_(std::move(keep)), seeds_(seed) {}
  std::unique_ptr<ElementPass> start() const override { return std::make_unique<Pass>(from_->start(), keep_, seeds_.next()); }
  std::optional<int64_t> size() const override { return from_->size() == 0 ? std::optional<int64_t>(0) : std::nullopt; }
  bool endless() const override { return from_->endless(); }
  bool reordered() const override { return from_->reordered(); }

 private:
  struct Pass final : ElementPass {
    Pass(std::unique_ptr<ElementPass> from, Predicate keep, uint64_t seed) : from(std::move(from)), keep(std::move(keep)), seed(seed) {}
    bool next(Element& out) override {
      while (from->next(out)) {
        const int64_t number = item++;
        if (for_item("filter", number, seed, [&] { return keep(out, number); })) return true;
      }
      return false;
    }
    std::unique_ptr<ElementPass> from;
    Predicate keep;
    uint64_t seed;
    int64_t item = 0;
  };
  ElementsRef from_;
  Predicate keep_;
  PassSeeds seeds_;
};

class Interleaved final : public Elements {
 public:
  using Make = std::function<ElementsRef(const Element&, int64_t)>;
  Interleaved(ElementsRef from, Make make, int64_t cycle, int64_t block, uint64_t seed)
      : from_(std::move(from)), make_(std::move(make)), cycle_(cycle), block_(block), seeds_(seed) {
    require_positive("an interleave cycle", cycle);
    require_positive("an interleave block", block);
  }
  std::unique_ptr<ElementPass> start() const override { return std::make_unique<Pass>(*this); }
  std::optional<int64_t> size() const override { return from_->size() == 0 ? std::optional<int64_t>(0) : std::nullopt; }
  bool endless() const override { return from_->endless(); }
  bool reordered() const override { return from_->reordered(); }

 private:
  struct Pass final : ElementPass {
    explicit Pass(const Interleaved& of)
        : from(of.from_->start()), make(of.make_), cycle(size_t(of.cycle_)), block(of.block_), seed(of.seeds_.next()) {}
    bool next(Element& out) override {
      while (true) {
        if (turn == cycle || (ended && turn == places.size())) turn = 0;
        if (turn == places.size() && !ended) places.emplace_back();
        if (places.empty()) return false;
        std::unique_ptr<ElementPass>& now = places[turn];
        if (!now && !ended) begin(now);
        if (now && now->next(out)) {
          if (++taken == block) ++turn, taken = 0;
          return true;
        }
        taken = 0;
        if (ended) {
          places.erase(places.begin() + int64_t(turn));
        } else {
          now.reset();
          ++turn;
        }
      }
    }
    void begin(std::unique_ptr<ElementPass>& place) {
      Element element;
      if (!from->next(element)) {
        ended = true;
        return;
      }
      const int64_t number = item++;
      place = for_item("interleave", number, seed, [&] { return make(element, number)->start(); });
    }
    std::unique_ptr<ElementPass> from;
    Make make;
    size_t cycle, turn = 0;
    int64_t block, taken = 0, item = 0;
    uint64_t seed;
    std::vector<std::unique_ptr<ElementPass>> places;  // null: the next sequence begins there
    bool ended = false;
  };
  ElementsRef from_;
  Make make_;
  int64_t cycle_, block_;
  PassSeeds seeds_;
};

class Zipped final : public Elements {
 public:
  explicit Zipped(std::vector<ElementsRef> parts) : parts_(std::move(parts)) {}
  std::unique_ptr<ElementPass> start() const override { return std::make_unique<Pass>(parts_); }
  std::optional<int64_t> size() const override {
    std::optional<int64_t> least;
    for (const ElementsRef& part : parts_) {
      const std::optional<int64_t> size = part->size();
      if (!size && !part->endless()) return {};
      if (size) least = std::min(least.value_or(*size), *size);
    }
    return least;
  }
  bool endless() const override {
    return std::all_of(parts_.begin(), parts_.end(), [](const ElementsRef& part) { return part->endless(); });
  }
  bool reordered() const override {
    return std::any_of(parts_.begin(), parts_.end(), [](const ElementsRef& part) { return part->reordered(); });
  }

 private:
  struct Pass final : ElementPass {
    explicit Pass(const std::vector<ElementsRef>& parts) {
      for (const ElementsRef& part : parts) passes.push_back(part->start());
    }
    bool next(Element& out) override {
      out.clear();
      Element one;
      for (auto& pass : passes) {
        if (!pass->next(one)) return false;
        std::move(one.begin(), one.end(), std::back_inserter(out));
      }
      return true;
    }
    int64_t skip(int64_t n) override {
      for (auto& pass : passes) n = std::min(n, pass->skip(n));
      return n;
    }
    std::vector<std::unique_ptr<ElementPass>> passes;
  };
  std::vector<ElementsRef> parts_;
};

class Cached final : public Elements {
 public:
  explicit Cached(ElementsRef from) : from_(std::move(from)), kept_(std::make_shared<Kept>()) {}
  std::unique_ptr<ElementPass> start() const override {
    if (Kept::List list = kept_->get()) return std::make_unique<Again>(std::move(list));
    return std::make_unique<First>(from_->start(), kept_);
  }
  std::optional<int64_t> size() const override {
    if (Kept::List list = kept_->get()) return int64_t(list->size());
    return from_->size();
  }
  bool endless() const override { return from_->endless(); }
  bool reordered() const override { return !kept_->get() && from_->reordered(); }

 private:
  struct Kept {
    using List = std::shared_ptr<const std::vector<Element>>;
    List get() {
      const std::lock_guard lock(mutex);
      return list;
    }
    void set(std::vector<Element> elements) {
      auto made = std::make_shared<const std::vector<Element>>(std::move(elements));
      const std::lock_guard lock(mutex);
      if (!list) list = std::move(made);
    }
    Mutex mutex;
    List list;
  };
  struct First final : ElementPass {
    First(std::unique_ptr<ElementPass> from, std::shared_ptr<Kept> kept) : from(std::move(from)), kept(std::move(kept)) {}
    bool next(Element& out) override {
      if (ended) return false;
      try {
        if (from->next(out)) {
          if (!failed) read.push_back(out);
          return true;
        }
      } catch (...) {
        failed = true;  // what is kept would lack an element
        read.clear();
        throw;
      }
      ended = true;
      if (!failed) kept->set(std::move(read));
      return false;
    }
    std::unique_ptr<ElementPass> from;
    std::shared_ptr<Kept> kept;
    std::vector<Element> read;
    bool ended = false, failed = false;
  };
  struct Again final : ElementPass {
    explicit Again(Kept::List list) : list(std::move(list)) {}
    bool next(Element& out) override {
      if (at == list->size()) return false;
      out = (*list)[at++];
      return true;
    }
    int64_t skip(int64_t n) override {
      const size_t done = std::min(list->size() - at, size_t(n));
      at += done;
      return int64_t(done);
    }
    Kept::List list;
    size_t at = 0;
  };
  ElementsRef from_;
  std::shared_ptr<Kept> kept_;
};

}  // namespace

std::unique_ptr<ElementPass> Rowed::start() const { return std::make_unique<RowedPass>(sources_, *order_); }
ElementsRef counted_elements(int64_t n) { return std::make_shared<Counted>(n); }
ElementsRef generated_elements(std::function<Generator()> start, std::optional<int64_t> size, uint64_t seed) {
  return std::make_shared<Generated>(std::move(start), size, seed);
}
ElementsRef batched_elements(ElementsRef from, int64_t n, bool drop_remainder, std::optional<double> padding) {
  return std::make_shared<Batches<Element>>(std::move(from), n, drop_remainder, Stack{padding});
}
ElementsRef filtered_elements(ElementsRef from, Predicate keep, uint64_t seed) {
  return std::make_shared<Filtered>(std::move(from), std::move(keep), seed);
}
ElementsRef interleaved_elements(ElementsRef from, Interleaved::Make make, int64_t cycle, int64_t block, uint64_t seed) {
  return std::make_shared<Interleaved>(std::move(from), std::move(make), cycle, block, seed);
}
ElementsRef zipped_elements(std::vector<ElementsRef> parts) { return std::make_shared<Zipped>(std::move(parts)); }
ElementsRef cached_elements(ElementsRef from) { return std::make_shared<Cached>(std::move(from)); }

}  // namespace lamina::data
