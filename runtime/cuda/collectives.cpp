#include "runtime/cuda/collectives.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "runtime/core/interrupt.h"
#include "runtime/core/type.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/cuda_backend.h"

namespace lamina::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// Statuses of calls that have started something.
bool is_started(int status) { return status == nccl::kSuccess || status == nccl::kInProgress; }

std::optional<int> type_of(DType dtype) {
  switch (dtype) {
    case DType::u8: return nccl::kUint8;
    case DType::i8: return nccl::kInt8;
    case DType::i32: return nccl::kInt32;
    case DType::i64: return nccl::kInt64;
    case DType::f16: return nccl::kHalf;
    case DType::bf16: return nccl::kBfloat16;
    case DType::f32: return nccl::kFloat;
    case DType::f64: return nccl::kDouble;
    case DType::boolean:
    case DType::i16: break;
  }
  return {};
}
int type_of_reduced(const View& view) { return *type_of(view.dtype); }

// A view as NCCL moves it: as bytes if it lacks the type.
struct Moved {
  explicit Moved(const View& view)
      : type(type_of(view.dtype).value_or(nccl::kUint8)), count(size_t(view.size()) * (type_of(view.dtype) ? 1 : size_of(view.dtype))) {}
  const int type;
  const size_t count;
};

int number_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return nccl::kSum;
    case ReduceOp::product: return nccl::kProduct;
    case ReduceOp::max: return nccl::kMax;
    case ReduceOp::min: return nccl::kMin;
    case ReduceOp::mean: break;
  }
  return nccl::kAverage;
}

std::string text_of(const View& v) { return text(TensorType{v.dtype, Shape(v.shape, v.shape + v.rank)}); }

const char* fix_for(int status) {
  switch (status) {
    case nccl::kCudaError:
      return "free memory of the GPU if it is that; NCCL_DEBUG=INFO prints which call of CUDA failed. Then make a new communicator on all "
             "ranks";
    case nccl::kSystemError:
      return "NCCL_DEBUG=INFO prints which call of the system failed: often the network, or /dev/shm is too small (docker run --shm-size). "
             "Then make a new communicator on all ranks";
    case nccl::kInvalidArgument:
    case nccl::kInvalidUsage:
      return "give each rank a GPU of its own, and have all ranks make the same calls in the same order; NCCL_DEBUG=WARN prints what is "
             "wrong";
    case nccl::kRemoteError:
      return "see what the other ranks printed: one of them has ended or cannot be reached. Then make a new communicator on all ranks";
    default: return "NCCL_DEBUG=INFO prints what it was doing; make a new communicator on all ranks";
  }
}

std::string library_text(const NcclApi& api) {
  int version = 0;
  return api.version(&version) == nccl::kSuccess ? cat("NCCL ", nccl::version_text(version)) : "NCCL";
}

Error nccl_error(const NcclApi& api, int status, const char* call, const std::string& where) {
  const char* last = api.last_error(nullptr);
  const std::string said = last ? last : "";
  const char* instruction = launching_instruction();
  return Error(nccl::no_memory(status, said) ? ErrorKind::out_of_memory : ErrorKind::device,
               {.what = cat("cuda: ", call, " failed", *instruction ? " in " : "", instruction),
                .where = where,
                .why = cat(library_text(api), " says ", api.status_text(status), " (", status, ")",
                           said.empty() ? "" : "; the last thing it complained of: ", said),
                .fix = fix_for(status)});
}

