// Runs ops' test cases by their GPU kernels on a Backend with its own memory: a card's, or the emulation's.
#pragma once
#include "runtime/device/backend.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {

// Runs the op's kernel on gpu:0 of the backend for each dtype of the case, with contiguous and, if supported, strided inputs. Compares with
// double precision and checks the bytes beside the results. Adds failures. Returns the number of launches: 0 if a GPU has no kernel for the
// op.
int check_on_card(Backend& backend, const ir::OpDef& op, const OpCase& c);
// All cases of the op; of every op, or every `one_in`-th. The latter gives up when twenty ops have failed.
int check_op_on_card(Backend& backend, const std::string& name);
int check_all_on_card(Backend& backend, int one_in = 1);

}  // namespace lamina::tests
