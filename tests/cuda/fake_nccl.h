// An NcclApi controlled by a test, whose ranks really meet: a collective starts when all ranks have called it, and is in progress until
// then. Statuses can be planted in single calls.
#pragma once
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/core/error.h"
#include "runtime/cuda/nccl.h"
#include "tests/cuda/fake_collective.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/cuda/fake_library.h"

namespace lamina::cuda {

struct FakeNccl : FakeLibrary {
  using Call = FakeCollective;
  using Kind = Call::Kind;
  struct Comm {
    std::string id;
    int rank = 0, ranks = 0, device = 0;
    int state = 0;  // returned by ncclCommGetAsyncError
    int polls = 0;  // how often it first returns "in progress"
    bool finalized = false;
  };
  // The communicators of one id, and the calls that not all of their ranks have made yet.
  struct Clique {
    std::map<int, void*> ranks;
    std::map<int, Call> called;
    std::set<int> finalizing;
  };
  struct Fault {
    std::string call;
    int nth = 1;     // from 1; 0: every call
    int status = 0;  // of the function; for the name "state", of the communicator
  };
  std::vector<Fault> faults;
  std::map<std::string, int> counts;
  int created = 0, destroyed = 0, aborted = 0;
  int version = 22809;
  int64_t ids = 0;
  std::string last_error;
  std::map<void*, Comm> comms;  // live ones
  std::map<std::string, Clique> cliques;
  static inline thread_local int depth = 0;  // of groups
  static inline thread_local std::vector<Call> grouped;

  static FakeNccl& now() {
    static auto* fake = new FakeNccl;
    return *fake;
  }
  void reset() {
    faults.clear(), counts.clear(), calls.clear(), complaints.clear(), comms.clear(), cliques.clear(), last_error.clear();
    created = destroyed = aborted = 0;
    depth = 0;
    grouped.clear();
  }
  size_t alive() const { return comms.size(); }
  int call(const char* name) {
    calls.push_back(name);
    return planted(name, 0);
  }
  int planted(const std::string& name, int otherwise) {
    const int nth = ++counts[name];
    for (const Fault& fault : faults)
      if (fault.call == name && (fault.nth == nth || fault.nth == 0)) return fault.status;
    return otherwise;
  }
  Comm* find(void* communicator, const char* name) {
    const auto found = comms.find(communicator);
    expect(found != comms.end(), cat(name, " of a communicator that is not there"));
    return found == comms.end() ? nullptr : &found->second;
  }

  static int unique_id(nccl::UniqueId* id) {
    FakeNccl& f = now();
    std::lock_guard lock(f.mutex);
    if (const int status = f.call("ncclGetUniqueId")) return status;
    std::strcpy(id->bytes, cat("id ", ++f.ids).c_str());
    return 0;
  }
  static int init_rank(void** out, int ranks, nccl::UniqueId id, int rank, nccl::Config* config) {
    FakeNccl& f = now();
    std::lock_guard lock(f.mutex);
    const int status = f.call("ncclCommInitRankConfig");
    f.expect(config->size == sizeof(nccl::Config) && config->magic == 0xcafebeef && config->version == 21400, "the configuration is none");
    f.expect(config->blocking == 0, "the communicator would block");
    if (status && status != nccl::kInProgress) return status;
    Clique& clique = f.cliques[id.bytes];
    f.expect(rank >= 0 && rank < ranks && !clique.ranks.count(rank), cat("rank ", rank, " of ", ranks));
    for (const auto& [other, handle] : clique.ranks)
      f.expect(f.comms[handle].ranks == ranks && f.comms[handle].device != FakeCuda::current, "two ranks on one device");
    *out = reinterpret_cast<void*>(0x1000 + 16 * intptr_t(++f.created));
    f.comms[*out] = {.id = id.bytes, .rank = rank, .ranks = ranks, .device = FakeCuda::current, .state = nccl::kInProgress, .polls = 1};
    clique.ranks[rank] = *out;
    if (int(clique.ranks.size()) == ranks)
      for (const auto& [other, handle] : clique.ranks) f.comms[handle].state = nccl::kSuccess;
    return status;
  }
  static int async_error(void* communicator, int* state) {
    FakeNccl& f = now();
    std::lock_guard lock(f.mutex);
    if (const int status = f.call("ncclCommGetAsyncError")) return status;
    Comm* comm = f.find(communicator, "ncclCommGetAsyncError");
    if (!comm) return nccl::kInvalidArgument;
    *state = f.planted("state", comm->polls > 0 ? comm->polls--, nccl::kInProgress : comm->state);
    return 0;
  }
  static int finalize(void* communicator) {
    FakeNccl& f = now();
    std::lock_guard lock(f.mutex);
    const int status = f.call("ncclCommFinalize");
    Comm* comm = f.find(communicator, "ncclCommFinalize");
    if (!comm || (status && status != nccl::kInProgress)) return status;
    f.expect(comm->state == nccl::kSuccess && comm->polls == 0 && !comm->finalized, "ncclCommFinalize of what is not ready");
    comm->finalized = true;
    comm->state = nccl::kInProgress;
    Clique& clique = f.cliques[comm->id];
    clique.finalizing.insert(comm->rank);
    if (int(clique.finalizing.size()) < comm->ranks) return status;
    FakeCuda::lock()->work.finish_all();
    for (const auto& [rank, handle] : clique.ranks) f.comms[handle].state = nccl::kSuccess;
    return status;
  }
  // It is gone, whatever the status.
  static int destroy(void* communicator) {
    FakeNccl& f = now();
    std::lock_guard lock(f.mutex);
    const int status = f.call("ncclCommDestroy");
    if (Comm* comm = f.find(communicator, "ncclCommDestroy"))
      f.expect(comm->finalized && comm->state == nccl::kSuccess, "ncclCommDestroy of what is not finalized");
    f.destroyed += int(f.comms.erase(communicator));
    return status;
  }
  static int abort(void* communicator) {
    FakeNccl& f = now();
    std::lock_guard lock(f.mutex);
    const int status = f.call("ncclCommAbort");
    if (Comm* comm = f.find(communicator, "ncclCommAbort")) {
      Clique& clique = f.cliques[comm->id];
      clique.ranks.erase(comm->rank);  // the others wait for ever
      clique.called.erase(comm->rank);
      FakeCuda::lock()->work.finish_all();
    }
    f.aborted += int(f.comms.erase(communicator));
    return status;
  }

