// Variable: a tensor that can be assigned. Shared by reference: copies name one and the same state, graphs capture it by reference.
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
  int64_t models = 0;     // of a stacked Variable: the length of its first axis, the model axis; 0: it is not stacked
  TypeRef one_model;      // of a stacked Variable: its type without the model axis
  bool stand_in = false;  // takes an argument's place while a function is traced; has no value
  SourceLine line;        // where it was made
};

class LAMINA_API Variable {
 public:
  // Starts with initial's value (read now, never traced: inside a traced function the value is computed eagerly; one that depends on the
  // function's arguments is an error). A number makes a tensor without axes. Lives on the current DeviceScope's device, or initial's.
  explicit Variable(const Operand& initial, std::string name = "", bool trainable = true);
  explicit Variable(std::shared_ptr<VariableData> data) : data_(std::move(data)) {}
  static Variable stand_in_for(const Variable& v);  // for tracing
  static Variable uninitialized(const TensorType& type, Device device, std::string name, bool trainable);

  // Of a stacked Variable inside of the vmap that maps it: without the model axis.
  const TensorType& type() const { return data_->models ? seen_type() : *data_->type; }
  const TypeRef& type_ref() const;
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  int rank() const { return int(type().rank()); }
  int64_t size() const { return size_of(shape()).number(); }
  Device device() const { return data_->state.device; }
  const std::string& name() const { return data_->state.name; }
  bool trainable() const { return data_->trainable; }

  // The value now; later assignments do not change what was read. While tracing: a read at this point of program order.
  Tensor read(CallSite at = std::source_location::current()) const;
  operator Tensor() const { return read(); }
  // The value must have the Variable's dtype and shape; numbers are weak. Throws type or invalid_argument.
  void assign(const Operand& value) const;
  void assign_add(const Operand& value) const;  // the value may broadcast to the Variable's shape
  void assign_sub(const Operand& value) const;
  // v = v op x.
  const Variable& operator+=(const Operand& x) const { return assign_add(x), *this; }
  const Variable& operator-=(const Operand& x) const { return assign_sub(x), *this; }
  const Variable& operator*=(const Operand& x) const;
  const Variable& operator/=(const Operand& x) const;
  std::string str() const;  // lm.Variable([1. 2.], shape=(2,), dtype=float32, name="w")

  // Makes the first axis the model axis, before anything uses the Variable; see vmap. Throws invalid_argument when it has no axes.
  void stack() const;
  void stack(const Tensor& values) const;           // the same with new values, one per model
  int64_t models() const { return data_->models; }  // 0: it is not stacked

  const std::shared_ptr<VariableData>& handle() const { return data_; }
  exec::VariableState& state() const { return data_->state; }
  bool same(const Variable& other) const { return data_ == other.data_; }

 private:
  const TensorType& seen_type() const;
  std::shared_ptr<VariableData> data_;
};

// Hyperparameters of an ensemble: a stacked Variable, not trainable, whose first axis is the model axis. Inside of vmap it is one model's
// value.
LAMINA_API Variable per_model(const Tensor& values, std::string name = "per_model");

}  // namespace lamina
