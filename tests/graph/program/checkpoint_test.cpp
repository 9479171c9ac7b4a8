// lm::Checkpoint and lm::distributed::shard: training that is interrupted ends with the bits of one that is not, on any number of ranks;
// and the errors' texts.
#include "graph/program/checkpoint.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "graph/frontend/data_parallel.h"
#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/random.h"
#include "graph/nn/dense.h"
#include "graph/nn/optimizer.h"
#include "graph/nn/sequential.h"
#include "graph/nn/shard.h"
#include "graph/program/tensor_file.h"
#include "runtime/dist/threads.h"
#include "tests/runtime/io/scratch.h"
#include "tests/source_file.h"

namespace lamina {
namespace {

namespace dist = distributed;
using io::Scratch;

data::Dataset batches() {
  std::mt19937 random(1);
  std::vector<float> x(13 * 4), y(13);
  for (float& v : x) v = std::normal_distribution<float>()(random);
  for (size_t i = 0; i < y.size(); ++i) y[i] = x[4 * i] - x[4 * i + 1];
  return data::Dataset::from_tensor_slices({tensor(x, {13, 4}), tensor(y, {13, 1})}).batch(13);
}

// A network, its optimizer and a step of this rank's rows.
struct Training {
  nn::Sequential net;
  optim::Adam adam{0.05};
  Tensor x, y;
  std::function<void()> step;

