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
#include "runtime/core/settings.h"

namespace lamina::passes {
namespace {

thread_local std::vector<std::string> disabled_here;

std::vector<std::string> disabled_passes() {
  std::vector<std::string> names = disabled_here;
  std::istringstream list(config::text(Setting::disable));
  for (std::string name; std::getline(list, name, ',');)
    if (!name.empty()) names.push_back(name);
  std::vector<std::string> existing;
  for (const Pass& pass : pipeline()) existing.push_back(pass.name);
  for (const std::string& name : names)
    if (std::find(existing.begin(), existing.end(), name) == existing.end())
      throw unknown_name("pass", name, existing).at(config::name(Setting::disable));
  return names;
}

size_t pass_limit() { return std::min(size_t(config::number(Setting::pass_limit).value_or(1e6)), pipeline().size()); }

// Writes 00_traced.txt, 01_forward_assigned_values.txt, ... into LAMINA_DUMP; the second graph of a process into its folder graph_2.
class Dump {
 public:
  Dump() : folder_(config::text(Setting::dump)) {
    if (folder_.empty()) return;
    static std::atomic<int> graphs{0};
    if (const int number = ++graphs; number > 1) folder_ /= cat("graph_", number);
    std::error_code failed;
    std::filesystem::create_directories(folder_, failed);
  }
  void write(size_t number, const std::string& name, const ir::Graph& g) const {
    if (folder_.empty()) return;
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

}  // namespace

void set_disabled_passes(std::vector<std::string> names) { disabled_here = std::move(names); }

Optimized optimize(const ir::Graph& g) {
  const std::vector<std::string> disabled = disabled_passes();
  const size_t limit = pass_limit();
  const Dump dump;
  dump.write(0, "traced", g);
  verify_after("tracing", g);
  Optimized out{.graph = g, .inspected = {}, .report = {}};
  bool inspected = false;
  for (size_t i = 0; i < limit; ++i) {
    const Pass& pass = pipeline()[i];
    if (!pass.before_elementwise_fusion && !inspected) {
      out.inspected = out.graph;
      inspected = true;
    }
    if (std::find(disabled.begin(), disabled.end(), pass.name) != disabled.end()) continue;
    const auto start = std::chrono::steady_clock::now();
    ir::Graph after = run_everywhere(pass.run, out.graph);
    PassReport report{.name = pass.name, .nodes_before = out.graph.size(), .nodes_after = after.size()};
    report.changed = !ir::equal(out.graph, after);
    if (report.changed) {
      verify_after(pass.name, after);
      out.graph = std::move(after);
    }
    report.microseconds = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    out.report.push_back(std::move(report));
    dump.write(i + 1, pass.name, out.graph);
  }
  if (!inspected) out.inspected = out.graph;
  return out;
}

}  // namespace lamina::passes
