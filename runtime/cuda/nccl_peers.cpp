#include "runtime/cuda/nccl_peers.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "runtime/core/interrupt.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/cuda_backend.h"

namespace lamina::cuda {
namespace {

constexpr std::chrono::milliseconds kLook{2};  // between looks at what has been started
constexpr size_t kWindowAlignment = 4096;      // NCCL_WIN_REQUIRED_ALIGNMENT

// Statuses of calls that have started something.
bool is_started(int status) { return status == nccl::kSuccess || status == nccl::kInProgress; }

const char* fix_for(int status) {
  switch (status) {
    case nccl::kCudaError:
      return "free memory of the GPU if it is that; NCCL_DEBUG=INFO prints which call of CUDA failed. Then start the job again";
    case nccl::kSystemError:
      return "NCCL_DEBUG=INFO prints which call of the system failed: often the network, a port that is in use, or /dev/shm is too small "
             "(docker run --shm-size). Then start the job again";
    case nccl::kInvalidArgument:
    case nccl::kInvalidUsage: return "give each rank a GPU of its own; NCCL_DEBUG=WARN prints what is wrong";
    case nccl::kRemoteError:
      return "see what the other ranks printed: one of them has ended or cannot be reached. Then start the job again";
    default: return "NCCL_DEBUG=INFO prints what it was doing; start the job again";
  }
}

Error nccl_error(const NcclApi& api, int status, const char* call, const std::string& what, const std::string& where) {
  const char* last = api.last_error(nullptr);
  const std::string said = last ? last : "";
  int version = 0;
  const std::string library = api.version(&version) == nccl::kSuccess ? cat("NCCL ", nccl::version_text(version)) : "NCCL";
  return Error(nccl::no_memory(status, said) ? ErrorKind::out_of_memory : ErrorKind::device,
               {.what = cat("cuda: ", call, " failed", what.empty() ? "" : " in ", what),
                .where = where,
                .why = cat(library, " says ", api.status_text(status), " (", status, ")",
                           said.empty() ? "" : "; the last thing it complained of: ", said),
                .fix = fix_for(status)});
}

// A thread's NCCL group, which must be ended in any case.
class Group {
 public:
  explicit Group(const NcclApi& api) : api_(api), status_(api.group_start()), open_(status_ == nccl::kSuccess) {}
  ~Group() { end(); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  int start_status() const { return status_; }
  int end() { return std::exchange(open_, false) ? api_.group_end() : nccl::kSuccess; }

 private:
  const NcclApi& api_;
  const int status_;
  bool open_;
};

}  // namespace

std::string nccl_id(const NcclApi& api) {
  nccl::UniqueId id;
  if (const int status = api.unique_id(&id)) throw nccl_error(api, status, "ncclGetUniqueId", "", "this process");
  return std::string(id.bytes, sizeof id.bytes);
}

NcclPeers::NcclPeers(CudaBackend& backend, const NcclApi& api, const JoinPeers& join)
    : backend_(backend), api_(api), join_(join), exceptions_(std::uncaught_exceptions()) {
  nccl::UniqueId id;
  if (join.id.size() != sizeof id.bytes || join.rank < 0 || join.rank >= join.ranks)
    throw Error(ErrorKind::invalid_argument, {.what = cat("rank ", join.rank, " of ", join.ranks, " cannot join with this id"),
                                              .where = rank_text(),
                                              .why = cat("ranks are counted from 0, and an id has ", sizeof id.bytes, " bytes"),
                                              .fix = "pass the id that peers_id() has returned on one rank"});
  std::memcpy(id.bytes, join.id.data(), sizeof id.bytes);
  try {
    const CurrentDevice current(backend_.api(), join_.device);
    nccl::Config config;
    require_status(api_.init_rank(&communicator_, join_.ranks, id, join_.rank, &config), "ncclCommInitRankConfig", "");
    settle("ncclCommInitRankConfig", "");
    watch_ = std::thread([this] { watch(); });
  } catch (...) {
    if (communicator_) api_.abort(communicator_);
    throw;
  }
}

NcclPeers::~NcclPeers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
    if (!why_ended_) try {
        if (std::uncaught_exceptions() > exceptions_)
          end(Error(ErrorKind::collective, {.what = "an exception", .where = rank_text(), .why = "", .fix = ""}));
        else
          finish();
      } catch (const Error& e) {
        end(e);
      } catch (...) {
        end(Error(ErrorKind::collective, {.what = "an interrupt", .where = rank_text(), .why = "", .fix = ""}));
      }
  }
  watch_.join();
  for (Event& e : free_events_) backend_.destroy_event(e);
  try {
    if (stopping_.backend) backend_.synchronize(stopping_), backend_.destroy_stream(stopping_);
  } catch (...) {  // the device has failed
  }
  for (const Window& w : windows_)
    if (w.data) api_.mem_free(w.data);
}

