// The cases of ops by their kernels for a GPU, on a Backend that has its own memory: a card's, or the emulation.
#pragma once
#include "runtime/device/backend.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {

// Runs the op's kernel on gpu:0 of the backend for each dtype of the case, with contiguous inputs and, where the op takes them, with
// strided ones; compares with double precision, and looks at the bytes beside the results. Adds failures. How many launches that were: none
// where a GPU has no kernel for it.
int check_on_card(Backend& backend, const ir::OpDef& op, const OpCase& c);
// All cases of every op, or of one in so many; gives up when twenty ops have failed.
int check_all_on_card(Backend& backend, int one_in = 1);

}  // namespace lamina::tests
