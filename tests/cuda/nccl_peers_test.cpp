// Ranks on GPUs, by a fake NCCL in which they really meet, and the parts of the real one that work without a GPU.
#include "runtime/cuda/nccl_peers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <regex>
#include <set>
#include <thread>

#include "runtime/core/interrupt.h"
#include "runtime/dist/over_devices.h"
#include "tests/cuda/ranks_fixture.h"
#include "tests/runtime/dist/conformance.h"
#include "tests/runtime/dist/used_port.h"
#include "tests/source_file.h"

#if __has_include(<nccl.h>)
#define LAMINA_HAS_NCCL_HEADER 1
#include <nccl.h>
#endif

namespace lamina::cuda {
namespace {

using distributed::Communicator;
using distributed::Range;
using distributed::SumOf;
using distributed::tests::expected_sum;
using distributed::tests::own_leaves;

class NcclRanks : public CudaRanks {
 protected:
  // Every sum on `ranks` GPUs against the tree, by plain recursion on the host.
  void sum_all(int ranks, int64_t shards, DType dtype, int64_t count) {
    SCOPED_TRACE(cat(ranks, " ranks, ", shards, " shards, ", dtype, "[", count, "]"));
    const std::vector<char> want = expected_sum(dtype, count, shards);
    run(ranks, [&](Rank& r) {
      OnGpu leaves(r.stream, own_leaves(r.c, dtype, count, shards)), all(r.stream, want.size());
      const Range slice = distributed::part_of(count, ranks, r.c.rank());
      OnGpu part(r.stream, size_t(slice.size()) * size_of(dtype));
      all_reduce(r.place(), SumOf{dtype, count, shards}, leaves.data(), all.data(), {.tensor = "w"});
      reduce_scatter(r.place(), SumOf{dtype, count, shards}, leaves.data(), part.data(), {.tensor = "w"});
      EXPECT_TRUE(all.bytes() == want) << "all_reduce";
      const auto from = want.begin() + slice.begin * int64_t(size_of(dtype));
      EXPECT_TRUE(part.bytes() == std::vector<char>(from, from + slice.size() * int64_t(size_of(dtype)))) << "reduce_scatter";
    });
  }
};

TEST_F(NcclRanks, SumsHaveTheTreesBitsForEveryDtypeAndNumberOfRanks) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64})
    sum_all(3, 8, dtype, 3000);
  for (int ranks = 1; ranks <= kGpus; ++ranks)
    for (const int64_t shards : {4, 8, 11})
      for (const int64_t count : {0, 1, 3, 100, 5000}) sum_all(ranks, shards, DType::f32, count);
  EXPECT_EQ(fake().aborted, 0);
}

TEST_F(NcclRanks, SumsByNcclAreNearTheTrees) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (int ranks = 1; ranks <= kGpus; ++ranks) {
      SCOPED_TRACE(cat(dtype, " on ", ranks, " ranks"));
      const std::vector<char> want = expected_sum(dtype, 3000, 8);
      run(ranks, [&](Rank& r) {
        OnGpu leaves(r.stream, own_leaves(r.c, dtype, 3000, 8)), all(r.stream, want.size());
        all_reduce(r.place(), {.dtype = dtype, .count = 3000, .shards = 8, .reproducible = false}, leaves.data(), all.data(),
                   {.tensor = "w"});
        const std::vector<char> got = all.bytes();
        with_dtype(dtype, [&]<class T>() {
          for (size_t i = 0; i < 3000; ++i) {
            T a, b;
            std::memcpy(static_cast<void*>(&a), got.data() + i * sizeof(T), sizeof(T));
            std::memcpy(static_cast<void*>(&b), want.data() + i * sizeof(T), sizeof(T));
            ASSERT_NEAR(double(a), double(b), 0.01 + std::abs(double(b)) / (dtype == DType::bf16 ? 128 : 1e6)) << i;
          }
        });
        EXPECT_TRUE(dtype != DType::f32 || ranks != 3 || got != want) << "the tree has added";
      });
    }
  EXPECT_EQ(fake().aborted, 0);
}

