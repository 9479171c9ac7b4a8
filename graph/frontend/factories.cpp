#include "graph/frontend/factories.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>

#include "graph/frontend/device.h"
#include "graph/frontend/eager.h"
#include "graph/frontend/trace.h"
#include "graph/ops/ops.h"
#include "runtime/core/bools.h"

namespace lamina {
namespace {

Tensor from_host(const void* data, const TensorType& type, CallSite at = {}) {
  const auto* bytes = static_cast<const std::byte*>(data);
  const size_t size = size_t(byte_size(type));
  if (size > 0 && !data)
    throw Error(ErrorKind::invalid_argument, {.what = cat("a tensor ", type, " of a null pointer"),
                                              .where = text(at),
                                              .why = cat(size, " bytes are read there"),
                                              .fix = "pass the address of the elements"});
  if (type.dtype != DType::boolean || are_bools({bytes, size})) return Tensor(copy_from_host(default_device(), data, size), type);
  std::vector<std::byte> bools(bytes, bytes + size);
  make_bools(bools);
  return Tensor(copy_from_host(default_device(), bools.data(), size), type);
}

}  // namespace

Tensor made_on_host(const TensorType& type, const std::function<void(std::span<std::byte>)>& fill) {
  const Device device = default_device();
  const bool here = device.kind == DeviceKind::cpu;
  const auto buffer = std::make_shared<Buffer>(here ? device : Device{}, size_t(byte_size(type)));
  fill({static_cast<std::byte*>(buffer->data()), buffer->bytes()});
  return here ? Tensor(buffer, type) : from_host(buffer->data(), type);
}

namespace {

// Calls f.operator()<T>(step) with the C++ type of an element, or of its real part, and the number of Ts in an element.
template <class F>
void with_parts(DType dtype, F&& f) {
  const bool complex = is_complex(dtype);
  with_dtype(complex ? part_of(dtype) : dtype, [&]<class T>() { f.template operator()<T>(complex ? size_t(2) : size_t(1)); });
}

// element(i) of a vector, an int64 or a double.
template <class F>
Tensor generated(const TensorType& type, F element) {
  return made_on_host(type, [&](std::span<std::byte> out) {
    if (is_complex(type.dtype) && !out.empty()) std::memset(out.data(), 0, out.size());
    with_parts(type.dtype, [&]<class T>(size_t step) {
      using Exact = std::conditional_t<std::is_arithmetic_v<T>, decltype(element(0)), double>;
      for (size_t i = 0; i < out.size() / sizeof(T) / step; ++i) {
        const T x = element_of<T>(Exact(element(int64_t(i))));
        std::memcpy(out.data() + i * step * sizeof(T), &x, sizeof(T));
      }
    });
  });
}

Tensor filled(const TensorType& type, double value) {
  if (Trace::current() && !type.shape.empty()) {  // keeps large constants out of the graph
    Tensor one = filled({type.dtype, {}}, value);
    return apply_one(ops::def::broadcast_to, ir::make_attrs(ops::ShapeAttrs{type.shape}), std::span(&one, 1));
  }
  if (value == 0 && !std::signbit(value))
    return made_on_host(type, [](std::span<std::byte> out) {
      if (!out.empty()) std::memset(out.data(), 0, out.size());
    });
  return generated(type, [value](int64_t) { return value; });
}

bool holds(DType dtype, int64_t n) {
  if (dtype == DType::u64) return n >= 0;
  if (is_complex(dtype)) return true;
  return with_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      return n >= int64_t(std::numeric_limits<T>::min()) && n <= int64_t(std::numeric_limits<T>::max());
    return true;
  });
}

// A number that an integer dtype does not hold would become another one.
template <class N>
void require_held(const char* what, N number, DType dtype, CallSite at) {
  if (!is_integer(dtype)) return;
  const auto value = double(number);
  const bool fraction = !(value == std::trunc(value));  // a NaN too
  const bool held = !fraction && with_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      return value >= double(std::numeric_limits<T>::min()) && value < double(std::numeric_limits<T>::max() / 2 + 1) * 2;
    return true;
  });
  if (held) return;
  throw Error(fraction ? ErrorKind::type : ErrorKind::invalid_argument,
              {.what = fraction ? cat(what, ": ", number, " is no ", dtype) : cat(what, ": ", number, " does not fit ", dtype),
               .where = text(at),
               .why = "an element would become another number",
               .fix = "pass another dtype, or convert with astype"});
}

void check_count(size_t count, const Shape& shape, CallSite at) {
  int64_t wanted = size_of(shape).number();
  if (int64_t(count) != wanted)
    throw Error(ErrorKind::invalid_argument, {.what = cat("tensor: ", count, " values do not fill the shape ", shape_text(shape)),
                                              .where = text(at),
                                              .why = cat("the shape has ", wanted, " elements"),
                                              .fix = "give as many values as the shape has elements"});
}

}  // namespace

