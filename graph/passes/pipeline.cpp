#include "graph/passes/pipeline.h"

#include "graph/passes/passes.h"

namespace lamina::passes {
namespace {

// A pass that needs no stride.
template <Graph (*pass)(const Graph&)>
Graph always(const Graph& g, int) {
  return pass(g);
}

}  // namespace

const std::vector<Pass>& pipeline() {
  using enum Numbers;
  using enum Stage;
  using enum Where;
  static const std::vector<Pass>& list = *new std::vector<Pass>{
      {"inline_checkpoints", always<inline_checkpoints>, same, simplify, at_regions, "first: they were for the gradient, which is there"},
      {"forward_assigned_values", always<forward_assigned_values>, same, simplify, everywhere,
       "reads of Variables become the values that the graph assigned or read before"},
      {"remove_dead_nodes", always<remove_dead_nodes>, same, simplify, everywhere,
       "early, since gradients leave much that nobody asks for"},
      {"merge_loops", always<merge_loops>, same, simplify, at_regions, "before anything has changed the bodies differently"},
      {"fold_branches", always<fold_branches>, same, simplify, at_regions, "what is known while compiling needs no loop and no branch"},
      {"drop_unused_loop_values", always<drop_unused_loop_values>, same, simplify, here,
       "sweeps through all regions by itself; gradients compute more than is asked for"},
      {"merge_equal_nodes", always<merge_equal_nodes>, same, simplify, everywhere,
       "equal nodes that leave a loop one by one would be different values in it"},
      {"hoist_invariants", always<hoist_invariants>, same, simplify, at_regions, "out of loops, the inner ones first"},
      {"fold_constants", always<fold_constants>, same, simplify, everywhere, "computes what depends on constants alone"},
      {"simplify_algebra", always<simplify_algebra>, same, simplify, everywhere, "identities that keep every bit"},
      {"simplify_arithmetic", always<simplify_arithmetic>, rounding, simplify, everywhere, "identities of real numbers"},
      {"merge_equal_nodes", always<merge_equal_nodes>, same, simplify, everywhere,
       "after the identities, which make different nodes equal"},
      {"fold_transposes_into_matmul", always<fold_transposes_into_matmul>, rounding, simplify, everywhere,
       "before the dense layers, which look for products"},
      {"remove_dead_nodes", always<remove_dead_nodes>, same, simplify, everywhere,
       "again: the rewrites above leave their old inputs behind"},
      {"flatten_products", always<flatten_products>, rounding, simplify, everywhere,
       "the passes for layers, and sections, know products of two matrices"},
      {"fuse_dense", always<fuse_dense>, rounding, simplify, everywhere, "matmul + bias + activation"},
      {"fuse_dense_backward", always<fuse_dense_backward>, rounding, simplify, everywhere,
       "before elementwise fusion, which would take the masks and updates"},
      {"fuse_elementwise", always<fuse_elementwise>, same, fuse, everywhere, "after everything that wants single elementwise nodes"},
      {"recompute_values", recompute_values, same, plan, here, "as much as the memory budget needs"},
  };
  return list;
}

}  // namespace lamina::passes
