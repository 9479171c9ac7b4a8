// lm::distributed::data_parallel on ranks with an emulated GPU each, from the function to the launches that read each other's windows.
#include "graph/frontend/data_parallel.h"

#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <map>

#include "graph/frontend/device.h"
#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/frontend/variable.h"
#include "graph/functions/op_functions.h"
#include "graph/nn/optimizer.h"
#include "runtime/device/peers.h"
#include "runtime/dist/threads.h"
#include "runtime/dist/tree.h"
#include "tests/emulated/emulated.h"
#include "tests/emulated/emulated_backend.h"
#include "tests/emulated/emulator.h"
#include "tests/emulated/networks.h"

namespace lamina {
namespace {

using kernels::cuda::Buffer;

// GPUs of ranks that are threads. A launch runs when each rank has one.
class GpusOfRanks final : public tests::WithoutStreams, public JoinsPeers {
 public:
  explicit GpusOfRanks(int ranks) : ranks_(ranks), together_(ranks), gpus_(size_t(ranks)) { replace_backend(DeviceKind::gpu, this); }
  ~GpusOfRanks() override { replace_backend(DeviceKind::gpu, nullptr); }
  int launches() const { return launches_; }
  size_t windows() const { return windows_.size(); }

  const char* name() const override { return "emulated"; }
  int device_count() override { return ranks_; }
  std::string unavailable_reason() override { return ""; }
  DeviceProperties properties(Device device) override { return memory_.properties(device); }
  void synchronize(Stream& stream) override {
    if (std::optional<Error> error = of(stream).log.take(of(stream).fault)) throw *error;
  }
  void* allocate(Stream& stream, size_t bytes) override { return memory_.allocate(stream, bytes); }
  void free(Stream& stream, void* data, size_t bytes) override { memory_.free(stream, data, bytes); }
  void copy(Stream& stream, void* to, const void* from, size_t bytes, CopyKind kind) override {
    memory_.copy(stream, to, from, bytes, kind);
  }
  void launch(Stream& stream, const Kernel& kernel, const KernelCall& call, const char* name) override {
    ++launches_;
    of(stream).instruction = name, of(stream).line = call.line;
    together_.run([&] { kernel.run(call); });
    synchronize(stream);
  }
  FaultSite fault_site(Stream& stream, DescribeFault describe, const std::string& about) override {
    Gpu& g = of(stream);
    return {&g.fault, g.log.add(describe, about, g.instruction, g.line)};
  }

  std::string device_id(Device device) override { return cat("emulated ", device.index); }
  std::string peers_id() override { return "one job"; }
  std::unique_ptr<Peers> join_peers(const JoinPeers& join) override { return std::make_unique<Joined>(*this, join.rank); }

 private:
  struct Gpu {
    Fault fault;
    FaultLog log;
    const char* instruction = "";
    SourceLine line;
  };
  Gpu& of(const Stream& stream) { return gpus_[size_t(stream.device.index)]; }

  // All that a step with sums in its launch needs of the other ranks is windows.
  class Joined final : public Peers {
   public:
    Joined(GpusOfRanks& all, int rank) : all_(all), rank_(rank) {}
    bool has_windows() const override { return true; }
    std::vector<char*> window(Stream&, size_t bytes, const std::string&) override { return all_.window(made_++, rank_, bytes); }
    void watch(Stream&, const std::string&) override {}  // a launch has ended when its call returns
    void abort(const Error&) override {}                 // so nothing waits
    void exchange(Stream&, std::span<const Transfer>, const std::string& what) override { refuse(what); }
    void all_gather(Stream&, const void*, void*, size_t, const std::string& what) override { refuse(what); }
    void broadcast(Stream&, void*, size_t, int, const std::string& what) override { refuse(what); }
    void sum(Stream&, DType, void*, int64_t, const std::string& what) override { refuse(what); }

   private:
    [[noreturn]] static void refuse(const std::string& what) {
      throw Error(ErrorKind::state, {.what = what + " outside of a launch", .where = "", .why = "", .fix = ""});
    }
    GpusOfRanks& all_;
    const int rank_;
    int made_ = 0;
  };
  std::vector<char*> window(int number, int rank, size_t bytes) {
    std::unique_lock lock(mutex_);
    auto& of_ranks = windows_[number];
    of_ranks[rank] = std::make_unique<Buffer<char>>(std::vector<char>(bytes, 0));
    all_there_.notify_all();
    all_there_.wait(lock, [&] { return int(of_ranks.size()) == ranks_; });
    std::vector<char*> out;
    for (const auto& [r, buffer] : of_ranks) out.push_back(buffer->data());
    return out;
  }

