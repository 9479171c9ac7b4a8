// Makers of random nodes of elementwise ops, cumsum and casts.
#pragma once
#include "tests/graph/order_makers.h"

namespace lamina::tests {

class ElementwiseMakers : protected OrderMakers {
 protected:
  using OrderMakers::OrderMakers;

  template <Value (*op)(Graph&, Value)>
  void smooth() {
    give(op(g(), any_float()));
  }
  template <Value (*op)(Graph&, Value)>
  void kinked() {
    const Value x = any_float();
    need_nonzero(x);
    give(op(g(), x));
  }
  template <Value (*op)(Graph&, Value)>
  void of_positive() {
    give(op(g(), positive(any_float())));
  }
  // In -0.9 to 0.9, where functions are smooth and results stay small.
  template <Value (*op)(Graph&, Value)>
  void of_less_than_1() {
    const Value x = any_float();
    give(op(g(), ops::mul(g(), ops::tanh(g(), x), ops::scalar(g(), type(x).dtype, 0.9))));
  }
  template <Value (*op)(Graph&, Value)>
  void rounding() {
    const Value x = any_float();
    if (gap(tensor(x), [](double v) { return std::abs(2 * v - std::round(2 * v)); }) < kMargin) reject();
    give(op(g(), x));
  }
  void acosh() {
    const Value x = any_float();
    give(ops::acosh(g(), ops::add(g(), positive(x), ops::scalar(g(), type(x).dtype, 1))));
  }
  void angle() {
    const Value x = any_float();
    give(ops::atan2(g(), x, positive(x)));
  }
  template <Value (*op)(Graph&, Value)>
  void classify() {
    give(op(g(), any_float()));
  }
  template <Value (*op)(Graph&, Value, Value)>
  void with_parameter() {
    const Value x = any_float();
    need_nonzero(x);
    give(op(g(), x, ops::scalar(g(), type(x).dtype, 0.3)));
  }
  template <Value (*op)(Graph&, Value, Value, Value)>
  void with_parameter_grad() {
    const Value y = any_float();
    need_nonzero(y);
    const auto same = values_where([&](const TensorType& t) { return t == type(y); });
    give(op(g(), pick(same), y, ops::scalar(g(), type(y).dtype, 0.3)));
  }
  void clip() {
    const Value x = any_float(), low = ops::scalar(g(), type(x).dtype, -0.7), high = ops::scalar(g(), type(x).dtype, 1.1);
    need_distance(x, low);
    need_distance(x, high);
    give(ops::clip(g(), x, low, high));
  }
  Value any_integer() {
    return any([](const TensorType& t) { return is_integer(t.dtype); });
  }
  template <Value (*op)(Graph&, Value, Value)>
  void on_bits() {
    const Value x = any_integer();
    give(op(g(), x, mate(x)));
  }
  void bitwise_not() { give(ops::bitwise_not(g(), any_integer())); }
  template <Value (*op)(Graph&, Value, Value)>
  void shift() {
    const Value x = any_integer();
    give(op(g(), x, ops::scalar(g(), type(x).dtype, 1)));
  }
  void cumsum() {
    const Value x = any_float(1);
    give(ops::cumsum(g(), x, number(0, int(type(x).rank()) - 1), chance(0.5), chance(0.3)));
  }
  void negate() { give(ops::neg(g(), any_number())); }
  void logical_not() { give(ops::logical_not(g(), any_bool())); }
  template <Value (*op)(Graph&, Value, Value)>
  void arithmetic() {
    const Value x = any_number(), y = mate(x);
    give(chance(0.8) ? op(g(), x, y) : op(g(), y, x));
  }
  template <Value (*op)(Graph&, Value, Value)>
  void arithmetic_floats() {
    const Value x = any_float();
    give(op(g(), x, mate(x)));
  }
  template <Value (*op)(Graph&, Value, Value)>
  void logical() {
    const Value x = any_bool();
    give(op(g(), x, mate(x)));
  }
  template <Value (*op)(Graph&, Value, Value)>
  void jumping() {
    const Value x = any_number(), y = mate(x);
    need_distance(x, y);
    give(op(g(), x, y));
  }
  void divide() {
    const Value x = any_float();
    give(ops::div(g(), x, positive(x)));
  }
  template <Value (*op)(Graph&, Value, Value)>
  void divide_down() {
    const Value x = any_number();
    const Value y = ops::scalar(g(), type(x).dtype, 3);
    if (is_floating(type(x).dtype) && gap(tensor(x), [](double v) { return std::abs(v / 3 - std::round(v / 3)); }) < kMargin) reject();
    give(op(g(), x, y));
  }
  void power() {
    const Value x = any_float();
    give(chance(0.5) ? ops::pow(g(), x, ops::scalar(g(), type(x).dtype, 2))
                     : ops::pow(g(), positive(x), ops::scalar(g(), type(x).dtype, 1.5)));
  }
  template <Value (*op)(Graph&, Value, Value)>
  void masked() {
    const Value y = any_float();
    if (op == ops::relu_grad) need_nonzero(y);
    const auto same = values_where([&](const TensorType& t) { return t == type(y); });
    give(op(g(), pick(same), y));
  }
  void choose() {
    const Value c = any_bool();
    const auto same = values_where([&](const TensorType& t) { return is_floating(t.dtype) && t.shape == type(c).shape; });
    const Value x = pick(same);
    give(ops::where(g(), c, x, mate(x)));
  }
  void convert() {
    const Value x = any([](const TensorType&) { return true; });
    const DType to = options_.only_f64 ? (is_floating(type(x).dtype) ? DType::f64 : pick(std::vector{DType::f64, DType::i32, DType::i64}))
                                       : pick(std::vector{DType::f32, DType::f64, DType::i32, DType::i64});
    if (is_floating(type(x).dtype) && is_integer(to) && gap(tensor(x), [](double v) { return std::abs(v - std::round(v)); }) < kMargin)
      reject();
    give(ops::astype(g(), x, to));
  }
};

}  // namespace lamina::tests
