#include "graph/nn/loss.h"

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/functions/in_f32.h"
#include "graph/functions/op_functions.h"

namespace lamina::losses {
namespace {

constexpr double kClip = 1e-7;  // keeps the logarithm of a probability finite

const std::vector<std::pair<std::string, Loss::PerSample>>& named_losses() {
  static const std::vector<std::pair<std::string, Loss::PerSample>>& all = *new std::vector<std::pair<std::string, Loss::PerSample>>{
      {"sparse_cross_entropy", [](const Operand& t, const Operand& p) { return sparse_categorical_crossentropy(t, p); }},
      {"categorical_cross_entropy", [](const Operand& t, const Operand& p) { return categorical_crossentropy(t, p); }},
      {"binary_cross_entropy", [](const Operand& t, const Operand& p) { return binary_crossentropy(t, p); }},
      {"mean_squared_error", mean_squared_error},
      {"mse", mean_squared_error},
      {"mean_absolute_error", mean_absolute_error},
      {"mae", mean_absolute_error},
      {"huber", [](const Operand& t, const Operand& p) { return huber(t, p); }},
      {"kl_divergence", kl_divergence},
      {"hinge", hinge},
      {"cosine_similarity", cosine_similarity},
  };
  return all;
}

// The functions' names, where a loss has another one.
constexpr std::pair<std::string_view, std::string_view> kFunctions[] = {
    {"sparse_categorical_crossentropy", "sparse_cross_entropy"},
    {"categorical_crossentropy", "categorical_cross_entropy"},
    {"binary_crossentropy", "binary_cross_entropy"},
};

Loss find_loss(const std::string& name) {
  std::vector<std::string> names;
  std::string_view wanted = name;
  for (auto& [function, known] : kFunctions) {
    if (name == function) wanted = known;
    names.emplace_back(function);
  }
  for (auto& [known, per_sample] : named_losses()) {
    if (known == wanted) return {known, per_sample};
    names.push_back(known);
  }
  throw unknown_name("loss", name, names);
}

[[noreturn]] void bad_shapes(const char* loss, const Tensor& y_true, const Tensor& y_pred, CallSite at, const std::string& why,
                             const std::string& fix) {
  throw Error(ErrorKind::invalid_argument, {.what = cat(loss, ": y_true ", y_true.type(), " does not fit y_pred ", y_pred.type()),
                                            .where = text(at.line()),
                                            .why = why,
                                            .fix = fix});
}

bool ends_in_one(const Tensor& t) { return t.rank() > 0 && t.shape().back() == Dim(1); }
Tensor without_last_axis(const Tensor& t, CallSite at) { return reshape_to(Operand(t, at), Shape(t.shape().begin(), t.shape().end() - 1)); }

struct Pair {
  Tensor y_true, y_pred;
  DType dtype;  // y_pred's original dtype
  CallSite at;
  Operand t() const { return {y_true, at}; }
  Operand p() const { return {y_pred, at}; }
  Tensor result(const Tensor& y) const { return narrowed(y, dtype, at); }
};
void require_floating(const char* loss, const Tensor& y_true, const Tensor& y_pred, CallSite at) {
  if (is_floating(y_pred.dtype())) return;
  throw Error(ErrorKind::type,
              {.what = cat(loss, ": y_pred is ", y_pred.type()),
               .where = text(at.line()),
               .why = "a loss is a floating-point number",
               .fix = is_floating(y_true.dtype()) ? "the labels come first: pass (y_true, y_pred)" : "use astype(y_pred, f32)"});
}
// Converts both to one shape and dtype for computing a loss. Broadcasting [n] against [n,1] to [n,n] would be a silent error.
Pair same_shape(const char* loss, const Operand& y_true, const Operand& y_pred) {
  const CallSite at = y_pred.at();
  Tensor p = y_pred.resolve(), t = y_true.resolve();
  const DType dtype = p.dtype();
  require_floating(loss, t, p, at);
  t = astype(Operand(t, at), is_half(dtype) ? DType::f32 : dtype);
  if (t.rank() == p.rank() + 1 && ends_in_one(t))
    t = without_last_axis(t, at);
  else if (p.rank() == t.rank() + 1 && ends_in_one(p))
    p = without_last_axis(p, at);
  if (t.rank() != p.rank())
    bad_shapes(loss, t, p, at, "they have different numbers of dimensions",
               std::string_view(loss) == "categorical_crossentropy"
                   ? "pass one-hot targets, or class numbers to sparse_categorical_crossentropy"
                   : "pass targets of the predictions' shape");
  for (size_t i = 0; i < p.shape().size(); ++i) {
    const Dim a = t.shape()[i], b = p.shape()[i];
    if (a.known() && b.known() && a != b)
      bad_shapes(loss, t, p, at, cat("dimension ", i, " differs"), "pass targets of the predictions' shape");
  }
  return {std::move(t), widened(Operand(p, at)), dtype, at};
}

Tensor mean_over_last(const Tensor& x, CallSite at) { return x.rank() == 0 ? x : mean(Operand(x, at), {-1}); }

}  // namespace

Loss::Loss(const char* name) : Loss(find_loss(name ? name : "")) {}
Loss::Loss(const std::string& name) : Loss(find_loss(name)) {}
Tensor Loss::operator()(const Operand& y_true, const Operand& y_pred) const {
  return in_f32(y_pred, [&](const Operand& p) { return mean(Operand(per_sample(y_true, p), p.at())); });
}

SparseCrossEntropy::SparseCrossEntropy(bool from_logits)
    : Loss("sparse_cross_entropy",
           [from_logits](const Operand& t, const Operand& p) { return sparse_categorical_crossentropy(t, p, from_logits); },
           {{"from_logits", from_logits}}) {}
CategoricalCrossEntropy::CategoricalCrossEntropy(bool from_logits)
    : Loss("categorical_cross_entropy",
           [from_logits](const Operand& t, const Operand& p) { return categorical_crossentropy(t, p, from_logits); },
           {{"from_logits", from_logits}}) {}
BinaryCrossEntropy::BinaryCrossEntropy(bool from_logits)
    : Loss("binary_cross_entropy", [from_logits](const Operand& t, const Operand& p) { return binary_crossentropy(t, p, from_logits); },
           {{"from_logits", from_logits}}) {}
MeanSquaredError::MeanSquaredError() : Loss("mean_squared_error", mean_squared_error) {}
MeanAbsoluteError::MeanAbsoluteError() : Loss("mean_absolute_error", mean_absolute_error) {}
Huber::Huber(double delta) : Loss("huber", [delta](const Operand& t, const Operand& p) { return huber(t, p, delta); }, {{"delta", delta}}) {
  if (!(delta > 0 && std::isfinite(delta)))
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("huber: delta ", delta), .where = "", .why = "it is where the square ends: positive", .fix = "pass 1.0"});
}
KLDivergence::KLDivergence() : Loss("kl_divergence", kl_divergence) {}
Hinge::Hinge() : Loss("hinge", hinge) {}
CosineSimilarity::CosineSimilarity() : Loss("cosine_similarity", cosine_similarity) {}

