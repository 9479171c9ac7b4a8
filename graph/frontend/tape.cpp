#include "graph/frontend/tape.h"

#include <algorithm>
#include <array>

#include "graph/frontend/eager.h"
#include "graph/frontend/factories.h"
#include "graph/frontend/tape_record.h"
#include "graph/ops/ops.h"

namespace lamina {

bool is_recorded(const Tensor& t) {
  return std::any_of(thread_tapes().begin(), thread_tapes().end(),
                     [&](const auto& tape) { return tape->listens() && tape->belongs_to(nullptr) && !t.is_symbolic() && tape->tracks(t); });
}
bool is_recorded(const Variable& v) {
  return std::any_of(thread_tapes().begin(), thread_tapes().end(),
                     [&](const auto& tape) { return tape->listens() && tape->belongs_to(nullptr) && tape->wants(v); });
}

GradientTape::GradientTape(Options options) : record_(std::make_shared<TapeRecord>(options.persistent, options.watch_variables)) {
  check_stack({});
  if (options.started) start();
}
GradientTape::~GradientTape() {
  if (record_) stop();
}
GradientTape::GradientTape(GradientTape&&) noexcept = default;

TapeRecord& GradientTape::record() const {
  if (record_) return *record_;
  throw Error(ErrorKind::state, {.what = "GradientTape: a tape is used that was moved from",
                                 .where = "",
                                 .why = "what it has recorded is the other tape's",
                                 .fix = "use the tape that it was moved to"});
}

void GradientTape::start() {
  TapeRecord& r = record();
  if (r.active) return;
  Trace* trace = Trace::current();
  if (!r.belongs_to(trace)) {
    r.reset();
    r.trace = trace;
    r.trace_alive = trace ? trace->weak_from_this() : std::weak_ptr<Trace>();
  }
  thread_tapes().push_back(record_);
  r.active = true;
  ++listening;
}

void GradientTape::stop() {
  if (!record().active) return;
  record_->active = false;
  auto& tapes = thread_tapes();
  auto at = std::find(tapes.begin(), tapes.end(), record_);
  if (at == tapes.end()) return;  // stopped on another thread: stays in that thread's list, but listens no more
  tapes.erase(at);
  --listening;
}

void GradientTape::reset() { record().reset(); }

namespace {
void require_floating(const char* what, const TensorType& type) {
  if (!has_gradients(type.dtype))
    throw Error(ErrorKind::type, {.what = cat("GradientTape: the ", what, " is ", type),
                                  .where = "",
                                  .why = "only floating-point values have gradients",
                                  .fix = "convert it first: lm.astype(x, lm.float32)"});
}
}  // namespace

void GradientTape::watch(const Tensor& t) {
  require_floating("watched tensor", t.type());
  if (!record().belongs_to(Trace::current()))
    throw Error(ErrorKind::state, {.what = "GradientTape: watch() was called outside of the function in which the tape was started",
                                   .where = "",
                                   .why = "what is recorded while a function is traced belongs to its graph",
                                   .fix = "start the tape and watch on the same side of the function"});
  record_->watch(t);
}
void GradientTape::watch(const Variable& v) {
  require_floating("watched variable", v.type());
  record().watch(v);
}

GradientTape::Pause::Pause(TapeRecord& record) : record_(&record) { ++record.paused; }
GradientTape::Pause::Pause(Pause&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
GradientTape::Pause::~Pause() {
  if (record_) --record_->paused;
}

// Checks that gradients are allowed now, and that these targets have gradients.
void GradientTape::begin(std::span<const Tensor> targets, CallSite at) {
  TapeRecord& r = record();
  if (r.used && !r.persistent)
    throw Error(ErrorKind::state, {.what = "GradientTape: gradient() was asked a second time",
                                   .where = text(at.line()),
                                   .why = "a tape that is not persistent forgets what it recorded after the first time",
                                   .fix = "make it persistent: lm.GradientTape(persistent=True)"});
  if (!r.belongs_to(Trace::current()))
    throw Error(ErrorKind::state, {.what = "GradientTape: gradient() was asked outside of the function in which the tape was started",
                                   .where = text(at.line()),
                                   .why = "what is recorded while a function is traced belongs to its graph",
                                   .fix = "start the tape and ask for gradients on the same side of the function"});
  for (const Tensor& t : targets) require_floating("target", t.type());
  // A used-up tape stops; a persistent one continues, but does not record its own gradients.
  if (!r.persistent) stop();
  r.used = true;
}

namespace {
// A failed gradient() leaves the tape unchanged, so it may be retried.
class AskAgain {
 public:
  explicit AskAgain(TapeRecord& record) : record_(record) {}
  ~AskAgain() {
    if (!done_) record_.used = false;
  }
  void done() {
    done_ = true;
    if (!record_.persistent) record_.reset();
  }

 private:
  TapeRecord& record_;
  bool done_ = false;
};

struct Sources {
  std::vector<Tensor> tensors;
  std::vector<const Variable*> variables;
  explicit Sources(std::span<const Source> sources) {
    for (const Source& s : sources) {
      tensors.push_back(s.tensor);
      variables.push_back(s.variable ? &*s.variable : nullptr);
    }
  }
};
}  // namespace

namespace {

std::string described(const Source& source, size_t i, size_t count) {
  if (source.variable) return cat("the variable '", source.variable->name(), "'");
  return cat("the source", count == 1 ? "" : cat(' ', i), ", ", source.tensor.type(), ",");
}

// Why the tape has no gradient for the source; "" if it watched the source and saw the targets, which do not depend on it.
std::string why_unseen(const TapeRecord& tape, const Source& source, std::span<const Tensor> targets) {
  const bool seen = std::any_of(targets.begin(), targets.end(), [&](const Tensor& t) { return tape.tracks(t); });
  if (source.variable && !tape.wants(*source.variable))
    return source.variable->trainable()
               ? "was not watched: the tape has watch_accessed_variables=False; call tape.watch on it before it is read"
               : "is not trainable, and was not watched: call tape.watch on it before it is read";
  if (!source.variable && !has_gradients(source.tensor.dtype())) return "has no derivatives: only floating-point values have them";
  if (!source.variable && !tape.tracks(source.tensor))
    return "was not watched: call tape.watch on it before it is used, and pass the same tensor";
  return seen ? ""
              : "was watched, but the target was not computed from anything watched while the tape recorded: compute it inside of the with "
                "block; a tape does not record its own gradient(), which another tape around it does";
}

}  // namespace

std::vector<Tensor> GradientTape::gradient(std::span<const Tensor> targets, std::span<const Source> sources,
                                           std::span<const Tensor> output_gradients, CallSite at, std::vector<std::string>* unseen) {
  TapeRecord& r = record();
  if (!output_gradients.empty() && output_gradients.size() != targets.size())
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("GradientTape: ", output_gradients.size(), " output gradients for ", targets.size(), " targets"),
                 .where = text(at.line()),
                 .why = "there is one per target",
                 .fix = "pass one per target, or none for ones"});
  begin(targets, at);
  Pause pause(r);
  AskAgain unless_done(r);
  const Sources by(sources);
  auto gradients = r.gradient(targets, by.tensors, by.variables, output_gradients, at);
  for (size_t i = 0; unseen && i < gradients.size(); ++i) {
    if (gradients[i].defined()) continue;
    const std::string why = why_unseen(r, sources[i], targets);
    if (!why.empty()) unseen->push_back(cat(described(sources[i], i, sources.size()), ' ', why));
  }
  unless_done.done();
  return gradients;
}

