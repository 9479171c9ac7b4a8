#include "graph/nn/dataset.h"

#include <utility>

#include "graph/frontend/copied_to.h"
#include "graph/frontend/device.h"
#include "graph/functions/random.h"

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
  return {std::move(sources), all_rows(count)};
}

Dataset Dataset::batch(int64_t n, bool drop_remainder) const { return {sources_, batch_rows(order_, n, drop_remainder)}; }
Dataset Dataset::shuffle(int64_t window, std::optional<uint64_t> seed) const {
  return {sources_, shuffle_rows(order_, window, seed ? *seed : random::next_host_seed())};
}
Dataset Dataset::repeat(std::optional<int64_t> times) const { return {sources_, repeat_rows(order_, times)}; }

Dataset::Pass::Pass(const Dataset& dataset) : sources_(dataset.sources_), rows_(dataset.order_->start()) {}

bool Dataset::Pass::next(Element& out) {
  if (!rows_->next(now_)) return false;
  const Device device = default_device();
  out.clear();
  for (const Tensor& source : *sources_) {
    TensorType type{source.dtype(), Shape(now_.stack.begin(), now_.stack.end())};
    type.shape.insert(type.shape.end(), source.shape().begin() + 1, source.shape().end());
    const int64_t bytes = byte_size(type), row_bytes = now_.rows.empty() ? 0 : bytes / static_cast<int64_t>(now_.rows.size());
    auto host = std::make_shared<Buffer>(Device{}, static_cast<size_t>(bytes));
    gather_rows(host->data(), source.data(), row_bytes, now_.rows);
    out.push_back(copied_to(Tensor(std::move(host), type), device));
  }
  return true;
}

}  // namespace lamina::data
