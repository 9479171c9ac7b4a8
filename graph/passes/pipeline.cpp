#include "graph/passes/pipeline.h"

#include "graph/passes/passes.h"

namespace lamina::passes {
namespace {

// A pass that is the same for every target.
template <Graph (*pass)(const Graph&)>
Graph always(const Graph& g, const Target&) {
  return pass(g);
}

}  // namespace

const std::vector<Pass>& pipeline() {
  using enum Numbers;
  using enum Stage;
  static const std::vector<Pass> list = {
      {"inline_checkpoints", always<inline_checkpoints>, same, simplify, true, "first: they were for the gradient, which is there"},
      {"decompose_batch_norm", decompose_batch_norm, same, simplify, true, "then every pass sees plain nodes"},
      {"forward_assigned_values", always<forward_assigned_values>, same, simplify, true,
       "reads of Variables become the values that the graph assigned or read before"},
      {"remove_dead_nodes", always<remove_dead_nodes>, same, simplify, true, "early, since gradients leave much that nobody asks for"},
      {"merge_loops", always<merge_loops>, same, simplify, true, "before anything has changed the bodies differently"},
      {"fold_branches", always<fold_branches>, same, simplify, true, "what is known while compiling needs no loop and no branch"},
      {"drop_unused_loop_values", always<drop_unused_loop_values>, same, simplify, false,
       "sweeps through all regions by itself; gradients compute more than is asked for"},
      {"hoist_invariants", always<hoist_invariants>, same, simplify, true, "out of loops, the inner ones first"},
      {"fold_constants", always<fold_constants>, same, simplify, true, "computes what depends on constants alone"},
      {"simplify_algebra", always<simplify_algebra>, same, simplify, true, "identities that keep every bit"},
      {"simplify_arithmetic", always<simplify_arithmetic>, rounding, simplify, true, "identities of real numbers"},
      {"merge_equal_nodes", always<merge_equal_nodes>, same, simplify, true, "after the identities, which make different nodes equal"},
      {"fold_transposes_into_matmul", always<fold_transposes_into_matmul>, rounding, simplify, true,
       "before the dense layers, which look for products"},
      {"remove_dead_nodes", always<remove_dead_nodes>, same, simplify, true, "again: the rewrites above leave their old inputs behind"},
      {"fuse_dense", always<fuse_dense>, rounding, simplify, true, "matmul + bias + activation"},
      {"fuse_dense_backward", always<fuse_dense_backward>, rounding, simplify, true,
       "before elementwise fusion, which would take the masks and updates"},
      {"fuse_elementwise", always<fuse_elementwise>, same, fuse, true, "after everything that wants single elementwise nodes"},
      {"use_libraries", use_libraries, same, plan, false, "ops in the form that the device's library makes"},
      {"recompute_values", recompute_values, same, plan, false, "as much as the memory budget needs"},
  };
  return list;
}

}  // namespace lamina::passes
