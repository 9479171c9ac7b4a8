// Collectives by NCCL, with a fake library in which ranks really meet, and the parts of the real one that work without a GPU.
#include "runtime/cuda/collectives.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>

#include "runtime/core/interrupt.h"
#include "tests/cuda/ranks_fixture.h"

#if __has_include(<nccl.h>)
#define LAMINA_HAS_NCCL_HEADER 1
#include <nccl.h>
#endif

namespace lamina::cuda {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::product, ReduceOp::max, ReduceOp::min, ReduceOp::mean};

template <class T>
double reduced(ReduceOp op, int ranks, int64_t i) {
  double sum = 0, product = 1, largest = 0, least = 9;
  for (int r = 0; r < ranks; ++r)
    sum += brought(r, i), product *= brought(r, i), largest = std::max<double>(largest, brought(r, i)),
                                                    least = std::min<double>(least, brought(r, i));
  const double mean = std::numeric_limits<T>::is_integer ? double(int(sum) / ranks) : sum / ranks;
  const double all[] = {sum, product, largest, least, mean};
  return double(float(T(float(all[size_t(op)]))));
}

class CudaCollectives : public CudaRanks {
 protected:
  template <class T>
  void expect(const Brought<T>& brought, const std::function<double(int own, int64_t i)>& want) {
    for (size_t own = 0; own < brought.out.size(); ++own)
      for (int64_t i = 0; i < brought.out[own]->size(); ++i)
        ASSERT_EQ(double(float(brought.out[own]->data()[i])), want(int(own), i))
            << dtype_of<T>() << " own rank " << own << " element " << i;
  }
  // Runs each collective on `own` ranks from `first` of `ranks`.
  template <class T>
  void run_reductions(Communicator& c, int first, int own, int ranks) {
    for (const ReduceOp op : kOps) {
      SCOPED_TRACE(name(op));
      Brought<T> all(*backend_, first, own, 11, 11), scattered(*backend_, first, own, 5 * ranks, 5);
      c.all_reduce(all.operands, op);
      c.reduce_scatter(scattered.operands, op);
      c.synchronize(streams(own, first));
      expect<T>(all, [&](int, int64_t i) { return reduced<T>(op, ranks, i); });
      expect<T>(scattered, [&](int r, int64_t i) { return reduced<T>(op, ranks, (first + r) * 5 + i); });
    }
  }
  template <class T>
  void run_moves(Communicator& c, int first, int own, int ranks) {
    for (int root = 0; root < ranks; ++root) {
      Brought<T> b(*backend_, first, own, 7, 7);
      c.broadcast(b.operands, root);
      c.synchronize(streams(own, first));
      expect<T>(b, [&](int, int64_t i) { return double(float(T(float(brought(root, i))))); });
    }
    Brought<T> b(*backend_, first, own, 3, 3 * ranks);
    c.all_gather(b.operands);
    c.synchronize(streams(own, first));
    expect<T>(b, [&](int, int64_t i) { return double(float(T(float(brought(int(i / 3), i % 3))))); });
  }
  void run_all(Communicator& c, int first, int own, int ranks) {
    for (const DType dtype : kDTypes)
      with_dtype(dtype, [&]<class T>() {
        run_moves<T>(c, first, own, ranks);
        if (dtype != DType::boolean && dtype != DType::i16) run_reductions<T>(c, first, own, ranks);
      });
  }
  // The error of `work`, which aborts `c` for good.
  Error failure_of(Communicator& c, const std::function<void()>& work) {
    const Error error = error_of(work);
    const int calls = int(fake().calls.size());
    const Error again = error_of([&] { c.finalize(); });
    EXPECT_EQ(again.kind, ErrorKind::state);
    EXPECT_EQ(again.parts.what, "the communicator was aborted");
    EXPECT_EQ(again.parts.why, cat("of what failed before: ", error.parts.what));
    EXPECT_EQ(int(fake().calls.size()), calls) << "it is still used";
    return error;
  }
  static Error error_of(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& e) {
      return e;
    }
    ADD_FAILURE() << "no error";
    return Error(ErrorKind::internal, {});
  }
};

