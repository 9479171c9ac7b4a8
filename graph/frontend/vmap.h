// vmap: maps a function of one model (or example) over a stack of them. The function is traced, and its graph gets a model axis
// (autodiff/batch.h); then it runs at once, or joins the trace around it. Stacked Variables that it uses are mapped too (ModelAxis).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/frontend/tensor.h"
#include "graph/frontend/typed_function.h"

namespace lamina {

// The position of the model axis in an argument or result; empty: none, shared by all models.
using MapAxis = std::optional<int64_t>;

struct VmapArgument {
  Tensor tensor;
  MapAxis axis;      // negative: from the end
  std::string name;  // for errors: "x"; may be empty
};
struct VmapResults {
  std::vector<Tensor> tensors;
  std::vector<MapAxis> axes;  // one per tensor
};
// The common base of both languages. `body` runs once, on arguments without model axes. Throws invalid_argument for an axis out of range,
// for different lengths, when nothing is mapped, and for an unmapped result that differs between models.
LAMINA_API std::vector<Tensor> vmap_call(const std::string& name, std::span<const VmapArgument> arguments, std::optional<int64_t> axis_size,
                                         CallSite at, const std::function<VmapResults(std::span<const Tensor>)>& body);

struct VmapOptions {
  std::vector<MapAxis> in_axes = {0};     // one for all arguments, or one each; a vector's applies to all its tensors
  std::vector<MapAxis> out_axes = {0};    // the same for results
  std::optional<int64_t> axis_size = {};  // number of models, if no argument has the axis
  std::string name = "vmap";              // for errors
};

namespace typed {
LAMINA_API MapAxis axis_for(const std::vector<MapAxis>& axes, size_t i, size_t count, const char* what, const std::string& name);
}

template <class F>
class Vmapped {
 public:
  Vmapped(F f, VmapOptions options) : f_(std::move(f)), options_(std::move(options)) {}

  template <class... Args>
  auto operator()(const Args&... args) const {
    using Result = typename typed::Outside<std::invoke_result_t<const F&, const Args&...>>::type;
    std::vector<VmapArgument> arguments;
    std::vector<Variable> variables;
    size_t i = 0;
    (add(arguments, variables, args, i++, sizeof...(Args)), ...);
    std::vector<size_t> sizes;
    std::vector<Tensor> out = vmap_call(options_.name, arguments, options_.axis_size, {}, [&](std::span<const Tensor> tensors) {
      typed::Reader in{tensors, variables};
      std::tuple<Args...> one{typed::rebuild(in, args)...};  // braces evaluate from left to right
      VmapResults results;
      if constexpr (std::is_void_v<Result>)
        std::apply(f_, one);
      else
        take(results, sizes, std::apply(f_, one));
      return results;
    });
    if constexpr (!std::is_void_v<Result>) {
      std::span<const Tensor> in(out);
      size_t size = 0;
      return typed::rebuild_result<Result>(in, sizes, size);
    }
  }

 private:
  template <class T>
  void add(std::vector<VmapArgument>& out, std::vector<Variable>& variables, const T& value, size_t i, size_t count) const {
    typed::Flat flat;
    typed::flatten(flat, value);
    const MapAxis axis = typed::axis_for(options_.in_axes, i, count, "in_axes", options_.name);
    for (Tensor& t : flat.tensors) out.push_back({std::move(t), axis, cat("argument ", i)});
    variables.insert(variables.end(), flat.variables.begin(), flat.variables.end());
  }
  template <class T>
  void take(VmapResults& out, std::vector<size_t>& sizes, const T& value) const {
    if constexpr (requires { std::tuple_size<T>::value; }) {
      size_t i = 0;
      std::apply([&](auto&... one) { (take_one(out, sizes, one, i++, sizeof...(one)), ...); }, value);
    } else {
      take_one(out, sizes, value, 0, 1);
    }
  }
  template <class T>
  void take_one(VmapResults& out, std::vector<size_t>& sizes, const T& value, size_t i, size_t count) const {
    typed::flatten_result(out.tensors, sizes, value);
    out.axes.resize(out.tensors.size(), typed::axis_for(options_.out_axes, i, count, "out_axes", options_.name));
  }
  F f_;
  VmapOptions options_;
};

// Maps f over its arguments' axes: vmap(f)(x)[i] is f(x[i]). f takes and returns what lm::function's may; Variables are passed as they are.
// Stacked Variables are seen without their model axis, and an assignment gives each model its own value. Calls can be nested, used in an
// lm::function or use one, and differentiated from inside and outside.
template <class F>
Vmapped<F> vmap(F f, VmapOptions options = {}) {
  return Vmapped<F>(std::move(f), std::move(options));
}

}  // namespace lamina
