#include "graph/frontend/tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "graph/frontend/device.h"
#include "graph/frontend/eager.h"
#include "graph/frontend/factories.h"
#include "graph/frontend/tape_record.h"
#include "graph/frontend/trace.h"
#include "graph/frontend/variable.h"
#include "graph/ops/ops.h"
#include "runtime/core/common_dtype.h"

namespace lamina {

Tensor::Tensor(BufferRef buffer, TypeRef type) {
  auto data = std::make_shared<TensorData>();
  data->device = buffer->device();
  data->type = std::move(type);
  data->buffer = std::move(buffer);
  if (Trace* trace = Trace::current()) data->trace = trace->weak_from_this();  // the trace whose body makes it
  data_ = std::move(data);
}
Tensor::Tensor(BufferRef buffer, const TensorType& type) : Tensor(std::move(buffer), std::make_shared<const TensorType>(type)) {}

const TensorData& Tensor::checked() const {
  if (!data_)
    throw Error(ErrorKind::invalid_argument,
                {.what = "this Tensor is empty",
                 .where = "",
                 .why = "it was never given a value: a gradient that nothing connects, or a default-constructed Tensor",
                 .fix = "test it with defined() before using it"});
  return *data_;
}

const TensorData& Tensor::concrete(const char* what) const {
  const TensorData& d = checked();
  if (d.buffer) return d;
  const std::string line = text(CallSite().line());
  if (d.trace.expired()) throw finished_trace(d.function, line);
  throw Error(ErrorKind::state, {.what = cat(what, " of ", str(), " does not exist yet"),
                                 .where = cat(line, line.empty() ? "" : ", ", "while '", d.function, "' is traced"),
                                 .why = "tracing records which ops a function does; values exist only when the graph runs",
                                 .fix = "return the tensor and read it outside, keep the computation in lm functions, or call "
                                        "lm.config.run_functions_eagerly(True) while debugging"});
}

int64_t Tensor::size() const { return size_of(shape()).number(); }

const void* Tensor::data() const {
  const TensorData& d = concrete("data()");
  if (d.device.kind != DeviceKind::cpu)
    throw Error(ErrorKind::device, {.what = cat("data(): the tensor lies on ", d.device),
                                    .where = "",
                                    .why = "only memory of a CPU can be read directly",
                                    .fix = "use to(cpu) or copy_to_host first"});
  Backend& backend = backend_of(d.device);
  Stream stream = backend.default_stream(d.device);
  backend.synchronize(stream);
  return d.buffer->data();
}

void Tensor::copy_to_host(void* to, size_t bytes) const {
  const TensorData& d = concrete("copy_to_host()");
  if (bytes != size_t(byte_size(*d.type)))
    throw Error(ErrorKind::invalid_argument, {.what = cat("copy_to_host: ", bytes, " bytes for a tensor of ", byte_size(*d.type)),
                                              .where = "",
                                              .why = "all elements are copied, or none",
                                              .fix = "pass byte_size(type()) bytes"});
  if (bytes && !to)
    throw Error(ErrorKind::invalid_argument,
                {.what = "copy_to_host: the address is null", .where = "", .why = "the elements are written there", .fix = "pass memory"});
  if (bytes) lamina::copy_to_host(to, d.buffer, 0, bytes);
}

Tensor Tensor::to(Device device) const {
  const TensorData& d = checked();
  if (d.device == device) return *this;
  require_device(device);
  if (is_symbolic() || (Trace::current() && recording())) {  // tapes record only nodes
    if (!Trace::current()) concrete("to()");
    const DeviceScope scope(device);
    return apply_one(ops::def::to_device, nullptr, std::span(this, 1), CallSite());
  }
  Tensor moved(copy_to(device, d.buffer, size_t(byte_size(*d.type))), d.type);
  if (recording()) record_op(ops::def::to_device, nullptr, std::span(this, 1), std::span(&moved, 1), {}, CallSite());
  return moved;
}

template <>
std::vector<bool> Tensor::to_vector<bool>() const {
  std::vector<bool> out;
  for (double x : to_vector<double>()) out.push_back(x != 0);
  return out;
}

template <>
std::vector<std::complex<double>> Tensor::to_vector<std::complex<double>>() const {
  std::vector<std::complex<double>> out;
  if (!is_complex(dtype())) {
    for (double x : to_vector<double>()) out.emplace_back(x);
    return out;
  }
  concrete("to_vector()");
  const EagerScope outside;
  const std::vector<double> parts = apply_one(ops::def::as_real, nullptr, std::span(this, 1), CallSite()).to_vector<double>();
  for (size_t i = 0; i + 1 < parts.size(); i += 2) out.emplace_back(parts[i], parts[i + 1]);
  return out;
}
template <>
std::vector<std::complex<float>> Tensor::to_vector<std::complex<float>>() const {
  std::vector<std::complex<float>> out;
  for (const std::complex<double>& z : to_vector<std::complex<double>>()) out.emplace_back(z);
  return out;
}

void require_one_element(const Tensor& t) {
  if (t.size() != 1)
    throw Error(ErrorKind::invalid_argument, {.what = cat("item(): the tensor is ", t.type(), " and has ", t.size(), " elements"),
                                              .where = "",
                                              .why = "only a tensor of one element is one number",
                                              .fix = "take one element, reduce it as with all() or sum(), or read it as an array"});
}

Tensor Tensor::with(Strength strength) const {
  if (!data_ || data_->strength == strength) return *this;
  auto data = std::make_shared<TensorData>(*data_);
  data->strength = strength;
  const Tensor out(std::shared_ptr<const TensorData>(std::move(data)));
  if (!is_symbolic() && !Trace::current() && recording() && !is_complex(dtype()))  // tapes know a tensor by its address
    record_op(ops::def::reshape, ir::make_attrs(ops::ShapeAttrs{shape()}), std::span(this, 1), std::span(&out, 1), {}, CallSite());
  return out;
}

Tensor Tensor::alias(CallSite at) const {
  const TensorData& d = checked();
  const ir::AttrsRef attrs = ir::make_attrs(ops::ShapeAttrs{d.type->shape});
  if (Trace::current() || is_symbolic() || is_complex(d.type->dtype))
    return apply_one(ops::def::reshape, attrs, std::span(this, 1), at).with(d.strength);
  Tensor out(std::shared_ptr<const TensorData>(std::make_shared<TensorData>(d)));
  if (recording()) record_op(ops::def::reshape, attrs, std::span(this, 1), std::span(&out, 1), {}, at);
  return out;
}

std::string shape_text(const Shape& shape) {
  std::string s = "(";
  for (size_t i = 0; i < shape.size(); ++i) s += (i ? ", " : "") + (shape[i].known() ? shape[i].text() : std::string("None"));
  return s + (shape.size() == 1 ? ",)" : ")");
}

std::string Tensor::str() const {
  if (!data_) return "lm.Tensor()";
  std::string values, tail = cat(", shape=", shape_text(shape()), ", dtype=", numpy_name(dtype()), ")");
  if (is_symbolic()) {
    std::shared_ptr<Trace> trace = data_->trace.lock();
    return cat("lm.Tensor(\"", trace ? trace->name_of(data_->value) : cat("a value of the finished trace of ", data_->function), "\"",
               tail);
  }
  values = values_text();
  return cat("lm.Tensor(", values.find('\n') == std::string::npos ? "" : "\n", values, tail);
}

Operand::Operand(const Variable& v, CallSite at) : tensor_(v.read(at)), at_(at) {}
void Operand::throw_empty(const char* op) const {
  throw Error(ErrorKind::invalid_argument,
              {.what = cat(op, *op ? ": " : "", "this Tensor is empty"),
               .where = text(at_),
               .why = "it was never given a value: a gradient that nothing connects, or a default-constructed Tensor",
               .fix = "test it with defined() before using it"});
}
void Operand::take_wide(uint64_t value) {
  kind_ = Kind::tensor;
  tensor_ = tensor_from(&value, 1, {DType::u64, {}}).with(Strength::array);
}

namespace {

const char* weak_name(Operand::Kind kind) {
  switch (kind) {
    case Operand::Kind::boolean: return "bool";
    case Operand::Kind::integer: return "int";
    case Operand::Kind::floating: return "float";
    case Operand::Kind::tensor: break;
  }
  return "tensor";
}
std::string number_text(const Operand& x) {
  if (x.kind() == Operand::Kind::boolean) return x.number() != 0 ? "True" : "False";
  if (x.kind() == Operand::Kind::integer) return cat(x.resolve().item<int64_t>());
  std::string s = cat(x.number());
  if (x.kind() == Operand::Kind::floating && s.find_first_not_of("-0123456789") == std::string::npos) s += ".0";
  return s;
}

// The only table of dtypes that weakly typed numbers accept.
bool takes(DType dtype, Operand::Kind kind) {
  switch (kind) {
    case Operand::Kind::boolean: return dtype == DType::boolean;
    case Operand::Kind::integer: return dtype != DType::boolean;
    case Operand::Kind::floating: return has_gradients(dtype);
    case Operand::Kind::tensor: break;
  }
  return false;
}
template <class N>
bool fits(DType dtype, N x) {
  if (is_complex(dtype)) return true;
  return with_dtype(dtype, [&]<class T>() {
    if constexpr (!std::is_integral_v<T>)
      return true;
    else if constexpr (std::is_integral_v<N> && !std::is_same_v<T, bool>)
      return std::in_range<T>(x);
    else
      return x >= double(std::numeric_limits<T>::lowest()) && x <= double(std::numeric_limits<T>::max());
  });
}

OperandDType dtype_of(const Operand& x) {
  switch (x.kind()) {
    case Operand::Kind::boolean: return {Strength::number, DType::boolean};
    case Operand::Kind::integer: return {Strength::number, fits(DType::i32, x.number()) ? DType::i32 : DType::i64};
    case Operand::Kind::floating: return {Strength::number, DType::f32};
    case Operand::Kind::tensor: break;
  }
  return {x.tensor().strength(), x.tensor().dtype()};
}

// A number as a tensor of this dtype, which must hold it.
Tensor number_of_dtype(const Operand& x, DType dtype, Device device, const char* op) {
  if (!fits(dtype, x.number()))
    throw Error(ErrorKind::type, {.what = cat(op, ": ", number_text(x), " does not fit ", dtype),
                                  .where = text(x.at()),
                                  .why = "a number takes the dtype of the tensor that it meets",
                                  .fix = "convert the tensor: lm.astype(x, lm.int64)"});
  const Beside there(device);
  if (dtype == DType::boolean) return scalar_b(x.integer() != 0);
  return is_integer(dtype) ? scalar_i(x.integer(), dtype) : scalar(x.number(), dtype);
}

// An integer array or number keeps its values: those of a concrete one are compared with the dtype's bounds.
void require_fit(const Operand& x, DType dtype, const char* op) {
  const Tensor& t = x.tensor();
  if (common_dtype(t.dtype(), dtype) == dtype) return;
  std::string what;
  if (t.is_symbolic()) {
    what = cat(t.from_host() ? "the array " : "the number ", t.type(), " becomes ", dtype, " only if its values fit");
  } else {
    const auto compare = [&](const auto& values) {
      const auto large = std::find_if(values.begin(), values.end(), [&](auto n) { return !fits(dtype, n); });
      if (large != values.end()) what = cat("the array's ", *large, " does not fit ", dtype);
    };
    t.dtype() == DType::u64 ? compare(t.to_vector<uint64_t>()) : compare(t.to_vector<int64_t>());
    if (what.empty()) return;
  }
  throw Error(ErrorKind::type,
              {.what = cat(op, ": ", what),
               .where = text(x.at()),
               .why = cat("an integer ", t.from_host() ? "array" : "number", " takes the dtype of the integer tensor that it meets",
                          t.is_symbolic() ? "; while a function is traced its values are not known" : ""),
               .fix = t.is_symbolic() ? cat("convert the ", t.from_host() ? "array before the call" : "number", ": lm.astype(x, lm.",
                                            numpy_name(dtype), ")")
                                      : cat("convert the tensor: lm.astype(x, lm.", numpy_name(t.dtype()), ")")});
}

// A tensor as operation_dtype() has chosen: a bool as a number, an integer as f32, an array or a number in the dtype of a tensor.
Tensor of_dtype(const Operand& x, DType dtype, const char* op) {
  const Tensor& t = x.tensor();
  if (t.dtype() == dtype) return t;
  const auto convert = [&] { return apply_one(ops::def::astype, ir::make_attrs(ops::DTypeAttrs{dtype}), std::span(&t, 1), x.at()); };
  if (t.strength() == Strength::tensor) return convert();
  if (is_integer(t.dtype()) && is_integer(dtype)) require_fit(x, dtype, op);
  if (t.is_symbolic()) return convert();
  const EagerScope outside;  // a graph captures the converted array
  return convert();
}

}  // namespace

Tensor Operand::resolve() const {
  switch (kind_) {
    case Kind::boolean: return scalar_b(integer_ != 0);
    case Kind::integer: return scalar_i(integer_, integer_ == int32_t(integer_) ? DType::i32 : DType::i64);
    case Kind::floating: return scalar(floating_);
    case Kind::tensor: break;
  }
  return tensor();
}

Tensor Operand::resolve(DType dtype, Device device, const char* op) const {
  if (is_tensor()) {
    if (!defined()) throw_empty(op);
    const DType own = tensor_.dtype();
    const bool of_a_kind = is_floating(own) || is_complex(own) ? is_complex(dtype) || (is_floating(own) && is_floating(dtype))
                                                               : is_integer(own) && is_integer(dtype);
    const bool follows = tensor_.from_host() ? of_a_kind : is_number() && takes(dtype, is_floating(own) ? Kind::floating : Kind::integer);
    return follows ? of_dtype(*this, dtype, op) : tensor_;
  }
  if (!takes(dtype, kind_))
    throw Error(
        ErrorKind::type,
        {.what = cat(op, ": the ", weak_name(kind_), " ", number_text(*this), " does not go with ", dtype),
         .where = text(at_),
         .why = kind_ == Kind::boolean    ? "a bool goes with tensors of dtype bool only"
                : dtype == DType::boolean ? "a number goes with tensors of a numeric dtype"
                                          : "a float goes with tensors of a floating dtype only: the result would not fit the tensor's",
         .fix = kind_ == Kind::floating && dtype != DType::boolean
                    ? "convert the tensor: lm.astype(x, lm.float32)"
                    : cat("convert the tensor with lm.astype(x, lm.", kind_ == Kind::boolean ? "bool" : "int32", ")")});
  return number_of_dtype(*this, dtype, device, op);
}

std::vector<Tensor> resolve_all(const char* op, std::span<const Operand> operands, Mixing mixing) {
  std::vector<OperandDType> parts;
  const Operand* first = nullptr;  // the tensor that decides
  for (const Operand& o : operands) {
    if (!o.defined()) o.throw_empty(op);
    parts.push_back(dtype_of(o));
    if (o.is_tensor() && (!first || o.tensor().strength() < first->tensor().strength())) first = &o;
  }
  const std::optional<DType> dtype = operation_dtype(mixing, parts);
  if (!dtype) {
    for (const Operand& o : operands) {
      if (!first || &o == first) continue;
      if (!o.is_tensor())
        o.resolve(first->tensor().dtype(), first->tensor().device(), op);  // throws, unless another operand is the reason
      else if (o.tensor().dtype() != first->tensor().dtype())
        throw Error(
            ErrorKind::type,
            {.what = cat(op, ": ", operands[0].is_tensor() && &o != operands.data() ? operands[0].tensor().type() : first->tensor().type(),
                         " and ", o.tensor().type(), " have different dtypes"),
             .where = text(operands[0].at()),
             .why = o.tensor().from_host() ? "an array of the host takes the dtype of a tensor of its kind only, integer or floating"
                                           : "tensors are never converted silently",
             .fix = same_dtype_advice(first->tensor().dtype(), o.tensor().dtype())});
    }
    const Operand& most = *std::max_element(operands.begin(), operands.end(), [](auto& a, auto& b) { return a.kind() < b.kind(); });
    for (const Operand& o : operands) o.resolve(most.resolve().dtype(), default_device(), op);
    internal_error("operands that mix were refused");
  }
  std::vector<Tensor> out;
  for (const Operand& o : operands)
    out.push_back(o.is_tensor() ? of_dtype(o, *dtype, op)
                                : number_of_dtype(o, *dtype, first ? first->tensor().device() : default_device(), op));
  return out;
}

std::pair<Tensor, Tensor> resolve_pair(const char* op, const Operand& a, const Operand& b, Mixing mixing) {
  if (a.is_tensor() && b.is_tensor() && a.defined() && b.defined() && a.tensor().dtype() == b.tensor().dtype() &&
      (mixing != Mixing::fractions || has_gradients(a.tensor().dtype())))
    return {a.tensor(), b.tensor()};
  std::vector<Tensor> both = resolve_all(op, std::array{a, b}, mixing);
  return {std::move(both[0]), std::move(both[1])};
}

Tensor resolve_floating(const Operand& x) {
  if (x.is_tensor() && x.defined() && has_gradients(x.tensor().dtype())) return x.tensor();
  return std::move(resolve_all("", std::span(&x, 1), Mixing::fractions)[0]);
}

}  // namespace lamina