  const int ranks_;
  tests::EmulatedBackend& memory_ = tests::EmulatedBackend::one();
  kernels::cuda::emulation::Together together_;
  std::vector<Gpu> gpus_;
  std::atomic<int> launches_ = 0;
  std::mutex mutex_;
  std::condition_variable all_there_;
  std::map<int, std::map<int, std::unique_ptr<Buffer<char>>>> windows_;  // by number and rank
};

constexpr int64_t kRows = 21, kIn = 40, kHidden = 33, kOut = 6;
constexpr int kSteps = 3;

Tensor own_rows(const distributed::Communicator& c, int64_t width) {
  const std::vector<float> all = tests::pattern(size_t(kRows * width), 0.05f, int(width));
  const distributed::Range own = distributed::rows_of_rank(kRows, 8, c.size(), c.rank());
  return tensor(std::vector<float>(all.begin() + own.begin * width, all.begin() + own.end * width), {own.size(), width});
}

// Costs and weights of each rank after some steps. on_gpus: rank r's are on gpu:r.
std::vector<std::vector<float>> trained(int ranks, bool on_gpus, const std::function<std::shared_ptr<optim::Optimizer>()>& make) {
  std::vector<std::vector<float>> out(static_cast<size_t>(ranks));
  distributed::run_ranks(ranks, [&](distributed::Communicator& c) {
    const DeviceScope scope(on_gpus ? cat("gpu:", c.rank()) : "cpu:0");
    const std::vector<Variable> w{Variable(tests::patterned({kIn, kHidden}, 0.01f), "kernel"),
                                  Variable(tensor(std::vector<float>(kHidden, 0.1f), {kHidden}), "bias"),
                                  Variable(tests::patterned({kHidden, kOut}, 0.02f, 5), "kernel")};
    const std::shared_ptr<optim::Optimizer> optimizer = make();
    auto step = distributed::data_parallel([&](Tensor x, Tensor y) {
      GradientTape tape;
      const Tensor cost = mean(square(matmul(relu(matmul(x, w[0]) + w[1]), w[2]) - y));
      optimizer->apply_gradients(tape.gradient(cost, w), w);
      return cost;
    });
    std::vector<float>& own = out[size_t(c.rank())];
    const auto add = [&](const Tensor& t) {
      const std::vector<float> values = t.to_vector<float>();
      own.insert(own.end(), values.begin(), values.end());
    };
    const Tensor x = own_rows(c, kIn), y = own_rows(c, kOut);
    for (int i = 0; i < kSteps; ++i) add(step(x, y));
    for (const Variable& v : w) add(v.read());
    if (on_gpus) {
      EXPECT_NE(step.explain(x, y).find("collect"), std::string::npos);
    }
  });
  return out;
}

TEST(DataParallelOnGpus, StepsAreOneLaunchEachWithTheBitsOfCpus) {
  using Make = std::function<std::shared_ptr<optim::Optimizer>()>;
  struct Case {
    int ranks;
    Make optimizer;
  };
  for (const auto& [ranks, optimizer] : std::vector<Case>{{2, [] { return std::make_shared<optim::SGD>(0.1); }},
                                                          {2, [] { return std::make_shared<optim::Adam>(0.01); }},
                                                          {4, [] { return std::make_shared<optim::SGD>(0.1, 0.9); }}}) {
    const std::vector<float> want = trained(1, false, optimizer)[0];
    EXPECT_LT(want[size_t(kSteps) - 1], want[0]) << "it learns";
    GpusOfRanks gpus(ranks);
    const auto got = trained(ranks, true, optimizer);
    for (int r = 0; r < ranks; ++r) {
      ASSERT_EQ(got[size_t(r)].size(), want.size());
      EXPECT_EQ(std::memcmp(got[size_t(r)].data(), want.data(), want.size() * 4), 0) << "rank " << r << " of " << ranks;
    }
    EXPECT_EQ(gpus.launches(), ranks * kSteps);
    EXPECT_GE(gpus.windows(), 2u) << "a trial's, and the step's";
  }
}

}  // namespace
}  // namespace lamina
