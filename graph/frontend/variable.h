// Variable: a tensor that can be assigned. Copies share one state, and graphs capture it by reference.
#pragma once
#include <memory>
#include <string>

#include "graph/frontend/tensor.h"
#include "runtime/exec/executor.h"

namespace lamina {

struct VariableData {
  exec::VariableState state;  // its device and type never change
  TypeRef type;
  bool trainable = true;
  int64_t models = 0;     // stacked: the length of its first axis, the model axis; 0: not stacked
  TypeRef one_model;      // stacked: its type without the model axis
  bool stand_in = false;  // replaces an argument while tracing; has no value
  SourceLine line;        // where it was created
};

class LAMINA_API Variable {
 public:
  // Reads the initial value now, never traced: inside of a traced function it is computed eagerly, and a value that depends on the
  // function's arguments is an error. A number makes a tensor without axes. Lives on the current DeviceScope's device, or on initial's.
  explicit Variable(const Operand& initial, std::string name = "", bool trainable = true);
  explicit Variable(std::shared_ptr<VariableData> data) : data_(std::move(data)) {}
  static Variable stand_in_for(const Variable& v);  // for tracing
  static Variable uninitialized(const TensorType& type, Device device, std::string name, bool trainable);

  // A move copies: the Variable that was moved from stays the same one.
  Variable(const Variable&) = default;
  Variable& operator=(const Variable&) = default;

  // For a stacked Variable inside of a vmap that maps it: the type without the model axis.
  const TensorType& type() const { return data_->models ? seen_type() : *data_->type; }
  const TypeRef& type_ref() const;
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  int rank() const { return int(type().rank()); }
  int64_t size() const { return size_of(shape()).number(); }
  Device device() const { return data_->state.device; }
  const std::string& name() const { return data_->state.name; }
  bool trainable() const { return data_->trainable; }

  // The current value; later assignments do not change the result. While tracing: a read at this point of program order.
  Tensor read(CallSite at = std::source_location::current()) const;
  operator Tensor() const { return read(); }
  // The value must have the Variable's dtype and shape; numbers are weakly typed. Throws type or invalid_argument.
  void assign(const Operand& value) const;
  void assign_add(const Operand& value) const;  // the value may broadcast
  void assign_sub(const Operand& value) const;
  // v = v op x.
  const Variable& operator+=(const Operand& x) const { return assign_add(x), *this; }
  const Variable& operator-=(const Operand& x) const { return assign_sub(x), *this; }
  const Variable& operator*=(const Operand& x) const;
  const Variable& operator/=(const Operand& x) const;
  std::string str() const;  // lm.Variable([1. 2.], shape=(2,), dtype=float32, name="w")

  // Makes the first axis the model axis (see vmap); call it before the first use. Throws invalid_argument when there are no axes.
  void stack() const;
  void stack(const Tensor& values) const;           // the same with new values, one per model
  int64_t models() const { return data_->models; }  // 0: not stacked

  const std::shared_ptr<VariableData>& handle() const { return data_; }
  exec::VariableState& state() const { return data_->state; }
  bool same(const Variable& other) const { return data_ == other.data_; }

 private:
  const TensorType& seen_type() const;
  std::shared_ptr<VariableData> data_;
};

// A hyperparameter of an ensemble: a stacked Variable that is not trainable. Inside of vmap it is one model's value.
LAMINA_API Variable per_model(const Tensor& values, std::string name = "per_model");

}  // namespace lamina
