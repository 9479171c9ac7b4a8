// Watch: the control thread of a rank in an MPI job. Ranks send heartbeats to rank 0, which sends everyone what it knows of all. A rank
// that is lost, has died, stalls or fails ends the job. The lowest other rank then asks all for their state, sends all one report, writes
// it to stderr and calls MPI_Abort; every rank writes its flight record with that report.
#pragma once
#include <poll.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/core/mutex.h"
#include "runtime/dist/communicator.h"
#include "runtime/dist/mpi_table.h"

namespace lamina::distributed {

class Watch {
 public:
  // `known`: the status of every rank, of this moment. `limit`: seconds without a heartbeat after which a rank is lost.
  Watch(const LaminaMpi& mpi, Communicator& own, std::vector<RankStatus> known, double limit);
  ~Watch();
  Watch(const Watch&) = delete;

  std::vector<RankStatus> ranks() const;
  // Ends the job because of this rank, or because of another one. Does not return.
  [[noreturn]] void end_job(const std::string& why, int guilty);
  // Every rank has ended its part: the ranks take leave of each other. When it returns no control message is on its way.
  void finish();

 private:
  struct Verdict {
    std::string why;
    int guilty = -1;  // -1: no rank
  };
  enum class Kind : int32_t { beat, table, verdict, answer, report, leave };  // leave: the last message of a rank
  struct Letter {
    Kind kind = Kind::beat;
    int from = 0, guilty = -1;
    std::string data;
  };

  void run();
  void turn();
  void rest();
  std::optional<Letter> receive();  // what beats say is noted, too
  void beat();
  void look();
  bool leave();  // whether every rank has
  bool was_stopped() const;
  void on_signal(int number);
  RankStatus own_status() const;
  std::string report(const std::string& why) const;
  bool send(int to, Kind kind, int guilty, const void* data, size_t bytes);
  void send_all(Kind kind, const Verdict& verdict, double seconds);
  void conclude(const Verdict& verdict);
  void leave_job(Verdict verdict);
  std::string collect(const Verdict& verdict);
  std::optional<std::string> ask_speaker(const Verdict& verdict, int speaker);

  const LaminaMpi& mpi_;
  Communicator& own_;
  const double limit_, interval_;
  mutable Mutex mutex_;
  std::vector<RankStatus> known_;  // age: as it came
  std::vector<double> heard_;      // when
  std::optional<Verdict> asked_;
  std::atomic<bool> stop_{false};
  double next_beat_ = 0, next_look_ = 0, last_turn_ = 0, awake_ = 0, leave_by_ = 0;
  std::vector<bool> told_, left_;  // per rank: whether it has been told that this one leaves, and whether it leaves
  std::vector<char> room_;
  std::vector<pollfd> processes_;  // the other ranks' of this host
  std::thread thread_;
};

}  // namespace lamina::distributed