TEST_F(CudaCollectives, EveryOpGivesEachRankTheRightResultForEachDtype) {
  for (int ranks = 1; ranks <= kGpus; ++ranks) {
    SCOPED_TRACE(cat(ranks, " ranks"));
    const auto c = communicator(ranks);
    EXPECT_EQ(c->ranks(), ranks);
    run_all(*c, 0, ranks, ranks);
  }
  EXPECT_EQ(fake().aborted, 0);
  EXPECT_EQ(fake().destroyed, 1 + 2 + 3 + 4);
}

TEST_F(CudaCollectives, CanWorkInPlace) {
  const auto c = communicator(3);
  Brought<float> b(*backend_, 0, 3, 11, 11);
  for (RankOperands& o : b.operands) o.out = o.in;
  c->all_reduce(b.operands, ReduceOp::sum);
  c->synchronize(streams(3));
  for (const auto& in : b.in)
    for (int64_t i = 0; i < 11; ++i) EXPECT_EQ(in->data()[i], float(reduced<float>(ReduceOp::sum, 3, i)));
}

TEST_F(CudaCollectives, RunInTheOrderOfEachRanksStream) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    FakeCuda::now().work.random.seed(seed);
    const auto c = communicator(3);
    Brought<float> source(*backend_, 0, 3, 11, 11), b(*backend_, 0, 3, 11, 11);
    const auto copy = [&](size_t r, const Numbers<float>& to, const Numbers<float>& from) {
      backend_->copy(b.operands[r].stream, to.data(), from.data(), 44, CopyKind::within_device);
    };
    for (size_t r = 0; r < 3; ++r) std::fill_n(b.in[r]->data(), 11, -1.0f), copy(r, *b.in[r], *source.in[r]);
    c->all_reduce(b.operands, ReduceOp::sum);
    for (size_t r = 0; r < 3; ++r) copy(r, *source.out[r], *b.out[r]), copy(r, *b.out[r], *b.in[r]);
    c->synchronize(streams(3));
    expect<float>(source, [](int, int64_t i) { return reduced<float>(ReduceOp::sum, 3, i); });
  }
}

// Threads act as processes: one has two ranks, the others one each.
TEST_F(CudaCollectives, ProcessesConnectByTheirId) {
  const nccl::UniqueId id = unique_id(fake_nccl());
  for (int r = 0; r < kGpus; ++r) backend_->default_stream(gpu(r));
  const auto process = [&](int first, int own) {
    Communicator c(fake_nccl(), fake_api(), id, 4, first, gpus(own, first), kLate);
    run_all(c, first, own, 4);
  };
  std::thread second([&] { process(2, 1); }), third([&] { process(3, 1); });
  process(0, 2);
  second.join(), third.join();
  EXPECT_EQ(fake().destroyed, 4);
}

TEST_F(CudaCollectives, EmptyOperandsStartNothing) {
  const auto c = communicator(2);
  const size_t calls = fake().calls.size();
  Brought<float> b(*backend_, 0, 2, 0, 0);
  c->all_reduce(b.operands, ReduceOp::sum);
  c->broadcast(b.operands, 1);
  c->reduce_scatter(b.operands, ReduceOp::max);
  c->all_gather(b.operands);
  EXPECT_EQ(fake().calls.size(), calls);
  c->finalize();
  EXPECT_EQ(error_of([&] { c->all_gather(b.operands); }).parts.what, "the communicator was finalized");
}

