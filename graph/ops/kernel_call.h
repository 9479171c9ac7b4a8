// Wraps a plain kernel function as the Kernel that an op's hook returns.
//
//   void softmax<float>(Stream&, const View& x, const View& y, int axis);       kernels/softmax.h
//   return bind<kernels::cpu::softmax<float>>(axis);                            graph/ops/softmax.cpp
//
// The leading View parameters are the node's inputs, then its results. A function that takes two spans of views instead gets all inputs and
// all results. The remaining parameters are plain arguments, stored in the Kernel.
//
// bind<kernels::cuda::X, On::gpu> is for kernels of GPUs, which may be missing. When kernels take the same arguments on every device, one
// hook serves all: template <On on> with bind<LAMINA_ON(on, softmax<T>)>(axis), as .cpu = kernel<On::cpu>, .cuda = kernel<On::gpu>.
#pragma once
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "graph/ir/op.h"
#include "kernels/copy.h"
#include "kernels/gpu_kernel.h"

namespace lamina::ops {

enum class On { cpu, gpu };
#define LAMINA_ON(on, ...) ((on) == On::cpu ? &kernels::cpu::__VA_ARGS__ : &kernels::cuda::__VA_ARGS__), (on)

namespace detail {

using Views = std::span<const View* const>;

template <class F>
struct KernelFunction;
template <class... P>
struct KernelFunction<void (*)(Stream&, P...)> {
  template <size_t N>
  static constexpr size_t leading_views() {
    if constexpr (N < sizeof...(P)) {
      if constexpr (std::is_same_v<std::tuple_element_t<N, std::tuple<P...>>, const View&>) return leading_views<N + 1>();
    }
    return N;
  }
  static constexpr size_t views = leading_views<0>();
  static constexpr bool takes_spans = views == 0 && std::is_same_v<std::tuple_element_t<0, std::tuple<P..., void>>, Views>;
  static constexpr size_t skipped = takes_spans ? 2 : views;  // parameters before the plain arguments

  template <size_t... I>
  static std::tuple<std::decay_t<std::tuple_element_t<skipped + I, std::tuple<P...>>>...> arguments(std::index_sequence<I...>);
  using Args = decltype(arguments(std::make_index_sequence<sizeof...(P) - skipped>()));
};

template <class F>
struct Bound {
  F function;
  typename KernelFunction<F>::Args args;
};

template <class F>
void run_kernel(const KernelCall& call) {
  using Function = KernelFunction<F>;
  const auto& [function, args] = *static_cast<const Bound<F>*>(call.args);
  if constexpr (Function::takes_spans) {
    std::apply([&](const auto&... arg) { function(call.stream, call.in, call.out, arg...); }, args);
  } else {
    auto view = [&](size_t i) -> const View& { return i < call.in.size() ? *call.in[i] : *call.out[i - call.in.size()]; };
    [&]<size_t... I>(std::index_sequence<I...>) {
      std::apply([&](const auto&... arg) { function(call.stream, view(I)..., arg...); }, args);
    }(std::make_index_sequence<Function::views>());
  }
}

}  // namespace detail

// kernels/copy.h as a kernel of either device.
template <On on>
void copy(Stream& stream, const View& x, const View& y) {
  if constexpr (on == On::cpu) {
    kernels::cpu::copy_elements(x, y);
  } else {
    static const auto kernel = kernels::gpu_kernel<&kernels::cuda::copy_elements>();
    kernel(stream, x, y);
  }
}

// Empty for a kernel of GPUs that is not registered (kernels/gpu_kernel.h).
template <auto F, On on = On::cpu, class... A>
Kernel bind(A&&... args) {
  using Function = decltype(F);
  Function function = nullptr;
  if constexpr (on == On::cpu)
    function = F;
  else
    function = kernels::gpu_kernel<F>();
  if (!function) return {};
  using Args = typename detail::KernelFunction<Function>::Args;
  return {detail::run_kernel<Function>, std::make_shared<const detail::Bound<Function>>(function, Args(std::forward<A>(args)...))};
}

// make.operator()<T>() for a floating-point type; otherwise empty.
template <class F>
Kernel for_floating(DType dtype, F&& make) {
  switch (dtype) {
    case DType::f16: return make.template operator()<f16>();
    case DType::bf16: return make.template operator()<bf16>();
    case DType::f32: return make.template operator()<float>();
    case DType::f64: return make.template operator()<double>();
    default: return {};
  }
}

// make.operator()<T>() for any numeric type (not bool).
template <class F>
Kernel for_numeric(DType dtype, F&& make) {
  switch (dtype) {
    case DType::boolean: return {};
    case DType::u8: return make.template operator()<uint8_t>();
    case DType::i8: return make.template operator()<int8_t>();
    case DType::i16: return make.template operator()<int16_t>();
    case DType::i32: return make.template operator()<int32_t>();
    case DType::i64: return make.template operator()<int64_t>();
    default: return for_floating(dtype, std::forward<F>(make));
  }
}

// make.operator()<T>() with an unsigned type of the elements' size: for kernels that only move data.
template <class F>
Kernel for_width(DType dtype, F&& make) {
  switch (size_of(dtype)) {
    case 1: return make.template operator()<uint8_t>();
    case 2: return make.template operator()<uint16_t>();
    case 4: return make.template operator()<uint32_t>();
    case 8: return make.template operator()<uint64_t>();
    default: return {};
  }
}

}  // namespace lamina::ops