// A thread's NCCL group, which must be ended in any case.
class Group {
 public:
  Group(const NcclApi& api, bool wanted)
      : api_(api), status_(wanted ? api.group_start() : nccl::kSuccess), open_(wanted && status_ == nccl::kSuccess) {}
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

const char* name(ReduceOp op) {
  static constexpr const char* names[] = {"sum", "product", "max", "min", "mean"};
  return names[size_t(op)];
}

nccl::UniqueId unique_id(const NcclApi& api) {
  nccl::UniqueId id;
  if (const int status = api.unique_id(&id)) throw nccl_error(api, status, "ncclGetUniqueId", "this process");
  return id;
}

Communicator::Communicator(const NcclApi& api, const CudaApi& cuda, std::vector<Device> devices, std::chrono::milliseconds limit)
    : Communicator(api, cuda, unique_id(api), int(devices.size()), 0, devices, limit) {}

Communicator::Communicator(const NcclApi& api, const CudaApi& cuda, const nccl::UniqueId& id, int ranks, int first,
                           std::vector<Device> devices, std::chrono::milliseconds limit)
    : api_(api), cuda_(cuda), ranks_(ranks), limit_(limit), exceptions_(std::uncaught_exceptions()) {
  for (const Device device : devices) own_.push_back({.number = first + int(own_.size()), .device = device});
  const bool gpus = std::all_of(devices.begin(), devices.end(), [](Device d) { return d.kind == DeviceKind::gpu; });
  if (devices.empty() || !gpus || std::set(devices.begin(), devices.end()).size() != devices.size() || first < 0 ||
      first > ranks - int(devices.size()))
    throw Error(ErrorKind::invalid_argument, {.what = cat("a communicator of ", ranks, " ranks cannot have these in one process"),
                                              .where = own_text(),
                                              .why = "each rank has a GPU of its own, and ranks are counted from 0",
                                              .fix = "name one GPU for each rank of this process, and the first of these ranks"});
  guarded([&] { connect(id); });
}

Communicator::~Communicator() {
  if (std::uncaught_exceptions() > exceptions_) {  // the other ranks may wait for ever
    abort();
    return;
  }
  try {
    if (!ended_) finalize();
  } catch (...) {  // it is aborted instead
  }
}

// Runs `work`; if it throws, the communicator is aborted.
void Communicator::guarded(const std::function<void()>& work) {
  std::lock_guard lock(mutex_);
  if (ended_)
    throw Error(ErrorKind::state,
                {.what = why_ended_.empty() ? "the communicator was finalized" : "the communicator was aborted",
                 .where = own_text(),
                 .why = why_ended_.empty() ? "nothing can be done with it after that" : cat("of what failed before: ", why_ended_),
                 .fix = "make a new communicator on all ranks"});
  try {
    work();
  } catch (const Error& e) {
    abort();
    why_ended_ = e.parts.what;
    throw;
  } catch (...) {
    abort();
    why_ended_ = "the call was interrupted";
    throw;
  }
}

void Communicator::connect(const nccl::UniqueId& id) {
  in_group("ncclCommInitRankConfig", "", [&](Rank& rank) {
    const CurrentDevice current(cuda_, rank.device);
    nccl::Config config;
    return api_.init_rank(&rank.handle, ranks_, id, rank.number, &config);
  });
}

// One call per rank of this process, in a group, since the calls may wait for each other. Returns when none is in progress.
void Communicator::in_group(const char* call, const std::string& text, const std::function<int(Rank&)>& each) {
  Group group(api_, own_.size() > 1);
  if (group.start_status() != nccl::kSuccess) throw error_of(group.start_status(), "ncclGroupStart", text, nullptr);
  for (Rank& rank : own_)
    if (const int status = each(rank); !is_started(status)) throw error_of(status, call, text, &rank);
  if (const int status = group.end(); !is_started(status)) throw error_of(status, "ncclGroupEnd", text, nullptr);
  wait(call, text, [&](Rank& rank) { return is_ready(rank, call, text); });
}

bool Communicator::is_ready(Rank& rank, const char* call, const std::string& text) {
  int state = nccl::kSuccess;
  if (const int status = api_.async_error(rank.handle, &state)) throw error_of(status, "ncclCommGetAsyncError", text, &rank);
  if (!is_started(state)) throw error_of(state, call, text, &rank);
  return state == nccl::kSuccess;
}

// Waits until all ranks of this process are done, or the time limit.
void Communicator::wait(const char* call, const std::string& text, const std::function<bool(Rank&)>& done) {
  const Clock::time_point until = Clock::now() + limit_;
  InterruptPoll interrupted;
  for (std::chrono::microseconds pause{10};; pause = std::min(2 * pause, std::chrono::microseconds(1000))) {
    std::vector<const Rank*> late;
    for (Rank& rank : own_)
      if (!done(rank)) late.push_back(&rank);
    if (late.empty()) return;
    if (Clock::now() >= until) throw time_is_over(call, text, late);
    interrupted();
    std::this_thread::sleep_for(pause);
  }
}

void Communicator::collective(const char* call, std::span<const RankOperands> own, const std::string& detail, const Call& each) {
  guarded([&] {
    if (own[0].in.size() == 0 && own[0].out.size() == 0) return;
    in_group(call, detail, [&](Rank& rank) { return each(rank, &own[size_t(&rank - own_.data())]); });
  });
}

void Communicator::check_operands(std::span<const RankOperands> own, int64_t in_pieces, int64_t out_pieces, bool reduces,
                                  const std::string& detail) const {
  const auto refuse = [&](ErrorKind kind, const std::string& why, const std::string& fix) {
    throw Error(kind, {.what = cat("a collective of ", ranks_, " ranks cannot take these operands"),
                       .where = own.empty() ? own_text() : cat(own_text(), ", ", detail),
                       .why = why,
                       .fix = fix});
  };
  if (own.size() != own_.size())
    refuse(ErrorKind::invalid_argument, cat("there are ", own.size(), " for ", own_.size(), " ranks of this process"),
           "pass one for each rank, in order");
  const View& first = own[0].in;
  if (reduces && !type_of(first.dtype))
    refuse(ErrorKind::type, cat("NCCL has no ", first.dtype, " to compute with"),
           cat("cast to ", first.dtype == DType::boolean ? "u8" : "i32", " first"));
  for (size_t i = 0; i < own.size(); ++i) {
    const auto& [stream, in, out] = own[i];
    if (stream.device != own_[i].device)
      refuse(ErrorKind::invalid_argument, cat("rank ", own_[i].number, " is ", own_[i].device, ", and its stream ", stream.device, "'s"),
             "pass a stream of the rank's device");
    if (in.dtype != first.dtype || out.dtype != first.dtype || in.size() != first.size())
      refuse(ErrorKind::type, cat("rank ", own_[i].number, " brings ", text_of(in), " for ", text_of(out)),
             "use one dtype and size on all ranks");
    if (in.size() * in_pieces != out.size() * out_pieces)
      refuse(ErrorKind::invalid_argument, cat(text_of(in), " does not give ", text_of(out)), "use the sizes that the collective says");
    if (!is_contiguous(in) || !is_contiguous(out))
      refuse(ErrorKind::invalid_argument, cat("an operand of rank ", own_[i].number, " is not contiguous"), "copy it first");
  }
}

void Communicator::all_reduce(std::span<const RankOperands> own, ReduceOp op) {
  const std::string detail = own.empty() ? "" : cat(text_of(own[0].in), " ", name(op));
  check_operands(own, 1, 1, true, detail);
  collective("ncclAllReduce", own, detail, [&](Rank& rank, const RankOperands* o) {
    return api_.all_reduce(o->in.data, o->out.data, size_t(o->in.size()), type_of_reduced(o->in), number_of(op), rank.handle,
                           o->stream.native);
  });
}

void Communicator::broadcast(std::span<const RankOperands> own, int root) {
  const std::string detail = own.empty() ? "" : cat(text_of(own[0].in), " from rank ", root);
  check_operands(own, 1, 1, false, detail);
  if (root < 0 || root >= ranks_)
    throw Error(ErrorKind::invalid_argument, {.what = cat("a broadcast cannot come from rank ", root),
                                              .where = own_text(),
                                              .why = cat("there are ", ranks_, " ranks, counted from 0"),
                                              .fix = "name one of these"});
  collective("ncclBroadcast", own, detail, [&](Rank& rank, const RankOperands* o) {
    const Moved moved(o->in);
    return api_.broadcast(o->in.data, o->out.data, moved.count, moved.type, root, rank.handle, o->stream.native);
  });
}

void Communicator::reduce_scatter(std::span<const RankOperands> own, ReduceOp op) {
  const std::string detail = own.empty() ? "" : cat(text_of(own[0].in), " ", name(op));
  check_operands(own, 1, ranks_, true, detail);
  collective("ncclReduceScatter", own, detail, [&](Rank& rank, const RankOperands* o) {
    return api_.reduce_scatter(o->in.data, o->out.data, size_t(o->out.size()), type_of_reduced(o->in), number_of(op), rank.handle,
                               o->stream.native);
  });
}

void Communicator::all_gather(std::span<const RankOperands> own) {
  const std::string detail = own.empty() ? "" : text_of(own[0].in);
  check_operands(own, ranks_, 1, false, detail);
  collective("ncclAllGather", own, detail, [&](Rank& rank, const RankOperands* o) {
    const Moved moved(o->in);
    return api_.all_gather(o->in.data, o->out.data, moved.count, moved.type, rank.handle, o->stream.native);
  });
}

void Communicator::synchronize(std::span<const Stream> streams) {
  if (streams.size() != own_.size())
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("there are ", streams.size(), " streams for ", own_.size(), " ranks of this process"),
                 .where = own_text(),
                 .why = "each rank has one",
                 .fix = "pass one for each rank, in order"});
  guarded([&] {
    wait("what was started on the ranks' streams", "", [&](Rank& rank) {
      const Stream& stream = streams[size_t(&rank - own_.data())];
      if (!is_ready(rank, "a collective", "")) return false;
      const cudaError_t status = cuda_.stream_query(native(stream));
      if (status == cudaErrorNotReady)
        cuda_.take_last_error();  // not an error, but stored like one
      else if (status != cudaSuccess)
        throw cuda::error_of(cuda_, status, cat("finish the collectives of rank ", rank.number), rank.device);
      return status == cudaSuccess;
    });
  });
  for (Stream stream : streams) stream.backend->synchronize(stream);  // throws errors found by kernels
}