Tensor sparse_categorical_crossentropy(const Operand& y_true, const Operand& y_pred, bool from_logits) {
  const CallSite at = y_pred.at();
  const char* name = "sparse_categorical_crossentropy";
  Tensor labels = y_true.resolve(), p = y_pred.resolve();
  require_floating(name, labels, p, at);
  if (p.rank() == 0) bad_shapes(name, labels, p, at, "y_pred has no axis of classes", "pass y_pred [n, classes]");
  if (labels.rank() == p.rank() && ends_in_one(labels)) labels = without_last_axis(labels, at);
  if (labels.rank() != p.rank() - 1) {
    bad_shapes(name, labels, p, at, "labels have one axis less than predictions, which end in an axis of classes",
               labels.rank() == p.rank() ? "for targets that are rows of probabilities use categorical_crossentropy"
                                         : "pass labels [n] and y_pred [n, classes]");
  }
  if (!is_integer(labels.dtype())) labels = astype(Operand(labels, at), DType::i32);
  return in_f32(Operand(p, at), [&](const Operand& x) {
    if (from_logits) return sparse_cross_entropy(x, Operand(labels, at));
    // Probabilities p are the softmax of log p.
    const Tensor logits = log(Operand(clip(x, Operand(kClip, at), Operand(1 - kClip, at)), at));
    return sparse_cross_entropy(Operand(logits, at), Operand(labels, at));
  });
}