  static int group_start() {
    FakeNccl& f = now();
    std::lock_guard lock(f.mutex);
    if (const int status = f.call("ncclGroupStart")) return status;
    ++depth;
    return 0;
  }
  // It ends, whatever the status.
  static int group_end() {
    FakeNccl& f = now();
    std::lock_guard lock(f.mutex);
    const int status = f.call("ncclGroupEnd");
    f.expect(depth > 0, "ncclGroupEnd without ncclGroupStart");
    if (--depth > 0) return status;
    const std::vector<Call> all = std::exchange(grouped, {});
    if (status == 0 || status == nccl::kInProgress)
      for (const Call& c : all) f.arrive(c);
    return status;
  }
  template <Kind kind>
  static int reduction(const void* in, void* out, size_t count, int type, int op, void* communicator, void* stream) {
    return collective({kind, in, out, count, type, op, 0, communicator, stream});
  }
  static int collective(const Call& c) {
    static constexpr const char* names[] = {"ncclAllReduce", "ncclBroadcast", "ncclReduceScatter", "ncclAllGather"};
    const char* name = names[size_t(c.kind)];
    FakeNccl& f = now();
    std::lock_guard lock(f.mutex);
    const int status = f.call(name);
    Comm* comm = f.find(c.communicator, name);
    if (!comm || (status && status != nccl::kInProgress)) return grouped.clear(), status;
    f.expect(comm->state == nccl::kSuccess && comm->polls == 0 && !comm->finalized, cat(name, " of what is not ready"));
    if (depth > 0)
      grouped.push_back(c);
    else
      f.arrive(c);
    return status;
  }

  // A rank has arrived; the last one starts the collective.
  void arrive(const Call& c) {
    Comm& comm = comms[c.communicator];
    Clique& clique = cliques[comm.id];
    clique.called[comm.rank] = c;
    comm.state = nccl::kInProgress;
    comm.polls = 1;
    for (const auto& [rank, other] : clique.called)
      if (!other.meets(c)) return;  // they wait for each other for ever
    if (int(clique.called.size()) < comm.ranks) return;
    std::vector<Call> all;
    for (const auto& [rank, call] : clique.called) all.push_back(call), comms[call.communicator].state = nccl::kSuccess;
    clique.called.clear();
    Call::start(std::move(all));
  }
};

inline const NcclApi& fake_nccl() {
  using F = FakeNccl;
  static const NcclApi api{
      .version = [](int* v) { return *v = F::now().version, F::now().version ? 0 : nccl::kInternalError; },
      .unique_id = F::unique_id,
      .init_rank = F::init_rank,
      .finalize = F::finalize,
      .destroy = F::destroy,
      .abort = F::abort,
      .async_error = F::async_error,
      .group_start = F::group_start,
      .group_end = F::group_end,
      .all_reduce = F::reduction<F::Kind::all_reduce>,
      .broadcast = [](const void* in, void* out, size_t count, int type, int root, void* c,
                      void* s) { return F::collective({F::Kind::broadcast, in, out, count, type, 0, root, c, s}); },
      .reduce_scatter = F::reduction<F::Kind::reduce_scatter>,
      .all_gather = [](const void* in, void* out, size_t count, int type, void* c,
                       void* s) { return F::collective({F::Kind::all_gather, in, out, count, type, 0, 0, c, s}); },
      .status_text =
          [](int status) { return status == nccl::kRemoteError ? "remote process exited or there was a network error" : "another error"; },
      .last_error = [](void*) { return F::now().last_error.c_str(); },
  };
  return api;
}

}  // namespace lamina::cuda
