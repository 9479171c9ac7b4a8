#include "runtime/dist/mpi_communicator.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "runtime/core/settings.h"
#include "runtime/dist/processes.h"
#include "runtime/dist/watch.h"

namespace lamina::distributed {
namespace {

std::string why_of(const LaminaMpi& mpi) {
  char text[512] = "";
  mpi.why(text, sizeof text);
  return text;
}

// Whether the host's memory for processes has this many bytes left: that of a container may be small.
bool has_shared_memory(size_t bytes) {
  struct statvfs place;
  return statvfs("/dev/shm", &place) == 0 && uint64_t(place.f_bavail) * place.f_frsize >= bytes;
}

class OverMpi final : public MpiCommunicator {
 public:
  OverMpi(const LaminaMpi& mpi, int rank, int size) : MpiCommunicator(rank, size, Patience::of_settings()), mpi_(mpi) {}

  const char* name() const override { return "mpi"; }

  // Collective.
  void watch() {
    std::vector<RankStatus> known(static_cast<size_t>(size()));
    const RankStatus own = this_process(rank());
    all_gather(&own, known.data(), sizeof own);
    const auto neighbours = std::count_if(known.begin(), known.end(), [&](const RankStatus& s) { return s.place == own.place; });
    spins_ = neighbours <= std::thread::hardware_concurrency();
    watch_ = std::make_unique<Watch>(mpi_, *this, std::move(known), config::number(Setting::heartbeat_timeout).value_or(5));
  }

  void exchange(std::span<const Transfer> transfers) override {
    std::vector<LaminaMpiTransfer> list;
    list.reserve(transfers.size());
    for (const Transfer& t : transfers) list.push_back({t.rank, t.sends, t.data, t.bytes});
    finish_request([&](void** request) { return mpi_.exchange(list.data(), list.size(), request); });
  }
  void all_gather(const void* own, void* all, size_t bytes) override {
    if (bytes > kMostMpiBytes) return Communicator::all_gather(own, all, bytes);
    finish_request([&](void** request) { return mpi_.all_gather(own, all, bytes, request); });
  }
  void broadcast(void* data, size_t bytes, int root) override {
    for (size_t at = 0; at < bytes; at += kMostMpiBytes)
      finish_request([&](void** request) {
        return mpi_.broadcast(static_cast<char*>(data) + at, std::min(bytes - at, kMostMpiBytes), root, request);
      });
  }
  void barrier() override {
    finish_request([&](void** request) { return mpi_.barrier(request); });
  }

  std::vector<char*> share(size_t bytes) override {
    std::vector<void*> addresses(static_cast<size_t>(size()));
    const auto on_all = [&](bool here) {
      std::vector<char> all(addresses.size());
      const char own = here;
      all_gather(&own, all.data(), 1);
      return std::find(all.begin(), all.end(), 0) == all.end();
    };
    if (!on_all(has_shared_memory(2 * bytes * addresses.size()))) return {};  // Open MPI's other ranks would wait for ever
    int shared = 0;
    if (mpi_.share(bytes, addresses.data(), &shared)) end_job(why_failed(), -1);
    std::vector<char*> out;
    if (on_all(shared))
      for (void* address : addresses) out.push_back(static_cast<char*>(address));
    return out;
  }

  void sum(DType dtype, void* data, int64_t count) override {
    const int64_t most = int64_t(kMostMpiBytes / size_of(dtype));
    for (int64_t at = 0; at < count; at += most)
      finish_request([&](void** request) {
        return mpi_.sum(static_cast<char*>(data) + size_t(at) * size_of(dtype), size_t(std::min(count - at, most)), dtype == DType::f64,
                        request);
      });
  }

  void abort(const Error& why) override { fail(why.what()); }
  void fail(const std::string& why) override {
    const RankStatus own = this_process(rank());
    end_job(cat("rank ", rank(), " (host ", own.host, ", pid ", own.pid, ") has failed: ", why), -1);
  }
  void finish() override {
    if (watch_) watch_->finish();
    mpi_.finish();
  }
  std::vector<RankStatus> ranks() const override {
    if (watch_) return watch_->ranks();
    return {};
  }

