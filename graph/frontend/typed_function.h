// lm::function(f): traces f into one graph per signature. Tensors and vectors of tensors become inputs, Variables are passed by reference,
// numbers and strings select the graph.
#pragma once
#include <array>
#include <concepts>
#include <initializer_list>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/frontend/device.h"
#include "graph/frontend/function.h"

namespace lamina {
namespace typed {

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

struct Flat {
  std::vector<Tensor> tensors;
  std::vector<Variable> variables;
  std::string statics;
};
template <class T>
void flatten(Flat& out, const T& value) {
  if constexpr (std::is_same_v<T, Tensor>) {
    out.tensors.push_back(value);
    out.statics += 'T';
  } else if constexpr (std::is_same_v<T, Variable>) {
    out.variables.push_back(value);
    out.statics += 'V';
  } else if constexpr (IsVector<T>::value) {
    out.statics += cat('[', value.size());
    for (auto& one : value) flatten(out, one);
  } else if constexpr (std::is_floating_point_v<T>) {
    out.statics += cat(std::hexfloat, 'f', sizeof(T), ':', value, ';');
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    out.statics += cat(std::is_same_v<T, bool> ? 'b' : 'i', sizeof(T), ':', int64_t(value), ';');
  } else if constexpr (std::is_convertible_v<T, std::string>) {
    std::string s = value;
    out.statics += cat('s', s.size(), ':', s);
  } else {
    static_assert(std::is_void_v<T>, "an argument of an lm::function is a Tensor, a Variable, a vector of them, a number or a string");
  }
}

// Describes an argument and its parts in words, to explain retraces. Tensors have their names already.
template <class T>
void describe(std::vector<ArgumentPart>& out, size_t& tensors, const FunctionOptions& options, std::string name, const T& value) {
  std::string text;
  if constexpr (std::is_same_v<T, Tensor>) {
    text = "a tensor";
    if (tensors < options.argument_names.size() && !options.argument_names[tensors].empty()) name = options.argument_names[tensors];
    ++tensors;
  } else if constexpr (std::is_same_v<T, Variable>) {
    text = "a Variable";
  } else if constexpr (IsVector<T>::value) {
    text = cat("a list of ", value.size());
  } else if constexpr (std::is_enum_v<T>) {
    text = cat(int64_t(value));
  } else {
    text = cat(value);
  }
  Flat flat;
  if constexpr (!IsVector<T>::value) flatten(flat, value);
  out.push_back({name, text, IsVector<T>::value ? text : flat.statics});
  if constexpr (IsVector<T>::value)
    for (size_t i = 0; i < value.size(); ++i) describe(out, tensors, options, cat(name, '[', i, ']'), value[i]);
}

struct Reader {
  std::span<const Tensor> tensors;
  std::span<const Variable> variables;
  size_t tensor = 0, variable = 0;
};
// `original` with its Tensors and Variables replaced by the reader's next ones.
template <class T>
T rebuild(Reader& in, const T& original) {
  if constexpr (std::is_same_v<T, Tensor>)
    return in.tensors[in.tensor++];
  else if constexpr (std::is_same_v<T, Variable>)
    return in.variables[in.variable++];
  else if constexpr (IsVector<T>::value) {
    T out;
    for (auto& one : original) out.push_back(rebuild(in, one));
    return out;
  } else
    return original;
}

// Converts a result to a list of Tensors and back. `sizes` keeps the lengths of vectors.
template <class T>
void flatten_result(std::vector<Tensor>& out, std::vector<size_t>& sizes, const T& value) {
  if constexpr (std::is_same_v<T, Tensor>)
    out.push_back(value);
  else if constexpr (std::is_same_v<T, Variable>)
    out.push_back(value.read());
  else if constexpr (IsVector<T>::value) {
    sizes.push_back(value.size());
    for (auto& one : value) flatten_result(out, sizes, one);
  } else {
    std::apply([&](auto&... one) { (flatten_result(out, sizes, one), ...); }, value);
  }
}
template <class T>
struct Outside {  // a caller's type for T: a Variable becomes a Tensor
  using type = std::conditional_t<std::is_same_v<T, Variable>, Tensor, T>;
};
template <class T>
T rebuild_result(std::span<const Tensor>& in, const std::vector<size_t>& sizes, size_t& size) {
  if constexpr (std::is_same_v<T, Tensor>) {
    Tensor first = in.front();
    in = in.subspan(1);
    return first;
  } else if constexpr (IsVector<T>::value) {
    T out(sizes[size++]);
    for (auto& one : out) one = rebuild_result<typename T::value_type>(in, sizes, size);
    return out;
  } else {
    T out;
    std::apply([&](auto&... one) { ((one = rebuild_result<std::remove_reference_t<decltype(one)>>(in, sizes, size)), ...); }, out);
    return out;
  }
}

// The parameters of f, where they are written out: Parameters<R(P...)>. Of generic lambdas: Parameters<void>.
template <class Signature>
struct Parameters {
  using type = void;
};
template <class R, class... P>
struct Parameters<R(P...)> {
  using type = R(std::remove_cvref_t<P>...);
};
template <class F>
struct SignatureOf : Parameters<std::remove_pointer_t<F>> {};
template <class F>
  requires requires { &F::operator(); }
struct SignatureOf<F> {
  template <class R, class... P>
  static Parameters<R(P...)> of(R (F::*)(P...) const);
  template <class R, class... P>
  static Parameters<R(P...)> of(R (F::*)(P...) const noexcept);
  template <class R, class... P>
  static Parameters<R(P...)> of(R (F::*)(P...));
  using type = typename decltype(of(&F::operator()))::type;
};

// The call with arguments of exactly the parameters' types, which knows the caller's line for errors and retraces.
template <class Self, class Signature>
struct CallWithLine {
  void operator()(CallWithLine) const = delete;  // for `using`
};
template <class Self, class R, class... P>
struct CallWithLine<Self, R(P...)> {
  auto operator()(const P&... args, std::source_location at = std::source_location::current()) const {
    return static_cast<const Self&>(*this).call(CallSite(at), args...);
  }
};

}  // namespace typed

template <class F>
class TypedFunction : public typed::CallWithLine<TypedFunction<F>, typename typed::SignatureOf<F>::type> {
 public:
  TypedFunction(F f, FunctionOptions options) : f_(std::move(f)), function_(std::move(options)) {}

