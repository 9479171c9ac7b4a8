#include "graph/passes/pipeline.h"

#include "graph/passes/passes.h"

namespace lamina::passes {

const std::vector<Pass>& pipeline() {
  using enum Numbers;
  static const std::vector<Pass> list = {
      {"inline_checkpoints", inline_checkpoints, same, true, "first: they were for the gradient, which is there"},
      {"decompose_batch_norm", decompose_batch_norm, same, true, "then every pass sees plain nodes"},
      {"forward_assigned_values", forward_assigned_values, same, true,
       "reads of Variables become the values that the graph assigned or read before"},
      {"remove_dead_nodes", remove_dead_nodes, same, true, "early, since gradients leave much that nobody asks for"},
      {"merge_loops", merge_loops, same, true, "before anything has changed the bodies differently"},
      {"fold_branches", fold_branches, same, true, "what is known while compiling needs no loop and no branch"},
      {"drop_unused_loop_values", drop_unused_loop_values, same, true, "gradients compute more than is asked for"},
      {"hoist_invariants", hoist_invariants, same, true, "out of loops, the inner ones first"},
      {"fold_constants", fold_constants, same, true, "computes what depends on constants alone"},
      {"simplify_algebra", simplify_algebra, same, true, "identities that keep every bit"},
      {"simplify_arithmetic", simplify_arithmetic, rounding, true, "identities of real numbers"},
      {"merge_equal_nodes", merge_equal_nodes, same, true, "after the identities, which make different nodes equal"},
      {"fold_transposes_into_matmul", fold_transposes_into_matmul, rounding, true, "before the dense layers, which look for products"},
      {"remove_dead_nodes", remove_dead_nodes, same, true, "again: the rewrites above leave their old inputs behind"},
      {"fuse_dense", fuse_dense, rounding, true, "matmul + bias + activation"},
      {"fuse_dense_backward", fuse_dense_backward, rounding, true, "before elementwise fusion, which would take the masks and updates"},
      {"fuse_elementwise", fuse_elementwise, same, false, "last: everything that wants single elementwise nodes has seen them"},
  };
  return list;
}

}  // namespace lamina::passes
