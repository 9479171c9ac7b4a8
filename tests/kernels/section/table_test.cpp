#include "kernels/section/table.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "kernels/section/access.h"
#include "runtime/core/error.h"
#include "tests/kernels/cpu/section_builder.h"

namespace lamina::section {
namespace {

// Two dense layers, the second's input gradient, and both updates, each weight updated in place.
struct Net : SectionBuilder {
  int x, w0, b0, w1, rate, dz, h, y, dh, new_w0, new_w1;
  explicit Net(int threads) {
    x = input(std::vector<float>(20 * 8)), w0 = input(std::vector<float>(8 * 16)), b0 = input(std::vector<float>(16)),
    w1 = input(std::vector<float>(16 * 4));
    rate = input({0.1f}), dz = input(std::vector<float>(20 * 4));
    h = output(20 * 16), y = output(20 * 4), dh = output(20 * 16), new_w0 = alias(w0), new_w1 = alias(w1);
    Step& first = add(StepKind::dense, Partition::rows, 20, 8, 16, {{x}, {w0}, {b0, Broadcast::row}}, {{h}});
    first.activation = Activation::relu, first.has_bias = 1;
    add(StepKind::dense, Partition::rows, 20, 16, 4, {{h}, {w1}}, {{y}});
    Step& back = add(StepKind::dense_grad_input, Partition::rows, 20, 16, 4, {{dz}, {w1}, {h}}, {{dh}});
    back.activation = Activation::relu, back.has_mask = 1;
    const int descent = code(descent_code(false));
    for (bool last : {true, false}) {
      Step& s = last ? add(StepKind::dense_update, Partition::tiles, 20, 16, 4, {{h}, {dz}, {w1}, {rate, Broadcast::scalar}}, {{new_w1}})
                     : add(StepKind::dense_update, Partition::tiles, 20, 8, 16, {{x}, {dh}, {w0}, {rate, Broadcast::scalar}}, {{new_w0}});
      s.code = descent, s.extras = 2;
    }
    table.threads = threads;
  }
  std::vector<int> barriers() {
    place_barriers(table, ranges);
    std::vector<int> at;
    for (size_t i = 0; i < table.steps.size(); ++i)
      if (table.steps[i].barrier_before) at.push_back(int(i));
    return at;
  }
  // validate's message about a fault, or "" if it finds none.
  std::string fault() {
    try {
      validate(table, ranges, inputs);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::internal);
      return e.parts.what;
    }
    return "";
  }
};

TEST(SectionTable, HasOneLineOfTextPerStep) {
  Net net(2);
  net.finish(2);
  EXPECT_EQ(print(net.table),
            "  0 dense relu [20,8]x[8,16] rows in=%0 %1 %2:row out=%6\n"
            "  1 dense none [20,16]x[16,4] rows in=%6 %3 out=%7\n"
            "  2 dense_grad_input relu [20,4]x[16,4]T rows in=%5 %3 %6 out=%8\n"
            "  3 dense_update [20,16]Tx[20,4] w: code 0 tiles in=%6 %5 %3 %4:scalar out=%10 | barrier\n"
            "  4 dense_update [20,8]Tx[20,16] w: code 0 tiles in=%0 %8 %1 %4:scalar out=%9\n" +
                ("code 0: " + kernels::print(net.table.codes[0]) + "\n"));
}

TEST(SectionTable, NamesEveryKindOfStep) {
  SectionBuilder s;
  const int x = s.input(std::vector<float>(12)), labels = s.input_integers({0, 1, 2}), state = s.input_integers({0, 0}), y = s.output(12),
            losses = s.output(3), p = s.output(12), sum = s.output(4);
  s.add(StepKind::dropout, Partition::rows, 3, 0, 4, {{x}, {state}}, {{y}}).scalar = 0.5f;
  s.add(StepKind::softmax, Partition::rows, 3, 0, 4, {{x}}, {{y}});
  s.add(StepKind::log_softmax, Partition::one, 3, 0, 4, {{x}}, {{y}});
  s.add(StepKind::sparse_cross_entropy, Partition::rows, 3, 0, 4, {{x}, {labels, Broadcast::column}}, {{losses, Broadcast::column}, {p}});
  Step& r = s.add(StepKind::reduce, Partition::one, 3, 0, 4, {{x}}, {{sum, Broadcast::row}});
  r.reduced = Broadcast::row, r.reduction = Reduction::max;
  s.add(StepKind::copy, Partition::one, 0, 0, 0, {{x}}, {{y}});
  s.add(StepKind::elementwise, Partition::rows, 3, 0, 4, {{x}}, {{y}}).code = s.code(identity_code());
  s.finish(1);
  EXPECT_EQ(print(s.table),
            "  0 dropout [3,4] rate 0.5 rows in=%0 %2 out=%3\n"
            "  1 softmax [3,4] rows in=%0 out=%3\n"
            "  2 log_softmax [3,4] one in=%0 out=%3\n"
            "  3 sparse_cross_entropy [3,4] rows in=%0 %1:column out=%4:column %5\n"
            "  4 reduce max [3,4] to:row one in=%0 out=%6:row\n"
            "  5 copy one in=%0 out=%3\n"
            "  6 elementwise [3,4] code 0 rows in=%0 out=%3\n" +
                ("code 0: " + kernels::print(s.table.codes[0]) + "\n"));
}

TEST(SectionBarriers, OneThreadNeedsNone) { EXPECT_EQ(Net(1).barriers(), std::vector<int>{}); }

TEST(SectionBarriers, PrecedeTheFirstReadOfOtherThreadsRows) { EXPECT_EQ(Net(2).barriers(), std::vector<int>{3}); }

TEST(SectionBarriers, PrecedeTheOverwriteOfAWeightStillRead) {
  Net net(2);
  std::swap(net.table.steps[2], net.table.steps[3]);  // w1's update before the gradient that reads w1
  EXPECT_EQ(net.barriers(), (std::vector<int>{2, 3, 4}));
}

TEST(SectionBarriers, SeparateStepsThatShareRowsDifferently) {
  SectionBuilder s;
  const int x = s.input(std::vector<float>(24)), y = s.output(24), z = s.output(24);
  s.add(StepKind::softmax, Partition::rows, 6, 0, 4, {{x}}, {{y}});
  s.add(StepKind::softmax, Partition::rows, 4, 0, 6, {{y}}, {{z}});  // the same memory seen as other rows
  s.finish(3);
  EXPECT_TRUE(s.table.steps[1].barrier_before);
}

TEST(SectionBarriers, DependOnMemoryNotOnBufferNumbers) {
  SectionBuilder s;
  const int x = s.input(std::vector<float>(24)), y = s.output(24), z = s.output(24);
  s.ranges[size_t(z)] = s.ranges[size_t(y)];
  s.ranges[size_t(z)].begin += 16, s.ranges[size_t(z)].end += 16;  // rows of z overlap other rows of y
  s.add(StepKind::softmax, Partition::rows, 6, 0, 4, {{x}}, {{y}});
  s.add(StepKind::softmax, Partition::rows, 6, 0, 4, {{x}}, {{z}});
  s.table.threads = 2;
  place_barriers(s.table, s.ranges);
  EXPECT_TRUE(s.table.steps[1].barrier_before);
}

TEST(SectionBarriers, AreNotNeededBetweenStepsOfOneThread) {
  SectionBuilder s;
  const int x = s.input(std::vector<float>(24)), y = s.output(24), z = s.output(24);
  s.add(StepKind::softmax, Partition::one, 6, 0, 4, {{x}}, {{y}});
  s.add(StepKind::softmax, Partition::one, 4, 0, 6, {{y}}, {{z}});
  s.finish(3);
  EXPECT_FALSE(s.table.steps[1].barrier_before);
}

TEST(SectionValidator, AcceptsAGoodTable) {
  Net net(2);
  place_barriers(net.table, net.ranges);
  EXPECT_EQ(net.fault(), "");
}

TEST(SectionValidator, FindsEachPlantedFault) {
  auto expect = [](const char* why, void (*plant)(Net&)) {
    Net net(2);
    place_barriers(net.table, net.ranges);
    plant(net);
    EXPECT_NE(net.fault().find(why), std::string::npos) << "wanted: " << why << "\ngot: " << net.fault();
  };
  expect("needs a barrier before it: step 0 writes %6, it reads %6", [](Net& n) { n.table.steps[3].barrier_before = false; });
  expect("which nobody wrote", [](Net& n) { n.table.steps.erase(n.table.steps.begin()); });
  expect("names an operand that is not there", [](Net& n) { n.table.steps[1].first_in = 1000; });
  expect("names an operand that is not there", [](Net& n) { n.table.steps[1].first_out = -1; });
  expect("names a buffer that is not there", [](Net& n) { n.table.operands[0].buffer = 99; });
  expect("names a code that is not there", [](Net& n) { n.table.steps[3].code = 7; });
  expect("gives its code the wrong number of inputs", [](Net& n) { n.table.codes[0].inputs.pop_back(); });
  expect("has the wrong number of operands", [](Net& n) { n.table.steps[0].has_bias = 0; });
  expect("has the wrong number of operands", [](Net& n) { n.table.steps[2].has_mask = 0; });
  expect("has inputs for a bias that is not there", [](Net& n) { n.table.steps[3].extras = 1, n.table.codes[0].inputs.pop_back(); });
  expect("writes an input of the section", [](Net& n) { n.table.operands[size_t(n.table.steps[1].first_out)].buffer = n.x; });
  expect("has a negative size", [](Net& n) { n.table.steps[1].k = -1; });
  expect("has models that are not shared out", [](Net& n) { n.table.steps[1].replicas = 4; });
  expect("writes one place for all models", [](Net& n) { n.table.steps[1].replicas = 4, n.table.steps[1].partition = Partition::models; });
  expect("cannot be shared by rows", [](Net& n) { n.table.steps[3].partition = Partition::rows; });
  expect("of no kind", [](Net& n) { n.table.steps[1].kind = StepKind(255); });
  expect("writes %6 over %0, which it also reads", [](Net& n) { n.ranges[size_t(n.h)] = n.ranges[size_t(n.x)]; });
  expect("after an earlier step overwrote it",
         [](Net& n) { n.ranges[size_t(n.dh)] = n.ranges[size_t(n.h)], n.table.steps[2].has_mask = 0, n.table.steps[2].ins = 2; });
}

// Two layers of four models on one batch; threads take whole models, so a second layer reads its own thread's results.
TEST(SectionTable, LayersOfAnEnsembleNeedNoBarriersBetweenThem) {
  SectionBuilder s;
  const int x = s.input(std::vector<float>(20 * 8)), w0 = s.input(std::vector<float>(4 * 8 * 16)),
            w1 = s.input(std::vector<float>(4 * 16 * 4));
  const int h = s.output(4 * 20 * 16), y = s.output(4 * 20 * 4), sums = s.output(4), all = s.output(1);
  auto of_models = [](Step& step) { step.replicas = 4; };
  of_models(s.add(StepKind::dense, Partition::models, 20, 8, 16, {{x}, {w0, Broadcast::full, 8 * 16}}, {{h, Broadcast::full, 20 * 16}}));
  of_models(s.add(StepKind::dense, Partition::models, 20, 16, 4, {{h, Broadcast::full, 20 * 16}, {w1, Broadcast::full, 16 * 4}},
                  {{y, Broadcast::full, 20 * 4}}));
  s.add(StepKind::reduce, Partition::rows, 4, 0, 80, {{y}}, {{sums}}).reduced = Broadcast::column;  // a model's results form one row
  s.add(StepKind::reduce, Partition::one, 1, 0, 4, {{sums}}, {{all}}).reduced = Broadcast::scalar;
  s.finish(2);
  EXPECT_EQ(print(s.table),
            "  0 dense none [20,8]x[8,16] models in=%0:shared %1 out=%3 replicas 4\n"
            "  1 dense none [20,16]x[16,4] models in=%3 %2 out=%4 replicas 4\n"
            "  2 reduce sum [4,80] to:column rows in=%4 out=%5\n"
            "  3 reduce sum [1,4] to:scalar one in=%5 out=%6 | barrier\n");
}

TEST(SectionValidator, AcceptsAViewOfWrittenMemory) {
  SectionBuilder s;
  const int x = s.input(std::vector<float>(24)), y = s.output(24), view = s.alias(y), z = s.output(24);
  s.ranges[size_t(view)].holds_value = false;
  s.add(StepKind::softmax, Partition::rows, 6, 0, 4, {{x}}, {{y}});
  s.add(StepKind::softmax, Partition::rows, 4, 0, 6, {{view}}, {{z}});
  s.finish(2);
  EXPECT_TRUE(s.table.steps[1].barrier_before);
  s.ranges[size_t(view)].end += 4;  // one number more than was written
  EXPECT_THROW(validate(s.table, s.ranges, s.inputs), Error);
}

// Against a look at every range, and at every earlier access.
TEST(SectionTable, OverlapsAndConflictsAreFoundAmongMany) {
  std::mt19937 random(3);
  const auto below = [&](unsigned n) { return int(random() % n); };
  for (int round = 0; round < 200; ++round) {
    std::vector<OperandRange> ranges;
    for (int i = 0; i < 40; ++i) {
      const int64_t begin = below(30) * 16;
      ranges.push_back({.space = below(3), .begin = begin, .end = begin + below(1 + below(300))});
    }
    RangeIndex index;
    for (int i = 0; i < 40; ++i) index.add(ranges[size_t(i)], i);
    for (const OperandRange& range : ranges) {
      std::set<int> found, expected;
      index.any_overlapping(range, [&](int number) { return !found.insert(number).second; });
      for (int i = 0; i < 40; ++i)
        if (overlap(range, ranges[size_t(i)])) expected.insert(i);
      ASSERT_EQ(found, expected);
    }
    std::vector<Step> steps(30);
    std::vector<Access> accesses;
    EarlierAccesses earlier(ranges);
    for (size_t n = 0; n < steps.size(); ++n) {
      Step& step = steps[n];
      step.partition = std::array{Partition::rows, Partition::tiles, Partition::one}[size_t(below(3))];
      step.owner = step.partition == Partition::one ? below(2) : 0, step.rows = 1 + below(2);
      const Access access{below(40), below(2) == 0, below(2) == 0, false};
      bool expected = false;
      for (size_t e = 0; e < n; ++e) expected = expected || conflict(steps[e], accesses[e], step, access, ranges);
      const EarlierAccesses::Earlier* found = earlier.conflicting(step, access);
      ASSERT_EQ(found != nullptr, expected);
      EXPECT_TRUE(!found || conflict(*found->step, found->access, step, access, ranges));
      earlier.add(step, access);
      accesses.push_back(access);
    }
  }
}

}  // namespace
}  // namespace lamina::section