TEST_F(CudaCollectives, RefusedOperandsLeaveTheCommunicatorUsable) {
  const auto c = communicator(2);
  const size_t calls = fake().calls.size();
  Brought<float> b(*backend_, 0, 2, 12, 12);
  const auto refused = [&](ErrorKind kind, const std::string& why, const std::function<void()>& work) {
    const Error error = error_of(work);
    EXPECT_EQ(error.kind, kind) << error.what();
    EXPECT_EQ(error.parts.why, why);
    EXPECT_TRUE(error.parts.where.starts_with("ranks 0, 1 of 2 (gpu:0, gpu:1)")) << error.parts.where;
    EXPECT_FALSE(error.parts.fix.empty());
  };
  const auto changed = [&](const std::function<void(RankOperands&)>& change) {
    std::vector<RankOperands> operands = b.operands;
    change(operands[1]);
    return operands;
  };
  Brought<bool> booleans(*backend_, 0, 2, 4, 4);
  Brought<int16_t> shorts(*backend_, 0, 2, 4, 2);
  refused(ErrorKind::type, "NCCL has no bool to compute with", [&] { c->all_reduce(booleans.operands, ReduceOp::max); });
  refused(ErrorKind::type, "NCCL has no i16 to compute with", [&] { c->reduce_scatter(shorts.operands, ReduceOp::sum); });
  refused(ErrorKind::type, "rank 1 brings f32[12] for i32[12]",
          [&] { c->all_reduce(changed([](RankOperands& o) { o.out.dtype = DType::i32; }), ReduceOp::sum); });
  refused(ErrorKind::type, "rank 1 brings f32[6] for f32[12]",
          [&] { c->broadcast(changed([](RankOperands& o) { o.in.shape[0] = 6; }), 0); });
  refused(ErrorKind::invalid_argument, "f32[12] does not give f32[6]",
          [&] { c->all_reduce(changed([](RankOperands& o) { o.out.shape[0] = 6; }), ReduceOp::sum); });
  refused(ErrorKind::invalid_argument, "f32[12] does not give f32[12]", [&] { c->all_gather(b.operands); });
  refused(ErrorKind::invalid_argument, "f32[12] does not give f32[12]", [&] { c->reduce_scatter(b.operands, ReduceOp::sum); });
  refused(ErrorKind::invalid_argument, "an operand of rank 1 is not contiguous",
          [&] { c->broadcast(changed([](RankOperands& o) { o.in.strides[0] = 2; }), 0); });
  refused(ErrorKind::invalid_argument, "rank 1 is gpu:1, and its stream gpu:0's",
          [&] { c->broadcast(changed([&](RankOperands& o) { o.stream = b.operands[0].stream; }), 0); });
  refused(ErrorKind::invalid_argument, "there are 1 for 2 ranks of this process", [&] { c->broadcast(std::span(b.operands).first(1), 0); });
  refused(ErrorKind::invalid_argument, "there are 2 ranks, counted from 0", [&] { c->broadcast(b.operands, 2); });
  refused(ErrorKind::invalid_argument, "each rank has one", [&] { c->synchronize(streams(1)); });
  EXPECT_EQ(fake().calls.size(), calls) << "something was started";
  c->all_reduce(b.operands, ReduceOp::sum);
  c->finalize();

  const nccl::UniqueId id = unique_id(fake_nccl());
  const auto made = [&](int ranks, int first, std::vector<Device> devices) {
    EXPECT_EQ(error_of([&] { Communicator(fake_nccl(), fake_api(), id, ranks, first, std::move(devices)); }).kind,
              ErrorKind::invalid_argument);
  };
  made(2, 0, {}), made(2, 0, {gpu(0), gpu(0)}), made(2, 0, {{}, gpu(0)}), made(2, 1, gpus(2)), made(2, -1, gpus(2)), made(1, 0, gpus(2));
}

TEST_F(CudaCollectives, UnresponsiveRanksEndAtTheTimeLimit) {
  const auto c = communicator(3, kSoon);
  Brought<float> b(*backend_, 0, 3, 11, 11);
  fake().faults = {{"state", 0, nccl::kInProgress}};
  const Error error = failure_of(*c, [&] { c->all_reduce(b.operands, ReduceOp::sum); });
  EXPECT_EQ(error.kind, ErrorKind::collective);
  EXPECT_EQ(error.parts.what, "cuda: ncclAllReduce did not end within 0.03 s");
  EXPECT_EQ(error.parts.where, "ranks 0, 1, 2 of 3 (gpu:0, gpu:1, gpu:2), f32[11] sum");
  EXPECT_EQ(error.parts.why, "these ranks wait for another");
  EXPECT_FALSE(error.parts.fix.empty());
  EXPECT_EQ(fake().aborted, 3);
}

