// Tensor: an immutable array on a device or, while a function is traced, a symbolic value of its graph.
#pragma once
#include <complex>
#include <cstring>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "graph/frontend/call_site.h"
#include "graph/ir/op.h"
#include "runtime/core/common_dtype.h"
#include "runtime/core/error.h"
#include "runtime/core/type.h"
#include "runtime/device/buffer.h"

namespace lamina {

class Trace;
class Variable;
using TypeRef = std::shared_ptr<const TensorType>;
using Strength = OperandDType::Strength;

// The shared state of a Tensor. Concrete: a buffer of row-major elements. Symbolic: a value of a trace.
struct TensorData {
  TypeRef type;
  Device device;
  BufferRef buffer;            // null when symbolic
  std::weak_ptr<Trace> trace;  // symbolic: its trace; concrete: the trace whose body made it, if any. Expires with the trace
  ir::Value value;
  std::string function;                  // symbolic: the function being traced, for errors
  Strength strength = Strength::tensor;  // as an operand: whether it takes the dtype of tensors that it meets
};

class LAMINA_API Tensor {
 public:
  Tensor() = default;  // undefined, such as the gradient of an unconnected source
  // An array of this type, computed or pending; the buffer must be at least as large.
  Tensor(BufferRef buffer, TypeRef type);
  Tensor(BufferRef buffer, const TensorType& type);
  explicit Tensor(std::shared_ptr<const TensorData> data) : data_(std::move(data)) {}

  bool defined() const { return data_ != nullptr; }
  bool is_symbolic() const { return data_ && !data_->buffer; }
  const TensorType& type() const { return *checked().type; }
  const TypeRef& type_ref() const { return checked().type; }
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  int rank() const { return int(type().rank()); }
  // The number of elements; throws when a dimension is unknown.
  int64_t size() const;
  Device device() const { return checked().device; }

  // The only element, converted to T as astype does: a float becomes an integer by truncation, NaN becomes 0, and what is out of range the
  // nearest bound. Waits for the device. Throws for several elements and while tracing.
  template <class T>
  T item() const;
  // All elements in row-major order, converted to T in the same way. Waits for the device.
  template <class T>
  std::vector<T> to_vector() const;
  // The elements' address, after waiting for them; CPU tensors only (elsewhere call to(cpu) first).
  const void* data() const;
  // Copies all elements to `bytes` bytes of host memory; waits for the device.
  void copy_to_host(void* to, size_t bytes) const;
  // The same values on another device; itself when already there. Gradients are copied back to this device. In a traced function, ops run
  // on the function's device or a DeviceScope's, wherever their operands are.
  Tensor to(Device device) const;

  // lm.Tensor([[1. 2.]], shape=(1, 2), dtype=float32); symbolic: lm.Tensor("add:0", shape=(2, 2), dtype=float32).
  std::string str() const;
  // Only the elements, as NumPy prints them.
  std::string values_text() const;

  // The same value as an array of the host (NumPy's, a list), which takes the dtype of a tensor of its kind; as a number that a graph
  // computes, which takes that of any tensor that Python's would, and must be i32, i64 or f32; or as a tensor.
  Tensor with(Strength strength) const;
  // The same value as another tensor, through which gradients flow: derivatives by the one are not by the other. Shares its memory.
  Tensor alias(CallSite at = std::source_location::current()) const;
  Strength strength() const { return data_ ? data_->strength : Strength::tensor; }
  bool from_host() const { return strength() == Strength::array; }

  // For higher layers and the bindings.
  const BufferRef& buffer() const { return concrete("its memory").buffer; }
  const std::shared_ptr<const TensorData>& handle() const { return data_; }
  bool same(const Tensor& other) const { return data_ == other.data_; }  // the same object, not just equal elements
  // Throws "`what` of a symbolic tensor does not exist yet" unless this tensor is concrete.
  const TensorData& concrete(const char* what) const;

