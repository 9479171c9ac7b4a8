#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "graph/ops/ops.h"
#include "graph/passes/pipeline.h"
#include "runtime/core/error.h"

namespace lamina::passes {
namespace {

class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Setting() { unsetenv(name_); }

 private:
  const char* name_;
};

ir::Graph layer() {
  return ir::parse(
      "%0: f32[2,3] = input()\n"
      "%1: f32[3,4] = input() {index=1}\n"
      "%2: f32[4] = input() {index=2}\n"
      "%3: f32[2,4] = matmul(%0, %1)\n"
      "%4: f32[2,4] = add(%3, %2)\n"
      "%5: f32[2,4] = relu(%4)\n"
      "%6: f32[2,4] = exp(%5)\n"
      "%7: f32[2,4] = neg(%6)\n"
      "return %7\n");
}

// Those that optimize() runs.
size_t passes_of_traced_graphs() {
  return size_t(std::count_if(pipeline().begin(), pipeline().end(), [](const Pass& pass) { return pass.stage != Stage::plan; }));
}

int count(const ir::Graph& g, const std::string& op) {
  int n = 0;
  for (const ir::Node& node : g.nodes()) n += node.op->name == op;
  return n;
}

TEST(PassRunner, ShowsTheGraphBeforeElementwiseFusion) {
  const Optimized out = optimize(layer());
  EXPECT_EQ(count(out.inspected, "dense"), 1);
  EXPECT_EQ(count(out.inspected, "exp"), 1);
  EXPECT_EQ(count(out.graph, "fused_elementwise"), 1);
  EXPECT_EQ(count(out.graph, "exp"), 0);
  ASSERT_EQ(out.report.size(), passes_of_traced_graphs());
  for (const PassReport& pass : out.report)
    EXPECT_EQ(pass.changed, pass.name == "fuse_dense" || pass.name == "fuse_elementwise") << pass.name;
}

TEST(PassRunner, SkipsDisabledPasses) {
  {
    Setting off("LAMINA_DISABLE", "fuse_dense,fuse_elementwise");
    const Optimized out = optimize(layer());
    EXPECT_TRUE(ir::equal(out.graph, layer()));
    EXPECT_EQ(out.report.size(), passes_of_traced_graphs() - 2);
  }
  set_disabled_passes({"fuse_dense"});
  EXPECT_EQ(count(optimize(layer()).graph, "dense"), 0);
  set_disabled_passes({});
  EXPECT_EQ(count(optimize(layer()).graph, "dense"), 1);
}

TEST(PassRunner, WhatEqualInvariantsOfALoopLeadToIsComputedOnce) {
  const Optimized out =
      optimize(ir::parse("%0: f32[4] = input()\n"
                         "%1: f32[4] = input() {index=1}\n"
                         "%2: f32[4] = scan(%0, %1) {carried=1, length=[9]} [\n"
                         "  %0: f32[4] = input()\n"
                         "  %1: f32[4] = input() {index=1}\n"
                         "  %2: f32[4] = exp(%1)\n"
                         "  %3: f32[4] = mul(%0, %2)\n"
                         "  %4: f32[4] = exp(%1)\n"
                         "  %5: f32[4] = mul(%0, %4)\n"
                         "  %6: f32[4] = sin(%3)\n"
                         "  %7: f32[4] = sin(%5)\n"
                         "  %8: f32[4] = sub(%6, %7)\n"
                         "  return %8\n"
                         "]\n"
                         "return %2\n"));
  EXPECT_EQ(count(out.inspected, "exp"), 1);
  for (const ir::Node& node : out.inspected.nodes())
    if (node.op == &ops::def::scan) {
      EXPECT_EQ(count(*node.regions[0], "sin"), 1);
    }
}

TEST(PassRunner, RefusesUnknownPassNames) {
  Setting off("LAMINA_DISABLE", "fuse_dens");
  try {
    optimize(layer());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::not_found);
    EXPECT_NE(std::string(error.what()).find("fuse_dense"), std::string::npos) << error.what();
  }
}

TEST(PassRunner, StopsAtTheLimit) {
  {
    Setting limit("LAMINA_PASS_LIMIT", "8");
    const Optimized out = optimize(layer());
    EXPECT_EQ(out.report.size(), 8u);
    EXPECT_EQ(count(out.graph, "matmul"), 1);
    EXPECT_TRUE(ir::equal(out.graph, out.inspected));
  }
  Setting limit("LAMINA_PASS_LIMIT", "all");
  EXPECT_THROW(optimize(layer()), Error);
}

TEST(PassRunner, DumpsTheGraphAfterEveryPass) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "lamina_dump_test";
  std::filesystem::remove_all(folder);
  Optimized out;
  {
    Setting dump("LAMINA_DUMP", folder.string());
    out = optimize(layer());
  }
  // The first graph of a process is dumped in the folder itself, later ones in graph_2, ...
  std::filesystem::path here = folder;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_directory()) here = entry.path();
  auto read = [&](const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(here / name).rdbuf();
    return text.str();
  };
  EXPECT_EQ(read("00_traced.txt"), ir::print(layer()));
  EXPECT_EQ(read("16_fuse_dense.txt"), ir::print(out.inspected));
  EXPECT_EQ(read("18_fuse_elementwise.txt"), ir::print(out.graph));
  std::filesystem::remove_all(folder);
}

