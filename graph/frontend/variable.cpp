#include "graph/frontend/variable.h"

#include <array>

#include "graph/frontend/copied_to.h"
#include "graph/frontend/device.h"
#include "graph/frontend/eager.h"
#include "graph/frontend/tape_record.h"
#include "graph/frontend/trace.h"
#include "graph/ops/ops.h"
#include "runtime/core/common_dtype.h"
#include "runtime/device/memory.h"

namespace lamina {
namespace {

// Counts a Variable among the holders of its device's memory while it lives.
struct Counted {
  std::shared_ptr<memory::Holder> holder;
  void operator()(VariableData* data) const { delete data; }
};

std::shared_ptr<VariableData> make_data(TypeRef type, Device device, std::string name, bool trainable, bool has_value = true) {
  auto holder = std::make_shared<memory::Holder>(name.empty() ? "a Variable" : cat("Variable '", name, "'"), device,
                                                 has_value && known(type->shape) ? int64_t(byte_size(*type)) : 0);
  std::shared_ptr<VariableData> data(new VariableData, Counted{std::move(holder)});
  data->state.type = *type;
  data->state.device = device;
  data->state.name = name.empty() ? "Variable" : std::move(name);
  data->type = std::move(type);
  data->trainable = trainable;
  return data;
}

}  // namespace

Variable::Variable(const Operand& initial, std::string name, bool trainable) {
  Trace* trace = Trace::current();
  Tensor value = initial.resolve();
  if (value.is_symbolic()) {
    if (!trace) value.concrete("the initial value");
    value = trace->evaluate_now(value, initial.at());
  }
  EagerScope outside;
  if (in_device_scope()) value = copied_to(value, default_device());
  data_ = make_data(value.type_ref(), value.device(), std::move(name), trainable && is_floating(value.dtype()));
  data_->state.buffer = value.buffer();
  if (trace) {
    data_->line = initial.at().line();
    trace->created.push_back({*this, data_->line});
  }
}

Variable Variable::uninitialized(const TensorType& type, Device device, std::string name, bool trainable) {
  return Variable(make_data(std::make_shared<const TensorType>(type), device, std::move(name), trainable));
}

Variable Variable::stand_in_for(const Variable& v) {
  Variable out(make_data(v.data_->type, v.device(), v.name(), v.trainable(), false));
  out.data_->stand_in = true;
  out.data_->models = v.data_->models;
  out.data_->one_model = v.data_->one_model;
  return out;
}

void Variable::stack() const {
  const TensorType& all = *data_->type;
  if (all.rank() == 0)
    throw Error(ErrorKind::invalid_argument, {.what = cat("stack: the variable '", name(), "' is ", all),
                                              .where = "",
                                              .why = "the first axis of a stacked variable is the model axis",
                                              .fix = "start it with one value per model"});
  data_->one_model = std::make_shared<const TensorType>(TensorType{all.dtype, Shape(all.shape.begin() + 1, all.shape.end())});
  data_->models = all.shape[0].number();
}

void Variable::stack(const Tensor& values) const {
  const BufferRef there = copied_to(values, device()).buffer();
  const TensorType& all = values.type();
  TypeRef one =
      all.rank() == 0 ? nullptr : std::make_shared<const TensorType>(TensorType{all.dtype, Shape(all.shape.begin() + 1, all.shape.end())});
  TensorType type = all;
  // Nothing below can fail, except stack() for a value without axes.
  std::lock_guard lock(data_->state.mutex);
  if (!one) return stack();
  data_->type = values.type_ref();
  data_->state.type = std::move(type);
  data_->state.buffer = there;
  std::get_deleter<Counted>(data_)->holder->resize(int64_t(byte_size(all)));
  data_->one_model = std::move(one);
  data_->models = all.shape[0].number();
  ++data_->state.version;
}

Variable per_model(const Tensor& values, std::string name) {
  Variable v(Operand(values, CallSite()), std::move(name), false);
  v.stack();
  return v;
}

Tensor Variable::read(CallSite at) const {
  if (Trace* trace = Trace::current()) return trace->read(*this, at);
  try {
    Tensor t(exec::read(data_->state), data_->type);
    if (recording()) record_read(*this, t);
    return t;
  } catch (const Error& e) {
    if (data_->stand_in)
      throw Error(ErrorKind::state, {.what = cat("the variable '", name(), "' has no value here"),
                                     .where = text(at),
                                     .why = "it stands for an argument of a traced function and means nothing outside of it",
                                     .fix = "use the Variable that was passed to the function"});
    throw e.at(text(at));
  }
}

namespace {

Tensor checked_value(const char* what, const Variable& v, const Operand& value, bool may_broadcast) {
  Tensor t = value.resolve(v.dtype(), v.device(), what);
  if (!value.is_tensor() && !may_broadcast && v.rank() > 0)
    t = apply_one(ops::def::broadcast_to, ir::make_attrs(ops::ShapeAttrs{v.shape()}), std::array{t}, value.at());
  if (t.dtype() != v.dtype())
    throw Error(ErrorKind::type, {.what = cat(what, ": the value is ", t.type(), ", the variable '", v.name(), "' is ", v.type()),
                                  .where = text(value.at()),
                                  .why = "a Variable keeps its dtype",
                                  .fix = common_dtype(t.dtype(), v.dtype()) == v.dtype()
                                             ? cat("convert the value: lm.astype(x, lm.", numpy_name(v.dtype()), ")")
                                             : cat("make the Variable with dtype=lm.", numpy_name(common_dtype(t.dtype(), v.dtype())),
                                                   ", or round the value: lm.astype(x, lm.", numpy_name(v.dtype()), ")")});
  if (!may_broadcast && t.shape() != v.shape() && known(t.shape()))
    throw Error(ErrorKind::invalid_argument,
                {.what = cat(what, ": the value is ", t.type(), ", the variable '", v.name(), "' is ", v.type()),
                 .where = text(value.at()),
                 .why = "a Variable keeps its shape",
                 .fix = "reshape or broadcast the value first"});
  return t;
}

// Replaces the value by update(value); retries when another thread has assigned it in between.
void update(const char* what, const Variable& v, const Operand& value, const ir::OpDef& op) {
  Tensor x = checked_value(what, v, value, true);
  if (broadcast(v.shape(), x.shape()) != v.shape())
    throw Error(ErrorKind::invalid_argument,
                {.what = cat(what, ": the value is ", x.type(), ", the variable '", v.name(), "' is ", v.type()),
                 .where = text(value.at()),
                 .why = "the value must broadcast to the Variable's shape",
                 .fix = "reshape the value first"});
  if (Trace* trace = Trace::current()) {
    Tensor in[] = {trace->read(v, value.at()), x};
    trace->assign(v, apply_one(op, nullptr, in, value.at()), value.at());
    return;
  }
  exec::VariableState& state = v.state();
  if (x.device() != v.device()) x = copied_to(x, v.device());
  for (;;) {
    uint64_t version;
    BufferRef before;
    {
      std::lock_guard lock(state.mutex);
      version = state.version;
      before = state.buffer;
    }
    if (!before) before = exec::read(state);  // throws: it has no value
    Tensor in[] = {Tensor(std::move(before), v.handle()->type), x};
    BufferRef after = apply_one(op, nullptr, in, value.at()).buffer();
    std::lock_guard lock(state.mutex);
    if (state.version != version) continue;
    state.buffer = std::move(after);
    ++state.version;
    return;
  }
}

}  // namespace

void Variable::assign(const Operand& value) const {
  Tensor t = checked_value("assign", *this, value, false);
  if (Trace* trace = Trace::current()) return trace->assign(*this, t, value.at());
  exec::write(data_->state, copied_to(t, device()).buffer());
}
void Variable::assign_add(const Operand& value) const { update("assign_add", *this, value, ops::def::add); }
void Variable::assign_sub(const Operand& value) const { update("assign_sub", *this, value, ops::def::sub); }
const Variable& Variable::operator*=(const Operand& x) const { return update("*=", *this, x, ops::def::mul), *this; }
const Variable& Variable::operator/=(const Operand& x) const { return update("/=", *this, x, ops::def::div), *this; }

std::string Variable::str() const {
  std::string values = "(no value)";
  if (!data_->stand_in) {
    EagerScope outside;
    std::lock_guard lock(data_->state.mutex);
    if (data_->state.buffer) values = Tensor(data_->state.buffer, data_->type).values_text();
  }
  return cat("lm.Variable(", values.find('\n') == std::string::npos ? "" : "\n", values, ", shape=", shape_text(shape()),
             ", dtype=", numpy_name(dtype()), ", name=\"", name(), "\")");
}

}  // namespace lamina
