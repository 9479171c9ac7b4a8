#include "graph/frontend/tensor.h"

#include <cmath>
#include <limits>
#include <optional>

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

void require_one_element(const Tensor& t) {
  if (t.size() != 1)
    throw Error(ErrorKind::invalid_argument, {.what = cat("item(): the tensor is ", t.type(), " and has ", t.size(), " elements"),
                                              .where = "",
                                              .why = "only a tensor of one element is one number",
                                              .fix = "take one element first, or use to_vector()"});
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
    case Operand::Kind::floating: return is_floating(dtype);
    case Operand::Kind::tensor: break;
  }
  return false;
}
bool fits(DType dtype, double x) {
  return with_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      return x >= double(std::numeric_limits<T>::lowest()) && x <= double(std::numeric_limits<T>::max());
    else
      return true;
  });
}

}  // namespace

Tensor Operand::resolve() const {
  switch (kind_) {
    case Kind::boolean: return scalar_b(integer_ != 0);
    case Kind::integer: return scalar_i(integer_, integer_ == int32_t(integer_) ? DType::i32 : DType::i64);
    case Kind::floating: return scalar(floating_);
    case Kind::tensor: break;
  }
  return tensor_;
}

Tensor Operand::resolve(DType dtype, Device device, const char* op) const {
  if (is_tensor()) return tensor_;
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
  if (!fits(dtype, number()))
    throw Error(ErrorKind::type, {.what = cat(op, ": ", number_text(*this), " does not fit ", dtype),
                                  .where = text(at_),
                                  .why = "a number takes the dtype of the tensor that it meets",
                                  .fix = "convert the tensor: lm.astype(x, lm.int64)"});
  const Beside there(device);
  return kind_ == Kind::integer && !is_floating(dtype) ? scalar_i(integer_, dtype) : scalar(number(), dtype);
}

std::pair<Tensor, Tensor> resolve_pair(const char* op, const Operand& a, const Operand& b) {
  if (a.is_tensor() && b.is_tensor()) {
    if (a.tensor().dtype() != b.tensor().dtype())
      throw Error(ErrorKind::type, {.what = cat(op, ": ", a.tensor().type(), " and ", b.tensor().type(), " have different dtypes"),
                                    .where = text(a.at()),
                                    .why = "tensors are never converted silently",
                                    .fix = same_dtype_advice(a.tensor().dtype(), b.tensor().dtype())});
    return {a.tensor(), b.tensor()};
  }
  if (a.is_tensor()) return {a.tensor(), b.resolve(a.tensor().dtype(), a.tensor().device(), op)};
  if (b.is_tensor()) return {a.resolve(b.tensor().dtype(), b.tensor().device(), op), b.tensor()};
  Tensor first = a.kind() >= b.kind() ? a.resolve() : b.resolve();
  return a.kind() >= b.kind() ? std::pair(first, b.resolve(first.dtype(), first.device(), op))
                              : std::pair(a.resolve(first.dtype(), first.device(), op), first);
}

}  // namespace lamina
