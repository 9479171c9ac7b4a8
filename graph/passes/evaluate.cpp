#include "graph/passes/evaluate.h"

#include <algorithm>
#include <cstring>

#include "runtime/core/error.h"
#include "runtime/device/backend.h"

namespace lamina::passes {
namespace {

using Bytes = std::vector<std::byte>;

// Row-major bytes of a view.
void gather_elements(const View& view, size_t element, std::byte* out) {
  const auto* data = static_cast<const std::byte*>(view.data);
  int64_t index[kMaxRank] = {};
  const int64_t count = view.size();
  int64_t offset = 0;
  for (int64_t n = 0; n < count; ++n) {
    std::memcpy(out + size_t(n) * element, data + offset * int64_t(element), element);
    for (int axis = view.rank - 1; axis >= 0; --axis) {
      offset += view.strides[axis];
      if (++index[axis] < view.shape[axis]) break;
      offset -= view.strides[axis] * view.shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

std::optional<std::vector<ir::Literal>> evaluate(const ir::Node& node, std::span<const ir::Literal> inputs, int64_t most_bytes) {
  for (const TensorType& type : node.types)
    if (!known(type.shape) || byte_size(type) > most_bytes) return {};
  try {
    std::vector<Bytes> in_bytes;  // kernels take writable views, so constants are copied
    std::vector<TensorType> in_types;
    std::vector<View> in_views, out_views;
    std::vector<const View*> in, out;
    for (const ir::Literal& literal : inputs) {
      in_types.push_back(literal.type);
      in_bytes.push_back(literal.bytes ? *literal.bytes : Bytes(size_t(byte_size(literal.type))));
    }
    for (size_t i = 0; i < inputs.size(); ++i) in_views.push_back(contiguous_view(in_bytes[i].data(), in_types[i]));
    std::vector<std::shared_ptr<Bytes>> results;
    for (const TensorType& type : node.types) {
      results.push_back(std::make_shared<Bytes>(size_t(byte_size(type))));
      out_views.push_back(contiguous_view(results.back()->data(), type));
    }
    static const ir::Attrs<ir::NoAttrs>& none = *new ir::Attrs<ir::NoAttrs>;
    const ir::AttrsBase& attrs = node.attrs ? *node.attrs : none;
    View seen;
    int64_t first = 0;
    const bool makes_nothing = std::all_of(results.begin(), results.end(), [](const auto& bytes) { return bytes->empty(); });
    if (makes_nothing) {
      // No kernel runs for empty results.
    } else if (node.op->alias && !inputs.empty() && node.op->alias(attrs, in_views[0], node.types[0], seen, first)) {
      const size_t element = size_of(node.types[0].dtype);
      seen.data = in_bytes[0].data() + first * int64_t(element);
      gather_elements(seen, element, results[0]->data());
    } else {
      if (!node.op->cpu) return {};
      const Kernel kernel = node.op->cpu({attrs, in_types, node.types, node.regions});
      if (!kernel) return {};
      for (const View& view : in_views) in.push_back(&view);
      for (const View& view : out_views) out.push_back(&view);
      Stream stream{&cpu_backend(), Device{}, nullptr};
      kernel.run({stream, kernel.args.get(), in, out});
    }
    std::vector<ir::Literal> literals;
    for (size_t i = 0; i < results.size(); ++i) literals.push_back({node.types[i], std::move(results[i])});
    return literals;
  } catch (const Error&) {
    return {};
  }
}

std::optional<ir::Literal> uniform_element(const ir::Literal& literal) {
  if (!known(literal.type.shape)) return {};
  const size_t element = size_of(literal.type.dtype), bytes = size_t(byte_size(literal.type));
  if (bytes == 0) return {};
  if (!literal.bytes) return ir::Literal{{literal.type.dtype, {}}, nullptr};
  const std::byte* data = literal.bytes->data();
  // Every element equals the one before it.
  if (bytes > element && std::memcmp(data, data + element, bytes - element) != 0) return {};
  return ir::Literal::from({literal.type.dtype, {}}, data);
}

}  // namespace lamina::passes