  using typed::CallWithLine<TypedFunction<F>, typename typed::SignatureOf<F>::type>::operator();
  template <class... Args>
  auto operator()(const Args&... args) const {
    return call({}, args...);
  }
  template <class... Args>
  auto call(CallSite at, const Args&... args) const {
    using Result = typename typed::Outside<std::invoke_result_t<const F&, const Args&...>>::type;
    if (config::functions_run_eagerly()) return Result(f_(args...));
    return with_arguments(
        [&](Arguments arguments) {
          arguments.at = at;
          if (function_.by_rows()) arguments.ranks = function_.ranks_of(arguments);
          ConcreteFunction* graph = function_.find(arguments);
          if (!graph) graph = &function_.get(arguments, body(args...));
          std::vector<Tensor> out = graph->call_matched(arguments.tensors, arguments.variables, arguments.at);
          if constexpr (std::is_same_v<Result, Tensor>)
            return std::move(out[0]);
          else if constexpr (!std::is_void_v<Result>) {
            std::span<const Tensor> in(out);
            size_t size = 0;
            return typed::rebuild_result<Result>(in, *std::static_pointer_cast<std::vector<size_t>>(graph->structure()), size);
          }
        },
        args...);
  }
  // The graph for arguments like these. Traces if there is none, even while functions run eagerly.
  template <class... Args>
  ConcreteFunction& concrete(const Args&... args) const {
    return with_arguments([&](const Arguments& arguments) -> ConcreteFunction& { return function_.get(arguments, body(args...)); },
                          args...);
  }
  template <class... Args>
  Inspection inspect(const Args&... args) const {
    return concrete(args...).inspect();
  }
  template <class... Args>
  std::string explain(const Args&... args) const {
    return concrete(args...).explain();
  }
  int trace_count() const { return function_.trace_count(); }
  const Function& untyped() const { return function_; }

 private:
  template <class Use, class... Args>
  decltype(auto) with_arguments(Use use, const Args&... args) const {
    if constexpr ((std::is_same_v<Args, Tensor> && ...)) {  // the common case allocates nothing
      std::array<Tensor, sizeof...(Args)> tensors{args...};
      return use(Arguments{tensors, {}, {}, {}});
    } else {
      typed::Flat flat;
      (typed::flatten(flat, args), ...);
      return use(Arguments{flat.tensors, flat.variables, flat.statics, {}});
    }
  }
  template <class... Args>
  TracedBody body(const Args&... args) const {
    return [&](std::span<const Tensor> tensors, std::span<const Variable> variables) {
      typed::Reader in{tensors, variables};
      std::tuple<Args...> symbolic{typed::rebuild(in, args)...};  // braces evaluate from left to right
      Traced out;
      [[maybe_unused]] size_t position = 0, tensors_met = 0;
      (typed::describe(out.arguments, tensors_met, function_.options(), cat("argument ", position++), args), ...);
      auto sizes = std::make_shared<std::vector<size_t>>();
      if constexpr (std::is_void_v<std::invoke_result_t<const F&, const Args&...>>)
        std::apply(f_, symbolic);
      else
        typed::flatten_result(out.outputs, *sizes, std::apply(f_, symbolic));
      out.structure = sizes;
      return out;
    };
  }
  F f_;
  mutable Function function_;
};

// f takes and returns Tensors (or vectors, pairs, tuples of them; see above). It is traced at its first call with a new signature: dtypes,
// shapes and devices of tensors, dtypes and shapes of Variables, values of the rest. Captured Variables are used by reference.
template <class F>
TypedFunction<F> function(F f, FunctionOptions options = {}) {
  return TypedFunction<F>(std::move(f), std::move(options));
}
template <class F>
TypedFunction<F> function(F f, std::initializer_list<TensorSpec> signature) {
  FunctionOptions options;
  options.signature.emplace(signature);
  return TypedFunction<F>(std::move(f), std::move(options));
}
template <class F>
TypedFunction<F> function(F f, std::same_as<std::vector<TensorSpec>> auto signature) {
  FunctionOptions options;
  options.signature = std::move(signature);
  return TypedFunction<F>(std::move(f), std::move(options));
}

}  // namespace lamina