TEST_F(CudaCollectives, AMissingProcessEndsAtTheTimeLimit) {
  const nccl::UniqueId id = unique_id(fake_nccl());
  const Error alone = error_of([&] { Communicator(fake_nccl(), fake_api(), unique_id(fake_nccl()), 3, 0, gpus(2), kSoon); });
  EXPECT_EQ(alone.kind, ErrorKind::collective);
  EXPECT_EQ(alone.parts.what, "cuda: ncclCommInitRankConfig did not end within 0.03 s");
  EXPECT_EQ(alone.parts.where, "ranks 0, 1 of 3 (gpu:0, gpu:1)");
  EXPECT_EQ(alone.parts.why, "these ranks wait for another; 1 rank is other processes'");
  EXPECT_EQ(fake().aborted, 2);

  // All ranks are there, then one calls with another size.
  std::unique_ptr<Communicator> c, other;
  std::thread process([&] { other = std::make_unique<Communicator>(fake_nccl(), fake_api(), id, 3, 2, gpus(1, 2), kSoon); });
  c = std::make_unique<Communicator>(fake_nccl(), fake_api(), id, 3, 0, gpus(2), kSoon);
  process.join();
  Brought<float> b(*backend_, 0, 2, 11, 11), of_another(*backend_, 2, 1, 12, 12);
  std::thread late([&] {
    const Error error = error_of([&] { other->all_reduce(of_another.operands, ReduceOp::sum); });
    EXPECT_EQ(error.kind, ErrorKind::collective);
    EXPECT_EQ(error.parts.where, "rank 2 of 3 (gpu:2), f32[12] sum");
    EXPECT_EQ(error.parts.why, "this rank waits for another; 2 ranks are other processes'");
  });
  const Error error = error_of([&] { c->all_reduce(b.operands, ReduceOp::sum); });
  late.join();
  EXPECT_EQ(error.parts.where, "ranks 0, 1 of 3 (gpu:0, gpu:1), f32[11] sum");
  EXPECT_EQ(fake().aborted, 5);
}

TEST_F(CudaCollectives, HangingKernelsAreAbortedAtTheTimeLimit) {
  const auto c = communicator(2, kSoon);
  Brought<float> b(*backend_, 0, 2, 11, 11);
  c->all_reduce(b.operands, ReduceOp::sum);
  FakeCuda::now().fail["stream_query"] = cudaErrorNotReady;
  const Error error = failure_of(*c, [&] { c->synchronize(streams(2)); });
  EXPECT_EQ(error.kind, ErrorKind::collective);
  EXPECT_EQ(error.parts.what, "cuda: what was started on the ranks' streams did not end within 0.03 s");
  EXPECT_EQ(error.parts.where, "ranks 0, 1 of 2 (gpu:0, gpu:1)");
  EXPECT_EQ(FakeCuda::last, cudaSuccess) << "the next launch would be blamed";
  EXPECT_EQ(fake().aborted, 2);

  FakeCuda::now().fail["stream_query"] = cudaErrorIllegalAddress;
  const auto next = communicator(2, kSoon);
  const Error broken = failure_of(*next, [&] { next->synchronize(streams(2)); });
  EXPECT_EQ(broken.kind, ErrorKind::device);
  EXPECT_EQ(broken.parts.what, "cuda: cannot finish the collectives of rank 0");
  FakeCuda::now().fail.clear();
}

TEST_F(CudaCollectives, AnInterruptEndsTheWait) {
  struct Interrupt {};
  const auto c = communicator(2);
  Brought<float> b(*backend_, 0, 2, 11, 11);
  fake().faults = {{"state", 0, nccl::kInProgress}};
  set_interrupt_check([] { throw Interrupt(); });
  EXPECT_THROW(c->all_reduce(b.operands, ReduceOp::sum), Interrupt);
  set_interrupt_check(nullptr);
  EXPECT_EQ(fake().aborted, 2);
  EXPECT_EQ(error_of([&] { c->finalize(); }).parts.why, "of what failed before: the call was interrupted");
}

