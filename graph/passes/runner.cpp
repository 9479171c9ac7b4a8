#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "graph/passes/pipeline.h"
#include "graph/passes/rewrite.h"
#include "runtime/core/error.h"
#include "runtime/core/limits.h"
#include "runtime/core/per_thread.h"
#include "runtime/core/settings.h"

namespace lamina::passes {
namespace {

struct Disabled {
  std::vector<std::string> names;
};
std::vector<std::string>& disabled_here() { return PerThread<Disabled>::get().names; }

std::vector<std::string> disabled_passes() {
  std::vector<std::string> names = disabled_here();
  std::istringstream list(config::text(Setting::disable));
  for (std::string name; std::getline(list, name, ',');)
    if (!name.empty()) names.push_back(name);
  if (names.empty()) return names;
  std::vector<std::string> existing;
  for (const Pass& pass : pipeline()) existing.push_back(pass.name);
  for (const std::string& name : names)
    if (std::find(existing.begin(), existing.end(), name) == existing.end())
      throw unknown_name("pass", name, existing).at(config::name(Setting::disable));
  return names;
}

size_t pass_limit() { return std::min(size_t(config::number(Setting::pass_limit).value_or(1e6)), pipeline().size()); }

// Writes 00_traced.txt, 01_inline_checkpoints.txt, ... into LAMINA_DUMP; the second graph of a process into its folder graph_2.
class Dump {
 public:
  Dump() : folder_(config::text(Setting::dump)) {}
  void write(size_t number, const std::string& name, const ir::Graph& g) {
    if (folder_.empty()) return;
    if (!made_) {
      static std::atomic<int> graphs{0};
      if (const int graph = ++graphs; graph > 1) folder_ /= cat("graph_", graph);
      std::error_code failed;
      std::filesystem::create_directories(folder_, failed);
      made_ = true;
    }
    const std::filesystem::path path = folder_ / cat(std::setfill('0'), std::setw(2), number, "_", name, ".txt");
    std::ofstream file(path);
    file << ir::print(g);
    if (!file.flush())
      throw Error(ErrorKind::file, {.what = cat("cannot write ", path.string()),
                                    .where = config::name(Setting::dump),
                                    .why = "the folder is missing or not writable",
                                    .fix = "set LAMINA_DUMP to a folder that can be written"});
  }

 private:
  std::filesystem::path folder_;
  bool made_ = false;
};

void verify_after(const std::string& pass, const ir::Graph& g) {
  try {
    ir::verify(g);
  } catch (const Error& error) {
    Error::Parts parts = error.parts;
    parts.what = cat("after ", pass, ": ", parts.what);
    throw Error(ErrorKind::internal, std::move(parts));
  }
}

// The passes that are on, with their places in the list.
template <class F>
void each_pass(F&& run) {
  const std::vector<std::string> disabled = disabled_passes();
  const size_t limit = pass_limit();
  for (size_t i = 0; i < limit; ++i)
    if (std::find(disabled.begin(), disabled.end(), pipeline()[i].name) == disabled.end()) run(i + 1, pipeline()[i]);
}

}  // namespace

void set_disabled_passes(std::vector<std::string> names) { disabled_here() = std::move(names); }

ir::Graph run_everywhere(const Pass& pass, const ir::Graph& g, int stride) {
  const auto no_node = [&](auto&& is) { return std::none_of(g.nodes().begin(), g.nodes().end(), is); };
  if (pass.where == Where::at_regions && no_node([](const Node& node) { return !node.regions.empty(); })) return g;
  if (pass.where == Where::here || no_node(ops::owns_programs)) return pass.run(g, stride);
  Rewriter rewriter(g);
  for (int i = 0; i < g.size(); ++i) {
    if (!ops::owns_programs(g[i])) {
      rewriter.copy(i);
      continue;
    }
    Node node = g[i];
    for (ir::GraphRef& region : node.regions) {
      Graph changed = run_everywhere(pass, *region, stride);
      if (!ir::equal(changed, *region)) region = std::make_shared<const Graph>(std::move(changed));
    }
    rewriter.copy(i, node);
  }
  return pass.run(rewriter.finish(), stride);
}

namespace {

Optimized run_passes(const ir::Graph& g, bool verify_each) {
  Dump dump;
  Optimized out{.graph = g, .inspected = {}, .report = {}};
  bool inspected = false;
  dump.write(0, "traced", g);
  if (verify_each) verify_after("tracing", g);
  each_pass([&](size_t number, const Pass& pass) {
    check_time_limit();
    if (pass.stage == Stage::plan) return;
    if (pass.stage != Stage::simplify && !inspected) out.inspected = out.graph, inspected = true;
    const auto start = std::chrono::steady_clock::now();
    ir::Graph after = run_everywhere(pass, out.graph);
    PassReport report{.name = pass.name, .nodes_before = out.graph.size(), .nodes_after = after.size()};
    report.changed = !ir::equal(out.graph, after);
    if (report.changed) {
      if (verify_each) verify_after(pass.name, after);
      out.graph = std::move(after);
    }
    report.microseconds = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    out.report.push_back(std::move(report));
    dump.write(number, pass.name, out.graph);
  });
  if (!inspected) out.inspected = out.graph;
  return out;
}

}  // namespace

Optimized optimize(const ir::Graph& g) {
  Optimized out = run_passes(g, false);
  try {
    ir::verify(out.graph);
  } catch (const Error&) {
    run_passes(g, true);  // names the pass
    throw;
  }
  return out;
}

std::optional<ir::Graph> optimize_for_plan(const ir::Graph& g, int stride) {
  Dump dump;
  std::optional<ir::Graph> out;
  each_pass([&](size_t number, const Pass& pass) {
    check_time_limit();
    if (pass.stage != Stage::plan) return;
    const ir::Graph& before = out ? *out : g;
    ir::Graph after = run_everywhere(pass, before, stride);
    if (ir::equal(before, after)) return;
    verify_after(pass.name, after);
    dump.write(number, pass.name, after);
    out = std::move(after);
  });
  return out;
}

}  // namespace lamina::passes
