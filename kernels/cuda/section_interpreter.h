// The section kernel that takes every section: what a step does is read from the table while the kernel runs.
#pragma once
#include "kernels/cuda/section_code.h"
#include "kernels/cuda/section_kernel.h"

namespace lamina::kernels::cuda::resident {

// Products of float32 on fused multiply-add units.
struct InFloat32 {
  LAMINA_DEVICE static void dense(Block& b, const BlockStep& s) { product<false, AnyForm>(b, s); }
  LAMINA_DEVICE static void dense_grad_input(Block& b, const BlockStep& s) { product<true, AnyForm>(b, s); }
  LAMINA_DEVICE static void dense_update(Block& b, const BlockStep& s) { update<ColumnSums, Code, Code>(b, s); }
};

// Products: what makes those of the dense steps.
template <class Products>
struct Interpreter {
  LAMINA_DEVICE static bool run(Block& b, const BlockStep& s) {
    bool good = true;  // not by for_models(): what a lambda refers to, ptxas spills here
    const Rows models = b.models_of(s);
    for (b.model = models.begin; b.model < models.end; ++b.model) {
      switch (s.kind) {
        case StepKind::dense: Products::dense(b, s); break;
        case StepKind::dense_grad_input: Products::dense_grad_input(b, s); break;
        case StepKind::dense_update: Products::dense_update(b, s); break;
        case StepKind::elementwise: elementwise<Code>(b, s); break;
        case StepKind::reduce: reduce(b, s); break;
        case StepKind::softmax:
        case StepKind::log_softmax: softmax(b, s); break;
        case StepKind::sparse_cross_entropy: good = cross_entropy(b, s) && good; break;
        case StepKind::dropout: dropout(b, s); break;
        case StepKind::copy: copy(b, s, copy_of(b, s)); break;
        default: break;  // the planner takes no others
      }
      between_models(b, s, models);
    }
    return end_models(b, s, good);
  }
};

}  // namespace lamina::kernels::cuda::resident
