#include "graph/frontend/signature.h"

#include <algorithm>

#include "graph/frontend/device.h"
#include "graph/frontend/model_axis.h"
#include "graph/frontend/trace.h"
#include "runtime/device/backend.h"

namespace lamina {
namespace {

bool is_any(Dim d) {
  static const Dim any = any_length();
  return d == any;
}

// Whether a tensor of this type matches the spec. Equal symbols require equal lengths.
bool fits(const TensorSpec& spec, const TensorType& type, DimBindings& lengths) {
  if (spec.dtype != type.dtype || spec.shape.size() != type.rank()) return false;
  for (size_t i = 0; i < type.rank(); ++i) {
    const Dim want = spec.shape[i], have = type.shape[i];
    if (is_any(want) || want == have) continue;
    if (want.known() || (have.known() && !match(want, have.number(), lengths))) return false;
  }
  return true;
}

int first_alias(std::span<const Variable> variables, size_t i) {
  for (size_t j = 0; j < i; ++j)
    if (variables[j].same(variables[i])) return int(j);
  return int(i);
}

std::string name_of(size_t i, const FunctionOptions& options) {
  return i < options.argument_names.size() && !options.argument_names[i].empty() ? options.argument_names[i] : cat("argument ", i);
}

}  // namespace

SignatureView::SignatureView(const Arguments& arguments, const FunctionOptions& options)
    : arguments_(arguments), precision_(config::matmul_precision()), models_(ModelAxis::signature()) {
  for (size_t i = 0; i < arguments.tensors.size(); ++i)
    if (!arguments.tensors[i].defined())
      throw empty_argument(options.name, i, i < options.argument_names.size() ? options.argument_names[i] : "", arguments.at);
  device = in_device_scope() || (arguments.tensors.empty() && arguments.variables.empty()) ? default_device()
           : arguments.tensors.empty()                                                     ? arguments.variables[0].device()
                                                                                           : arguments.tensors[0].device();
  if (in_automatic_scope()) choice = backend_of(device).device_count();
  if (options.signature) {
    by_type_ = false;
    DimBindings lengths;
    fits_ = arguments.tensors.size() == options.signature->size();
    for (size_t i = 0; fits_ && i < arguments.tensors.size(); ++i) {
      fits_ = fits((*options.signature)[i], arguments.tensors[i].type(), lengths);
      // Inside a trace with unknown lengths, the call needs a graph in terms of them.
      by_type_ |= Trace::current() && !known(arguments.tensors[i].shape());
    }
  }
  make_hash();
}

void SignatureView::make_hash() {
  uint64_t h = std::hash<std::string_view>()(arguments_.statics);
  auto mix = [&](uint64_t word) { h = (h ^ word) * 0x9e3779b97f4a7c15u, h ^= h >> 29; };
  auto mix_type = [&](const TensorType& type) {
    mix(uint64_t(type.dtype) << 8 | type.shape.size());
    for (Dim d : type.shape) mix(uint64_t(d.code()));
  };
  mix(uint64_t(device.kind) << 24 | uint64_t(device.model) << 16 | uint16_t(device.index));
  if (precision_ != Precision::float32) mix(uint64_t(precision_));
  if (models_) mix(models_);
  if (choice) mix(uint64_t(choice) << 32);
  for (const Tensor& t : arguments_.tensors) {
    if (by_type_)
      mix_type(t.type());
    else
      t.type();  // an empty Tensor is an error
    if (t.strength() != Strength::tensor) mix(uint64_t(t.strength()));
  }
  for (size_t i = 0; i < arguments_.variables.size(); ++i) {
    mix_type(arguments_.variables[i].type());
    mix(is_bound(i) ? reinterpret_cast<uintptr_t>(arguments_.variables[i].handle().get()) : uint64_t(first_alias(arguments_.variables, i)));
  }
  hash = h;
}

bool SignatureView::is_bound(size_t variable) const { return std::find(bound_.begin(), bound_.end(), int(variable)) != bound_.end(); }

bool SignatureView::matches(const Signature& kept) const {
  if (!fits_ || kept.hash != hash || kept.device != device || kept.precision != precision_ || kept.models != models_ ||
      kept.choice != choice || kept.statics != arguments_.statics || (arguments_.ranks && *arguments_.ranks != kept.ranks))
    return false;
  if (kept.by_type != by_type_) return false;
  if (kept.strengths.size() != arguments_.tensors.size()) return false;
  for (size_t i = 0; i < kept.strengths.size(); ++i)
    if (kept.strengths[i] != arguments_.tensors[i].strength()) return false;
  if (by_type_) {
    if (kept.tensors.size() != arguments_.tensors.size()) return false;
    for (size_t i = 0; i < kept.tensors.size(); ++i) {
      const Tensor& t = arguments_.tensors[i];
      if ((kept.tensors[i] != t.type_ref() && !(*kept.tensors[i] == t.type())) || kept.tensor_devices[i] != t.device()) return false;
    }
  }
  if (kept.variables.size() != arguments_.variables.size() || kept.bound.size() != bound_.size()) return false;
  for (size_t i = 0; i < kept.variables.size(); ++i) {
    const Variable& v = arguments_.variables[i];
    if (!(*kept.variables[i] == v.type()) || kept.variable_devices[i] != v.device() ||
        kept.aliases[i] != first_alias(arguments_.variables, i))
      return false;
  }
  for (size_t i = 0; i < bound_.size(); ++i) {
    auto at = std::find(kept.bound_at.begin(), kept.bound_at.end(), bound_[i]);
    if (at == kept.bound_at.end() || !kept.bound[size_t(at - kept.bound_at.begin())].same(arguments_.variables[size_t(bound_[i])]))
      return false;
  }
  return true;
}

bool SignatureView::bind(const ConcreteFunction& graph) {
  bool any = false;
  for (size_t i = 0; i < arguments_.variables.size(); ++i) {
    if (is_bound(i)) continue;
    const Variable& v = arguments_.variables[i];
    if (std::none_of(graph.variables().begin(), graph.variables().end(), [&](const Variable& used) { return used.same(v); })) continue;
    bound_.push_back(int(i));
    any = true;
  }
  if (any) make_hash();
  return any;
}

void SignatureView::check(const FunctionOptions& options) const {
  if (fits_) return;
  const std::vector<TensorSpec>& wanted = *options.signature;
  const std::string where = text(arguments_.at.line());
  if (wanted.size() != arguments_.tensors.size())
    throw Error(ErrorKind::signature, {.what = cat(options.name, ": it was given ", arguments_.tensors.size(), " tensors"),
                                       .where = where,
                                       .why = cat("its input_signature has ", wanted.size()),
                                       .fix = "pass one tensor per TensorSpec"});
  DimBindings lengths;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const TensorType& type = arguments_.tensors[i].type();
    DimBindings before = lengths, alone;
    if (fits(wanted[i], type, lengths)) continue;
    if (fits(wanted[i], type, alone))
      for (size_t axis = 0; axis < type.rank(); ++axis)
        if (auto other = before.find(cat(wanted[i].shape[axis])); other != before.end() && Dim(other->second) != type.shape[axis])
          throw Error(ErrorKind::signature, {.what = cat(options.name, ": the length ", other->first, " is ", other->second,
                                                         " in an argument before and ", type.shape[axis], " in ", name_of(i, options)),
                                             .where = where,
                                             .why = "lengths of one name in an input_signature are equal",
                                             .fix = "pass tensors of one length, or give the lengths two names"});
    throw Error(ErrorKind::signature,
                {.what = cat(options.name, ": ", name_of(i, options), " is ", TensorSpec{type.shape, type.dtype, ""}.str(),
                             ", its input_signature wants ", wanted[i].str()),
                 .where = where,
                 .why = "a function with an input_signature has one graph, for that signature only",
                 .fix = "convert or reshape the argument, or change the input_signature"});
  }
  internal_error("a signature was refused and fits");
}

