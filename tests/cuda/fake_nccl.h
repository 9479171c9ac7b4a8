// An NcclApi controlled by a test, whose ranks really meet: as threads, on fake GPUs. Statuses can be planted in single calls.
#pragma once
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/core/error.h"
#include "runtime/cuda/nccl.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/cuda/fake_exchange.h"
#include "tests/cuda/fake_library.h"
#include "tests/cuda/fake_windows.h"

namespace lamina::cuda {

// What a thread has called within its group.
struct FakeGroup {
  void* communicator = nullptr;
  void* stream = nullptr;
  std::vector<FakeExchange::Part> parts;
};

struct FakeNccl : FakeLibrary {
  using Part = FakeExchange::Part;
  struct Comm {
    std::string id;
    int rank = 0, ranks = 0, device = 0;
    int state = 0;  // returned by ncclCommGetAsyncError
    int polls = 0;  // how often it first returns "in progress"
    bool finalized = false;
    int windows = 0;
    std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
  };
  // The communicators of one id.
  struct Clique {
    std::map<int, void*> ranks;
    std::set<int> finalizing;
    FakeExchange exchange;
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
  FakeWindows windows;
  bool tells_of_aborts = false;  // other ranks then see a remote error; otherwise they wait
  int64_t ids = 0;
  std::string last_error;
  std::map<void*, Comm> comms;  // live ones
  std::map<std::string, Clique> cliques;
  static inline thread_local int depth = 0;  // of groups
  static inline thread_local FakeGroup grouped;

  static FakeNccl& now() {
    static auto* fake = new FakeNccl;
    return *fake;
  }
  void reset() {
    faults.clear(), counts.clear(), calls.clear(), complaints.clear(), comms.clear(), cliques.clear(), last_error.clear();
    created = destroyed = aborted = 0;
    windows.reset();
    tells_of_aborts = false;
    depth = 0;
    grouped = FakeGroup();
  }
  size_t alive() const { return comms.size() + windows.memory.size(); }
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
      clique.ranks.erase(comm->rank);
      if (f.tells_of_aborts)
        for (const auto& [rank, handle] : clique.ranks) f.comms[handle].state = nccl::kRemoteError;
      const auto cuda = FakeCuda::lock();
      *comm->aborted = true;
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
    const FakeGroup all = std::exchange(grouped, FakeGroup());
    if ((status == 0 || status == nccl::kInProgress) && all.communicator) f.begin(all.communicator, all.parts, all.stream);
    return status;
  }
  // One rank's call: its pieces to and from the others.
  using Parts = std::function<std::vector<Part>(const Comm&)>;
  static int exchange(const char* name, int type, void* communicator, void* stream, const Parts& parts) {
    FakeNccl& f = now();
    std::lock_guard lock(f.mutex);
    const int status = f.call(name);
    Comm* comm = f.find(communicator, name);
    if (!comm || (status && status != nccl::kInProgress)) return status;
    f.expect(comm->state != nccl::kInProgress && comm->polls == 0 && !comm->finalized, cat(name, " of what is not ready"));
    f.expect(comm->device == FakeCuda::current, cat(name, " on another device"));
    f.expect(type == nccl::kUint8 || std::string_view(name) == "ncclAllReduce", cat(name, " of no bytes"));
    const std::vector<Part> all = parts(*comm);
    for (const Part& p : all) f.expect(p.other >= 0 && p.other < comm->ranks && p.other != comm->rank, cat(name, " with rank ", p.other));
    if (depth == 0) {
      f.begin(communicator, all, stream);
      return status;
    }
    f.expect(!grouped.communicator || (grouped.communicator == communicator && grouped.stream == stream), "a group of several ranks");
    grouped.communicator = communicator, grouped.stream = stream;
    grouped.parts.insert(grouped.parts.end(), all.begin(), all.end());
    return status;
  }
  // In the order of ranks, once all parts have arrived.
  template <class T>
  static int sum(T* out, size_t count, int type, void* communicator, void* stream) {
    auto received = std::make_shared<std::map<int, std::vector<T>>>();
    int self = -1;
    const int status = exchange("ncclAllReduce", type, communicator, stream, [&](const Comm& comm) {
      std::vector<Part> parts;
      for (int r = 0; r < comm.ranks; ++r) {
        std::vector<T>& own = (*received)[r] = std::vector<T>(count);
        if (r == comm.rank) continue;
        for (const bool sends : {true, false})
          parts.push_back({r, sends, sends ? out : own.data(), count * sizeof(T), cat("all_reduce ", count)});
      }
      self = comm.rank;
      return parts;
    });
    if (self >= 0 && (!status || status == nccl::kInProgress))
      FakeCuda::lock()->work.add(stream, {.arguments = {}, .other = [=] {
                                            (*received)[self].assign(out, out + count);
                                            for (const auto& [rank, numbers] : *received)
                                              for (size_t i = 0; i < count; ++i) out[i] = rank ? out[i] + numbers[i] : numbers[i];
                                          }});
    return status;
  }
  void begin(void* communicator, const std::vector<Part>& parts, void* stream) {
    Comm& comm = comms[communicator];
    comm.polls = 1;
    cliques[comm.id].exchange.start(comm.rank, parts, stream, comm.aborted);
  }
};

}  // namespace lamina::cuda
