// Makers of random nodes of elementwise ops, cumsum and casts.
#pragma once
#include <set>
#include <string_view>

#include "tests/graph/order_makers.h"
#include "tests/ops/elementwise_rows.h"

namespace lamina::tests {

class ElementwiseMakers : protected OrderMakers {
 protected:
  using OrderMakers::OrderMakers;

  // An op of one or two floating operands at numbers of its row's range, where it has no bends.
  void from_table() {
    static const std::vector<const ElementwiseRow*> rows = [] {
      std::vector<const ElementwiseRow*> out;
      const std::set<std::string_view> have_bends{"atan2", "elu", "leaky_relu"};  // and makers of their own
      for (const ElementwiseRow& row : elementwise_rows()) {
        const ir::OpDef& op = ir::find_op(row.op);
        const bool floating = kernels::domain(kernels::ScalarOp(op.scalar_op)) == kernels::Domain::floating;
        if (floating && op.inputs <= 2 && !have_bends.contains(row.op)) out.push_back(&row);
      }
      return out;
    }();
    const ElementwiseRow& row = *pick(rows);
    const Value x = any_float();
    std::vector<Value> in{within(x, row.low, row.high)};
    if (ir::find_op(row.op).inputs == 2) in.push_back(within(mate(x), row.low2, row.high2));
    give(g().add(ir::find_op(row.op), std::move(in)));
  }
  // x where usual numbers are in the range, else moved into it.
  Value within(Value x, double low, double high) {
    if (low <= -2 && high >= 2) return x;
    auto scalar = [&](double v) { return ops::scalar(g(), type(x).dtype, v); };
    return ops::add(g(), ops::mul(g(), ops::tanh(g(), x), scalar(0.45 * (high - low))), scalar(0.5 * (low + high)));
  }
  template <Value (*op)(Graph&, Value)>
  void kinked() {
    const Value x = any_float();
    need_nonzero(x);
    give(op(g(), x));
  }
  template <Value (*op)(Graph&, Value)>
  void rounding() {
    const Value x = any_float();
    if (gap(tensor(x), [](double v) { return std::abs(2 * v - std::round(2 * v)); }) < kMargin) reject();
    give(op(g(), x));
  }
  void angle() {
    const Value x = any_float();
    give(ops::atan2(g(), x, positive(x)));
  }
  template <Value (*op)(Graph&, Value)>
  void of_any_float() {
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