void Communicator::finalize() {
  guarded([&] {
    in_group("ncclCommFinalize", "", [&](Rank& rank) { return api_.finalize(rank.handle); });
    destroy();
    ended_ = true;
  });
}

// Frees all even if one fails: each handle is then invalid.
void Communicator::destroy() {
  Group group(api_, own_.size() > 1);
  if (group.start_status() != nccl::kSuccess) throw error_of(group.start_status(), "ncclGroupStart", "", nullptr);
  int failed = nccl::kSuccess;
  const Rank* whose = nullptr;
  for (Rank& rank : own_)
    if (const int status = api_.destroy(std::exchange(rank.handle, nullptr)); !is_started(status) && !whose) failed = status, whose = &rank;
  const int ended = group.end();
  if (whose) throw error_of(failed, "ncclCommDestroy", "", whose);
  if (!is_started(ended)) throw error_of(ended, "ncclGroupEnd", "", nullptr);
}

// Nothing more can be done if this fails.
void Communicator::abort() noexcept {
  ended_ = true;
  const auto is_there = [](const Rank& rank) { return rank.handle != nullptr; };
  const Group group(api_, std::count_if(own_.begin(), own_.end(), is_there) > 1);
  for (Rank& rank : own_)
    if (rank.handle) api_.abort(std::exchange(rank.handle, nullptr));
}