 private:
  [[noreturn]] void end_job(const std::string& why, int guilty) {
    if (watch_) watch_->end_job(why, guilty);
    say("lamina: " + why);
    mpi_.abort(1);
    for (;;) mpi_.leave(1);
  }
  template <class Start>
  void finish_request(Start start) {
    void* request = nullptr;
    int error = start(&request);
    if (!error)
      wait([&] {
        int ended = 0;
        error = mpi_.test(request, &ended);
        return ended || error;
      });
    if (error) end_job(why_failed(), -1);
  }
  std::string why_failed() { return cat("MPI has failed in collective ", record().current().sequence, ": ", why_of(mpi_)); }
  // MPI may still write to the buffers of the waiting call, so nobody can leave it.
  void stalled(const Error& error) override { end_job(error.what(), -1); }

  bool may_spin() const override { return spins_; }

  const LaminaMpi& mpi_;
  bool spins_ = false;
  std::unique_ptr<Watch> watch_;
};

// Ends the process if MPI_Init does not return because another rank never reaches it: at once if that rank is a stopped process of this
// host, which mpirun would not notice, else when the patience is over.
class StartGuard {
 public:
  StartGuard(const LaminaMpi& mpi, const Launch& launch) : mpi_(mpi), launch_(launch) {
    thread_ = std::thread([this] { run(); });
  }
  ~StartGuard() {
    started_ = true;
    thread_.join();
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  static constexpr Seconds kLook{0.25}, kSpeaker{1};

  void run() {
    const double limit = config::number(Setting::collective_timeout).value_or(300);
    const Seconds lost(config::number(Setting::heartbeat_timeout).value_or(5));
    const auto start = Clock::now();
    std::map<int, Clock::time_point> stopped_since;
    for (auto look = start + kLook; !started_; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
      if (Clock::now() - start > Seconds(limit))
        leave(cat("has waited ", int64_t(limit), " s for MPI to start: another rank has not reached its start"));
      if (Clock::now() < look) continue;
      const std::map<int, int64_t> ranks = ranks_beside();
      int speaker = launch_.rank;
      for (const auto& [rank, pid] : ranks) {
        if (rank != launch_.rank && process_of(pid).stopped)
          stopped_since.try_emplace(rank, Clock::now());
        else
          stopped_since.erase(rank), speaker = std::min(speaker, rank);
      }
      for (const auto& [rank, since] : stopped_since) {
        if (!ranks.contains(rank) || Clock::now() - since < lost || started_) continue;
        if (speaker != launch_.rank) std::this_thread::sleep_for(kSpeaker);  // the report of the lowest rank ends this process
        leave(cat("waits for MPI to start, but rank ", rank, " (pid ", ranks.at(rank), ") is a stopped process"));
      }
      look = Clock::now() + kLook;
    }
  }
  void leave(const std::string& why) {
    const RankStatus own = this_process(launch_.rank);
    say(cat("lamina: the job ends. Rank ", launch_.rank, " (host ", own.host, ", pid ", own.pid, ") ", why));
    mpi_.leave(1);
  }

  const LaminaMpi& mpi_;
  const Launch& launch_;
  std::atomic<bool> started_{false};
  std::thread thread_;
};

[[noreturn]] void refuse(const std::string& what, const std::string& why, const std::string& fix) {
  throw Error(ErrorKind::device, {.what = "MPI: " + what, .where = "", .why = why, .fix = fix});
}

}  // namespace

std::unique_ptr<MpiCommunicator> start_mpi(const LaminaMpi& mpi, const Launch& launch) {
  const StartGuard guard(mpi, launch);
  int rank = 0, size = 1;
  if (mpi.start(&rank, &size))
    refuse("it cannot be used", why_of(mpi),
           "let Lamina start MPI, or initialise it with MPI_THREAD_MULTIPLE (mpi4py: mpi4py.rc.thread_level = 'multiple')");
  if (rank != launch.rank || (launch.size_known && size != launch.size))
    refuse(cat("it says rank ", rank, " of ", size, ", but the launcher's variables say rank ", launch.rank, " of ",
               launch.size_known ? cat(launch.size) : "unknown"),
           cat("liblamina_mpi.so was built with ", mpi.built_with, ", and the launcher is of another MPI"),
           cat("start the program by the mpirun of ", mpi.built_with, ", or build Lamina with the launcher's MPI"));
  auto out = std::make_unique<OverMpi>(mpi, rank, size);
  if (size > 1) out->watch();
  return out;
}

}  // namespace lamina::distributed
