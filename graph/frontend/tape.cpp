#include "graph/frontend/tape.h"

#include <algorithm>

#include "graph/frontend/eager.h"
#include "graph/frontend/op_functions.h"
#include "graph/frontend/tape_record.h"
#include "graph/ops/ops.h"

namespace lamina {

GradientTape::GradientTape(Options options) : record_(std::make_shared<TapeRecord>(options.persistent, options.watch_variables)) {
  if (options.started) start();
}
GradientTape::~GradientTape() {
  if (record_) stop();
}
GradientTape::GradientTape(GradientTape&&) noexcept = default;

void GradientTape::start() {
  if (record_->active) return;
  Trace* trace = Trace::current();
  if (!record_->belongs_to(trace)) {
    record_->reset();
    record_->trace = trace;
    record_->trace_alive = trace ? trace->weak_from_this() : std::weak_ptr<Trace>();
  }
  record_->active = true;
  thread_tapes().push_back(record_);
  ++listening;
}

void GradientTape::stop() {
  if (!record_->active) return;
  record_->active = false;
  auto& tapes = thread_tapes();
  auto at = std::find(tapes.begin(), tapes.end(), record_);
  if (at == tapes.end()) return;  // stopped on another thread: it stays in that thread's list and listens no more
  tapes.erase(at);
  --listening;
}

void GradientTape::reset() { record_->reset(); }

namespace {
void require_floating(const char* what, const TensorType& type) {
  if (!is_floating(type.dtype))
    throw Error(ErrorKind::type, {.what = cat("GradientTape: the ", what, " is ", type), .where = "", .why = "only floating-point values have gradients", .fix = "convert it first: lm.astype(x, lm.float32)"});
}
}  // namespace

void GradientTape::watch(const Tensor& t) {
  require_floating("watched tensor", t.type());
  if (!record_->belongs_to(Trace::current()))
    throw Error(ErrorKind::state, {.what = "GradientTape: watch() was called outside of the function in which the tape was started", .where = "", .why = "what is recorded while a function is traced belongs to its graph",
                                   .fix = "start the tape and watch on the same side of the function"});
  record_->watch(t);
}
void GradientTape::watch(const Variable& v) {
  require_floating("watched variable", v.type());
  record_->watch(v);
}

GradientTape::Pause::Pause(TapeRecord& record) : record_(&record) { ++record.paused; }
GradientTape::Pause::Pause(Pause&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
GradientTape::Pause::~Pause() {
  if (record_) --record_->paused;
}

std::vector<Tensor> GradientTape::gradient(std::span<const Tensor> targets, std::span<const Source> sources, std::span<const Tensor> output_gradients, CallSite at) {
  TapeRecord& r = *record_;
  if (r.used && !r.persistent)
    throw Error(ErrorKind::state, {.what = "GradientTape: gradient() was asked a second time", .where = text(at.line()), .why = "a tape that is not persistent forgets what it recorded after the first time",
                                   .fix = "make it persistent: lm.GradientTape(persistent=True)"});
  if (!output_gradients.empty() && output_gradients.size() != targets.size())
    throw Error(ErrorKind::invalid_argument, {.what = cat("GradientTape: ", output_gradients.size(), " output gradients for ", targets.size(), " targets"), .where = text(at.line()), .why = "there is one per target", .fix = "pass one per target, or none for ones"});
  if (!r.belongs_to(Trace::current()))
    throw Error(ErrorKind::state, {.what = "GradientTape: gradient() was asked outside of the function in which the tape was started", .where = text(at.line()),
                                   .why = "what is recorded while a function is traced belongs to its graph", .fix = "start the tape and ask for gradients on the same side of the function"});
  for (const Tensor& t : targets) require_floating("target", t.type());
  // A tape that is used up stops; a persistent one goes on after, but does not record its own gradients.
  if (!r.persistent) stop();
  r.used = true;
  Pause pause(r);
  std::vector<Tensor> tensors;
  std::vector<const Variable*> variables;
  for (const Source& s : sources) {
    tensors.push_back(s.tensor);
    variables.push_back(s.variable ? &*s.variable : nullptr);
  }
  auto gradients = r.gradient(targets, tensors, variables, output_gradients, at);
  if (!r.persistent) r.reset();
  return gradients;
}

Tensor stop_gradient(const Operand& x) { return apply_one(ops::def::stop_gradient, nullptr, std::array{x.resolve()}, x.at()); }

}  // namespace lamina