Tensor tensor_from(const void* values, size_t count, const TensorType& type, CallSite at) {
  check_count(count, type.shape, at);
  return from_host(values, type, at);
}

Tensor tensor(std::initializer_list<double> values, const Shape& shape, DType dtype, CallSite at) {
  check_count(values.size(), shape, at);
  for (const double v : values) require_held("tensor", v, dtype, at);
  std::vector<std::byte> bytes(size_t(byte_size({dtype, shape})));
  with_parts(dtype, [&]<class T>(size_t step) {
    size_t i = 0;
    for (double v : values) {
      const T x = element_of<T>(v);
      std::memcpy(bytes.data() + i * sizeof(T), &x, sizeof(T));
      i += step;
    }
  });
  return from_host(bytes.data(), {dtype, shape});
}

Tensor scalar(double x, DType dtype, CallSite at) {
  require_held("scalar", x, dtype, at);
  return filled({dtype, {}}, x);
}
Tensor scalar_i(int64_t n, DType dtype, CallSite at) {
  if (dtype == DType::i64 || (dtype == DType::u64 && n >= 0)) return from_host(&n, {dtype, {}});  // exact: a double has 53 bits
  require_held("scalar_i", n, dtype, at);
  return filled({dtype, {}}, double(n));
}
Tensor scalar_b(bool b) { return filled({DType::boolean, {}}, b); }
Tensor constant(const void* data, const TensorType& type, CallSite at) { return from_host(data, type, at); }

Tensor zeros(const Shape& shape, DType dtype) { return filled({dtype, shape}, 0); }
Tensor ones(const Shape& shape, DType dtype) { return filled({dtype, shape}, 1); }
Tensor full(const Shape& shape, double value, DType dtype, CallSite at) {
  require_held("full", value, dtype, at);
  return filled({dtype, shape}, value);
}

namespace {
Tensor like(const Operand& x, std::optional<DType> dtype, double value) {
  Tensor t = x.resolve();
  const Beside there(t.device());
  return filled({dtype.value_or(t.dtype()), t.shape()}, value);
}
}  // namespace
Tensor zeros_like(const Operand& x) { return like(x, {}, 0); }
Tensor zeros_like(const Operand& x, DType dtype) { return like(x, dtype, 0); }
Tensor ones_like(const Operand& x) { return like(x, {}, 1); }
Tensor ones_like(const Operand& x, DType dtype) { return like(x, dtype, 1); }

Tensor arange(double start, double stop, double step, DType dtype, CallSite at) {
  double count = std::ceil((stop - start) / step);
  if (step == 0 || !std::isfinite(count))
    throw Error(ErrorKind::invalid_argument, {.what = cat("arange(", start, ", ", stop, ", ", step, ") has no end"),
                                              .where = text(at),
                                              .why = step == 0 ? "the step is 0" : "a bound is not finite",
                                              .fix = "pass finite bounds and a step other than 0"});
  const int64_t n = count <= 0 ? 0 : count < double(INT64_MAX) ? int64_t(count) : INT64_MAX;
  return generated({dtype, {n}}, [&](int64_t i) { return start + double(i) * step; });
}
Tensor arange(int64_t start, int64_t stop, int64_t step, DType dtype, CallSite at) {
  if (step == 0) return arange(double(start), double(stop), 0.0, dtype, at);  // throws
  const auto length = [](int64_t from, int64_t to) { return uint64_t(to) - uint64_t(from); };
  const uint64_t by = step > 0 ? uint64_t(step) : -uint64_t(step);
  const uint64_t way = step > 0 ? (start < stop ? length(start, stop) : 0) : (start > stop ? length(stop, start) : 0);
  const uint64_t count = way / by + (way % by != 0);
  const int64_t n = count < uint64_t(INT64_MAX) ? int64_t(count) : INT64_MAX;
  if (n > 0) {
    const auto last = int64_t(uint64_t(start) + (count - 1) * uint64_t(step));
    for (const int64_t end : {start, last})
      if (!is_floating(dtype) && !holds(dtype, end))
        throw Error(ErrorKind::invalid_argument,
                    {.what = cat("arange(", start, ", ", stop, ", ", step, "): ", end, " does not fit ", dtype),
                     .where = text(at),
                     .why = "an element would become another number",
                     .fix = "pass dtype=int64"});
  }
  return generated({dtype, {n}}, [&](int64_t i) { return int64_t(uint64_t(start) + uint64_t(i) * uint64_t(step)); });
}
Tensor arange(int64_t stop, CallSite at) { return arange(int64_t(0), stop, int64_t(1), DType::i32, at); }

}  // namespace lamina