// Waits for all ranks' work. A collective.
void NcclPeers::finish() {
  const CurrentDevice current(backend_.api(), join_.device);
  // Calls that read windows have ended on all ranks before these meet at the job's end.
  for (const Window& w : windows_)
    if (w.handle) require_status(api_.deregister_window(communicator_, w.handle), "ncclCommWindowDeregister", "");
  settle("ncclCommWindowDeregister", "");
  require_status(api_.finalize(communicator_), "ncclCommFinalize", "");
  settle("ncclCommFinalize", "");
  while (!started_.empty()) {
    forget(started_.front());
    started_.pop_front();
  }
  require_status(api_.destroy(std::exchange(communicator_, nullptr)), "ncclCommDestroy", "");
}

void NcclPeers::require_status(int status, const char* call, const std::string& what) const {
  if (!is_started(status)) throw nccl_error(api_, status, call, what, rank_text());
}

// Of calls that only this process takes part in.
void NcclPeers::require_done(int status, const char* call, const std::string& what) const {
  if (status != nccl::kSuccess) throw nccl_error(api_, status, call, what, rank_text());
}

// Waits until no call is in progress, or until the patience is over.
void NcclPeers::settle(const char* call, const std::string& what) {
  const Clock::time_point begun = Clock::now();
  const std::string named = what.empty() ? call : what;
  bool warned = false;
  InterruptPoll interrupted;
  for (std::chrono::microseconds pause{10}; !is_ready(call, what); pause = std::min(2 * pause, std::chrono::microseconds(1000))) {
    if (const std::optional<Error> error = late(begun, warned, named)) throw *error;
    interrupted();
    std::this_thread::sleep_for(pause);
  }
}

bool NcclPeers::is_ready(const char* call, const std::string& what) {
  int state = nccl::kSuccess;
  if (const int status = api_.async_error(communicator_, &state))
    throw nccl_error(api_, status, "ncclCommGetAsyncError", what, rank_text());
  require_status(state, call, what);
  return state == nccl::kSuccess;
}

// Says it when the first time is over; the error when the second is.
std::optional<Error> NcclPeers::late(Clock::time_point begun, bool& warned, const std::string& what) const {
  const std::chrono::duration<double> waited = Clock::now() - begun;
  if (join_.job_ended)
    if (std::optional<Error> ended = join_.job_ended()) return ended;
  const auto missing = [&] {
    const std::string known = join_.missing ? join_.missing() : "";
    return known.empty() ? std::string("NCCL does not tell which ranks are missing") : known;
  };
  if (waited >= join_.patience.failure)
    return Error(ErrorKind::collective,
                 {.what = cat(what, ", has not ended after ",
                              waited.count() < 1 ? join_.patience.failure.count() : double(int64_t(waited.count())), " s"),
                  .where = rank_text(),
                  .why = missing(),
                  .fix = "look why those ranks are late; LAMINA_COLLECTIVE_TIMEOUT sets how long ranks wait"});
  if (!warned && waited >= join_.patience.warning) {
    warned = true;
    if (join_.warn) join_.warn(cat("lamina: ", rank_text(), " has waited ", int64_t(waited.count()), " s in ", what, "\n", missing()));
  }
  return std::nullopt;
}

void NcclPeers::start(Stream& stream, const std::string& what, const std::function<void()>& calls) {
  const std::lock_guard lock(mutex_);
  if (why_ended_) throw *why_ended_;
  if (stream.device != join_.device)
    throw Error(ErrorKind::invalid_argument, {.what = cat(what, " on a stream of ", stream.device),
                                              .where = rank_text(),
                                              .why = cat("this rank's data are exchanged by ", join_.device),
                                              .fix = "pass a stream and memory of that device"});
  std::optional<Error> failed;
  std::exception_ptr thrown;
  try {
    const CurrentDevice current(backend_.api(), join_.device);
    calls();
    if (free_events_.empty()) free_events_.push_back(backend_.create_event(join_.device));
    backend_.record(stream, free_events_.back());
    started_.push_back({.end = free_events_.back(), .stream = stream, .what = what, .begun = Clock::now()});
    free_events_.pop_back();
    changed_.notify_all();
    return;
  } catch (const Error& e) {
    failed.emplace(e);
    thrown = std::current_exception();
  } catch (...) {
    failed.emplace(ErrorKind::collective, Error::Parts{.what = cat(what, " was interrupted"),
                                                       .where = rank_text(),
                                                       .why = "a part of it may have been started, so this rank's part has been aborted",
                                                       .fix = "start the job again"});
    thrown = std::current_exception();
  }
  end(*failed);
  std::rethrow_exception(thrown);
}

void NcclPeers::exchange(Stream& stream, std::span<const Transfer> transfers, const std::string& what) {
  if (transfers.empty()) return;
  start(stream, what, [&] {
    {
      Group group(api_);
      if (const int status = group.start_status()) throw nccl_error(api_, status, "ncclGroupStart", what, rank_text());
      for (const Transfer& t : transfers)
        if (t.sends)
          require_status(api_.send(t.data, t.bytes, nccl::kUint8, t.rank, communicator_, stream.native), "ncclSend", what);
        else
          require_status(api_.receive(t.data, t.bytes, nccl::kUint8, t.rank, communicator_, stream.native), "ncclRecv", what);
      require_status(group.end(), "ncclGroupEnd", what);
    }
    settle("ncclGroupEnd", what);
  });
}

