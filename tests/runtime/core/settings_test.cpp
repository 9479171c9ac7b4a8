// The table of settings: accepted values, and the errors for others.
#include "runtime/core/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "graph/compile/streams.h"
#include "runtime/core/config.h"
#include "runtime/core/error.h"

namespace lamina::tests {
namespace {

// Restores the environment.
class Settings : public testing::Test {
 protected:
  void set(Setting setting, const char* value) {
    const char* name = config::name(setting);
    if (const char* before = std::getenv(name)) before_.try_emplace(name, before);
    touched_.insert(name);
    setenv(name, value, 1);
  }
  void TearDown() override {
    for (const std::string& name : touched_)
      if (const auto before = before_.find(name); before == before_.end())
        unsetenv(name.c_str());
      else
        setenv(name.c_str(), before->second.c_str(), 1);
  }

 private:
  std::map<std::string, std::string> before_;
  std::set<std::string> touched_;
};

TEST_F(Settings, AreSortedInTheTable) {
  std::set<std::string> names;
  for (size_t i = 0; i < config::settings().size(); ++i) {
    const config::SettingInfo& s = config::settings()[i];
    EXPECT_EQ(size_t(s.setting), i) << s.name;
    EXPECT_TRUE(names.insert(s.name).second) << s.name;
    EXPECT_EQ(std::string(s.name).substr(0, 7), "LAMINA_");
    EXPECT_FALSE(config::values(s).empty()) << s.name;
    EXPECT_STRNE(s.otherwise, "") << s.name;
    EXPECT_STRNE(s.meaning, "") << s.name;
  }
  EXPECT_EQ(config::settings().size(), size_t(Setting::section_clock) + 1);
}

TEST_F(Settings, AcceptOnlyListedValues) {
  for (const config::SettingInfo& s : config::settings()) {
    set(s.setting, "");
    EXPECT_EQ(config::text(s.setting), "") << s.name;
    EXPECT_FALSE(config::number(s.setting) || config::is_on(s.setting)) << s.name;
    for (const std::string_view word : s.words) {
      set(s.setting, std::string(word).c_str());
      EXPECT_EQ(config::text(s.setting), word);
      EXPECT_FALSE(config::number(s.setting)) << s.name;
    }
    if (s.most >= s.least)
      for (const double value : {s.least, std::min(s.most, 1e6)}) {
        set(s.setting, cat(int64_t(value)).c_str());
        EXPECT_EQ(config::number(s.setting), value) << s.name;
      }
    if (*s.any) continue;
    for (const char* wrong : {"nonsense", "-1", "nan", "1 ", " "}) {
      set(s.setting, wrong);
      try {
        config::text(s.setting);
        ADD_FAILURE() << s.name << " takes " << wrong;
      } catch (const Error& e) {
        EXPECT_EQ(e.kind, ErrorKind::invalid_argument);
        EXPECT_EQ(e.parts.what, cat(s.name, "=", wrong, " is not ", config::values(s)));
        EXPECT_EQ(e.parts.where, "the environment");
        EXPECT_EQ(e.parts.why, s.meaning);
        EXPECT_EQ(e.parts.fix, cat("unset ", s.name, ", or set it to ", config::values(s)));
      }
    }
  }
}

TEST_F(Settings, DistinguishIntegersFromOtherNumbers) {
  set(Setting::cuda_streams, "2.5");
  EXPECT_THROW(config::text(Setting::cuda_streams), Error);
  set(Setting::cublaslt, "2.5");
  EXPECT_EQ(config::number(Setting::cublaslt), 2.5);
  set(Setting::threads, "1025");
  EXPECT_THROW(config::number(Setting::threads), Error);
}

TEST_F(Settings, SwitchesAreWordsOrDigits) {
  for (const auto& [value, on] : {std::pair("on", true), {"1", true}, {"off", false}, {"0", false}}) {
    set(Setting::cuda_graphs, value);
    EXPECT_EQ(config::is_on(Setting::cuda_graphs), on) << value;
  }
}

TEST_F(Settings, AllowAsManyStreamsAsThePlanner) {
  EXPECT_EQ(config::settings()[size_t(Setting::cuda_streams)].most, compile::kMostStreams);
}

}  // namespace
}  // namespace lamina::tests