  explicit Training(int64_t width = 8) {
    net.add<nn::Dense>(width, "tanh");
    net.add<nn::Dense>(1);
    const data::Element rows = *dist::shard(batches()).begin();
    x = rows[0], y = rows[1];
    net.build_for({DType::f32, {2, 4}});
    for (const Variable& v : net.variables())  // the same on all ranks
      v.assign(broadcast_to(tensor({0.125f * float(v.shape().back().number() + 1)}, {1}), v.shape()));
    auto train = std::make_shared<dist::DataParallel<std::function<Tensor(Tensor, Tensor)>>>(
        [this](Tensor rows, Tensor labels) {
          GradientTape tape;
          const Tensor loss = mean(square(net(rows) - labels));
          const std::vector<Variable> weights = net.trainable_variables();
          adam.apply_gradients(tape.gradient(loss, weights), weights);
          return loss;
        },
        dist::DataParallelOptions{});
    step = [this, train] { (*train)(x, y); };
  }
  std::vector<float> bits() const {
    std::vector<float> out;
    for (const auto& list : {net.variables(), adam.variables()})
      for (const Variable& v : list)
        for (const float value : astype(v.read(), DType::f32).to_vector<float>()) out.push_back(value);
    return out;
  }
};

// Goes on from the folder's last checkpoint to this step.
std::vector<float> trained(const std::string& folder, int ranks, int64_t steps, int64_t from) {
  std::vector<float> out;
  dist::run_ranks(ranks, [&](dist::Communicator& c) {
    Training t;
    Checkpoint run(folder, t.net, t.adam);
    int64_t step = run.restore().value_or(0);
    EXPECT_EQ(step, from);
    while (step < steps) {
      t.step();
      EXPECT_FALSE(run.save(++step));
    }
    if (c.rank() == 0) out = t.bits();
  });
  return out;
}

TEST(Checkpoint, GoesOnToTheSameBitsOnAnyNumberOfRanks) {
  const Scratch whole, parts;
  const std::vector<float> undisturbed = trained(whole.path(), 1, 9, 0);
  trained(parts.path(), 3, 3, 0);
  trained(parts.path(), 1, 5, 3);
  EXPECT_EQ(trained(parts.path(), 4, 9, 5), undisturbed);
  EXPECT_EQ(trained(parts.path(), 2, 9, 9), undisturbed) << "the last step itself";
  Training t;
  EXPECT_EQ(Checkpoint(parts.path(), t.net, t.adam).steps(), (std::vector<int64_t>{8, 9}));
}

TEST(Checkpoint, KeepsTheNewestWritesEveryNthAndRemovesWhatKillsLeaveBehind) {
  const Scratch folder;
  const Variable w(tensor({1.f, 2.f}, {2}), "w");
  Checkpoint run(folder.path(), {{"w", w}}, {.keep = 3, .every = 2});
  std::filesystem::create_directories(folder.path());
  std::ofstream(folder.path() + "/.step-000000000001.safetensors.tmp") << "half";
  random::set_seed(5);
  for (int64_t step = 1; step <= 11; ++step) {
    w.assign(tensor({float(step), 0.f}, {2}));
    random::normal({1});
    EXPECT_FALSE(run.save(step));
  }
  EXPECT_EQ(run.steps(), (std::vector<int64_t>{6, 8, 10}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 3);
  random::set_seed(5);
  for (int i = 0; i < 10; ++i) random::normal({1});
  const float next = random::normal({1}).item<float>();
  EXPECT_EQ(run.restore(), 10);
  EXPECT_EQ(w.read().to_vector<float>(), (std::vector<float>{10, 0}));
  EXPECT_EQ(random::normal({1}).item<float>(), next);
}

TEST(Checkpoint, AProgramToldToStopSavesItsStep) {
  const Scratch folder;
  const Variable w(tensor({1.f}, {1}), "w");
  Checkpoint run(folder.path(), {{"w", w}}, {.every = 100});
  const auto told = [&] {
    if (run.save(1)) return 1;
    std::raise(SIGUSR1);
    return run.save(2) && run.steps() == std::vector<int64_t>{2} ? Checkpoint::kStopped : 2;
  };
  EXPECT_EXIT(std::_Exit(told()), testing::ExitedWithCode(75), "SIGUSR1: step 2 is saved in '.*'; the program ends with status 75");
}

TEST(Shard, GivesEachRankItsRowsOfEachBatch) {
  std::vector<int32_t> numbers(21);
  for (int i = 0; i < 21; ++i) numbers[size_t(i)] = i;
  for (const int ranks : {1, 3, 8}) {
    std::vector<std::vector<std::vector<int>>> found(3, std::vector<std::vector<int>>(size_t(ranks)));  // per batch and rank
    dist::run_ranks(ranks, [&](dist::Communicator& c) {
      size_t batch = 0;
      for (const data::Element& e : dist::shard(data::Dataset::from_tensor_slices({tensor(numbers)}).batch(9)))
        found[batch++][size_t(c.rank())] = e[0].to_vector<int>();
      EXPECT_EQ(batch, 3u);
    });
    std::vector<int> all;
    for (const auto& batch : found) {
      const int64_t rows = &batch == &found[2] ? 3 : 9;
      for (int r = 0; r < ranks; ++r) {
        EXPECT_EQ(int64_t(batch[size_t(r)].size()), dist::rows_of_rank(rows, 8, ranks, r).size());
        all.insert(all.end(), batch[size_t(r)].begin(), batch[size_t(r)].end());
      }
    }
    EXPECT_EQ(all, std::vector<int>(numbers.begin(), numbers.end()));
  }
}

// Byte by byte: every change of a small checkpoint is found, and the step before it is used.
TEST(Checkpoint, EveryDamagedByteIsFound) {
  const Scratch folder;
  const Variable w(tensor({1.f, 2.f, 3.f}, {3}), "w");
  Checkpoint run(folder.path(), {{"w", w}});
  EXPECT_FALSE(run.save(1));
  w.assign(tensor({4.f, 5.f, 6.f}, {3}));
  EXPECT_FALSE(run.save(2));
  const std::string path = folder.path() + "/step-000000000002.safetensors";
  std::string whole;
  {
    std::ifstream in(path, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = char(damaged[i] ^ 4);
    std::ofstream(path, std::ios::binary) << damaged;
    testing::internal::CaptureStderr();
    EXPECT_EQ(run.restore(), 1) << "byte " << i;
    EXPECT_NE(testing::internal::GetCapturedStderr().find("lamina: the checkpoint of step 2 is left out: "), std::string::npos);
    EXPECT_EQ(w.read().to_vector<float>(), (std::vector<float>{1, 2, 3}));
  }
}

// A job whose every checkpoint is damaged does not begin again as if there were none.
TEST(Checkpoint, NoWholeOneIsAnError) {
  const Scratch folder;
  const Variable w(tensor({1.f, 2.f, 3.f}, {3}), "w");
  Checkpoint run(folder.path(), {{"w", w}});
  EXPECT_EQ(run.restore(), std::nullopt);
  EXPECT_FALSE(run.save(1));
  std::ofstream(folder.path() + "/step-000000000001.safetensors", std::ios::binary) << "cut short";
  testing::internal::CaptureStderr();
  std::string text;
  try {
    run.restore();
  } catch (const Error& e) {
    text = e.what();
  }
  testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("no checkpoint is whole"), std::string::npos) << text;
  EXPECT_NE(text.find("step 1: "), std::string::npos) << text;
}

TEST(CheckpointErrors, MatchTheirTexts) {
  const Scratch scratch;
  const std::string folder = scratch.path() + "/run";
  const Variable w(tensor({1.f, 2.f}, {2}), "w");
  const auto error_of = [&](int ranks, const std::function<void(dist::Communicator&)>& body) {
    std::string text = "no error";
    try {
      dist::run_ranks(ranks, body);
    } catch (const Error& e) {
      text = e.what();
    }
    for (size_t at; (at = text.find(scratch.path())) != text.npos;) text.replace(at, scratch.path().size(), "FOLDER");
    return text;
  };
  const auto save = [&](const std::string& to, int64_t step, CheckpointOptions options = {}) {
    return error_of(1, [&](dist::Communicator&) { std::ignore = Checkpoint(to, {{"w", w}}, options).save(step); });
  };
  const auto restore = [&](Checkpoint::Variables variables) {
    return error_of(1, [&](dist::Communicator&) { Checkpoint(folder, std::move(variables)).restore(); });
  };
  EXPECT_EQ(save(folder, 3), "no error");
  std::ofstream(scratch.path() + "/file") << "";
  std::string all;
  const auto add = [&](const std::string& name, const std::string& text) { all += "== " + name + "\n" + text + "\n"; };
  add("no step", save(folder, -1));
  add("a later step is there", save(folder, 2));
  add("a folder that is a file", save(scratch.path() + "/file", 1));
  add("no number of files", save(folder, 4, {.keep = 0}));
  add("a variable that is not in the file", restore({{"v", w}}));
  add("a variable too few", restore({}));
  add("another shape", restore({{"w", Variable(tensor({1.f}, {1}), "w")}}));
  add("ranks with different states", error_of(3, [&](dist::Communicator& c) {
        std::ignore = Checkpoint(folder, {{"w", Variable(full({2}, c.rank() == 1), "w")}}).save(5);
      }));
  add("ranks at different steps",
      error_of(2, [&](dist::Communicator& c) { std::ignore = Checkpoint(folder, {{"w", w}}).save(5 + c.rank()); }));
  save_tensors(folder + "/step-000000000007.safetensors",
               {{{"w", w.read()}}, {{"lamina.checkpoint", R"({"version": 2, "step": 7, "random": [0, 0, 0, 0]})"}}});
  add("a newer checkpoint", restore({{"w", w}}));
  add("more ranks than shards", error_of(3, [&](dist::Communicator&) { dist::shard(batches(), 2); }));
  tests::expect_text_of_file(all, "tests/errors/checkpoints.txt");
}

}  // namespace
}  // namespace lamina
