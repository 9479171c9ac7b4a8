// Communicator: moves bytes between the ranks of a job, on the host. Each backend is a subclass. collectives.h has the collectives that
// programs call: they compare what the ranks call before data moves.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/error.h"
#include "runtime/device/peers.h"
#include "runtime/dist/flight_record.h"

namespace lamina::distributed {

using lamina::from_rank;
using lamina::Patience;
using lamina::to_rank;
using lamina::Transfer;

// Memory that ranks of one host share. Collectives use its halves by turns: a rank writes a half again behind the barrier of the turn
// between, when all ranks have read it.
struct SharedMemory {
  std::vector<char*> of_ranks;  // empty: they reach each other by messages alone
  size_t half = 0;              // bytes
  int turn = 0;

  char* of(int rank) const { return of_ranks[size_t(rank)] + size_t(turn) * half; }
};

class LAMINA_API Communicator {
 public:
  Communicator(int rank, int size, Patience patience);
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  int rank() const { return rank_; }
  int size() const { return size_; }
  const Patience& patience() const { return patience_; }
  virtual const char* name() const = 0;  // "threads"

  // Starts all transfers, then waits for all: no order of them can deadlock.
  virtual void exchange(std::span<const Transfer> transfers) = 0;
  // By default these four are made of exchanges. The same number of bytes of each rank, in the order of ranks.
  virtual void all_gather(const void* own, void* all, size_t bytes);
  virtual void broadcast(void* data, size_t bytes, int root);
  virtual void barrier();
  // Of f32 or f64, in place, in any order.
  virtual void sum(DType dtype, void* data, int64_t count);

  // Memory of this many bytes of each rank, by rank, which all ranks reach while this object lives; what a rank wrote before a barrier, all
  // read behind it. Empty where they do not. Collective.
  virtual std::vector<char*> share(size_t) { return {}; }
  SharedMemory& shared();  // made at the first call, which is collective

  // This rank's device, joined with those of the other ranks at the first call, which is collective.
  virtual Peers& joined(Device device);
  std::optional<bool>& reaches(Device device) { return reaches_[device]; }  // what reach_memory() has found
  void leave_devices();                                                     // this rank calls no more collectives on them

  // Ends the job on all ranks: their calls throw, or their processes end.
  virtual void abort(const Error& why) = 0;
  // Why the job has ended, where that leaves this process alive.
  virtual std::optional<Error> why_ended() const { return std::nullopt; }
  // What this rank knows of every rank, itself included.
  virtual std::vector<RankStatus> ranks() const = 0;
  // Which ranks a collective waits for, by what is known of them.
  std::string missing_text() const;

  Mutex& calls() { return calls_; }  // held during a collective: threads of a rank take turns
  int64_t graph_call() const;  // the number of the call of a graph with collectives that runs or, between them, comes next (GraphCall)
  std::string current_text() const;  // the collective of this moment: "collective 3, all_reduce of f32[100] 'w'"
  FlightRecord& record() { return record_; }
  const FlightRecord& record() const { return record_; }

 protected:
  // Waits until done(); says on stderr which ranks are missing, and calls stalled() when the patience is over.
  void wait(const std::function<bool()>& done);
  // The error of that moment; throws it where waiting buffers can be left.
  virtual void stalled(const Error& error) = 0;
  virtual bool may_wait_longer() const { return record_.current().op == Op::end; }  // ranks may end at different times
  virtual bool may_spin() const { return false; }                                   // whether each rank of this host has a core

 private:
  friend class GraphCall;
  friend class CheckedCall;
  const int rank_, size_;
  const Patience patience_;
  std::atomic<int64_t> graphs_begun_{0}, graphs_running_{0}, failed_graph_{0};  // failed: the last call of which all ranks know
  FlightRecord record_;
  Mutex calls_;
  std::optional<SharedMemory> shared_;
  Mutex devices_mutex_;
  std::map<Device, std::unique_ptr<Peers>> devices_;
  std::map<Device, std::optional<bool>> reaches_;
};

// Ends the job because of a failure that no call of this rank reports: writes the flight record first. Throws nothing.
LAMINA_API void fail_together(Communicator& c, const Error& why) noexcept;

// Text for people, written at once to stderr without any lock.
LAMINA_API void say(const std::string& text) noexcept;

}  // namespace lamina::distributed
