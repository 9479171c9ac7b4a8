// Runs one step: reads what it does from the table at run time.
#pragma once
#include "kernels/cuda/section_elementwise.h"
#include "kernels/cuda/section_ranks.h"
#include "kernels/cuda/section_rows.h"
#include "kernels/cuda/section_update.h"

namespace lamina::kernels::cuda::resident {

// Called after each of this block's models in the step, and after all of them. `good`, and end_models()'s result, are false when the launch
// should stop.
LAMINA_DEVICE void between_models(const Block& b, const Rows& models) {
  if (b.model + 1 < models.end) sync_block();  // scratch memory
}
LAMINA_DEVICE bool end_models(Block& b, StepKind kind, bool good) {
  b.model = 0;
  if (kind != StepKind::sparse_cross_entropy) return true;
  if (!good && lane() == 0) atomic_cas(b.launch().state + b.launch().places.counters + kAbort, 0u, 1u);
  return !sync_block_or(!good);
}
// False when the launch should stop.
template <bool of_ranks>
LAMINA_DEVICE bool run_step(Block& b, const BlockStep& s) {
  if constexpr (of_ranks) {
    // A rank that has been stopped announces nothing more.
    const Launch& a = b.launch();
    if (section::announces(s) && sync_block_or(thread_index() == 0 && load_acquire(a.state + a.places.counters + kAbort) != 0))
      return false;
    if (makes(Mistake::shows_early) && section::announces(s) && thread_index() == 0) announce_if_last(a, b.list[b.position]);
    if (section::is_of_ranks(s.kind)) return run_sum(b.at, b.current);
  }
  bool good = true;  // an inline loop, not a function that takes a lambda: ptxas would spill the captures
  Rows models = b.models_of(s);
  if constexpr (of_ranks)
    if (const int leaf = leaf_of(s); leaf >= 0) models = {leaf, leaf + 1};
  const StepKind kind = s.kind;  // read again behind each barrier, shared memory would cost more
  for (b.model = models.begin; b.model < models.end; ++b.model) {
    switch (kind) {
      case StepKind::dense_update: update<of_ranks>(b.at, b.current, b.model); break;
      case StepKind::elementwise:
        if (s.known == section::kLossGradient)
          loss_gradient(b.at, b.current, b.model);
        else
          elementwise(b, s);
        break;
      case StepKind::reduce: reduce(b, s); break;
      case StepKind::softmax:
      case StepKind::log_softmax: softmax(b, s); break;
      case StepKind::sparse_cross_entropy: good = cross_entropy(b, s) && good; break;
      case StepKind::dropout: dropout(b, s); break;
      case StepKind::copy: copy(b, s); break;
      default: break;  // products are run by chains, and the planner makes no others
    }
    between_models(b, models);
  }
  return end_models(b, kind, good);
}

}  // namespace lamina::kernels::cuda::resident
