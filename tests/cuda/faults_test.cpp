// Every error that the headers of CUDA's libraries list, at every call that Lamina makes: a typed error with the instruction and the user's
// line, or our own kernel instead; nothing leaks, and the same object works afterwards.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include <unistd.h>

#include "kernels/copy.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/cudnn.h"
#include "runtime/exec/executor.h"
#include "tests/cuda/fake_cublaslt.h"
#include "tests/cuda/fake_cudnn.h"
#include "tests/cuda/library_fixture.h"
#include "tests/cuda/numbers.h"
#include "tests/cuda/ranks_fixture.h"

namespace lamina::cuda {
namespace {

constexpr int kCublasStatuses[] = {1, 3, 7, 8, 11, 13, 14, 15, 16};
constexpr int kCudnnStatuses[] = {1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 2000, 2001, 2002, 2003, 2004, 2005, 2006, 2007,
                                  2008, 2009, 2010, 2011, 2012, 3000, 3001, 3002, 3003, 3004, 3005, 3006, 3007, 3008, 3009, 3010,
                                  3011, 3012, 3013, 3014, 4000, 4001, 4002, 4003, 4004, 4005, 4006, 5000, 5001, 5002, 5003, 5004};
constexpr int kNcclResults[] = {1, 2, 3, 4, 5, 6, 7, 8};

// A program of one instruction, "dense_relu" of train.py's line 7.
std::shared_ptr<const exec::Program> one_instruction(const std::function<void(Stream&)>& work) {
  const Device gpu{DeviceKind::gpu, 0, 0};
  auto p = std::make_shared<exec::Program>();
  p->streams = {{gpu}};
  p->devices = {gpu};
  p->arena_bytes = {0};
  exec::Instruction i;
  i.name = "dense_relu";
  i.line = source_line("train.py", 7);
  i.kernel = {.run = [](const KernelCall& call) { (*static_cast<const std::function<void(Stream&)>*>(call.args))(call.stream); },
              .args = std::make_shared<std::function<void(Stream&)>>(work)};
  p->instructions = {i};
  return p;
}

template <class Fake>
class Faults : public LibraryFixture<Fake> {
 protected:
  void SetUp() override {
    LibraryFixture<Fake>::SetUp();
    replace_backend(DeviceKind::gpu, this->backend_.get());
  }
  void TearDown() override {
    replace_backend(DeviceKind::gpu, nullptr);
    LibraryFixture<Fake>::TearDown();
  }
  // Runs `work` on a new object, and again on the same one when the call no longer fails. Returns who ran it: library or own kernel.
  template <class Object>
  void check(const std::string& call, int status, bool unsupported, bool no_memory, const std::string& library,
             const std::function<std::unique_ptr<Object>()>& make, const std::function<bool(Object&, Stream&)>& work) {
    SCOPED_TRACE(cat(call, " gives ", status));
    Fake& fake = this->fake();
    const std::unique_ptr<Object> object = make();
    bool served = false;
    exec::Executor executor(one_instruction([&](Stream& stream) { served = work(*object, stream); }));
    fake.calls.clear();
    fake.fail = {{call, status}};
    bool threw = false;
    try {
      executor.run({}, {});
    } catch (const Error& e) {
      threw = true;
      EXPECT_EQ(e.kind, no_memory ? ErrorKind::out_of_memory : ErrorKind::device) << e.what();
      EXPECT_EQ(e.parts.what, cat("cuda: ", call, " failed in dense_relu"));
      EXPECT_NE(e.parts.where.find("train.py:7"), std::string::npos) << e.parts.where;
      EXPECT_TRUE(e.parts.why.starts_with(library + " says ") && e.parts.why.ends_with(cat("(", status, ")"))) << e.parts.why;
      EXPECT_FALSE(e.parts.fix.empty());
    }
    if (fake.count(call) == 0) {
      EXPECT_TRUE(served && !threw) << "it was not called, and yet something is wrong";
    } else {
      EXPECT_TRUE(threw || (unsupported && !served)) << "the error went unnoticed";
      ++reached_[call];
    }
    EXPECT_EQ(FakeCuda::now().used, 0u) << "workspace is kept";
    fake.fail.clear();
    EXPECT_NO_THROW(executor.run({}, {}));
    EXPECT_TRUE(served || unsupported) << "it does not work afterwards";
  }
  std::map<std::string, int> reached_;
};

using CublasLtFaults = Faults<FakeCublasLt>;
TEST_F(CublasLtFaults, EveryFailingCallNamesTheInstruction) {
  const Numbers<float> x({2, 6, 4}, 1), w({2, 4, 5}, 2), bias({5}, 3), y({2, 6, 5}, 4);
  const View b = bias.view();
  const char* calls[] = {"cublasLtCreate",
                         "cublasLtMatmulDescCreate",
                         "cublasLtMatmulDescSetAttribute",
                         "cublasLtMatrixLayoutCreate",
                         "cublasLtMatrixLayoutSetAttribute",
                         "cublasLtMatmulPreferenceCreate",
                         "cublasLtMatmulPreferenceSetAttribute",
                         "cublasLtMatmulAlgoGetHeuristic",
                         "cublasLtMatmul"};
  fake().workspace = 4096;
  for (const std::string call : calls)
    for (const int status : kCublasStatuses) {
      check<Products>(
          call, status, status == cublaslt::kNotSupported && call == "cublasLtMatmulAlgoGetHeuristic", status == cublaslt::kNoMemory,
          "cuBLASLt", [] { return std::make_unique<Products>([] { return fake_cublaslt(); }, 1); },
          [&](Products& products, Stream& stream) { return products.multiply(stream, x.view(), w.view(), y.view(), false, false, &b); });
      ASSERT_EQ(fake().alive(), 0u) << call << " gives " << status << ": something that was created is not destroyed";
    }
  for (const char* call : calls) EXPECT_EQ(reached_[call], int(std::size(kCublasStatuses))) << call;
}

using CudnnFaults = Faults<FakeCudnn>;
TEST_F(CudnnFaults, EveryFailingCallOfConvolutionsNamesTheInstruction) {
  ConvolutionSizes s{.images = 2,
                     .height = 6,
                     .width = 8,
                     .channels = 4,
                     .out_height = 4,
                     .out_width = 6,
                     .filters = 6,
                     .window_height = 3,
                     .window_width = 3};
  s.groups = 2;
  const Numbers<float> x({2, 6, 8, 4}, 1), w({3, 3, 2, 6}, 2), y({2, 4, 6, 6}, 3);
  const View operands[3][3] = {{x.view(), w.view(), y.view()}, {y.view(), w.view(), x.view()}, {x.view(), y.view(), w.view()}};
  const char* calls[] = {"cudnnCreate",
                         "cudnnSetStream",
                         "cudnnCreateTensorDescriptor",
                         "cudnnSetTensor4dDescriptor",
                         "cudnnCreateFilterDescriptor",
                         "cudnnSetFilter4dDescriptor",
                         "cudnnCreateConvolutionDescriptor",
                         "cudnnSetConvolution2dDescriptor",
                         "cudnnSetConvolutionMathType",
                         "cudnnSetConvolutionGroupCount",
                         "cudnnGetConvolutionForwardAlgorithm_v7",
                         "cudnnGetConvolutionBackwardDataAlgorithm_v7",
                         "cudnnGetConvolutionBackwardFilterAlgorithm_v7",
                         "cudnnConvolutionForward",
                         "cudnnConvolutionBackwardData",
                         "cudnnConvolutionBackwardFilter"};
  fake().choices = {FakeCudnn::choice(1, 4096)};
  const auto copy = [](Stream&, const View& from, const View& to) { kernels::cpu::copy_elements(from, to); };
  for (const std::string call : calls)
    for (const int status : kCudnnStatuses)
      for (int kind = 0; kind < 3; ++kind) {
        const bool may_refuse = call.find("Algorithm") != std::string::npos || call.starts_with("cudnnConvolution");
        check<Convolutions>(
            call, status, cudnn::not_supported(status) && may_refuse, cudnn::no_memory(status), "cuDNN",
            [] { return std::make_unique<Convolutions>([] { return fake_cudnn(); }, 1); },
            [&](Convolutions& convolutions, Stream& stream) {
              return convolutions.run(stream, ConvolutionKind(kind), s, operands[kind][0], operands[kind][1], operands[kind][2], copy);
            });
        ASSERT_EQ(fake().alive(), 0u) << call << " gives " << status << ": something that was created is not destroyed";
      }
  for (const std::string call : calls) {
    const bool of_one_kind = call.find("Algorithm") != std::string::npos || call.starts_with("cudnnConvolution");
    EXPECT_EQ(reached_[call], int(std::size(kCudnnStatuses)) * (of_one_kind ? 1 : 3)) << call;
  }
}

class NcclFaults : public CudaRanks {
 protected:
  static constexpr int kRanks = 3;
  // A rank's whole life with each call of NCCL; the collectives form one instruction.
  void run_life(Patience patience = kLate) {
    const auto life = [&](Rank& r) {
      std::vector<char> leaves(16, 1);
      OnGpu own(r.stream, leaves), all(r.stream, 48), moved(r.stream, leaves), got(r.stream, 16);
      const auto four = [](float x) {
        std::vector<char> out(16);
        for (size_t i = 0; i < 4; ++i) std::memcpy(out.data() + 4 * i, &x, 4);
        return out;
      };
      OnGpu added(r.stream, four(1));
      std::vector<char*> window;
      const int next = (r.c.rank() + 1) % kRanks, previous = (r.c.rank() + kRanks - 1) % kRanks;
      exec::Executor executor(one_instruction([&](Stream&) {
        r.peers->broadcast(r.stream, moved.data(), 16, 2, "broadcast of 'b'");
        r.peers->all_gather(r.stream, own.data(), all.data(), 16, "all_gather of 'g'");
        r.peers->exchange(r.stream, std::vector<Transfer>{to_rank(next, own.data(), 16), from_rank(previous, got.data(), 16)},
                          "exchange of 'e'");
        r.peers->sum(r.stream, DType::f32, added.data(), 4, "sum of 's'");
        window = r.peers->window(r.stream, 100, "window of 'w'");
      }));
      executor.run({}, {});
      r.c.barrier();  // all have the addresses before one's memory goes
      EXPECT_EQ(std::set<char*>(window.begin(), window.end()).size(), size_t(kRanks));
      EXPECT_EQ(all.bytes(), std::vector<char>(48, 1));
      EXPECT_EQ(got.bytes(), std::vector<char>(16, 1));
      EXPECT_EQ(added.bytes(), four(kRanks));
    };
    run(kRanks, life, patience);
  }
};

TEST_F(NcclFaults, EveryFailingCallIsAnErrorOnItsRankAndEndsAll) {
  run_life();
  const std::map<std::string, int> counts = fake().counts;
  const std::set<std::string> never_in_progress{"ncclGetUniqueId", "ncclCommGetAsyncError", "ncclGroupStart", "ncclMemAlloc",
                                                "ncclGetPeerDevicePointer"};
  const std::set<std::string> at_the_end{"ncclCommFinalize", "ncclCommDestroy", "ncclCommWindowDeregister",
                                         "ncclMemFree"};  // of a destructor, which throws nothing
  EXPECT_EQ(counts.size(), 18u) << "seventeen functions and the communicators' state";
  for (const auto& [call, times] : counts)
    for (const int nth : {1, 2, 3})
      for (const int status : kNcclResults) {
        if (nth > std::min(times, call == "ncclGetUniqueId" ? 1 : kRanks)) continue;
        SCOPED_TRACE(cat(call, " gives ", status, " the ", nth, ". time"));
        const auto run_with_fault = [&](Patience patience) {
          fake().reset();
          fake().faults = {{call, nth, status}};
          run_life(patience);
        };
        const bool goes_on = status == nccl::kInProgress && !never_in_progress.count(call);
        try {
          try {
            run_with_fault(at_the_end.count(call) ? kSoon : kLate);  // the others' ends wait for this one
          } catch (const Error& e) {
            if (e.kind != ErrorKind::collective || !at_the_end.count(call)) throw;
            run_with_fault(kLate);  // the machine was busy
          }
          EXPECT_TRUE(goes_on || at_the_end.count(call)) << "the error went unnoticed";
        } catch (const Error& e) {
          EXPECT_FALSE(goes_on) << e.what();
          EXPECT_EQ(e.kind, ErrorKind::device) << e.what();
          EXPECT_NE(e.parts.what.find(" failed"), std::string::npos) << e.what();
          EXPECT_TRUE(call == "state" || std::string(e.what()).find(call) != std::string::npos) << e.what();
          EXPECT_NE(e.parts.why.find(cat("(", status, ")")), std::string::npos) << e.parts.why;
          EXPECT_FALSE(e.parts.fix.empty());
        }
        EXPECT_EQ(fake().alive(), 0u) << "a rank is neither destroyed nor aborted, or memory of windows is kept: " << fake().comms.size()
                                      << ", " << fake().windows.memory.size();
        EXPECT_EQ(fake().created, fake().destroyed + fake().aborted) << "or twice";
        EXPECT_EQ(fake().complaints, std::vector<std::string>{});
        if (HasFailure()) return;
      }
  fake().reset();
  run_life();
}

// Whatever the abort returns, the first error is reported.
TEST_F(NcclFaults, AFailedAbortKeepsTheFirstError) {
  for (const int status : kNcclResults) {
    fake().reset();
    fake().faults = {{"ncclAllGather", 2, nccl::kRemoteError}, {"ncclCommAbort", 0, status}};
    try {
      run_life();
      ADD_FAILURE() << "the error went unnoticed";
    } catch (const Error& e) {
      EXPECT_EQ(e.parts.what, "cuda: ncclAllGather failed in all_gather of 'g'");
      EXPECT_NE(e.parts.where.find("train.py:7"), std::string::npos) << e.parts.where;
    }
    EXPECT_EQ(fake().count("ncclCommAbort"), 3);
  }
}

// Every cudart error, when a launch fails and when waiting for it fails.
TEST(CudartFaults, EveryErrorNamesInstructionLineAndStatus) {
  FakeCuda::reset();
  CudaBackend backend(fake_api());
  replace_backend(DeviceKind::gpu, &backend);
  {
    static cudaError_t status;
    exec::Executor executor(one_instruction([](Stream&) { FakeCuda::last = status; }));
    int kinds = 0;
    for (int code = 1; code < 1000; ++code) {
      status = cudaError_t(code);
      if (std::string(cudaGetErrorName(status)) == "unrecognized error code") continue;
      ++kinds;
      try {
        executor.run({}, {});
        ADD_FAILURE() << cudaGetErrorName(status) << " went unnoticed";
      } catch (const Error& e) {
        EXPECT_EQ(e.kind, status == cudaErrorMemoryAllocation ? ErrorKind::out_of_memory : ErrorKind::device);
        const bool earlier = ends_the_context(status);
        EXPECT_EQ(e.parts.what,
                  earlier ? "cuda: cannot launch dense_relu; it is an earlier launch that failed" : "cuda: cannot launch dense_relu");
        EXPECT_NE(e.parts.where.find("train.py:7"), std::string::npos) << "where it was noticed: " << e.parts.where;
        EXPECT_TRUE(e.parts.why.starts_with(cat(cudaGetErrorName(status), " (", code, ")"))) << e.parts.why;
        EXPECT_FALSE(e.parts.fix.empty());
      }
      status = cudaSuccess;
      EXPECT_NO_THROW(executor.run({}, {}));
      FakeCuda::now().fail["stream_synchronize"] = cudaError_t(code);
      Stream stream = backend.default_stream({DeviceKind::gpu, 0, 0});
      EXPECT_THROW(backend.synchronize(stream), Error) << cudaGetErrorName(cudaError_t(code));
      FakeCuda::now().fail.clear();
      EXPECT_NO_THROW(backend.synchronize(stream));
      EXPECT_EQ(FakeCuda::last, cudaSuccess) << "the next launch would be blamed";
    }
    EXPECT_GE(kinds, 100);
  }
  replace_backend(DeviceKind::gpu, nullptr);
}

// An error that ends the context is returned by every later call; none of their instructions is to blame.
TEST(CudartFaults, AStickyErrorNamesNoLaterInstruction) {
  FakeCuda::reset();
  CudaBackend backend(fake_api());
  replace_backend(DeviceKind::gpu, &backend);
  {
    static int ran;
    ran = 0;
    exec::Executor executor(one_instruction([](Stream&) { ++ran; }));
    executor.run({}, {});
    FakeCuda::now().sticky = true;
    FakeCuda::last = cudaErrorIllegalAddress;
    for (int n = 0; n < 3; ++n) {
      try {
        executor.run({}, {});
        ADD_FAILURE() << "it went unnoticed";
      } catch (const Error& e) {
        EXPECT_EQ(e.kind, ErrorKind::device);
        EXPECT_NE(e.parts.what.find("an earlier launch"), std::string::npos) << e.parts.what;
        EXPECT_TRUE(e.parts.why.starts_with("cudaErrorIllegalAddress")) << e.parts.why;
      }
    }
    EXPECT_EQ(ran, 1) << "nothing is started on a context that has ended";
    FakeCuda::now().sticky = false;
    FakeCuda::last = cudaSuccess;
  }
  replace_backend(DeviceKind::gpu, nullptr);
}

}  // namespace
}  // namespace lamina::cuda