TEST_F(NcclRanks, BytesArriveWhereTheyShould) {
  for (int ranks = 1; ranks <= kGpus; ++ranks)
    run(ranks, [&](Rank& r) {
      const int self = r.c.rank(), next = (self + 1) % ranks, previous = (self + ranks - 1) % ranks;
      OnGpu own(r.stream, std::vector<char>(400, char(10 + self))), all(r.stream, size_t(400 * ranks)), received(r.stream, 400);
      all_gather(r.place(), DType::f32, own.data(), all.data(), 100);
      const std::vector<char> gathered = all.bytes();
      for (size_t i = 0; i < gathered.size(); ++i) ASSERT_EQ(gathered[i], char(10 + i / 400));
      if (ranks > 1) {
        send_receive(r.place(), std::vector<Transfer>{to_rank(next, own.data(), 400), from_rank(previous, received.data(), 400)});
        EXPECT_EQ(received.bytes(), std::vector<char>(400, char(10 + previous)));
      }
      for (int root = 0; root < ranks; ++root) {
        OnGpu data(r.stream, std::vector<char>(12, char(20 + self)));
        broadcast(r.place(), DType::i32, data.data(), 3, root);
        EXPECT_EQ(data.bytes(), std::vector<char>(12, char(20 + root)));
      }
    });
}

// Windows are memory of each rank that all others read.
TEST_F(NcclRanks, WindowsHaveTheAddressesOfAllRanks) {
  for (int ranks = 2; ranks <= kGpus; ++ranks) {
    std::vector<std::vector<char*>> of_rank(static_cast<size_t>(ranks));
    run(ranks, [&](Rank& r) {
      for (const int64_t bytes : {100, 5000}) {
        const std::vector<char*> window = distributed::window(r.place(), bytes, {.tensor = "w"});
        ASSERT_EQ(window.size(), size_t(ranks));
        of_rank[size_t(r.c.rank())] = window;
        for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ(window[size_t(r.c.rank())][i], 0);
        distributed::barrier(r.c);
        for (const std::vector<char*>& other : of_rank) EXPECT_EQ(other, window);
        EXPECT_EQ(std::set<char*>(window.begin(), window.end()).size(), size_t(ranks));
        r.place().watch("a launch");
        distributed::barrier(r.c);
      }
      EXPECT_TRUE(distributed::reach_memory(r.c, gpu(r.c.rank())));
      EXPECT_TRUE(distributed::reach_memory(r.c, gpu(r.c.rank()))) << "it is asked once";
    });
    EXPECT_EQ(fake().count("ncclCommWindowDeregister"), 3 * ranks);
    fake().calls.clear();
  }
  EXPECT_EQ(fake().aborted, 0);
}

TEST_F(NcclRanks, ThereAreNoWindowsWhereRanksDoNotReachEachOther) {
  fake().windows.reach = false;
  run(3, [&](Rank& r) {
    EXPECT_FALSE(distributed::reach_memory(r.c, gpu(r.c.rank())));
    EXPECT_TRUE(distributed::window(r.place(), 100).empty());
  });
  EXPECT_EQ(fake().aborted, 0);
}

// Before anything is registered.
TEST_F(NcclRanks, RanksThatWantDifferentWindowsAreToldOnAll) {
  std::atomic<int> told = 0;
  EXPECT_THROW(run(3,
                   [&](Rank& r) {
                     const Error e = error_of([&] { distributed::window(r.place(), r.c.rank() == 1 ? 200 : 100, {.tensor = "w"}); });
                     EXPECT_EQ(e.kind, ErrorKind::collective);
                     EXPECT_NE(std::string(e.what()).find("rank 1 is at window of u8[200] 'w'"), std::string::npos) << e.what();
                     ++told;
                     throw e;
                   }),
               Error);
  EXPECT_EQ(told, 3);
  EXPECT_EQ(fake().count("ncclCommWindowRegister"), 0);
}

// A failure stops kernels that wait in windows.
TEST_F(NcclRanks, AFailureSetsTheFirstWordOfWindows) {
  EXPECT_THROW(run(2,
                   [&](Rank& r) {
                     const std::vector<char*> window = distributed::window(r.place(), 100);
                     r.peers->abort(Error(ErrorKind::collective, {.what = "a rank is lost", .where = "", .why = "", .fix = ""}));
                     FakeCuda::lock()->work.finish_all();
                     uint32_t word = 0;
                     std::memcpy(&word, window[size_t(r.c.rank())], sizeof word);
                     EXPECT_EQ(word, 1u);
                     EXPECT_EQ(error_of([&] { r.place().watch("a launch"); }).parts.what, "a rank is lost");
                     throw std::runtime_error("the rank ends");
                   }),
               std::exception);
}

