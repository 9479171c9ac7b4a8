// Checkpoint: files of a folder, one per saved step, with the weights of a model, the state of its optimizer, and the random generators.
//
//   lm::Checkpoint run("run1", model, optimizer);
//   for (int64_t step = run.restore().value_or(0) + 1; step <= steps; ++step) {
//     train(step);
//     if (run.save(step)) return lm::Checkpoint::kStopped;
//   }
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/frontend/variable.h"

namespace lamina {

struct CheckpointOptions {
  int64_t keep = 2;   // newest files, which stay
  int64_t every = 1;  // save() writes the steps that it divides
};

// In a job of several ranks all call save() and restore() together. Rank 0 writes and reads; a file does not say how many ranks there were.
// Errors are thrown on all ranks.
class LAMINA_API Checkpoint {
 public:
  static constexpr int kStopped = 75;  // status of a program that was asked to stop and has saved: EX_TEMPFAIL, "try again"
  using Variables = std::map<std::string, Variable>;

  // A model has variables() and trainable_variables(), as an nn::Layer, and weights already. Both must outlive the Checkpoint.
  template <class Model, class Optimizer>
  Checkpoint(std::string folder, const Model& model, Optimizer& optimizer, CheckpointOptions options = {})
      : Checkpoint(
            std::move(folder), [&model, &optimizer] { return named(model.variables(), &optimizer); },
            [&model, &optimizer] {
              if (!optimizer.built()) optimizer.build(model.trainable_variables());
            },
            options) {}
  // Of any Variables.
  Checkpoint(std::string folder, Variables variables, CheckpointOptions options = {})
      : Checkpoint(std::move(folder), [v = std::move(variables)] { return v; }, [] {}, options) {}
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;

  // Ends a step: writes the state under its number if `every` divides it, and removes all but the newest files. Once it has returned, the
  // step survives a kill and a power failure. SIGTERM and SIGUSR1 no longer end a program that has called it: the next save() on every rank
  // writes its step in any case and returns true, and the program should end with kStopped. Throws invalid_argument for a step before the
  // last one in the folder, file when it cannot be written, collective when the ranks have different states or steps.
  [[nodiscard]] bool save(int64_t step);
  // Puts everything back as it was at the last step that was saved, and returns that step; empty when there is none. A damaged file is left
  // out, which rank 0 says on stderr. Throws file when none is whole or one is of a newer Lamina, not_found and invalid_argument for one
  // that does not fit; then nothing has changed.
  std::optional<int64_t> restore();
  std::vector<int64_t> steps() const;  // that have a file, rising
  const std::string& folder() const { return folder_; }

 private:
  Checkpoint(std::string folder, std::function<Variables()> variables, std::function<void()> build, CheckpointOptions options);
  template <class Optimizer>
  static Variables named(const std::vector<Variable>& weights, const Optimizer* optimizer) {
    Variables out = numbered("model/", weights, 1);
    const std::vector<Variable> all = optimizer->variables();
    const size_t slots = optimizer->trained_variables().size() * optimizer->slots_per_variable();
    for (size_t i = 0; i + slots < all.size(); ++i) out.emplace("optimizer/" + last_part(all[i].name()), all[i]);
    out.merge(numbered("optimizer/", {all.end() - int64_t(slots), all.end()}, optimizer->slots_per_variable()));
    return out;
  }
  static std::string last_part(const std::string& name);  // of "dense/kernel": "kernel"
  // "model/3.kernel": each `group` of them has a number.
  static Variables numbered(const std::string& prefix, const std::vector<Variable>& variables, size_t group);
  std::string path(int64_t step) const;
  void write(int64_t step, const Variables& variables);
  void remove_old(int64_t step);

  const std::string folder_;
  const std::function<Variables()> variables_;
  const std::function<void()> build_;
  const CheckpointOptions options_;
  std::set<int64_t> damaged_;
  bool expects_stops_ = false;
};

}  // namespace lamina