Tensor categorical_crossentropy(const Operand& y_true, const Operand& y_pred, bool from_logits) {
  const Pair both = same_shape("categorical_crossentropy", y_true, y_pred);
  return both.result(from_logits ? softmax_cross_entropy(both.p(), both.t()) : categorical_cross_entropy(both.p(), both.t()));
}

Tensor binary_crossentropy(const Operand& y_true, const Operand& y_pred, bool from_logits) {
  const Pair both = same_shape("binary_crossentropy", y_true, y_pred);
  const CallSite at = both.at;
  if (from_logits) return both.result(mean_over_last(sigmoid_cross_entropy(both.p(), both.t()), at));
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  const Operand one(1.0, at);
  const Tensor p = clip(both.p(), Operand(kClip, at), Operand(1 - kClip, at));
  const Tensor yes = mul(both.t(), o(log(o(p)))), no = mul(o(sub(one, both.t())), o(log(o(sub(one, o(p))))));
  return both.result(mean_over_last(neg(o(add(o(yes), o(no)))), at));
}

Tensor mean_squared_error(const Operand& y_true, const Operand& y_pred) {
  const Pair both = same_shape("mean_squared_error", y_true, y_pred);
  return both.result(mean_over_last(square(Operand(sub(both.p(), both.t()), both.at)), both.at));
}
Tensor mean_absolute_error(const Operand& y_true, const Operand& y_pred) {
  const Pair both = same_shape("mean_absolute_error", y_true, y_pred);
  return both.result(mean_over_last(abs(Operand(sub(both.p(), both.t()), both.at)), both.at));
}

Tensor huber(const Operand& y_true, const Operand& y_pred, double delta) {
  const Pair both = same_shape("huber", y_true, y_pred);
  const CallSite at = both.at;
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  // q (e - q / 2) with the error e and q = e clipped to delta: e^2 / 2 inside, smooth at e = 0 and at the bounds of q.
  const Tensor error = sub(both.p(), both.t()), inside = clip(o(error), Operand(-delta, at), Operand(delta, at));
  return both.result(mean_over_last(mul(o(inside), o(sub(o(error), o(mul(o(inside), Operand(0.5, at)))))), at));
}

Tensor kl_divergence(const Operand& y_true, const Operand& y_pred) {
  const Pair both = same_shape("kl_divergence", y_true, y_pred);
  const CallSite at = both.at;
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  const auto clipped = [&](const Operand& p) { return clip(p, Operand(kClip, at), Operand(1.0, at)); };
  const Tensor t = clipped(both.t()), p = clipped(both.p());
  const Tensor terms = mul(o(t), o(sub(o(log(o(t))), o(log(o(p))))));
  return both.result(terms.rank() == 0 ? terms : sum(o(terms), {-1}));
}

Tensor hinge(const Operand& y_true, const Operand& y_pred) {
  const Pair both = same_shape("hinge", y_true, y_pred);
  const CallSite at = both.at;
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  const Tensor t = where(o(equal(both.t(), Operand(0.0, at))), Operand(-1.0, at), both.t());
  return both.result(mean_over_last(relu(o(sub(Operand(1.0, at), o(mul(o(t), both.p()))))), at));
}

Tensor cosine_similarity(const Operand& y_true, const Operand& y_pred) {
  const Pair both = same_shape("cosine_similarity", y_true, y_pred);
  const CallSite at = both.at;
  if (both.y_pred.rank() == 0)
    bad_shapes("cosine_similarity", both.y_true, both.y_pred, at, "a number has no direction", "pass rows [n, width]");
  const auto o = [at](const Tensor& t) { return Operand(t, at); };
  const auto direction = [&](const Operand& x) {  // a row of zeros stays zero
    return mul(x, o(rsqrt(o(maximum(o(sum(o(square(x)), {-1}, true)), Operand(1e-12, at))))));
  };
  return both.result(neg(o(sum(o(mul(o(direction(both.t())), o(direction(both.p())))), {-1}))));
}

}  // namespace lamina::losses