void NcclPeers::all_gather(Stream& stream, const void* own, void* all, size_t bytes, const std::string& what) {
  start(stream, what, [&] {
    require_status(api_.all_gather(own, all, bytes, nccl::kUint8, communicator_, stream.native), "ncclAllGather", what);
    settle("ncclAllGather", what);
  });
}

void NcclPeers::broadcast(Stream& stream, void* data, size_t bytes, int root, const std::string& what) {
  start(stream, what, [&] {
    require_status(api_.broadcast(data, data, bytes, nccl::kUint8, root, communicator_, stream.native), "ncclBroadcast", what);
    settle("ncclBroadcast", what);
  });
}

void NcclPeers::sum(Stream& stream, DType dtype, void* data, int64_t count, const std::string& what) {
  const int type = dtype == DType::f64 ? nccl::kFloat64 : nccl::kFloat32;
  start(stream, what, [&] {
    require_status(api_.all_reduce(data, data, size_t(count), type, nccl::kSum, communicator_, stream.native), "ncclAllReduce", what);
    settle("ncclAllReduce", what);
  });
}

void NcclPeers::watch(Stream& stream, const std::string& what) {
  start(stream, what, [] {});
}

std::vector<char*> NcclPeers::window(Stream& stream, size_t bytes, const std::string& what) {
  std::vector<char*> out;
  start(stream, what, [&] { out = make_window(bytes, what); });
  return out;
}

std::vector<char*> NcclPeers::make_window(size_t bytes, const std::string& what) {
  if (!stopping_.backend) stopping_ = backend_.create_stream(join_.device);
  const size_t room = (bytes + kWindowAlignment - 1) / kWindowAlignment * kWindowAlignment;
  Window& made = windows_.emplace_back();
  require_done(api_.mem_alloc(&made.data, room), "ncclMemAlloc", what);
  const std::vector<char> zeros(room);
  // Not on the caller's stream: it may wait for a rank that has gone, and this thread keeps the watching one from looking.
  backend_.copy(stopping_, made.data, zeros.data(), room, CopyKind::to_device);
  backend_.synchronize(stopping_);
  require_status(api_.register_window(communicator_, made.data, room, &made.handle, nccl::kSymmetric), "ncclCommWindowRegister", what);
  settle("ncclCommWindowRegister", what);
  std::vector<char*> out;
  for (int rank = 0; rank < join_.ranks && made.handle; ++rank) {
    void* at = made.data;  // NCCL has another address for this rank's own
    if (rank != join_.rank) require_done(api_.peer_pointer(made.handle, 0, rank, &at), "ncclGetPeerDevicePointer", what);
    if (!at) return {};
    out.push_back(static_cast<char*>(at));
  }
  return out;
}

// Kernels that wait for other ranks look at the first word of this rank's windows.
void NcclPeers::stop_kernels() noexcept {
  static constexpr uint32_t stop = 1;
  for (const Window& w : windows_) try {
      if (w.data) backend_.copy(stopping_, w.data, &stop, sizeof stop, CopyKind::to_device);
    } catch (...) {  // the device has failed: nothing waits there
    }
}

void NcclPeers::abort(const Error& why) {
  const std::lock_guard lock(mutex_);
  if (!why_ended_) end(why);
}

// Streams keep the error before the kernels leave: a thread that waits for one of them then throws it.
void NcclPeers::end(const Error& why) noexcept {
  why_ended_.emplace(why);
  for (Started& s : started_) backend_.keep_error(s.stream, why);
  stop_kernels();
  if (communicator_) api_.abort(std::exchange(communicator_, nullptr));
  for (Started& s : started_) forget(s);
  started_.clear();
}

void NcclPeers::forget(Started& started) { free_events_.push_back(started.end); }

void NcclPeers::watch() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !started_.empty(); });
    if (stop_) return;
    const std::optional<Error> failure = look();
    if (failure) end(*failure);
    lock.unlock();
    if (failure && join_.failed) join_.failed(*failure);
    if (!failure) std::this_thread::sleep_for(kLook);
    lock.lock();
  }
}

// Forgets what has ended. What has failed, or is late.
std::optional<Error> NcclPeers::look() try {
  const CudaApi& cuda = backend_.api();
  while (!started_.empty()) {
    Started& first = started_.front();
    const cudaError_t status = cuda.event_query(native(first.end));
    if (status == cudaErrorNotReady) {
      cuda.take_last_error();  // not an error, but stored like one
      is_ready(first.what.c_str(), "");
      return late(first.begun, first.warned, first.what);
    }
    if (status != cudaSuccess) return cuda::error_of(cuda, status, "finish " + first.what, join_.device);
    forget(first);
    started_.pop_front();
  }
  return std::nullopt;
} catch (const Error& e) {
  return e;
}

std::string NcclPeers::rank_text() const { return cat("rank ", join_.rank, " of ", join_.ranks, " (", join_.device, ")"); }

}  // namespace lamina::cuda
