#include "graph/nn/recurrent.h"

#include <algorithm>
#include <utility>

#include "graph/functions/control_flow.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/shape_functions.h"

namespace lamina::nn {
namespace {

// The functions of one call, with the user's line.
struct Ops {
  CallSite at;
  Operand o(const Tensor& t) const { return Operand(t, at); }
  Tensor plus(const Tensor& a, const Tensor& b) const { return lamina::add(o(a), o(b)); }
  Tensor times(const Tensor& a, const Tensor& b) const { return mul(o(a), o(b)); }
  Tensor product(const Tensor& a, const Tensor& b) const { return matmul(o(a), o(b)); }
  // Columns i w to j w.
  Tensor columns(const Tensor& x, int64_t i, int64_t j, int64_t w) const {
    std::vector<IndexPart> parts(size_t(x.rank()), IndexPart::range());
    parts.back() = IndexPart::range(i * w, j * w);
    return index(o(x), parts);
  }
  Tensor swapped(const Tensor& x) const { return swapaxes(o(x), 0, 1); }  // [n, t, ...] <-> [t, n, ...]
};

Initializer with_forget_gate(const Initializer& others, int64_t units) {
  return {"unit_forget_bias", [others, units](std::span<double> values, std::span<const int64_t> shape, uint64_t seed) {
            const std::vector<double> first = others(shape, seed);
            std::copy(first.begin(), first.end(), values.begin());
            std::fill(values.begin() + units, values.begin() + 2 * units, 1.0);
          }};
}

}  // namespace

Recurrent::Recurrent(Kind kind, int64_t units, RecurrentOptions options)
    : Layer(options.name, options.dtype), kind_(kind), units_(units), options_(std::move(options)) {
  compute_in_policy();
  if (units > 0) return;
  throw Error(ErrorKind::invalid_argument,
              {.what = cat(name(), ": ", units, " units"), .where = "", .why = "there is at least one", .fix = "pass 1 or more"});
}

void Recurrent::build(const TensorType& input) {
  const auto refuse = [&](ErrorKind kind, const std::string& why, const std::string& fix) {
    throw Error(kind, {.what = cat(name(), ": cannot take ", input), .where = text(call_site().line()), .why = why, .fix = fix});
  };
  if (input.rank() != 3)
    refuse(ErrorKind::invalid_argument, "sequences are [n, length, channels]",
           "pass [n, length, channels]: x[..., None] has one channel, x[None] is a batch of one");
  if (!input.shape.back().known()) {
    refuse(ErrorKind::invalid_argument, "the number of channels decides the weight's shape, and it is unknown",
           "give the last dimension a number");
  }
  const RecurrentOptions& o = options_;
  if (input.dtype != o.dtype && !computes_in(input.dtype))
    refuse(ErrorKind::type, cat("its weights are ", o.dtype), take_dtype_of(o.dtype));
  const Dim width = gates() * units_;
  kernel_ = add_weight("kernel", {input.shape.back(), width}, o.kernel_initializer, o.dtype);
  recurrent_kernel_ = add_weight("recurrent_kernel", {units_, width}, o.recurrent_initializer, o.dtype);
  if (!o.use_bias) return;
  const bool two = kind_ == Kind::gru && o.reset_after;
  bias_ =
      add_weight("bias", two ? Shape{2, width} : Shape{width},
                 kind_ == Kind::lstm && o.unit_forget_bias ? with_forget_gate(o.bias_initializer, units_) : o.bias_initializer, o.dtype);
}

Tensor Recurrent::check(const Tensor& x, const Tensor& mask, const std::vector<Tensor>& state) const {
  const auto refuse = [&](const std::string& what, const std::string& why, const std::string& fix) {
    throw Error(ErrorKind::invalid_argument, {.what = cat(name(), ": ", what), .where = text(call_site().line()), .why = why, .fix = fix});
  };
  if (x.rank() != 3 || x.shape()[2] != kernel_->shape()[0])
    refuse(cat("cannot take ", x.type()), cat("its weight is ", kernel_->type()), cat("pass [n, length, ", kernel_->shape()[0], "]"));
  if (mask.defined() && (mask.dtype() != DType::boolean || mask.rank() != 2))
    refuse(cat("the mask is ", mask.type()), "it says for each step of each sequence whether it counts", "pass bool [n, length]");
  const size_t states = kind_ == Kind::lstm ? 2 : 1;
  if (!state.empty() && state.size() != states)
    refuse(cat("the initial state has ", state.size(), " tensors"), cat("it has ", states),
           cat("pass ", states, " of shape [n, ", units_, "]"));
  for (const Tensor& part : state)
    if (part.rank() != 2 || part.shape()[1] != units_)
      refuse(cat("the initial state is ", part.type()), cat("the layer has ", units_, " units"), cat("pass [n, ", units_, "]"));
  return x;
}

Recurrent::Result Recurrent::run(const Tensor& given, const Tensor& mask, const std::vector<Tensor>& first, bool sequence) const {
  const Ops f{call_site()};
  const Tensor x = f.swapped(check(given, mask, first));
  const RecurrentOptions& options = options_;
  const int64_t u = units_;
  const Tensor recurrent = read(*recurrent_kernel_);
  const bool two = kind_ == Kind::gru && options.reset_after;
  // All that does not depend on the state is computed at once: [t, n, g u].
  Tensor inputs = f.product(x, read(*kernel_)), inner_bias;
  if (options.use_bias) {
    const Tensor bias = read(*bias_);
    inputs = f.plus(inputs, two ? index(f.o(bias), 0) : bias);
    if (two) inner_bias = index(f.o(bias), 1);
  }
  const Activation &act = options.activation, &gate = options.recurrent_activation;
  const auto step = [&](const Tensor& z, const Tensor& h, const Tensor& c) -> std::vector<Tensor> {
    const auto part = [&](const Tensor& t, int64_t i) { return f.columns(t, i, i + 1, u); };
    if (kind_ == Kind::simple) return {act(f.o(f.plus(z, f.product(h, recurrent))))};
    if (kind_ == Kind::lstm) {
      const Tensor all = f.plus(z, f.product(h, recurrent));
      const Tensor in = gate(f.o(part(all, 0))), forget = gate(f.o(part(all, 1))), out = gate(f.o(part(all, 3)));
      const Tensor next = f.plus(f.times(forget, c), f.times(in, act(f.o(part(all, 2)))));
      return {f.times(out, act(f.o(next))), next};
    }
    Tensor update, candidate;
    if (options.reset_after) {
      Tensor inner = f.product(h, recurrent);
      if (inner_bias.defined()) inner = f.plus(inner, inner_bias);
      const Tensor gates = gate(f.o(f.plus(f.columns(z, 0, 2, u), f.columns(inner, 0, 2, u))));
      update = part(gates, 0);
      candidate = act(f.o(f.plus(part(z, 2), f.times(part(gates, 1), part(inner, 2)))));
    } else {
      const Tensor gates = gate(f.o(f.plus(f.columns(z, 0, 2, u), f.product(h, f.columns(recurrent, 0, 2, u)))));
      update = part(gates, 0);
      candidate = act(f.o(f.plus(part(z, 2), f.product(f.times(part(gates, 1), h), part(recurrent, 2)))));
    }
    return {f.plus(f.times(update, h), f.times(sub(Operand(1, f.at), f.o(update)), candidate))};
  };

  std::vector<Tensor> state = first, slices{inputs};
  for (size_t i = state.size(); i < (kind_ == Kind::lstm ? 2u : 1u); ++i)
    state.push_back(broadcast_to(f.o(scalar(0, x.dtype())), {x.shape()[1], u}));
  if (mask.defined()) slices.push_back(expand_dims(f.o(f.swapped(mask)), -1));
  const size_t carried = state.size();
  const auto body = [&](std::span<const Tensor> all) {
    std::vector<Tensor> next = step(all[carried], all[0], carried > 1 ? all[1] : Tensor());
    if (mask.defined())
      for (size_t i = 0; i < carried; ++i) next[i] = where(f.o(all[carried + 1]), f.o(next[i]), f.o(all[i]));
    if (sequence) next.push_back(next[0]);
    return next;
  };
  ScanOptions scan_options;
  scan_options.reverse = options.go_backwards;
  scan_options.names = kind_ == Kind::lstm ? std::vector<std::string>{"h", "c"} : std::vector<std::string>{"h"};
  std::vector<Tensor> out = control::scan(body, std::move(state), std::move(slices), scan_options, f.at);
  Result result;
  if (sequence) result.sequence = f.swapped(out.back());
  out.resize(carried);
  result.state = std::move(out);
  return result;
}

Tensor Recurrent::call(const Tensor& x, bool) {
  const Result result = run(x, {}, {}, options_.return_sequences);
  if (!options_.return_sequences) return result.state[0];
  return options_.go_backwards ? flip(Operand(result.sequence, call_site()), Axes{1}) : result.sequence;
}

Bidirectional::Bidirectional(std::shared_ptr<Recurrent> forward, std::shared_ptr<Recurrent> backward, Merge merge, std::string name)
    : Layer(std::move(name)), forward_(std::move(forward)), backward_(std::move(backward)), merge_(merge) {
  add(std::shared_ptr<Layer>(forward_));
  add(std::shared_ptr<Layer>(backward_));
  const bool fit = !forward_->options().go_backwards && backward_->options().go_backwards &&
                   forward_->options().return_sequences == backward_->options().return_sequences;
  if (fit) return;
  throw Error(ErrorKind::invalid_argument, {.what = cat(Layer::name(), ": the two layers do not fit each other"),
                                            .where = "",
                                            .why = "the second goes backwards, the first does not, and both return sequences, or neither",
                                            .fix = "set go_backwards of the second, and return_sequences alike"});
}

Tensor Bidirectional::call(const Tensor& x, bool training) {
  const CallSite at = call_site();
  const Tensor a = (*forward_)(Operand(x, at), training);
  Tensor b = (*backward_)(Operand(x, at), training);
  if (forward_->options().return_sequences) b = flip(Operand(b, at), Axes{1});  // each output belongs to its step
  switch (merge_) {
    case Merge::concat: return concat({a, b}, -1, at);
    case Merge::mul: return mul(Operand(a, at), Operand(b, at));
    case Merge::sum: return lamina::add(Operand(a, at), Operand(b, at));
    case Merge::ave: break;
  }
  return mul(Operand(lamina::add(Operand(a, at), Operand(b, at)), at), Operand(0.5, at));
}

}  // namespace lamina::nn