Signature SignatureView::keep() const {
  Signature s;
  s.hash = hash;
  s.statics = arguments_.statics;
  s.device = device;
  s.precision = precision_;
  s.models = models_;
  s.choice = choice;
  s.by_type = by_type_;
  for (const Tensor& t : arguments_.tensors) s.strengths.push_back(t.strength());
  if (by_type_)
    for (const Tensor& t : arguments_.tensors) s.tensors.push_back(t.type_ref()), s.tensor_devices.push_back(t.device());
  for (size_t i = 0; i < arguments_.variables.size(); ++i) {
    const Variable& v = arguments_.variables[i];
    s.variables.push_back(v.type_ref());
    s.variable_devices.push_back(v.device());
    s.aliases.push_back(first_alias(arguments_.variables, i));
  }
  for (int i : bound_) s.bound_at.push_back(i), s.bound.push_back(arguments_.variables[size_t(i)]);
  return s;
}

TensorType SignatureView::traced_type(size_t i, const FunctionOptions& options, int depth) const {
  if (by_type_) return arguments_.tensors[i].type();
  const TensorSpec& spec = (*options.signature)[i];
  TensorType type{spec.dtype, spec.shape};
  for (size_t axis = 0; axis < type.shape.size(); ++axis)
    if (is_any(type.shape[axis])) type.shape[axis] = open_length(depth, i, axis);
  return type;
}