// What a stream did before a collective is in its data; what it does after waits for the result. A second stream needs an event.
TEST_F(NcclRanks, CollectivesAreInStreamOrderAndAMissingWaitIsFound) {
  int wrong_without_event = 0;
  for (const bool waits : {true, false})
    for (unsigned seed = 1; seed <= 20; ++seed) {
      FakeCuda::now().work.random.seed(seed);
      std::atomic<int> wrong = 0;
      run(3, [&](Rank& r) {
        const std::vector<char> leaves = own_leaves(r.c, DType::f32, 3000, 8), want = expected_sum(DType::f32, 3000, 8);
        OnGpu source(r.stream, leaves), moved(r.stream, std::vector<char>(leaves.size(), 1)), sum(r.stream, want.size()),
            out(r.stream, want.size());
        backend_->synchronize(r.stream);
        Stream other = backend_->create_stream(gpu(r.c.rank()));
        Event made = backend_->create_event(gpu(r.c.rank()));
        backend_->copy(other, moved.data(), source.data(), leaves.size(), CopyKind::within_device);
        backend_->record(other, made);
        if (waits) backend_->wait(r.stream, made);
        all_reduce(r.place(), SumOf{DType::f32, 3000, 8}, moved.data(), sum.data());
        backend_->copy(r.stream, out.data(), sum.data(), want.size(), CopyKind::within_device);
        wrong += out.bytes() != want;
        backend_->synchronize(other);
        backend_->destroy_event(made);
        backend_->destroy_stream(other);
      });
      if (waits)
        ASSERT_EQ(wrong, 0) << "seed " << seed;
      else
        wrong_without_event += wrong > 0;
    }
  EXPECT_GT(wrong_without_event, 0) << "the missing wait was not found";
}

// Before data move, by the comparison of calls.
TEST_F(NcclRanks, ARankThatSkipsOrReordersACallIsNamedOnAll) {
  for (const bool skips : {true, false}) {
    std::atomic<int> told = 0;
    EXPECT_THROW(run(4,
                     [&](Rank& r) {
                       OnGpu data(r.stream, std::vector<char>(4000, 1)), all(r.stream, 16000);
                       try {
                         if (r.c.rank() != 2) broadcast(r.place(), DType::f32, data.data(), 1000, 0, {.tensor = "first"});
                         all_gather(r.place(), DType::f32, data.data(), all.data(), 1000, {.tensor = "second"});
                         if (r.c.rank() == 2 && !skips) broadcast(r.place(), DType::f32, data.data(), 1000, 0, {.tensor = "first"});
                         distributed::end(r.c);
                       } catch (const Error& e) {
                         EXPECT_EQ(e.kind, ErrorKind::collective);
                         EXPECT_NE(std::string(e.what()).find("rank 2 is at all_gather of f32[1000] 'second'"), std::string::npos)
                             << e.what();
                         EXPECT_NE(std::string(e.what()).find("ranks 0, 1, 3 are at broadcast"), std::string::npos) << e.what();
                         ++told;
                         throw;
                       }
                     }),
                 Error);
    EXPECT_EQ(told, 4);
  }
}

// Without that comparison, in NCCL itself, ranks wait for each other, until the time limit.
TEST_F(NcclRanks, RanksThatDifferWithinNcclEndAtTheTimeLimit) {
  std::atomic<int> told = 0;
  EXPECT_THROW(run(
                   3,
                   [&](Rank& r) {
                     OnGpu data(r.stream, std::vector<char>(300, 1));
                     try {
                       if (r.c.rank() == 1)
                         r.peers->broadcast(r.stream, data.data(), 100, 0, "broadcast of 100 bytes");
                       else
                         r.peers->all_gather(r.stream, data.data(), data.data(), 100, "all_gather of 100 bytes");
                       backend_->synchronize(r.stream);
                       ADD_FAILURE() << "nothing was found";
                     } catch (const Error& e) {
                       EXPECT_EQ(e.kind, ErrorKind::collective);
                       EXPECT_NE(e.parts.what.find("has not ended after 0.1 s"), std::string::npos) << e.what();
                       EXPECT_NE(e.parts.fix.find("LAMINA_COLLECTIVE_TIMEOUT"), std::string::npos);
                       ++told;
                       // Every later call throws it, too.
                       EXPECT_EQ(error_of([&] { r.peers->broadcast(r.stream, data.data(), 4, 0, "next"); }).kind, ErrorKind::collective);
                       throw;
                     }
                   },
                   kSoon),
               Error);
  EXPECT_EQ(told, 3);
  EXPECT_EQ(fake().aborted, 3);
}