TEST_F(CudaCollectives, AnExceptionAbortsTheCommunicator) {
  try {
    const auto c = communicator(2);
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(fake().aborted, 2);
  EXPECT_EQ(fake().count("ncclCommFinalize"), 0);
}

TEST_F(CudaCollectives, AFailedFinalizeAbortsTheCommunicator) {
  fake().faults = {{"ncclCommFinalize", 2, nccl::kSystemError}};
  communicator(3).reset();
  EXPECT_EQ(fake().aborted, 3);
  fake().faults = {{"state", 0, nccl::kInProgress}};
  EXPECT_THROW(communicator(3, kSoon), Error);
  EXPECT_EQ(fake().aborted, 6);
}

TEST_F(CudaCollectives, ErrorsContainTheLibrarysMessage) {
  const auto failed = [&](int status, const std::string& said) {
    const auto c = communicator(2);
    Brought<float> b(*backend_, 0, 2, 11, 11);
    fake().counts.clear();
    fake().faults = {{"ncclAllReduce", 2, status}};
    fake().last_error = said;
    const Error error = failure_of(*c, [&] { c->all_reduce(b.operands, ReduceOp::mean); });
    EXPECT_EQ(error.parts.what, "cuda: ncclAllReduce failed");
    EXPECT_EQ(error.parts.where, "rank 1 of 2 (gpu:1), f32[11] mean");
    return error;
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

TEST(CudaCollectivesNumbers, MatchTheLibrarysHeader) {
  static_assert(nccl::kSuccess == ncclSuccess && nccl::kCudaError == ncclUnhandledCudaError && nccl::kSystemError == ncclSystemError &&
                nccl::kInternalError == ncclInternalError && nccl::kInvalidArgument == ncclInvalidArgument &&
                nccl::kInvalidUsage == ncclInvalidUsage && nccl::kRemoteError == ncclRemoteError && nccl::kInProgress == ncclInProgress);
  static_assert(nccl::kInt8 == ncclInt8 && nccl::kUint8 == ncclUint8 && nccl::kInt32 == ncclInt32 && nccl::kInt64 == ncclInt64 &&
                nccl::kHalf == ncclFloat16 && nccl::kFloat == ncclFloat32 && nccl::kDouble == ncclFloat64 &&
                nccl::kBfloat16 == ncclBfloat16);
  static_assert(nccl::kSum == ncclSum && nccl::kProduct == ncclProd && nccl::kMax == ncclMax && nccl::kMin == ncclMin &&
                nccl::kAverage == ncclAvg);
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
  LAMINA_SAME_CALL(group_end, ncclGroupEnd);
  LAMINA_SAME_CALL(all_reduce, ncclAllReduce);
  LAMINA_SAME_CALL(broadcast, ncclBroadcast);
  LAMINA_SAME_CALL(reduce_scatter, ncclReduceScatter);
  LAMINA_SAME_CALL(all_gather, ncclAllGather);
  LAMINA_SAME_CALL(status_text, ncclGetErrorString);
  LAMINA_SAME_CALL(last_error, ncclGetLastError);
#undef LAMINA_SAME_CALL
}
#endif

// The real library makes ids and texts without a driver; ranks need a GPU, and the error says so.
TEST(CudaCollectivesLibrary, RealLibraryHasEveryFunction) {
  NcclApi real{};
  try {
    real = load_nccl(system_loader());
  } catch (const Error& e) {
    GTEST_SKIP() << e.what();
  }
  int version = 0;
  ASSERT_EQ(real.version(&version), nccl::kSuccess);
  EXPECT_GE(version, 21400);
  const nccl::UniqueId a = unique_id(real), b = unique_id(real);
  EXPECT_NE(std::string(a.bytes, sizeof(a.bytes)), std::string(b.bytes, sizeof(b.bytes)));
  for (int status = 0; status <= nccl::kInProgress; ++status) EXPECT_STRNE(real.status_text(status), real.status_text(99)) << status;
  try {
    Communicator c(real, cudart_api(), {gpu(0)});
    c.finalize();
  } catch (const Error& e) {
    int count = 0;
    EXPECT_TRUE(cudart_api().device_count(&count) != cudaSuccess || count == 0) << e.what();
    cudart_api().take_last_error();
    EXPECT_EQ(e.kind, ErrorKind::device) << e.what();
    EXPECT_TRUE(e.parts.what.starts_with("cuda: ")) << e.what();
  }
}

}  // namespace
}  // namespace lamina::cuda
