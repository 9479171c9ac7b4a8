// Fails every test that leaves a race in the list.
#include <gtest/gtest.h>

#include "tests/emulated/races.h"

namespace lamina::kernels::cuda {
namespace {

class NoRaces : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo&) override {
    for (const std::string& race : take_races()) ADD_FAILURE() << race;
  }
};
const bool listening = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new NoRaces);
  return true;
}();

}  // namespace
}  // namespace lamina::kernels::cuda