TEST_F(NcclRanks, AFailedRankFreesThoseThatWaitForItOnTheirGpus) {
  for (const bool tells : {true, false}) {  // NCCL says that the rank has gone, or the threads' group does
    fake().tells_of_aborts = tells;
    const auto begun = std::chrono::steady_clock::now();
    std::atomic<int> told = 0;
    try {
      run(4, [&](Rank& r) {
        OnGpu data(r.stream, std::vector<char>(400, 1));
        if (r.c.rank() == 3) {
          r.c.barrier();  // all have joined
          throw std::runtime_error("a label is missing");
        }
        try {
          r.c.barrier();  // a rank that is still in here may be told of it already
          r.peers->broadcast(r.stream, data.data(), 400, 3, "broadcast of 'w'");
          backend_->synchronize(r.stream);
          ADD_FAILURE() << "it has received something";
        } catch (const Error&) {
          ++told;
          throw;
        }
      });
      FAIL();
    } catch (const std::exception&) {
    }
    EXPECT_EQ(told, 3);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(25));
  }
}

TEST_F(NcclRanks, AnInterruptEndsTheWaitAndTheRanksPart) {
  struct Interrupt {};
  EXPECT_THROW(run(1,
                   [&](Rank& r) {
                     OnGpu data(r.stream, std::vector<char>(4, 1));
                     fake().faults = {{"state", 0, nccl::kInProgress}};
                     set_interrupt_check([] { throw Interrupt(); });
                     EXPECT_THROW(r.peers->broadcast(r.stream, data.data(), 4, 0, "broadcast of 'w'"), Interrupt);
                     set_interrupt_check(nullptr);
                     const Error later = error_of([&] { r.peers->broadcast(r.stream, data.data(), 4, 0, "next"); });
                     EXPECT_EQ(later.parts.what, "broadcast of 'w' was interrupted");
                     throw Error(ErrorKind::state, {});
                   }),
               Error);
  EXPECT_EQ(fake().aborted, 1);
}

TEST_F(NcclRanks, AFailedGpuIsTheErrorOfThatCall) {
  EXPECT_THROW(run(2,
                   [&](Rank& r) {
                     OnGpu data(r.stream, std::vector<char>(4, 1));
                     distributed::barrier(r.c);
                     if (r.c.rank() == 0) FakeCuda::now().fail["event_query"] = cudaErrorIllegalAddress;
                     distributed::barrier(r.c);
                     r.peers->broadcast(r.stream, data.data(), 4, 0, "broadcast of 'w'");
                     try {
                       for (int i = 0; i < 10000; ++i) {
                         backend_->synchronize(r.stream);
                         std::this_thread::sleep_for(std::chrono::milliseconds(1));
                       }
                       ADD_FAILURE() << "no error";
                     } catch (const Error& e) {
                       EXPECT_EQ(e.kind, ErrorKind::device);
                       EXPECT_EQ(e.parts.what, "cuda: cannot finish broadcast of 'w'");
                       throw;
                     }
                   }),
               Error);
  FakeCuda::now().fail.clear();
}

TEST_F(NcclRanks, AMissingRankEndsTheJoiningAtTheTimeLimit) {
  const Error alone = error_of(
      [&] { NcclPeers(*backend_, fake_nccl(), {.device = gpu(0), .rank = 0, .ranks = 3, .id = backend_->peers_id(), .patience = kSoon}); });
  EXPECT_EQ(alone.kind, ErrorKind::collective);
  EXPECT_EQ(alone.parts.what, "ncclCommInitRankConfig, has not ended after 0.1 s");
  EXPECT_EQ(alone.parts.where, "rank 0 of 3 (gpu:0)");
  EXPECT_EQ(alone.parts.why, "NCCL does not tell which ranks are missing");
  EXPECT_EQ(fake().aborted, 1);
  for (const auto& [rank, id] :
       std::vector<std::pair<int, std::string>>{{3, backend_->peers_id()}, {-1, backend_->peers_id()}, {0, "no id"}})
    EXPECT_EQ(error_of([&, rank = rank, id = id] {
                NcclPeers(*backend_, fake_nccl(), {.device = gpu(0), .rank = rank, .ranks = 3, .id = id});
              }).kind,
              ErrorKind::invalid_argument);
}

