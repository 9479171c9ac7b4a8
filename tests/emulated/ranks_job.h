// Several ranks that train a small network: their sections, whose launches run together on the emulation.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "graph/passes/cut_rows.h"
#include "kernels/section/rank_sums.h"
#include "runtime/dist/tree.h"
#include "tests/emulated/emulated_backend.h"
#include "tests/emulated/networks.h"
#include "tests/emulated/section_trial.h"

namespace lamina::kernels::cuda {

using tests::pattern;
using tests::Trial;
using Numbers = std::vector<std::vector<float>>;

inline constexpr int64_t kRows = 21, kIn = 40, kHidden = 33, kOut = 6, kSteps = 5;

// Three layers, the first with more weights than a chunk.
struct Net {
  std::vector<Variable> layers{Variable(tests::patterned({kIn, kHidden}, 0.01f), "kernel"),
                               Variable(tensor(std::vector<float>(kHidden, 0.1f), {kHidden}), "bias"),
                               Variable(tests::patterned({kHidden, kOut}, 0.02f, 5), "kernel")};
  std::shared_ptr<optim::Optimizer> optimizer = std::make_shared<optim::SGD>(0.1, 0.9);
  ir::Graph graph() {
    auto step = function([this](Tensor x, Tensor y) {
      GradientTape tape;
      const Tensor cost = mean(square(matmul(relu(matmul(x, layers[0]) + layers[1]), layers[2]) - y));
      optimizer->apply_gradients(tape.gradient(cost, layers), layers);
      return cost;
    });
    return step.concrete(tests::patterned({kRows, kIn}, 0.05f), tests::patterned({kRows, kOut}, 0.1f, 3)).graph();
  }
};

inline passes::RowsGraph graph_of(const ir::Graph& whole, int ranks, int rank, int64_t shards = 8, int64_t bucket = passes::kBucketBytes) {
  const std::vector<ir::Cut> cuts{{0, 1}, {0, 1}};
  passes::RowsGraph out = passes::cut_rows(
      whole, {.rows = kRows, .shards = shards, .ranks = ranks, .rank = rank, .bucket_bytes = bucket, .in_launch = true, .inputs = cuts});
  out.graph = passes::optimize(out.graph).graph;
  return out;
}

// A rank's rows of the batch.
inline std::vector<float> rows_of(int64_t width, int ranks, int rank, int64_t shards) {
  const std::vector<float> all = pattern(size_t(kRows * width), 0.05f, int(width));
  const distributed::Range own = distributed::rows_of_rank(kRows, shards, ranks, rank);
  return {all.begin() + own.begin * width, all.begin() + own.end * width};
}

// Windows of all ranks, in memory with red zones.
struct AllWindows {
  std::vector<std::vector<std::unique_ptr<Buffer<char>>>> of_sum;  // per sum and rank
  std::vector<char*> addresses;
  void make(const std::vector<int64_t>& bytes, int ranks) {
    if (!of_sum.empty()) return;
    for (int64_t size : bytes) {
      of_sum.emplace_back();
      for (int r = 0; r < ranks; ++r) {
        of_sum.back().push_back(std::make_unique<Buffer<char>>(std::vector<char>(size_t(size), 0)));
        addresses.push_back(of_sum.back().back()->data());
      }
    }
  }
  std::vector<std::vector<char>> contents() const {
    std::vector<std::vector<char>> out;
    for (const auto& sum : of_sum)
      for (const auto& window : sum) out.push_back(window->values());
    return out;
  }
};
class OneRank final : public section::RankMemory {
 public:
  OneRank(AllWindows& all, int ranks, int rank) : all_(all), ranks_(ranks), rank_(rank) {}
  int rank() const override { return rank_; }
  const std::vector<char*>& begin(Stream&, const std::vector<int64_t>& bytes) override {
    all_.make(bytes, ranks_);
    return all_.addresses;
  }
  void started(Stream&) override {}