std::vector<Variable> SignatureView::stand_ins() const {
  std::vector<Variable> out;
  for (size_t i = 0; i < arguments_.variables.size(); ++i) {
    const int alias = first_alias(arguments_.variables, i);
    if (is_bound(i))
      out.push_back(arguments_.variables[i]);
    else if (alias < int(i))
      out.push_back(Variable(out[size_t(alias)]));
    else
      out.push_back(Variable::stand_in_for(arguments_.variables[i]));
  }
  return out;
}

std::string Signature::text(const FunctionOptions& options) const {
  std::string s;
  auto add = [&](const std::string& part) { s += (s.empty() ? "" : ", ") + part; };
  if (!by_type)
    for (const TensorSpec& spec : *options.signature) add(spec.str());
  for (size_t i = 0; i < tensors.size(); ++i) add(cat(name_of(i, options), " ", *tensors[i]));
  for (const TypeRef& type : variables) add(cat("Variable ", *type));
  return s.empty() ? "no tensors" : s;
}

namespace {

constexpr const char* kKeepStructure = "pass the same number of tensors every time, or stack them into one";

bool is_number(const std::string& text) {
  return text == "True" || text == "False" ||
         (!text.empty() && text.find_first_not_of("+-.0123456789e") == std::string::npos && text != "e");
}

// The spec that accepts both.
std::string spec_for(const TensorType& before, const TensorType& now) {
  std::string lengths;
  for (size_t i = 0; i < now.rank(); ++i)
    lengths += cat(i ? ", " : "", before.shape[i] == now.shape[i] && now.shape[i].known() ? cat(now.shape[i]) : "None");
  return cat("lm.TensorSpec([", lengths, "], lm.", numpy_name(now.dtype), ")");
}

Signature::Difference other_type(const std::string& name, const TensorType& before, const TensorType& now) {
  std::string fix;
  if (before.dtype != now.dtype)
    fix = cat("convert it before the call: lm.astype(", name, ", lm.", numpy_name(before.dtype), ")");
  else if (before.rank() == now.rank())
    fix = cat("give it an open length: input_signature with ", spec_for(before, now), ", or relax_shapes=True");
  else
    fix = "reshape it to one rank before the call";
  return {cat(name, " was ", before, ", now ", now), fix};
}

}  // namespace