// Not the names of this host and of the fake GPU.
std::string general(const Error& e) {
  return std::regex_replace(e.what(), std::regex("GPU-[0-9a-f-]+ of host [^\\s]+"), "GPU-0 of host H");
}

TEST_F(NcclRanks, RanksThatShareAGpuAreNamed) {
  std::atomic<int> told = 0;
  std::string said[3];
  EXPECT_THROW(distributed::run_ranks(3,
                                      [&](Communicator& c) {
                                        try {
                                          distributed::join_devices(c, gpu(c.rank() == 2 ? 0 : c.rank()));
                                        } catch (const Error& e) {
                                          EXPECT_EQ(e.kind, ErrorKind::collective);
                                          EXPECT_TRUE(e.parts.what.starts_with("ranks 0 and 2 have one GPU, GPU-00")) << e.what();
                                          said[c.rank()] = general(e);
                                          ++told;
                                          throw;
                                        }
                                      }),
               Error);
  EXPECT_EQ(told, 3);
  EXPECT_TRUE(said[0] == said[1] && said[1] == said[2]);
  distributed::Launch launch;
  launch.nccl = true, launch.rank = 4, launch.size = 8, launch.local_rank = 4, launch.meeting = "a:1";
  const std::string many = general(error_of([&] { distributed::start_over_devices(launch); }));
  FakeCuda::now().devices = 1;
  launch.rank = launch.local_rank = 1;
  CudaBackend of_one(fake_api(), [] { return fake_nccl(); });
  replace_backend(DeviceKind::gpu, &of_one);
  const std::string one = general(error_of([&] { distributed::start_over_devices(launch); }));
  replace_backend(DeviceKind::gpu, backend_.get());
  lamina::tests::expect_text_of_file(cat("== two ranks with one GPU\n", said[0], "\n== more ranks of torchrun than GPUs\n", many,
                                         "\n== more ranks of torchrun than the one GPU\n", one, "\n"),
                                     "tests/errors/gpus_of_ranks.txt");
  EXPECT_EQ(fake().created, 0);
  EXPECT_EQ(error_of([&] { distributed::run_ranks(1, [&](Communicator& c) { distributed::join_devices(c, {}); }); }).kind,
            ErrorKind::device);
}

TEST_F(NcclRanks, StreamOfAnotherDeviceIsRefused) {
  EXPECT_THROW(run(1,
                   [&](Rank& r) {
                     Stream other = backend_->default_stream(gpu(1));
                     const Error e = error_of([&] { r.peers->broadcast(other, nullptr, 0, 0, "broadcast of 'w'"); });
                     EXPECT_EQ(e.kind, ErrorKind::invalid_argument);
                     EXPECT_EQ(e.parts.what, "broadcast of 'w' on a stream of gpu:1");
                     throw e;
                   }),
               Error);
}

// Threads act as the processes that torchrun starts.
class NcclProcesses : public CudaRanks {
 protected:
  void run_processes(int ranks, const std::function<void(Communicator&)>& body, Patience patience = kLate) {
    const std::string id = backend_->peers_id();
    std::vector<std::thread> processes;
    for (int r = 0; r < ranks; ++r)
      processes.emplace_back([&, r] {
        const auto c = distributed::join_over_devices(r, ranks, gpu(r), id, patience);
        body(*c);
      });
    for (std::thread& t : processes) t.join();
  }
};

TEST_F(NcclProcesses, PassTheConformanceSuite) {
  for (const auto& one : distributed::tests::conformance_cases())
    for (const int ranks : {1, 2, 3, 4})
      run_processes(ranks, [&](Communicator& c) { EXPECT_EQ(one.run(c), "") << one.name << " with " << ranks << " ranks"; });
}

TEST_F(NcclProcesses, AreToldOfARankThatDoesNotCome) {
  std::atomic<int> told = 0;
  run_processes(
      3,
      [&](Communicator& c) {
        if (c.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::seconds(1));
          c.abort(Error(ErrorKind::state, {}));
          return;
        }
        const Error e = error_of([&] { distributed::barrier(c, {.tensor = "epoch", .line = "train.py:3"}); });
        EXPECT_EQ(e.kind, ErrorKind::collective);
        EXPECT_EQ(e.parts.what, "collective 1, barrier 'epoch' (train.py:3), has not ended after 0.1 s");
        ++told;
      },
      kSoon);
  EXPECT_EQ(told, 2);
}

