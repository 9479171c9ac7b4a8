// Runs one step: reads what it does from the table at run time.
#pragma once
#include "kernels/cuda/section_elementwise.h"
#include "kernels/cuda/section_ranks.h"
#include "kernels/cuda/section_rows.h"
#include "kernels/cuda/section_update.h"

namespace lamina::kernels::cuda::resident {

// Of a loss, after all models. False: the launch should stop, since a label is bad.
LAMINA_DEVICE bool labels_are_good(const Block& b, bool good) {
  if (!good) atomic_cas(b.launch().state + b.launch().places.counters + kAbort, 0u, 1u);
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
  int end = 1;  // of the models
  b.model = 0;
  if (s.partition == Partition::models) {
    Rows models = b.models_of(s);
    if constexpr (of_ranks)
      if (const int leaf = leaf_of(s); leaf >= 0) models = {leaf, leaf + 1};
    if (models.empty()) return true;
    b.model = models.begin, end = models.end;
  }
  const StepKind kind = s.kind;  // read again behind each barrier, shared memory would cost more
  bool good = true;
  while (true) {  // not a function that takes a lambda: ptxas would spill the captures
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
      case StepKind::sparse_cross_entropy:
        good = cross_entropy(b, s) && good;
        if (b.model + 1 == end && !labels_are_good(b, good)) return false;
        break;
      case StepKind::dropout: dropout(b, s); break;
      case StepKind::copy: copy(b, s); break;
      default: break;  // products are run by chains, and the planner makes no others
    }
    if (++b.model >= end) return true;
    sync_block();  // scratch memory
  }
}

}  // namespace lamina::kernels::cuda::resident
