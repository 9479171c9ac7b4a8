#include "graph/frontend/factories.h"

#include <cmath>
#include <cstring>
#include <optional>

#include "graph/frontend/device.h"
#include "graph/frontend/eager.h"
#include "graph/frontend/trace.h"
#include "graph/ops/ops.h"

namespace lamina {
namespace {

Tensor from_host(const void* data, const TensorType& type) {
  return Tensor(copy_from_host(default_device(), data, size_t(byte_size(type))), type);
}

Tensor filled(const TensorType& type, double value) {
  if (Trace::current() && !type.shape.empty()) {  // a small graph instead of a large constant
    Tensor one = filled({type.dtype, {}}, value);
    return apply_one(ops::def::broadcast_to, ir::make_attrs(ops::ShapeAttrs{type.shape}), std::span(&one, 1));
  }
  std::vector<std::byte> bytes(static_cast<size_t>(byte_size(type)));
  if (value != 0 || std::signbit(value))
    with_dtype(type.dtype, [&]<class T>() {
      const T x = element_of<T>(value);
      for (size_t i = 0; i < bytes.size(); i += sizeof(T)) std::memcpy(bytes.data() + i, &x, sizeof(T));
    });
  return from_host(bytes.data(), type);
}

void check_count(size_t count, const Shape& shape) {
  int64_t wanted = size_of(shape).number();
  if (int64_t(count) != wanted)
    throw Error(ErrorKind::invalid_argument, {.what = cat("tensor: ", count, " values do not fill the shape ", shape_text(shape)),
                                              .where = "",
                                              .why = cat("the shape has ", wanted, " elements"),
                                              .fix = "give as many values as the shape has elements"});
}

}  // namespace

Tensor tensor_from(const void* values, size_t count, const TensorType& type) {
  check_count(count, type.shape);
  return from_host(values, type);
}

Tensor tensor(std::initializer_list<double> values, const Shape& shape, DType dtype) {
  check_count(values.size(), shape);
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  with_dtype(dtype, [&]<class T>() {
    size_t i = 0;
    for (double v : values) {
      const T x = element_of<T>(v);
      std::memcpy(bytes.data() + i++ * sizeof(T), &x, sizeof(T));
    }
  });
  return from_host(bytes.data(), {dtype, shape});
}

Tensor scalar(double x, DType dtype) { return filled({dtype, {}}, x); }
Tensor scalar_i(int64_t n, DType dtype) {
  if (dtype == DType::i64) return from_host(&n, {dtype, {}});  // exact: a double has 53 bits
  return filled({dtype, {}}, double(n));
}
Tensor scalar_b(bool b) { return filled({DType::boolean, {}}, b); }
Tensor constant(const void* data, const TensorType& type) { return from_host(data, type); }

Tensor zeros(const Shape& shape, DType dtype) { return filled({dtype, shape}, 0); }
Tensor ones(const Shape& shape, DType dtype) { return filled({dtype, shape}, 1); }
Tensor full(const Shape& shape, double value, DType dtype) { return filled({dtype, shape}, value); }

namespace {
Tensor like(const Operand& x, std::optional<DType> dtype, double value) {
  Tensor t = x.resolve();
  std::optional<DeviceScope> there;
  if (t.device() != default_device()) there.emplace(t.device());
  return filled({dtype.value_or(t.dtype()), t.shape()}, value);
}
}  // namespace
Tensor zeros_like(const Operand& x) { return like(x, {}, 0); }
Tensor zeros_like(const Operand& x, DType dtype) { return like(x, dtype, 0); }
Tensor ones_like(const Operand& x) { return like(x, {}, 1); }
Tensor ones_like(const Operand& x, DType dtype) { return like(x, dtype, 1); }

Tensor arange(double start, double stop, double step, DType dtype) {
  double count = std::ceil((stop - start) / step);
  if (step == 0 || !std::isfinite(count))
    throw Error(ErrorKind::invalid_argument, {.what = cat("arange(", start, ", ", stop, ", ", step, ") has no end"),
                                              .where = "",
                                              .why = step == 0 ? "the step is 0" : "a bound is not finite",
                                              .fix = "pass finite bounds and a step other than 0"});
  int64_t n = count > 0 ? int64_t(count) : 0;
  std::vector<std::byte> bytes(size_t(n) * size_of(dtype));
  with_dtype(dtype, [&]<class T>() {
    for (int64_t i = 0; i < n; ++i) {
      const T x = element_of<T>(start + double(i) * step);
      std::memcpy(bytes.data() + size_t(i) * sizeof(T), &x, sizeof(T));
    }
  });
  return from_host(bytes.data(), {dtype, {n}});
}
Tensor arange(int64_t start, int64_t stop, int64_t step, DType dtype) { return arange(double(start), double(stop), double(step), dtype); }
Tensor arange(int64_t stop) { return arange(int64_t(0), stop, int64_t(1)); }

}  // namespace lamina
