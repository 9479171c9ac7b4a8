#include "graph/nn/dataset.h"

#include <utility>

#include "graph/frontend/copied_to.h"
#include "graph/frontend/device.h"
#include "graph/functions/random.h"
#include "runtime/device/profiler.h"

namespace lamina::data {
namespace {

[[noreturn]] void bad_component(size_t index, const Tensor& t, const std::string& why, const std::string& fix) {
  throw Error(ErrorKind::invalid_argument, {.what = cat("Dataset: cannot slice component ", index, ", which is ", t.type()),
                                            .where = "argument 'tensors'",
                                            .why = why,
                                            .fix = fix});
}

}  // namespace

Dataset Dataset::from_tensor_slices(std::vector<Tensor> components) {
  if (components.empty()) {
    throw Error(ErrorKind::invalid_argument, {.what = "Dataset: there is nothing to slice",
                                              .where = "argument 'tensors'",
                                              .why = "the list of tensors is empty",
                                              .fix = "pass at least one tensor"});
  }
  auto sources = std::make_shared<std::vector<Tensor>>();
  for (size_t i = 0; i < components.size(); ++i) {
    const Tensor& t = components[i];
    t.concrete("a slice");
    if (t.rank() == 0) bad_component(i, t, "it has no dimension to slice along", "pass tensors with at least one dimension");
    if (t.shape()[0] != components[0].shape()[0]) {
      bad_component(i, t, cat("component 0 has ", components[0].shape()[0], " slices, this one ", t.shape()[0]),
                    "pass tensors of equal first dimension");
    }
    sources->push_back(copied_to(t, Device{}));
  }
  const int64_t count = components[0].shape()[0].number();
  return Dataset(std::make_shared<Rowed>(std::move(sources), all_rows(count)));
}
Dataset Dataset::range(int64_t n) {
  if (n < 0) {
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("Dataset: a range of ", n), .where = "", .why = "the number is negative", .fix = "pass 0 or more"});
  }
  return Dataset(counted_elements(n));
}
Dataset Dataset::from_generator(std::function<Generator()> start, std::optional<int64_t> size) {
  given(start, "Dataset::from_generator");
  return Dataset(generated_elements(std::move(start), size, random::next_step_seed()));
}
Dataset Dataset::zip(const std::vector<Dataset>& parts) {
  if (parts.empty()) {
    throw Error(ErrorKind::invalid_argument,
                {.what = "Dataset: there is nothing to zip", .where = "", .why = "the list is empty", .fix = "pass at least one Dataset"});
  }
  std::vector<ElementsRef> elements;
  for (const Dataset& part : parts) elements.push_back(part.elements_);
  return Dataset(zipped_elements(std::move(elements)));
}

template <template <class> class Step, class... A>
Dataset Dataset::stepped(const A&... arguments) const {
  if (auto* rows = dynamic_cast<const Rowed*>(elements_.get()))
    return Dataset(rows->with(std::make_shared<Step<Rows>>(rows->order(), arguments...)));
  return Dataset(std::make_shared<Step<data::Element>>(elements_, arguments...));
}

Dataset Dataset::shuffle(int64_t window, std::optional<uint64_t> seed) const {
  return stepped<Shuffled>(window, seed ? *seed : random::next_host_seed());
}
Dataset Dataset::repeat(std::optional<int64_t> times) const { return stepped<Repeated>(times); }
Dataset Dataset::take(int64_t n) const { return stepped<Sliced>(int64_t(0), std::optional(n)); }
Dataset Dataset::skip(int64_t n) const { return stepped<Sliced>(n, std::optional<int64_t>()); }
Dataset Dataset::filter(Predicate keep) const {
  given(keep, "Dataset::filter");
  return Dataset(filtered_elements(elements_, std::move(keep), random::next_step_seed()));
}
Dataset Dataset::interleave(std::function<Dataset(const Element&, int64_t)> make, int64_t cycle, int64_t block) const {
  given(make, "Dataset::interleave");
  auto elements = [make = std::move(make)](const Element& element, int64_t item) { return make(element, item).elements_; };
  return Dataset(interleaved_elements(elements_, std::move(elements), cycle, block, random::next_step_seed()));
}

std::vector<Dataset> Dataset::random_split(const std::vector<int64_t>& lengths, std::optional<uint64_t> seed) const {
  const std::optional<int64_t> all = size();
  int64_t total = 0;
  for (const int64_t length : lengths)
    if (length < 0 || __builtin_add_overflow(total, length, &total)) total = -1;
  if (!all || lengths.empty() || *all != total) {
    throw Error(ErrorKind::invalid_argument,
                {.what = "Dataset: random_split cannot make parts of these lengths",
                 .where = "argument 'lengths'",
                 .why = all ? cat("they are to add up to ", *all, ", the number of elements") : "how many elements there are is unknown",
                 .fix = all ? "pass other lengths" : "split the files or rows that it is made of"});
  }
  if (elements_->reordered()) {
    throw Error(ErrorKind::invalid_argument, {.what = "Dataset: random_split of shuffled elements",
                                              .where = "",
                                              .why = "each loop has another order, and the parts would exchange elements",
                                              .fix = "split first, then shuffle the parts"});
  }
  std::vector<Dataset> parts;
  for (auto& numbers : random_parts(*all, lengths, seed ? *seed : random::next_host_seed())) parts.push_back(stepped<Picked>(numbers));
  return parts;
}

Dataset Dataset::batch(int64_t n, bool drop_remainder) const {
  if (auto* rows = dynamic_cast<const Rowed*>(elements_.get())) return Dataset(rows->with(batch_rows(rows->order(), n, drop_remainder)));
  return Dataset(batched_elements(elements_, n, drop_remainder, {}));
}
Dataset Dataset::padded_batch(int64_t n, double value, bool drop_remainder) const {
  return Dataset(batched_elements(elements_, n, drop_remainder, value));
}
Dataset Dataset::map(MapFunction function, int64_t threads) const {
  given(function, "Dataset::map");
  return Dataset(mapped_elements(elements_, std::move(function), threads, random::next_step_seed()));
}
Dataset Dataset::cache() const { return Dataset(cached_elements(elements_)); }
Dataset Dataset::prefetch(int64_t n) const { return Dataset(prefetched_elements(elements_, n)); }

ElementPass& Dataset::Pass::elements() const {
  if (elements_) return *elements_;
  throw Error(ErrorKind::state, {.what = "Dataset: a pass is used that was moved from",
                                 .where = "",
                                 .why = "the pass goes on where it was moved to",
                                 .fix = "use that one, or call pass() for a new one"});
}

bool Dataset::Pass::next(Element& out) {
  {
    const profiler::Range range("data", profiler::Kind::input);
    if (!elements().next(out)) return false;
  }
  const Device device = default_device();
  for (Tensor& t : out) t = copied_to(t, device);
  return true;
}

}  // namespace lamina::data