std::string Communicator::ranks_text(const std::vector<const Rank*>& some) const {
  std::string numbers, devices;
  for (const Rank* rank : some) {
    numbers += cat(numbers.empty() ? "" : ", ", rank->number);
    devices += cat(devices.empty() ? "" : ", ", rank->device);
  }
  return cat(some.size() == 1 ? "rank " : "ranks ", numbers, " of ", ranks_, " (", devices, ")");
}

std::string Communicator::own_text() const {
  std::vector<const Rank*> all;
  for (const Rank& rank : own_) all.push_back(&rank);
  return ranks_text(all);
}

Error Communicator::error_of(int status, const char* call, const std::string& text, const Rank* rank) const {
  return nccl_error(api_, status, call, cat(rank ? ranks_text({rank}) : own_text(), text.empty() ? "" : ", ", text));
}

Error Communicator::time_is_over(const char* call, const std::string& text, const std::vector<const Rank*>& late) const {
  const char* instruction = launching_instruction();
  const int others = ranks_ - int(own_.size());
  return Error(
      ErrorKind::collective,
      {.what = cat("cuda: ", call, *instruction ? " in " : "", instruction, " did not end within ", double(limit_.count()) / 1000, " s"),
       .where = cat(ranks_text(late), text.empty() ? "" : ", ", text),
       .why = cat(late.size() == 1 ? "this rank waits" : "these ranks wait", " for another",
                  others ? cat("; ", others, others == 1 ? " rank is" : " ranks are", " other processes'") : ""),
       .fix = "see what the other ranks printed: one has ended, or made another call or one of another size. Then make a new communicator "
              "on all ranks"});
}

}  // namespace lamina::cuda
