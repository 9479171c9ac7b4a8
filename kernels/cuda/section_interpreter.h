// The section kernel for every section: it reads what each step does from the table at run time.
#pragma once
#include "kernels/cuda/section_code.h"
#include "kernels/cuda/section_kernel.h"
#include "kernels/cuda/section_mma.h"

namespace lamina::kernels::cuda::resident {

// float32 products on fused multiply-add units.
struct InFloat32 {
  LAMINA_DEVICE static void dense(Block& b, const BlockStep& s) { product<false>(b, s); }
  LAMINA_DEVICE static void dense_grad_input(Block& b, const BlockStep& s) { product<true>(b, s); }
  LAMINA_DEVICE static void dense_update(Block& b, const BlockStep& s) { update<ColumnSums>(b, s); }
};

// Products on tensor cores, except for float32 ones.
struct InEveryPrecision {
  LAMINA_DEVICE static void dense(Block& b, const BlockStep& s) {
    if (s.precision == Precision::float32)
      product<false>(b, s);
    else
      product_by_tensor_cores<false>(b, s);
  }
  LAMINA_DEVICE static void dense_grad_input(Block& b, const BlockStep& s) {
    if (s.precision == Precision::float32)
      product<true>(b, s);
    else
      product_by_tensor_cores<true>(b, s);
  }
  LAMINA_DEVICE static void dense_update(Block& b, const BlockStep& s) {
    if (s.precision == Precision::float32)
      update<ColumnSums>(b, s);
    else
      update<MmaUpdateSums>(b, s);
  }
};

// Products: the implementation of dense steps.
template <class Products>
struct Interpreter {
  LAMINA_DEVICE static bool run(Block& b, const BlockStep& s) {
    bool good = true;  // an inline loop, not a function that takes a lambda: ptxas would spill the captures
    const Rows models = b.models_of(s);
    for (b.model = models.begin; b.model < models.end; ++b.model) {
      switch (s.kind) {
        case StepKind::dense: Products::dense(b, s); break;
        case StepKind::dense_grad_input: Products::dense_grad_input(b, s); break;
        case StepKind::dense_update: Products::dense_update(b, s); break;
        case StepKind::elementwise: elementwise(b, s); break;
        case StepKind::reduce: reduce(b, s); break;
        case StepKind::softmax:
        case StepKind::log_softmax: softmax(b, s); break;
        case StepKind::sparse_cross_entropy: good = cross_entropy(b, s) && good; break;
        case StepKind::dropout: dropout(b, s); break;
        case StepKind::copy: copy(b, s, copy_of(b, s)); break;
        default: break;  // the planner makes no others
      }
      between_models(b, s, models);
    }
    return end_models(b, s, good);
  }
};

}  // namespace lamina::kernels::cuda::resident