std::vector<Tensor> GradientTape::jacobian(const Tensor& target, std::span<const Source> sources, CallSite at) {
  TapeRecord& r = record();
  begin(std::span(&target, 1), at);
  Pause pause(r);
  AskAgain unless_done(r);
  const Sources by(sources);
  const int64_t count = target.size();
  const auto reshaped = [at](const Tensor& t, const Shape& shape) {
    return apply_one(ops::def::reshape, ir::make_attrs(ops::ShapeAttrs{shape}), std::array{t}, at);
  };
  const auto index = [&](int axis) {
    return apply_one(ops::def::iota, ir::make_attrs(ops::IotaAttrs{{DType::i64, {count, count}}, axis}), {}, at);
  };
  // One direction per element of the target.
  Tensor directions = apply_one(ops::def::equal, nullptr, std::array{index(0), index(1)}, at);
  directions = apply_one(ops::def::astype, ir::make_attrs(ops::DTypeAttrs{target.dtype()}), std::array{directions}, at);
  const auto with_front = [](Shape front, const Shape& rest) {
    front.insert(front.end(), rest.begin(), rest.end());
    return front;
  };
  std::vector<Tensor> out =
      r.gradients_along(reshaped(directions, with_front({count}, target.shape())), target, by.tensors, by.variables, at);
  for (size_t s = 0; s < out.size(); ++s)
    if (out[s].defined())
      out[s] = reshaped(out[s], with_front(target.shape(), by.variables[s] ? by.variables[s]->shape() : by.tensors[s].shape()));
  unless_done.done();
  return out;
}

Tensor stop_gradient(const Operand& x) { return apply_one(ops::def::stop_gradient, nullptr, std::array{x.resolve()}, x.at()); }

}  // namespace lamina
