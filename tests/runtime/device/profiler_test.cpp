#include "runtime/device/profiler.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "runtime/core/error.h"

namespace lamina::profiler {
namespace {

using Values = std::map<std::string, std::string>;

// Sets environment variables and restores them at the end.
class Environment {
 public:
  explicit Environment(const Values& values) {
    for (const auto& [name, value] : values) {
      const char* before = std::getenv(name.c_str());
      before_[name] = before ? before : "";
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
  }
  Environment(const Environment&) = delete;

 private:
  Values before_;
};

const std::vector<std::string> kVariables = {"NVTX_INJECTION64_PATH",
                                             "CUDA_INJECTION64_PATH",
                                             "NSYS_PROFILING_SESSION_ID",
                                             "NV_COMPUTE_PROFILER_PERFWORKS_DIR",
                                             "NV_NSIGHT_INJECTION_TRANSPORT_TYPE",
                                             "NV_SANITIZER_INJECTION_PORT_BASE",
                                             "NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN"};

Values nothing_set() {
  Values out{{"LAMINA_RESIDENT", ""}};
  for (const std::string& variable : kVariables) out[variable] = "";
  return out;
}

TEST(Profiler, EachVariableOfAToolCountsAsAttached) {
  const Environment none(nothing_set());
  // In a debugger there is already a tracer, which is last in the list.
  for (const std::string& variable : kVariables) {
    const Environment set(Values{{variable, "x"}});
    EXPECT_EQ(attached_by(), variable + " is set");
    EXPECT_TRUE(profiler_attached());
  }
  EXPECT_EQ(attached_by().find(" is set"), std::string::npos) << attached_by();
}

TEST(Profiler, ResidentStagedCountsAsAttachedAndOtherValuesAreErrors) {
  const Environment none(nothing_set());
  {
    const Environment staged(Values{{"LAMINA_RESIDENT", "staged"}});
    EXPECT_EQ(attached_by(), "LAMINA_RESIDENT=staged");
  }
  const Environment other(Values{{"LAMINA_RESIDENT", "always"}});
  EXPECT_THROW(attached_by(), Error);
}

TEST(Profiler, ANameIsCopiedWithItsTextAndKind) {
  const Name name(Kind::step, "dense_1/dense train.py:9");
  std::vector<Name> copies(3, name);
  copies.emplace_back(Kind::function, "step");
  copies[0] = copies[3];
  EXPECT_EQ(copies[0].text(), "step");
  EXPECT_EQ(copies[0].kind(), Kind::function);
  EXPECT_EQ(copies[2].text(), name.text());
  EXPECT_EQ(copies[2].kind(), Kind::step);
}

TEST(Profiler, RangesWithoutAToolDoNothing) {
  if (listening()) GTEST_SKIP() << "a tool listens: " << status();
  EXPECT_EQ(status().rfind("no tool listens: ", 0), 0u) << status();
  const Name name(Kind::user, "x");
  const Range outer("outer");
  const Scope inner(listening() ? &name : nullptr, 3);
  EXPECT_EQ(name.registered(), nullptr);
}

}  // namespace
}  // namespace lamina::profiler
