#include "graph/nn/layer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "graph/frontend/device.h"
#include "graph/frontend/trace.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/random.h"
#include "graph/nn/host_tensor.h"
#include "runtime/core/stack.h"
#include "runtime/device/profiler.h"

namespace lamina::nn {
namespace {

// This thread's state of the running layer call.
struct CallContext {
  bool training = false;
  CallSite at;
  const Layer* layer = nullptr;
  const CallContext* around = nullptr;  // of the call that made this one
};
thread_local CallContext context;

// The error for a call that finds the stack nearly full: whether the layer calls itself, and by way of which others.
void check_depth(const Layer& layer, CallSite at, const CallContext* around) {
  if (!stack_runs_out()) [[likely]]
    return;
  std::string way = layer.name();
  const CallContext* one = around;
  for (int shown = 0; one && one->layer && one->layer != &layer; one = one->around)
    if (++shown <= 4) way = cat(shown == 4 ? "..." : one->layer->name(), " -> ", way);
  const bool itself = one && one->layer;
  throw Error(ErrorKind::state,
              {.what = itself ? cat("calls are nested too deep: the layer ", layer.name(), " calls itself without end (", layer.name(),
                                    " -> ", way, ")")
                              : cat("calls are nested too deep: at the layer ", layer.name(), " the thread's stack is nearly full"),
               .where = text(at),
               .why = "each call of a layer inside of another takes some of the stack",
               .fix = itself ? "call another layer in call(), or use a loop" : "nest fewer layers, or give the thread a larger stack"});
}

class ContextScope {
 public:
  explicit ContextScope(CallContext inner) : before_(std::exchange(context, inner)) {}
  ~ContextScope() { context = before_; }