// Two values live across the memory peak; one can be computed again after it.
ir::Graph with_peak() {
  return ir::parse(
      "%0: f32[64] = input()\n"
      "%1: f32[64] = sin(%0)\n"
      "%2: f32[64] = cos(%0)\n"
      "%3: f32[64,64] = broadcast_to(%1) {shape=[64,64]}\n"
      "%4: f32[64,64] = exp(%3)\n"
      "%5: f32[64] = sum(%4) {axes=[0]}\n"
      "%6: f32[64] = mul(%5, %1)\n"
      "%7: f32[64] = mul(%6, %2)\n"
      "return %7\n");
}

TEST(PassRunner, RunsPassesOfPlansWithTheirStride) {
  EXPECT_FALSE(optimize_for_plan(with_peak(), 0));
  const auto planned = optimize_for_plan(with_peak(), 2);
  ASSERT_TRUE(planned);
  EXPECT_EQ(count(*planned, "cos"), 2);
  EXPECT_FALSE(ir::equal(*planned, with_peak()));
  Setting off("LAMINA_DISABLE", "recompute_values");
  EXPECT_FALSE(optimize_for_plan(with_peak(), 2));
}

TEST(PassRunner, DumpsPassesOfPlansThatChangeSomething) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "lamina_plan_dump_test";
  std::filesystem::remove_all(folder);
  Setting dump("LAMINA_DUMP", folder.string());
  optimize_for_plan(with_peak(), 0);
  EXPECT_FALSE(std::filesystem::exists(folder));
  optimize_for_plan(with_peak(), 2);
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (!entry.is_directory()) files.push_back(entry.path().filename().string());
  EXPECT_EQ(files, std::vector<std::string>{"19_recompute_values.txt"});
  std::filesystem::remove_all(folder);
}

// The lists that lm.inspect shows for small functions.
TEST(Pipeline, SimplifiesSmallFunctions) {
  auto inspected = [](const std::string& text) { return optimize(ir::parse(text)).inspected; };
  const ir::Graph folded = inspected(
      "%0: f32[1] = input()\n%1: f32[] = constant() {value=f32[]{2}}\n%2: f32[] = constant() {value=f32[]{3}}\n%3: f32[] = mul(%1, %2)\n"
      "%4: f32[] = constant() {value=f32[]{4}}\n%5: f32[] = add(%3, %4)\n%6: f32[1] = add(%0, %5)\nreturn %6\n");
  EXPECT_EQ(count(folded, "mul"), 0);
  EXPECT_EQ(count(folded, "add"), 1);
  const ir::Graph merged = inspected(
      "%0: f32[1] = input()\n%1: f32[1] = input() {index=1}\n%2: f32[1] = mul(%0, %1)\n%3: f32[1] = sin(%2)\n%4: f32[1] = mul(%0, %1)\n"
      "%5: f32[1] = sin(%4)\n%6: f32[1] = add(%3, %5)\nreturn %6\n");
  EXPECT_EQ(count(merged, "sin"), 1);
  const ir::Graph arithmetic = inspected(
      "%0: f32[1] = input()\n%1: f32[] = constant() {value=f32[]{1}}\n%2: f32[1] = mul(%0, %1)\n%3: f32[] = constant() {value=f32[]{0}}\n"
      "%4: f32[1] = add(%2, %3)\n%5: f32[] = constant() {value=f32[]{2}}\n%6: f32[1] = mul(%4, %5)\n%7: f32[] = constant() "
      "{value=f32[]{3}}\n"
      "%8: f32[1] = mul(%6, %7)\nreturn %8\n");
  EXPECT_EQ(count(arithmetic, "mul"), 1);
  EXPECT_EQ(arithmetic.size(), 3) << ir::print(arithmetic);
  const ir::Graph transposed = inspected(
      "%0: f32[2,3] = input()\n%1: f32[3,2] = transpose(%0) {axes=[1,0]}\n%2: f32[2,3] = transpose(%1) {axes=[1,0]}\nreturn %2\n");
  EXPECT_EQ(transposed.size(), 1);
  const ir::Graph dense = inspected(
      "%0: f32[2,3] = input()\n%1: f32[3,4] = input() {index=1}\n%2: f32[4] = input() {index=2}\n%3: f32[2,4] = matmul(%0, %1)\n"
      "%4: f32[2,4] = add(%3, %2)\n%5: f32[2,4] = relu(%4)\nreturn %5\n");
  EXPECT_EQ(dense.size(), 4) << ir::print(dense);
}

}  // namespace
}  // namespace lamina::passes