 private:
  const TensorData& checked() const;
  std::shared_ptr<const TensorData> data_;
};

LAMINA_API std::string shape_text(const Shape& shape);  // as in Python: "(2, 3)", "(3,)", "(None, 784)"
inline std::ostream& operator<<(std::ostream& out, const Tensor& t) { return out << t.str(); }

// An argument of an op: a tensor, Variable or number. Numbers are weakly typed: next to a tensor, an integer takes the tensor's dtype if
// numeric, a floating-point number only if floating. Alone, an integer is i32, a floating-point number f32.
class LAMINA_API Operand {
 public:
  enum class Kind : uint8_t { tensor, boolean, integer, floating };

  Operand(const Tensor& t, CallSite at = std::source_location::current()) : tensor_(t), at_(at) {}
  Operand(const Variable& v, CallSite at = std::source_location::current());  // reads it here, in program order
  template <class T>
    requires std::is_arithmetic_v<T>
  Operand(T value, CallSite at = std::source_location::current()) : at_(at) {
    if constexpr (std::is_same_v<T, bool>)
      kind_ = Kind::boolean, integer_ = value;
    else if constexpr (std::is_integral_v<T>) {
      kind_ = Kind::integer, integer_ = int64_t(value);
      if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(int64_t))
        if (integer_ < 0) take_wide(value);
    } else
      kind_ = Kind::floating, floating_ = double(value);
  }

  Kind kind() const { return kind_; }
  bool is_tensor() const { return kind_ == Kind::tensor; }
  bool is_number() const { return !is_tensor() || tensor_.strength() == Strength::number; }
  bool defined() const { return kind_ != Kind::tensor || tensor_.defined(); }
  const Tensor& tensor() const {  // undefined for a number; throws invalid_argument, with the place, for an empty Tensor
    if (!defined()) throw_empty("");
    return tensor_;
  }
  [[noreturn]] void throw_empty(const char* op) const;
  int64_t integer() const { return integer_; }  // of a bool or an integer
  double number() const { return kind_ == Kind::floating ? floating_ : double(integer_); }
  CallSite at() const { return at_; }
  // As a tensor of its own dtype, or of `dtype` for a number or an array that fits. Otherwise throws type, with the astype to write.
  Tensor resolve() const;
  Tensor resolve(DType dtype, Device device, const char* op) const;

 private:
  void take_wide(uint64_t value);  // beyond int64: an array of u64
  Tensor tensor_;
  Kind kind_ = Kind::tensor;
  int64_t integer_ = 0;
  double floating_ = 0;
  CallSite at_;
};
// The operands as tensors of one dtype, by operation_dtype. Throws type with `op`, both dtypes and the astype to write.
LAMINA_API std::pair<Tensor, Tensor> resolve_pair(const char* op, const Operand& a, const Operand& b, Mixing mixing = Mixing::strict);
LAMINA_API std::vector<Tensor> resolve_all(const char* op, std::span<const Operand> operands, Mixing mixing = Mixing::strict);
// One operand of a function of floating point: an integer or a bool as f32.
LAMINA_API Tensor resolve_floating(const Operand& x);

// --- inline definitions ---
template <class T>
std::vector<T> Tensor::to_vector() const {
  const TensorData& d = concrete("to_vector()");
  std::vector<T> out(static_cast<size_t>(size()));
  std::vector<std::byte> raw(out.size() * size_of(d.type->dtype));
  copy_to_host(raw.data(), raw.size());
  with_dtype(d.type->dtype, [&]<class S>() {
    for (size_t i = 0; i < out.size(); ++i) {
      S s;
      std::memcpy(&s, raw.data() + i * sizeof(S), sizeof(S));
      if constexpr (std::is_same_v<S, f16> || std::is_same_v<S, bf16>)
        out[i] = element_of<T>(float(s));
      else
        out[i] = element_of<T>(s);
    }
  });
  return out;
}
template <>
LAMINA_API std::vector<bool> Tensor::to_vector<bool>() const;
// Complex numbers, of any tensor; other types take real tensors alone.
template <>
LAMINA_API std::vector<std::complex<double>> Tensor::to_vector<std::complex<double>>() const;
template <>
LAMINA_API std::vector<std::complex<float>> Tensor::to_vector<std::complex<float>>() const;

LAMINA_API void require_one_element(const Tensor& t);
template <class T>
T Tensor::item() const {
  concrete("item()");
  require_one_element(*this);
  return to_vector<T>()[0];
}

}  // namespace lamina