TEST_F(NcclProcesses, ARankWithoutAGpuIsAnError) {
  distributed::Launch launch;
  launch.nccl = true, launch.rank = 4, launch.size = 8, launch.local_rank = 4, launch.meeting = "a:1";
  const Error few = error_of([&] { distributed::start_over_devices(launch); });
  EXPECT_EQ(few.kind, ErrorKind::device);
  EXPECT_EQ(few.parts.what, "torchrun has started this process as rank 4 of 8, but there is no gpu:4");
  EXPECT_EQ(few.parts.why, "this host has 4 GPUs, and each rank needs one of its own");
  launch.local_rank = 0, launch.rank = 0, launch.size = 1;
  EXPECT_EQ(distributed::start_over_devices(launch)->size(), 1);
  EXPECT_EQ(getenv("NCCL_COMM_ID"), nullptr);
  const distributed::tests::UsedPort other;
  launch.meeting = other.meeting;
  EXPECT_TRUE(error_of([&] { distributed::start_over_devices(launch); }).parts.what.ends_with(" of 127.0.0.1 is in use"));
}

TEST_F(NcclRanks, MissingLibraryIsAnErrorWithTheReason) {
  CudaBackend without(fake_api(), []() -> NcclApi {
    throw Error(ErrorKind::device, {.what = "cannot load NCCL", .where = "", .why = "no such file", .fix = "install it"});
  });
  const Error e = error_of([&] { without.peers_id(); });
  EXPECT_EQ(e.kind, ErrorKind::device);
  EXPECT_EQ(e.parts.why, "cannot load NCCL: no such file. install it");
}

TEST_F(NcclRanks, ErrorsContainTheLibrarysMessage) {
  const auto failed = [&](int status, const std::string& said) {
    fake().reset();
    fake().last_error = said;
    fake().faults = {{"ncclGetUniqueId", 1, status}};
    return error_of([&] { backend_->peers_id(); });
  };
  EXPECT_EQ(failed(nccl::kRemoteError, "").parts.why, "NCCL 2.28.9 says remote process exited or there was a network error (6)");
  fake().version = 0;
  const Error error = failed(nccl::kCudaError, "Cuda failure 2 'out of memory'");
  fake().version = 22809;
  EXPECT_EQ(error.kind, ErrorKind::out_of_memory);
  EXPECT_EQ(error.parts.why, "NCCL says another error (1); the last thing it complained of: Cuda failure 2 'out of memory'");
  EXPECT_EQ(failed(nccl::kSystemError, "Failed to malloc 64 bytes").kind, ErrorKind::out_of_memory);
  EXPECT_EQ(failed(nccl::kCudaError, "Cuda failure 700 'an illegal memory access was encountered'").kind, ErrorKind::device);
  EXPECT_EQ(failed(nccl::kRemoteError, "out of memory").kind, ErrorKind::device) << "it was another rank's";
  fake().last_error.clear();
}

#if LAMINA_HAS_NCCL_HEADER
// Passed in the same way.
template <class Ours, class Theirs>
constexpr bool alike() {
  if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>)
    return std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
  else if constexpr (std::is_class_v<Ours>)
    return std::is_class_v<Theirs> && sizeof(Ours) == sizeof(Theirs) && std::is_trivially_copyable_v<Ours>;
  else
    return sizeof(Ours) == sizeof(Theirs) && (std::is_integral_v<Theirs> || std::is_enum_v<Theirs>);
}
template <class R, class... A, class TheirR, class... TheirA>
constexpr bool same_call(R (*)(A...), TheirR (*)(TheirA...)) {
  if constexpr (sizeof...(A) != sizeof...(TheirA))
    return false;
  else
    return alike<R, TheirR>() && (alike<A, TheirA>() && ...);
}