 private:
  AllWindows& all_;
  const int ranks_, rank_;
};

// The ranks' sections, whose launches run together.
class Job {
 public:
  Job(const ir::Graph& whole, int ranks, int64_t shards = 8, int64_t bucket = passes::kBucketBytes) : ranks_(ranks) {
    for (int r = 0; r < ranks; ++r) {
      graphs_.push_back(graph_of(whole, ranks, r, shards, bucket));
      const auto program = compile::compile(graphs_.back().graph, {.device = parse_device("gpu:0")});
      EXPECT_EQ(program->instructions.size(), 1u) << exec::print(*program);
      trials_.push_back(std::make_unique<Trial>(program));
      for (size_t i = 0; i < graphs_.back().graph.resources.size(); ++i) {
        const TensorType& type = graphs_.back().graph.resources[i].type;
        std::vector<float> start = pattern(size_t(byte_size(type)) / 4, 0.01f, int(i));
        if (type.dtype != DType::f32) std::fill(start.begin(), start.end(), 0.0f);
        trials_.back()->start_with(exec::StorageKind::variable, int(i), start.data());
      }
      for (int i = 0; i < 2; ++i) trials_.back()->start_with(exec::StorageKind::input, i, rows_of(i ? kOut : kIn, ranks, r, shards).data());
    }
  }
  // Plans with so many blocks for each rank; a change of them, if any.
  void plan(int blocks, const std::function<void(section::BlockPlan&, int rank)>& change = {}) {
    sections_.clear();
    windows_ = std::make_unique<AllWindows>();
    for (int r = 0; r < ranks_; ++r) {
      sections_.push_back(trials_[size_t(r)]->plan(blocks));
      if (change) change(sections_.back()->plan, r);
      sections_.back()->ranks = std::make_shared<OneRank>(*windows_, ranks_, r);
    }
  }
  const section::BlockPlan& plan_of(int rank) const { return sections_[size_t(rank)]->plan; }
  const section::Flat flat_of(int rank) const { return trials_[size_t(rank)]->flat(); }

  // Some steps from the start. A rank's step begins when its own one before has ended.
  void run(int count = int(kSteps)) {
    std::vector<std::function<void()>> steps;
    for (int r = 0; r < ranks_; ++r)
      steps.push_back([&, r, count] {
        trials_[size_t(r)]->run_blocks(*sections_[size_t(r)]);
        for (int step = 1; step < count; ++step) trials_[size_t(r)]->go_on(*sections_[size_t(r)]);
      });
    emulation::run_together(steps);
  }
  section::WindowLayout layout() const { return section::layout_of(sections_[0]->table->sums); }
  AllWindows& windows() {
    windows_->make(plan_of(0).windows, ranks_);
    return *windows_;
  }
  // One rank's first step, beside another GPU's launch, with the values that windows had before, none of which is announced yet.
  void run_beside(int rank, const std::vector<std::vector<char>>& values, const std::function<void()>& other) {
    for (size_t i = 0; i < values.size(); ++i) std::memcpy(windows().addresses[i], values[i].data(), values[i].size());
    for (const section::BlockSum& sum : layout().values)
      for (int r = 0; r < ranks_; ++r)
        for (int buffer = 0; buffer < 2; ++buffer)
          reinterpret_cast<uint32_t*>(windows().addresses[size_t(sum.window * ranks_ + r)])[sum.flag + buffer * sum.flags] = 0;
    emulation::run_together({[&] { trials_[size_t(rank)]->run_blocks(*sections_[size_t(rank)]); }, other});
  }
  void exchange_places(int a, int b) { std::swap(sections_[size_t(a)]->ranks, sections_[size_t(b)]->ranks); }
  // Launches of one rank; the others are gone.
  void run_alone(int rank, int steps) {
    for (int step = 0; step < steps; ++step) trials_[size_t(rank)]->go_on(*sections_[size_t(rank)]);
  }
  void end(int rank) { *reinterpret_cast<uint32_t*>(windows_->of_sum[0][size_t(rank)]->data()) = 1; }
  // Of the first chunk, in a buffer.
  uint32_t flag(int rank, int buffer) const {
    const auto* value = reinterpret_cast<const section::BlockSum*>(plan_of(rank).bytes.data() + plan_of(rank).program.sums_at);
    return reinterpret_cast<const uint32_t*>(windows_->of_sum[0][size_t(rank)]->data())[value->flag + buffer * value->flags];
  }
  Numbers variables(int rank) const {
    Numbers out;
    for (size_t i = 0; i < graphs_[size_t(rank)].graph.resources.size(); ++i) out.push_back(trials_[size_t(rank)]->variable(int(i)));
    return out;
  }

 private:
  const int ranks_;
  const tests::EmulatedGpu gpu_;
  std::vector<passes::RowsGraph> graphs_;
  std::vector<std::unique_ptr<Trial>> trials_;
  std::unique_ptr<AllWindows> windows_;
  std::vector<std::unique_ptr<section::BlockSection>> sections_;
};

inline bool same_bits(const Numbers& a, const Numbers& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * 4) == 0;
  });
}

}  // namespace lamina::kernels::cuda