// For arguments that are not tensors: the first part that differs.
Signature::Difference Signature::other_argument(const Signature& before) const {
  auto find = [](const std::vector<ArgumentPart>& parts, const std::string& name) -> const ArgumentPart* {
    for (const ArgumentPart& p : parts)
      if (p.name == name) return &p;
    return nullptr;
  };
  for (const ArgumentPart& now : arguments) {
    const ArgumentPart* old = find(before.arguments, now.name);
    if (!old) return {cat(now.name, " was not passed, now it is ", now.text), "pass the same arguments every time"};
    if (old->key == now.key) continue;
    const bool another = old->text == now.text;
    return {cat(now.name, " was ", old->text, ", now ", another ? "another one" : now.text),
            is_number(now.text)              ? cat("pass it as a tensor: lm.constant(", now.text, ")")
            : another                        ? "pass the same object every time, or give its class __eq__ and __hash__"
            : now.text.starts_with("a list") ? kKeepStructure
                                             : "pass one kind of value, or make a function for each"};
  }
  for (const ArgumentPart& old : before.arguments)
    if (!find(arguments, old.name))
      return {cat(old.name, " was ", old.text, ", now it is not passed"), "pass the same arguments every time"};
  return {"the arguments are nested in another way", "pass them in the same way every time"};
}

Signature::Difference Signature::difference(const Signature& before, const FunctionOptions& options) const {
  const auto name = [&](size_t tensor) {
    size_t met = 0;
    for (const ArgumentPart& part : before.arguments)
      if (part.text == "a tensor" && met++ == tensor) return part.name;
    return name_of(tensor, options);
  };
  if (statics != before.statics) return other_argument(before);
  if (tensors.size() != before.tensors.size())
    return {cat("it was given ", before.tensors.size(), " tensors before and ", tensors.size(), " now"), kKeepStructure};
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!(*tensors[i] == *before.tensors[i])) return other_type(name(i), *before.tensors[i], *tensors[i]);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensor_devices[i] != before.tensor_devices[i])
      return {cat(name(i), " was on ", before.tensor_devices[i], ", now on ", tensor_devices[i]),
              cat("move it before the call: ", name(i), ".to(\"", before.tensor_devices[i], "\")")};
  if (variables.size() != before.variables.size())
    return {cat("it was given ", before.variables.size(), " Variables before and ", variables.size(), " now"),
            "pass the same number of Variables every time"};
  for (size_t i = 0; i < variables.size(); ++i)
    if (!(*variables[i] == *before.variables[i]))
      return {cat("Variable ", i, " was ", *before.variables[i], ", now ", *variables[i]), "pass Variables of one dtype and shape"};
  const auto described = [](Strength s) {
    return s == Strength::array ? "an array of the host" : s == Strength::number ? "a number of a graph" : "a tensor";
  };
  for (size_t i = 0; i < std::min(strengths.size(), before.strengths.size()); ++i)
    if (strengths[i] != before.strengths[i])
      return {cat(name_of(i, options), " was ", described(before.strengths[i]), ", now it is ", described(strengths[i])),
              "pass it always as a tensor or never: arrays and numbers take the dtype of tensors that they meet"};
  if (device != before.device) return {cat("it ran on ", before.device, ", now on ", device), "call it on one device"};
  if (precision != before.precision)
    return {cat("the precision of matrix products was ", lamina::name(before.precision), ", now ", lamina::name(precision)),
            "set it once: lm.config.set_matmul_precision"};
  if (choice != before.choice)
    return {choice == 0          ? "it was placed by cost, now on one device"
            : before.choice == 0 ? "it was on one device, now it is placed by cost"
                                 : cat("there were ", before.choice, " devices to choose from, now ", choice),
            "call it always, or never, under lm.device(\"auto\")"};
  if (models != before.models) return {"it was called in another vmap", "call it in one vmap"};
  if (ranks != before.ranks)
    return {"other ranks have other rows than before", "give all batches the same number of rows where that is possible"};
  return {"the same Variable is used in another way", "pass a Variable either always where the function also uses it directly, or never"};
}

}  // namespace lamina