 private:
  CallContext before_;
};

constexpr std::array kPolicies{"float32", "mixed_float16", "mixed_bfloat16"};
std::atomic<int> policy_now{0};  // of kPolicies

}  // namespace

bool in_training() { return context.training; }
CallSite Layer::call_site() { return context.at; }

void set_policy(const std::string& name) {
  const auto found = std::find(kPolicies.begin(), kPolicies.end(), name);
  if (found == kPolicies.end()) throw unknown_name("policy", name, {kPolicies.begin(), kPolicies.end()});
  policy_now = int(found - kPolicies.begin());
}
std::string policy() { return kPolicies[size_t(policy_now.load())]; }

Layer::Layer(std::string name, std::optional<DType> dtype) : name_(std::move(name)), dtype_(dtype) {
  if (dtype && !is_floating(*dtype))
    throw Error(ErrorKind::type, {.what = cat(name_, ": weights of dtype ", *dtype),
                                  .where = "",
                                  .why = "weights and what they are multiplied by are floating point; others would be cut to whole numbers",
                                  .fix = "pass float32, float64, float16 or bfloat16"});
  const int now = policy_now;
  if (now && dtype.value_or(DType::f32) == DType::f32) half_ = now == 1 ? DType::f16 : DType::bf16;
}
Layer::~Layer() = default;
void Layer::build(const TensorType&) {}

Tensor Layer::operator()(const Operand& x, std::optional<bool> training) {
  const Tensor input = input_of(x);
  const CallContext around = context;
  check_depth(*this, x.at(), &around);
  const ContextScope scope({training.value_or(context.training), x.at(), this, &around});
  const NameScope names(name_);
  std::optional<profiler::Range> range;  // while tracing, the ops carry the name
  if (profiler::listening() && executing_eagerly()) range.emplace(name_, profiler::Kind::layer);
  ensure_built(input.type());
  const Tensor y = call(input, context.training);
  return half_ && y.dtype() == DType::f32 ? astype(Operand(y, x.at()), *half_) : y;
}

Tensor Layer::input_of(const Operand& x) const {
  Tensor t = x.resolve();
  const std::optional<DType> taken = half_ && (products_ || !dtype_) ? half_ : dtype_;
  return autocast_ && taken && is_floating(t.dtype()) ? astype(Operand(t, x.at()), *taken) : t;
}

Tensor Layer::read(const Variable& weight) const {
  const Tensor t = weight.read(call_site());
  return half_ && products_ ? astype(Operand(t, call_site()), *half_) : t;
}

void Layer::ensure_built(const TensorType& input) {
  if (built()) return;
  const std::lock_guard lock(building_);
  if (built()) return;
  const size_t before = items_.size();
  try {
    build(input);
  } catch (...) {
    items_.resize(before, std::shared_ptr<Layer>());
    throw;
  }
  built_.store(true, std::memory_order_release);
}

Tensor Layer::build_for(const TensorType& input) {
  Trace* outer = Trace::current();
  auto trace = std::make_shared<Trace>("build " + name_, outer ? outer->device : default_device());
  Tensor out;
  {
    const TraceScope scope(trace);
    out = (*this)(Operand(trace->add_input(input, "x"), CallSite{}), false);
  }
  if (outer) outer->created.insert(outer->created.end(), trace->created.begin(), trace->created.end());
  return out;
}

Variable Layer::add_weight(const std::string& name, const Shape& shape, const Initializer& initializer, DType dtype, bool trainable) {
  if (!taken_.empty()) {
    Variable taken = taken_.back();
    taken_.pop_back();
    items_.emplace_back(taken);
    return taken;
  }
  const Tensor initial = host_tensor(initializer(numbers(shape), random::next_host_seed()), {dtype, shape}, default_device());
  Variable variable(Operand(initial, call_site()), NameScope::current() + name, trainable);
  items_.emplace_back(variable);
  return variable;
}
void Layer::add_weight(const Variable& variable) { items_.emplace_back(variable); }

void Layer::add(std::shared_ptr<Layer> layer) {
  if (!layer)
    throw Error(ErrorKind::invalid_argument,
                {.what = cat(name_, ": add got no layer"), .where = "", .why = "the pointer is null", .fix = "pass a layer"});
  std::vector<const Layer*> inside{layer.get()};
  for (size_t i = 0; i < inside.size(); ++i) {
    if (inside[i] == this)
      throw Error(ErrorKind::invalid_argument, {.what = cat(name_, ": a layer cannot be inside itself"),
                                                .where = "",
                                                .why = i ? cat(layer->name(), " has ", name_, " inside") : "its call would not end",
                                                .fix = "add another layer"});
    for (auto& item : inside[i]->items_)
      if (auto* one = std::get_if<std::shared_ptr<Layer>>(&item);
          one && std::find(inside.begin(), inside.end(), one->get()) == inside.end())
        inside.push_back(one->get());
  }
  const std::vector<std::shared_ptr<Layer>> siblings = layers();
  if (std::find(siblings.begin(), siblings.end(), layer) == siblings.end()) {
    const auto taken = [&](const std::string& name) {
      return std::any_of(siblings.begin(), siblings.end(), [&](auto& sibling) { return sibling->name() == name; });
    };
    std::string name = layer->name();
    for (int number = 1; taken(name); ++number) name = cat(layer->name(), "_", number);
    layer->rename(std::move(name));
  }
  items_.emplace_back(std::move(layer));
}

std::vector<std::shared_ptr<Layer>> Layer::layers() const {
  std::vector<std::shared_ptr<Layer>> out;
  for (auto& item : items_) {
    if (auto* layer = std::get_if<std::shared_ptr<Layer>>(&item)) out.push_back(*layer);
  }
  return out;
}

void Layer::collect(std::vector<Variable>& out, std::vector<const void*>& seen, std::optional<bool> trainable) const {
  const auto first_time = [&](const void* what) {
    if (std::find(seen.begin(), seen.end(), what) != seen.end()) return false;
    seen.push_back(what);
    return true;
  };
  for (auto& item : items_) {
    if (auto* variable = std::get_if<Variable>(&item)) {
      if ((!trainable || variable->trainable() == *trainable) && first_time(variable->handle().get())) out.push_back(*variable);
    } else if (auto& layer = std::get<std::shared_ptr<Layer>>(item); first_time(layer.get())) {
      layer->collect(out, seen, trainable);
    }
  }
}
std::vector<Variable> Layer::collect(std::optional<bool> trainable) const {
  std::vector<Variable> out;
  std::vector<const void*> seen;
  collect(out, seen, trainable);
  return out;
}
std::vector<Variable> Layer::variables() const { return collect({}); }
std::vector<Variable> Layer::trainable_variables() const { return collect(true); }
std::vector<Variable> Layer::non_trainable_variables() const { return collect(false); }

int64_t Layer::count_params() const {
  int64_t total = 0;
  for (auto& v : variables()) total += v.size();
  return total;
}

std::vector<Tensor> Layer::get_weights() const {
  std::vector<Tensor> out;
  for (auto& v : variables()) out.push_back(v.read());
  return out;
}

void Layer::set_weights(const std::vector<Tensor>& values, CallSite at) {
  const std::vector<Variable> all = variables();
  if (values.size() != all.size()) {
    throw Error(ErrorKind::invalid_argument,
                {.what = cat(name_, ": set_weights got ", values.size(), " values for ", all.size(), " variables"),
                 .where = text(at.line()),
                 .why = all.empty() && !built() ? "weights are made at the first call"
                                                : "each variable needs one value, in the order of variables()",
                 .fix = all.empty() && !built() ? "call the layer once, or build_for its input's type" : "pass one value per variable"});
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (values[i].type() == all[i].type()) continue;
    throw Error(ErrorKind::invalid_argument,
                {.what = cat(name_, ": set_weights got ", values[i].type(), " for ", all[i].name(), ", which is ", all[i].type()),
                 .where = text(at.line()),
                 .why = "a variable keeps its dtype and shape",
                 .fix = "pass values in the order of variables()"});
  }
  for (size_t i = 0; i < all.size(); ++i) all[i].assign(Operand(values[i], at));
}

}  // namespace lamina::nn
