#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "kernels/section/stages.h"
#include "runtime/core/config.h"
#include "runtime/core/error.h"
#include "runtime/device/thread_pool.h"
#include "tests/kernels/cpu/all_tiles.h"
#include "tests/kernels/cpu/section_builder.h"

namespace lamina::section {
namespace {

using kernels::ScalarOp;

std::vector<float> random_numbers(int64_t count, uint32_t seed, float scale = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::vector<float> v(static_cast<size_t>(count));
  for (float& x : v) x = uniform(generator);
  return v;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Runs on all threads that a table is for, however busy the machine. Restores threads and instruction set.
class Section : public testing::Test {
 protected:
  void SetUp() override { ThreadPool::keep_workers(true); }
  void TearDown() override {
    ThreadPool::keep_workers(false);
    config::set_threads(threads_);
    Ways::always({});
    config::set_cpu_isa(isa_);
  }
  const int threads_ = config::threads();
  const std::string isa_ = config::cpu_isa();
};

// A training step of a small classifier with every kind of step in it.
struct Classifier : SectionBuilder {
  int batch, width, classes = 10, layers = 4;
  int x, labels, state, rate, losses, mean, probabilities, log_probabilities, copied;
  std::vector<int> w, b, m, new_w, new_b, new_m;

  Classifier(int batch_size, int layer_width, int threads, bool momentum) : batch(batch_size), width(layer_width) {
    auto out_width = [&](int l) { return l + 1 == layers ? classes : width; };
    x = input(random_numbers(batch * width, 1));
    std::vector<int64_t> names;
    for (int i = 0; i < batch; ++i) names.push_back(i * 7 % classes);
    labels = input_integers(names);
    state = input_integers({42, 7});
    rate = input({0.05f});
    for (int l = 0; l < layers; ++l) {
      w.push_back(input(random_numbers(width * out_width(l), uint32_t(10 + l), 1 / std::sqrt(float(width)))));
      b.push_back(input(random_numbers(out_width(l), uint32_t(20 + l))));
      m.push_back(input(random_numbers(width * out_width(l), uint32_t(30 + l))));
    }
    std::vector<int> a{x};
    for (int l = 0; l < layers; ++l) {
      a.push_back(l == 2 ? output(batch * out_width(l)) : inner(batch * out_width(l)));
      Step& s = add(StepKind::dense, Partition::rows, batch, width, out_width(l),
                    {{a[size_t(l)]}, {w[size_t(l)]}, {b[size_t(l)], Broadcast::row}}, {{a.back()}});
      s.activation = l + 1 == layers ? Activation::none
                     : l % 3 == 0    ? Activation::relu
                     : l % 3 == 1    ? Activation::tanh
                                     : Activation::sigmoid;
      s.has_bias = 1;
      if (l == 1) {
        const int dropped = inner(batch * width);
        add(StepKind::dropout, Partition::rows, batch, 0, width, {{a.back()}, {state}}, {{dropped}}).scalar = 0.25f;
        a.back() = dropped;
      }
    }
    losses = output(batch);
    probabilities = output(batch * classes);
    add(StepKind::sparse_cross_entropy, Partition::rows, batch, 0, classes, {{a.back()}, {labels, Broadcast::column}},
        {{losses, Broadcast::column}, {probabilities}});
    mean = output(1);
    Step& r = add(StepKind::reduce, Partition::one, batch, 0, 1, {{losses}}, {{mean, Broadcast::scalar}});
    r.reduction = Reduction::mean, r.reduced = Broadcast::scalar;
    log_probabilities = output(batch * classes);
    add(StepKind::log_softmax, Partition::rows, batch, 0, classes, {{a.back()}}, {{log_probabilities}});
    const int soft = inner(batch * classes);
    add(StepKind::softmax, Partition::rows, batch, 0, classes, {{a.back()}}, {{soft}});
    const int sums = inner(batch);
    Step& c = add(StepKind::reduce, Partition::rows, batch, 0, classes, {{soft}}, {{sums, Broadcast::column}});
    c.reduced = Broadcast::column;
    int dz = inner(batch * classes);
    Step& e = add(StepKind::elementwise, Partition::rows, batch, 0, classes, {{probabilities}, {sums, Broadcast::column}}, {{dz}});
    e.code = code(binary_code(ScalarOp::sub));
    const int descent = code(descent_code(false)), other_descent = code(descent_code(true)), with_momentum = code(momentum_code());
    for (int l = layers - 1; l >= 0; --l) {
      const int n = out_width(l);
      int dx = -1;
      if (l > 0) {
        dx = inner(batch * width);
        Step& g = add(StepKind::dense_grad_input, Partition::rows, batch, width, n, {{dz}, {w[size_t(l)]}, {a[size_t(l)]}}, {{dx}});
        g.has_mask = 1;
        g.activation = (l - 1) % 3 == 0 ? Activation::relu : (l - 1) % 3 == 1 ? Activation::tanh : Activation::sigmoid;
      }
      new_w.push_back(output(width * n));
      new_b.push_back(output(n));
      new_m.push_back(output(width * n));
      std::vector<Operand> ins{{a[size_t(l)]}, {dz}, {w[size_t(l)]}}, outs{{new_w.back()}};
      if (momentum) ins.push_back({m[size_t(l)]}), outs.push_back({new_m.back()});
      ins.push_back({rate, Broadcast::scalar});
      ins.push_back({b[size_t(l)], Broadcast::row});
      ins.push_back({rate, Broadcast::scalar});
      outs.push_back({new_b.back(), Broadcast::row});
      Step& u = add(StepKind::dense_update, Partition::tiles, batch, width, n, ins, outs);
      u.code = momentum ? with_momentum : l % 2 ? descent : other_descent;
      u.code2 = descent;
      u.extras = momentum ? 3 : 2;
      u.has_bias = 1;
      dz = dx;
    }
    copied = output(batch * classes);
    add(StepKind::copy, Partition::one, 0, 0, 0, {{probabilities}}, {{copied}});
    add(StepKind::copy, Partition::one, 0, 0, 0, {{mean}}, {{output(1)}});  // of what follows the rows, as this must
    finish(threads);
  }

  std::vector<float> everything() {
    std::vector<float> all;
    for (size_t i = size_t(inputs); i < ranges.size(); ++i) {
      if (ranges[i].is_inner) continue;
      auto v = values(int(i));
      all.insert(all.end(), v.begin(), v.end());
    }
    return all;
  }
};

TEST_F(Section, GivesTheSameBitsForAnyNumberOfThreads) {
  for (const std::string& isa : kernels::cpu::runnable_isas()) {
    config::set_cpu_isa(isa);
    for (auto [batch, width] : {std::pair(20, 64), {1, 33}, {7, 20}, {130, 17}, {290, 20}})
      for (bool momentum : {false, true}) {
        config::set_threads(1);
        Classifier one(batch, width, 1, momentum);
        one.run();
        for (int threads : {2, 3, 4, 7}) {
          config::set_threads(threads);
          for (Ways::Way way : {Ways::shared, Ways::staged, Ways::chunked, Ways::alone}) {
            Ways::always(way);
            Classifier many(batch, width, threads, momentum);
            ASSERT_EQ(many.table.ways->on_all != nullptr, batch >= threads);
            ASSERT_EQ(many.table.ways->in_chunks != nullptr, batch > 32 * (threads - 1)) << "whole blocks for each thread";
            ASSERT_NE(many.table.ways->on_one, nullptr);
            many.run();
            ASSERT_TRUE(same_bits(many.everything(), one.everything())) << isa << ", batch " << batch << ", width " << width << ", threads "
                                                                        << threads << ", momentum " << momentum << ", way " << way;
          }
          Ways::always({});
          Classifier many(batch, width, threads, momentum);
          config::set_threads(2);  // a plan for more threads than there are now
          many.run();
          ASSERT_TRUE(same_bits(many.everything(), one.everything()));
        }
      }
  }
}

TEST_F(Section, AgreesWithDoubleForAWholeTrainingStep) {
  for (const std::string& isa : kernels::cpu::runnable_isas()) {
    config::set_cpu_isa(isa);
    Classifier net(12, 30, 1, true);
    net.run();
    // The last layer in double from the section's earlier results: loss, its gradient, and the updated weights.
    const auto p = net.values(net.probabilities), losses = net.values(net.losses), logs = net.values(net.log_probabilities);
    double mean = 0;
    for (int i = 0; i < 12; ++i) {
      double sum = 0;
      for (int j = 0; j < 10; ++j) {
        sum += p[size_t(i * 10 + j)];
        EXPECT_NEAR(std::log(p[size_t(i * 10 + j)]), logs[size_t(i * 10 + j)], 1e-5);
      }
      EXPECT_NEAR(sum, 1, 1e-6);
      EXPECT_NEAR(losses[size_t(i)], -std::log(double(p[size_t(i * 10 + i * 7 % 10)])), 1e-5);
      mean += losses[size_t(i)] / 12.0;
    }
    EXPECT_NEAR(net.values(net.mean)[0], mean, 1e-6 * mean);
    EXPECT_EQ(net.values(net.copied), p);
    const int a = net.table.operands[size_t(net.table.steps[4].first_in)].buffer;  // the last dense layer's input
    ASSERT_EQ(net.table.steps[4].kind, StepKind::dense);
    const auto x = net.values(a), w = net.values(net.w[3]), m = net.values(net.m[3]), got_w = net.values(net.new_w[0]),
               got_m = net.values(net.new_m[0]);
    for (int k = 0; k < 30; ++k)
      for (int n = 0; n < 10; ++n) {
        double g = 0, size = 0;
        for (int i = 0; i < 12; ++i) {
          double sum = 0;
          for (int j = 0; j < 10; ++j) sum += p[size_t(i * 10 + j)];
          const double term = x[size_t(i * 30 + k)] * (p[size_t(i * 10 + n)] - sum);
          g += term, size += std::abs(term);
        }
        const double new_m = 0.9 * m[size_t(k * 10 + n)] + g;
        EXPECT_NEAR(got_m[size_t(k * 10 + n)], new_m, 2e-6 * (size + 1));
        EXPECT_NEAR(got_w[size_t(k * 10 + n)], w[size_t(k * 10 + n)] - 0.05 * new_m, 2e-7 * (size + 2));
      }
  }
}

// A gradient used in registers equals the one that is returned on request.
TEST_F(Section, DescentUsesTheReturnedGradient) {
  for (const std::string& isa : kernels::cpu::runnable_isas()) {
    config::set_cpu_isa(isa);
    for (int rows : {1, 20, 200})
      for (bool rate_first : {false, true}) {
        constexpr int k = 37, n = 50;
        SectionBuilder s;
        const int x = s.input(random_numbers(rows * k, 1)), dz = s.input(random_numbers(rows * n, 2)),
                  w = s.input(random_numbers(k * n, 3)), rate = s.input({0.01f}), b = s.input(random_numbers(n, 4));
        const int dw = s.output(k * n), db = s.output(n), new_w = s.output(k * n), new_b = s.output(n);
        Step& plain = s.add(StepKind::dense_update, Partition::tiles, rows, k, n, {{x}, {dz}}, {{dw}, {db, Broadcast::row}});
        plain.code = plain.code2 = s.code(identity_code());
        plain.has_bias = 1;
        Step& fused = s.add(StepKind::dense_update, Partition::tiles, rows, k, n,
                            {{x}, {dz}, {w}, {rate, Broadcast::scalar}, {b, Broadcast::row}, {rate, Broadcast::scalar}},
                            {{new_w}, {new_b, Broadcast::row}});
        fused.code = fused.code2 = s.code(descent_code(rate_first));
        fused.extras = 2, fused.has_bias = 1;
        s.finish(1);
        s.run();
        const auto g = s.values(dw), bias_gradient = s.values(db), before = s.values(w), after = s.values(new_w), bias = s.values(b),
                   new_bias = s.values(new_b), z = s.values(dz);
        for (size_t i = 0; i < g.size(); ++i) ASSERT_EQ(after[i], before[i] - 0.01f * g[i]) << isa << " rows " << rows;
        for (size_t j = 0; j < size_t(n); ++j) {
          double sum = 0, size = 0;
          for (int i = 0; i < rows; ++i) sum += z[size_t(i * n) + j], size += std::abs(z[size_t(i * n) + j]);
          ASSERT_NEAR(bias_gradient[j], sum, 1e-6 * size);
          ASSERT_EQ(new_bias[j], bias[j] - 0.01f * bias_gradient[j]);
        }
      }
  }
}

TEST_F(Section, BroadcastsOperandsOfElementwiseSteps) {
  constexpr std::pair<int, int> shapes[] = {{9, 70}, {1, 70}, {70, 1}, {200, 3}, {5, 300}};
  for (auto [rows, n] : shapes) {
    for (int round = 0; round < 9; ++round) {
      const int threads = 1 + round / 3;
      const Partition partition = std::array{Partition::rows, Partition::tiles, Partition::one}[size_t(round % 3)];
      config::set_threads(threads);
      SectionBuilder s;
      const int full = s.input(random_numbers(rows * n, 1)), row = s.input(random_numbers(n, 2)), column = s.input(random_numbers(rows, 3)),
                scalar = s.input({3});
      const Operand others[] = {{full}, {row, Broadcast::row}, {column, Broadcast::column}, {scalar, Broadcast::scalar}};
      std::vector<int> results;
      for (const Operand& other : others) {
        results.push_back(s.output(rows * n));
        s.add(StepKind::elementwise, partition, rows, 0, n, {{full}, other}, {{results.back()}}).code = s.code(binary_code(ScalarOp::mul));
      }
      s.finish(threads);
      s.run();
      const auto f = s.values(full);
      for (size_t which = 0; which < 4; ++which) {
        const auto got = s.values(results[which]), other = s.values(others[which].buffer);
        for (size_t i = 0; i < size_t(rows); ++i)
          for (size_t j = 0; j < size_t(n); ++j)
            ASSERT_EQ(got[i * size_t(n) + j], f[i * size_t(n) + j] * other[which == 0   ? i * size_t(n) + j
                                                                           : which == 1 ? j
                                                                           : which == 2 ? i
                                                                                        : 0])
                << "operand " << which << ", threads " << threads << ", " << rows << " x " << n;
      }
    }
  }
}

TEST_F(Section, ReducesRowsColumnsAndAll) {
  for (int threads : {1, 3}) {
    config::set_threads(threads);
    constexpr int rows = 35, n = 50;
    SectionBuilder s;
    const int x = s.input(random_numbers(rows * n, 1));
    const Reduction ops[] = {Reduction::sum, Reduction::mean, Reduction::max, Reduction::min};
    const Broadcast shapes[] = {Broadcast::row, Broadcast::column, Broadcast::scalar};
    std::vector<int> results;
    for (Reduction op : ops)
      for (Broadcast shape : shapes) {
        results.push_back(s.output(shape == Broadcast::row ? n : shape == Broadcast::column ? rows : 1));
        Step& step = s.add(StepKind::reduce, shape == Broadcast::column ? Partition::rows : Partition::one, rows, 0, n, {{x}},
                           {{results.back(), shape}});
        step.reduction = op, step.reduced = shape;
      }
    s.finish(threads);
    s.run();
    const auto v = s.values(x);
    for (size_t which = 0; which < results.size(); ++which) {
      const Reduction op = ops[which / 3];
      const Broadcast shape = shapes[which % 3];
      const auto got = s.values(results[which]);
      for (size_t o = 0; o < got.size(); ++o) {
        double sum = 0, least = 1e9, most = -1e9, count = 0;
        for (size_t i = 0; i < size_t(rows); ++i)
          for (size_t j = 0; j < size_t(n); ++j) {
            if ((shape == Broadcast::row && j != o) || (shape == Broadcast::column && i != o)) continue;
            const double e = v[i * n + j];
            sum += e, least = std::min(least, e), most = std::max(most, e), ++count;
          }
        const double want = op == Reduction::sum ? sum : op == Reduction::mean ? sum / count : op == Reduction::max ? most : least;
        ASSERT_NEAR(got[o], want, 1e-6 * (op == Reduction::sum ? count : 1)) << which;
      }
    }
  }
}

TEST_F(Section, SharesColumnsOfOneRow) {
  constexpr int k = 90, n = 110;
  auto build = [&](SectionBuilder& s, int threads) {
    const int x = s.input(random_numbers(k, 1)), w = s.input(random_numbers(k * n, 2)), dz = s.input(random_numbers(n, 3));
    const int y = s.output(n), dx = s.output(k);
    s.add(StepKind::dense, Partition::tiles, 1, k, n, {{x}, {w}}, {{y}}).activation = Activation::sigmoid;
    s.add(StepKind::dense_grad_input, Partition::tiles, 1, k, n, {{dz}, {w}}, {{dx}});
    s.finish(threads);
    s.run();
    auto all = s.values(y), more = s.values(dx);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  SectionBuilder one;
  const auto want = build(one, 1);
  for (int threads : {2, 3, 7}) {
    config::set_threads(threads);
    SectionBuilder many;
    EXPECT_TRUE(same_bits(build(many, threads), want)) << threads;
  }
}

TEST_F(Section, RaisesABadLabelWithoutChangingWeights) {
  for (auto [threads, way] : {std::pair(1, Ways::shared),
                              {2, Ways::shared},
                              {2, Ways::staged},
                              {2, Ways::chunked},
                              {2, Ways::alone},
                              {4, Ways::shared},
                              {4, Ways::staged},
                              {4, Ways::chunked}})
    for (int bad : {13, 250, 599}) {
      config::set_threads(threads);
      Ways::always(way);
      const bool chunked = way == Ways::chunked;
      const int batch = chunked ? 600 : 20;
      Classifier net(batch, 16, threads, false);
      std::vector<int64_t> labels(size_t(batch), 3);
      labels[size_t(chunked ? bad : 13)] = 10;
      std::vector<float> raw(size_t(batch) * 2);
      std::memcpy(raw.data(), labels.data(), raw.size() * sizeof(float));
      net.set(net.labels, raw);
      net.table.lines.resize(net.table.steps.size());
      for (size_t i = 0; i < net.table.steps.size(); ++i)
        if (net.table.steps[i].kind == StepKind::sparse_cross_entropy) net.table.lines[i] = source_line("train.py", 41);
      try {
        net.run();
        FAIL() << "nothing was thrown with " << threads << " threads";
      } catch (const Error& e) {
        EXPECT_EQ(e.kind, ErrorKind::index);
        EXPECT_NE(std::string(e.what()).find("10"), std::string::npos) << e.what();
        EXPECT_NE(std::string(e.what()).find("train.py:41"), std::string::npos) << e.what();
      }
      for (int w : net.new_w)
        for (float v : net.values(w)) ASSERT_EQ(v, 0) << "a weight was written";
      Classifier good(20, 16, threads, false), fresh(20, 16, threads, false);  // the pool still works
      good.run();
      fresh.run();
      EXPECT_TRUE(same_bits(good.everything(), fresh.everything()));
    }
}

// Forward on both threads' layers and back: weights, their gradients and updates stay with one thread.
TEST_F(Section, StagesKeepWeightsOnOneThread) {
  Classifier net(48, 32, 2, true);
  const Stages& stages = *net.table.ways->on_all;
  ASSERT_EQ(stages.stages.size(), 3u) << print(*net.table.ways);
  EXPECT_EQ(stages.parts, 3);
  std::map<int, int> thread_of;  // per weights
  int products = 0;
  for (const Stages::Stage& stage : stages.stages)
    for (int i = stage.begin; i < stage.tail; ++i) {
      const Step& s = net.table.steps[size_t(stages.items[size_t(i)].step)];
      if (s.kind != StepKind::dense && s.kind != StepKind::dense_grad_input && s.kind != StepKind::dense_update) continue;
      const int w = net.table.operands[size_t(s.first_in + (s.kind == StepKind::dense_update ? 2 : 1))].buffer;
      EXPECT_EQ(thread_of.try_emplace(w, stage.thread).first->second, stage.thread) << "weights %" << w;
      ++products;
    }
  EXPECT_EQ(products, 4 + 3 + 4);
  EXPECT_EQ(net.table.steps[size_t(stages.after.at(0))].kind, StepKind::reduce) << "the mean loss, which nothing here reads";
}

TEST(Ways, TakesTheFastestOfItsTrials) {
  using std::chrono::microseconds;
  Ways ways;
  ways.on_all = std::make_shared<Stages>();
  ways.in_chunks = std::make_shared<Chunks>();
  const auto trial = [&](int shared, int staged, int chunked, int alone) {  // 0: could not run so
    std::array<int, Ways::kCount> calls{}, times{shared, staged, chunked, alone};
    for (int i = 0; i < 16; ++i) {
      const Ways::Way way = ways.next();
      ++calls[way];
      if (times[way] > 0) ways.took(way, microseconds(i % 4 == 0 ? 1 : times[way]));  // the first of each does not count
    }
    for (int of_way : calls) EXPECT_EQ(of_way, 4);
    return ways.next();
  };
  const auto until_the_next = [&](int pause, Ways::Way way) {
    for (int i = 1; i <= pause; ++i) ASSERT_EQ(ways.next(), way) << i;
  };
  EXPECT_EQ(trial(300, 200, 270, 250), Ways::staged);
  until_the_next(64, Ways::staged);
  EXPECT_EQ(trial(300, 0, 270, 250), Ways::staged) << "as it was when it could run";
  until_the_next(64, Ways::staged);
  EXPECT_EQ(trial(300, 260, 270, 250), Ways::alone);
  until_the_next(64, Ways::alone);
  EXPECT_EQ(trial(300, 260, 245, 250), Ways::alone) << "another is hardly faster";
  until_the_next(128, Ways::alone);
  EXPECT_EQ(trial(300, 260, 240, 250), Ways::chunked);
  until_the_next(64, Ways::chunked);
  EXPECT_EQ(trial(300, 260, 240, 250), Ways::chunked);
  until_the_next(128, Ways::chunked);
  EXPECT_EQ(trial(100, 260, 240, 250), Ways::shared);
}

TEST_F(Section, DropsByThePositionInTheWholeBatch) {
  constexpr int rows = 50, n = 40;
  for (int threads : {1, 3}) {
    config::set_threads(threads);
    SectionBuilder s;
    const int x = s.input(std::vector<float>(rows * n, 1.0f)), state = s.input_integers({1, 2}), y = s.output(rows * n);
    s.add(StepKind::dropout, Partition::rows, rows, 0, n, {{x}, {state}}, {{y}}).scalar = 0.2f;
    s.finish(threads);
    s.run();
    const auto got = s.values(y);
    int dropped = 0;
    for (float v : got) {
      ASSERT_TRUE(v == 0 || v == 1.25f) << v;
      dropped += v == 0;
    }
    EXPECT_NEAR(dropped, rows * n * 0.2, 4 * std::sqrt(rows * n * 0.16));
    static std::vector<float> first;
    if (first.empty()) first = got;
    EXPECT_EQ(got, first);
  }
}

}  // namespace
}  // namespace lamina::section