TEST(NcclNumbers, MatchTheLibrarysHeader) {
  static_assert(nccl::kSuccess == ncclSuccess && nccl::kCudaError == ncclUnhandledCudaError && nccl::kSystemError == ncclSystemError &&
                nccl::kInternalError == ncclInternalError && nccl::kInvalidArgument == ncclInvalidArgument &&
                nccl::kInvalidUsage == ncclInvalidUsage && nccl::kRemoteError == ncclRemoteError && nccl::kInProgress == ncclInProgress);
  static_assert(nccl::kUint8 == ncclUint8 && nccl::kFloat32 == ncclFloat32 && nccl::kFloat64 == ncclFloat64 && nccl::kSum == ncclSum);
  static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId) && alignof(nccl::UniqueId) == alignof(ncclUniqueId));
  using Ours = nccl::Config;
  static_assert(offsetof(Ours, size) == offsetof(ncclConfig_t, size) && offsetof(Ours, magic) == offsetof(ncclConfig_t, magic) &&
                offsetof(Ours, version) == offsetof(ncclConfig_t, version) &&
                offsetof(Ours, blocking) == offsetof(ncclConfig_t, blocking) &&
                offsetof(Ours, unused) == offsetof(ncclConfig_t, cgaClusterSize) && sizeof(Ours) < sizeof(ncclConfig_t));
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(Ours().magic, theirs.magic);
  EXPECT_EQ(Ours().version, unsigned(NCCL_VERSION(2, 14, 0)));
  EXPECT_EQ(Ours().unused, NCCL_CONFIG_UNDEF_INT);
#define LAMINA_SAME_CALL(ours, theirs) static_assert(same_call(decltype(NcclApi::ours){}, decltype(&theirs){}), #theirs)
  LAMINA_SAME_CALL(version, ncclGetVersion);
  LAMINA_SAME_CALL(unique_id, ncclGetUniqueId);
  LAMINA_SAME_CALL(init_rank, ncclCommInitRankConfig);
  LAMINA_SAME_CALL(finalize, ncclCommFinalize);
  LAMINA_SAME_CALL(destroy, ncclCommDestroy);
  LAMINA_SAME_CALL(abort, ncclCommAbort);
  LAMINA_SAME_CALL(async_error, ncclCommGetAsyncError);
  LAMINA_SAME_CALL(group_start, ncclGroupStart);
  LAMINA_SAME_CALL(mem_alloc, ncclMemAlloc);
  LAMINA_SAME_CALL(mem_free, ncclMemFree);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  static_assert(nccl::kSymmetric == NCCL_WIN_COLL_SYMMETRIC);
  LAMINA_SAME_CALL(register_window, ncclCommWindowRegister);
  LAMINA_SAME_CALL(deregister_window, ncclCommWindowDeregister);
#endif
  LAMINA_SAME_CALL(group_end, ncclGroupEnd);
  LAMINA_SAME_CALL(send, ncclSend);
  LAMINA_SAME_CALL(receive, ncclRecv);
  LAMINA_SAME_CALL(broadcast, ncclBroadcast);
  LAMINA_SAME_CALL(all_gather, ncclAllGather);
  LAMINA_SAME_CALL(all_reduce, ncclAllReduce);
  LAMINA_SAME_CALL(status_text, ncclGetErrorString);
  LAMINA_SAME_CALL(last_error, ncclGetLastError);
#undef LAMINA_SAME_CALL
}
#endif

// The real library makes ids and texts without a driver; ranks need a GPU, and the error says so.
TEST(NcclLibrary, RealLibraryHasEveryFunction) {
  NcclApi real{};
  try {
    real = load_nccl(system_loader());
  } catch (const Error& e) {
    GTEST_SKIP() << e.what();
  }
  int version = 0;
  ASSERT_EQ(real.version(&version), nccl::kSuccess);
  EXPECT_GE(version, 21400);
  EXPECT_NE(nccl_id(real), nccl_id(real));
  for (int status = 0; status <= nccl::kInProgress; ++status) EXPECT_STRNE(real.status_text(status), real.status_text(99)) << status;
  int count = 0;
  if (cudart_api().device_count(&count) == cudaSuccess && count > 0) return;  // tests/cuda/on_a_card_test.cpp
  cudart_api().take_last_error();
  FakeCuda::reset();
  CudaBackend backend(fake_api());
  try {
    NcclPeers(backend, real, {.device = gpu(0), .rank = 0, .ranks = 1, .id = nccl_id(real)});
    ADD_FAILURE() << "it works without a GPU";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::device) << e.what();
    EXPECT_TRUE(e.parts.what.starts_with("cuda: ncclCommInitRankConfig failed")) << e.what();
  }
}

}  // namespace
}  // namespace lamina::cuda
