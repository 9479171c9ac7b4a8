// The cases in *.txt beside this file: text in, text out.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "graph/passes/pipeline.h"
#include "runtime/core/error.h"
#include "tests/source_file.h"

namespace lamina::passes {
namespace {

struct Case {
  std::string name, before, after;
  bool unchanged = false;
  int stride = 0;
};

std::vector<Case> read_cases(const std::string& pass) {
  std::ifstream file(tests::source_file("tests/graph/passes/" + pass + ".txt"));
  std::vector<Case> cases;
  std::string* into = nullptr;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    if (line.starts_with("stride: ")) {
      cases.back().stride = std::stoi(line.substr(8));
      continue;
    }
    if (line == "--- becomes") {
      into = &cases.back().after;
    } else if (line == "--- unchanged") {
      cases.back().unchanged = true;
      into = nullptr;
    } else if (line.starts_with("--- ")) {
      cases.push_back({line.substr(4), "", ""});
      into = &cases.back().before;
    } else if (into && !line.empty()) {
      *into += line + "\n";
    }
  }
  return cases;
}

const Pass& pass_named(const std::string& name) {
  for (const Pass& pass : pipeline())
    if (name == pass.name) return pass;
  throw std::runtime_error("no pass " + name);
}

std::vector<std::string> pass_names() {
  std::set<std::string> names;
  for (const Pass& pass : pipeline()) names.insert(pass.name);
  return {names.begin(), names.end()};
}

class PassText : public testing::TestWithParam<std::string> {};

TEST_P(PassText, MatchesItsText) {
  const std::vector<Case> cases = read_cases(GetParam());
  ASSERT_FALSE(cases.empty()) << "tests/graph/passes/" << GetParam() << ".txt is missing";
  int untouched = 0;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    ir::Graph before;
    try {
      before = ir::parse(c.before);
    } catch (const Error& error) {
      FAIL() << error.what();
    }
    EXPECT_EQ(ir::print(before), c.before) << "the case is not written as graphs are printed";
    const ir::Graph after = pass_named(GetParam()).run(before, c.stride);
    ir::verify(after);
    EXPECT_EQ(ir::print(after), c.unchanged ? c.before : c.after);
    EXPECT_EQ(ir::print(before), c.before) << "the pass has changed its input";
    EXPECT_EQ(ir::print(pass_named(GetParam()).run(after, c.stride)), ir::print(after)) << "a second run changes more";
    EXPECT_TRUE(c.unchanged || c.before != c.after) << "say unchanged";
    untouched += c.unchanged;
  }
  EXPECT_GE(untouched, 1) << "no case that the pass must leave alone";
}

INSTANTIATE_TEST_SUITE_P(Passes, PassText, testing::ValuesIn(pass_names()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace lamina::passes
