// Philox against the known answers published with Random123, and the vectorised forms against the plain one.
#include "kernels/shared/philox.h"

#include <gtest/gtest.h>

#include "kernels/dropout.h"
#include "kernels/random.h"
#include "runtime/core/config.h"

namespace lamina {
namespace {

using kernels::cpu::dropout_run;
using kernels::cpu::random_words;

std::vector<uint32_t> words(const philox::Block& b) { return {b.word[0], b.word[1], b.word[2], b.word[3]}; }

// Every instruction set of this machine in turn.
template <class F>
void on_each_isa(F f) {
  const std::string before = config::cpu_isa();
  for (const char* isa : {"scalar", "avx2", "avx512"}) {
    config::set_cpu_isa(isa);
    SCOPED_TRACE(isa);
    f();
    if (isa == config::best_cpu_isa()) break;
  }
  config::set_cpu_isa(before);
}

TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(words(philox::philox({{0, 0, 0, 0}}, 0, 0)), (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(words(philox::philox({{ones, ones, ones, ones}}, ones, ones)),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(philox::philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0)),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, PutsTheBlockInTheLowerHalfOfTheCounterAndTheSeedInTheKey) {
  // The known answer above, read as a draw.
  EXPECT_EQ(words(philox::draw(0x299f31d0a4093822, 0x0370734413198a2e, int64_t(0x85a308d3243f6a88))),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, ManyBlocksAtOnceAreTheSameBlocks) {
  const int64_t state[2] = {-0x123456789abcdef, 0x7fffffff00000003};
  on_each_isa([&] {
    for (int64_t first : {int64_t(0), int64_t(5), int64_t(0xfffffffd), int64_t(0x123456789a)})
      for (int64_t count : {0, 1, 7, 8, 9, 33}) {
        std::vector<uint32_t> got(size_t(4 * count) + 1, 0xabababab), want;
        random_words(state, first, count, got.data());
        for (int64_t b = 0; b < count; ++b)
          for (uint32_t w : words(philox::draw(state[0], state[1], first + b))) want.push_back(w);
        want.push_back(0xabababab);  // guard: nothing is written beyond the end
        EXPECT_EQ(got, want) << first << " " << count;
      }
  });
}

TEST(Dropout, ElementsUseTheirOwnWordWhereverARunBegins) {
  const int64_t state[2] = {7, 3};
  const int64_t n = 203;
  std::vector<float> x(n), want(n);
  for (int64_t i = 0; i < n; ++i) {
    x[size_t(i)] = float(i) - 100.5f;
    const uint32_t word = philox::draw(state[0], state[1], i / 4).word[i % 4];
    want[size_t(i)] = word < philox::drop_below(0.3f) ? 0.0f : x[size_t(i)] * float(1 / (1 - double(0.3f)));
  }
  on_each_isa([&] {
    for (int64_t first : {0, 1, 4, 6, 37})
      for (int64_t count : {0, 1, 3, 31, 64, 70, 166}) {
        std::vector<float> got(n, -7), expected(n, -7);
        std::copy(want.begin() + first, want.begin() + first + count, expected.begin() + first);
        dropout_run(x.data() + first, state, 0.3f, got.data() + first, first, count);
        EXPECT_EQ(got, expected) << first << " " << count;
      }
  });
}

}  // namespace
}  // namespace lamina
