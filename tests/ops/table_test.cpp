// The table of ops is complete: every op has everything it needs, or a reason for what is missing.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "graph/ir/graph.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

bool said(const char* reason) { return reason && *reason; }

TEST(OpTable, EveryOpHasCases) {
  const std::map<std::string, std::string> elsewhere{
      {"all_gather", "is between ranks: tests/graph/functions/collectives_test.cpp"},
      {"all_reduce", "is between ranks: tests/graph/functions/collectives_test.cpp"},
      {"broadcast_from", "is between ranks: tests/graph/functions/collectives_test.cpp"},
      {"reduce_scatter", "is between ranks: tests/graph/functions/collectives_test.cpp"},
      {"send_receive", "is between ranks: tests/graph/functions/collectives_test.cpp"},
      {"as_complex", "is of complex numbers: tests/python/test_complex.py"},
      {"as_real", "is of complex numbers: tests/python/test_complex.py"},
      {"fft", "is by KissFFT: tests/python/test_fft.py"},
      {"cholesky", "is by LAPACK: tests/python/test_linalg.py"},
      {"eigh", "is by LAPACK: tests/python/test_linalg.py"},
      {"qr", "is by LAPACK: tests/python/test_linalg.py"},
      {"slogdet", "is by LAPACK: tests/python/test_linalg.py"},
      {"solve", "is by LAPACK: tests/python/test_linalg.py"},
      {"svd", "is by LAPACK: tests/python/test_linalg.py"},
      {"triangular_solve", "is by LAPACK: tests/python/test_linalg.py"},
      {"assign", "writes a variable: tests/graph/ir and the executor's tests"},
      {"check", "has an effect: tests/graph/frontend/reporting_test.cpp"},
      {"checkpoint", "has regions: tests/graph/frontend/checkpoint_test.cpp"},
      {"cond", "has regions: tests/graph/frontend/control_flow_test.cpp"},
      {"scan", "has regions: tests/graph/frontend/control_flow_test.cpp"},
      {"while_loop", "has regions: tests/graph/frontend/control_flow_test.cpp"},
      {"with_length", "has regions: tests/graph/frontend/control_flow_test.cpp"},
      {"constant", "is computed by nobody: tests/graph/ir"},
      {"custom_gradient", "has regions: tests/graph/frontend/reporting_test.cpp"},
      {"input", "is computed by nobody: tests/graph/ir"},
      {"print", "has an effect: tests/graph/frontend/reporting_test.cpp"},
      {"read", "reads a variable: tests/graph/ir and the executor's tests"},
  };
  for (const ir::OpDef* op : ir::all_ops())
    EXPECT_NE(cases_of_ops().count(op->name), elsewhere.count(op->name)) << op->name << ": write tests/ops/" << op->name << ".cpp";
  for (const auto& [name, make] : cases_of_ops()) EXPECT_NO_THROW(ir::find_op(name)) << name;
}
TEST(OpTable, EveryOpIsDescribed) {
  for (const ir::OpDef* op : ir::all_ops()) EXPECT_TRUE(said(op->doc)) << op->name;
}
TEST(OpTable, EveryOpRunsOnTheCpuOrSaysWhyNot) {
  for (const ir::OpDef* op : ir::all_ops()) EXPECT_TRUE(op->cpu || op->decompose || op->alias || said(op->no_cpu)) << op->name;
}
TEST(OpTable, EveryOpRunsOnAGpuOrSaysWhyNot) {
  for (const ir::OpDef* op : ir::all_ops()) EXPECT_NE(op->cuda != nullptr, said(op->no_cuda)) << op->name;
}
TEST(OpTable, EveryOpHasAGradientOrSaysWhyNot) {
  for (const ir::OpDef* op : ir::all_ops()) EXPECT_NE(op->vjp != nullptr, said(op->no_vjp)) << op->name;
}
TEST(OpTable, EveryOpHasABatchingRuleOrSaysWhyNot) {
  for (const ir::OpDef* op : ir::all_ops()) EXPECT_NE(op->batch != nullptr, said(op->no_batch)) << op->name;
}
TEST(OpTable, EveryOpHasAShapeRuleAndReadsItsAttributes) {
  for (const ir::OpDef* op : ir::all_ops()) EXPECT_TRUE(op->infer && op->parse_attrs) << op->name;
}
TEST(OpTable, IsSortedByName) {
  const auto all = ir::all_ops();
  for (size_t i = 1; i < all.size(); ++i) EXPECT_LT(std::strcmp(all[i - 1]->name, all[i]->name), 0) << all[i]->name;
}

}  // namespace
}  // namespace lamina::tests
