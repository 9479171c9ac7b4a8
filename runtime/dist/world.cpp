#include "runtime/dist/world.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>

#include "runtime/core/rank_of_thread.h"
#include "runtime/dist/collectives.h"
#include "runtime/dist/mpi_communicator.h"
#include "runtime/dist/mpi_library.h"
#include "runtime/dist/over_devices.h"
#include "runtime/dist/processes.h"

namespace lamina::distributed {
namespace {

class OneRank final : public Communicator {
 public:
  OneRank() : Communicator(0, 1, Patience::of_settings()) {}
  const char* name() const override { return "one rank"; }
  void exchange(std::span<const Transfer> transfers) override {
    if (!transfers.empty()) internal_error("one rank exchanges with others");
  }
  void abort(const Error& why) override { throw why; }
  std::vector<RankStatus> ranks() const override {
    RankStatus own = this_process(0);
    own.current = record().current(), own.last = record().last(), own.step = record().step();
    return {own};
  }

 private:
  void stalled(const Error& error) override { throw error; }
};

struct World {
  Mutex mutex;
  std::unique_ptr<Communicator> communicator;
  MpiCommunicator* mpi = nullptr;  // the same, if there are other ranks
  std::atomic<bool> started{false}, ended{false};
  pid_t process = 0;
};
World& state() {
  static auto* kept = new World;  // never destroyed: the job ends at the process's exit
  return *kept;
}

std::unique_ptr<Communicator> make(World& w) {
  const Launch& how = launch();
  if (how.nccl) return start_over_devices(how);
  if (!how.mpi) return std::make_unique<OneRank>();
  const MpiLibrary& library = mpi_library();
  if (!library.table) {
    if (how.size_known && how.size == 1) return std::make_unique<OneRank>();
    throw Error(ErrorKind::device,
                {.what = cat(how.launcher, " has started this process as rank ", how.rank,
                             how.size_known ? cat(" of ", how.size) : std::string(), ", but MPI cannot be used"),
                 .where = "",
                 .why = cat(library.why, "; without MPI each process would train by itself"),
                 .fix = "install MPI with its headers (./dev setup) and build Lamina again, or start the program without a launcher"});
  }
  auto made = start_mpi(*library.table, how);
  w.mpi = made.get();
  w.process = getpid();
  std::atexit(end_world);
  return made;
}

}  // namespace

const Launch& launch() {
  static const Launch* found = new Launch(launch_of(environment));
  return *found;
}

Communicator& world() {
  World& w = state();
  const std::lock_guard lock(w.mutex);
  if (!w.communicator) w.communicator = make(w);
  if (w.mpi && getpid() != w.process)
    throw Error(ErrorKind::state, {.what = "this process was forked from a rank of an MPI job",
                                   .where = "",
                                   .why = "MPI does not survive a fork",
                                   .fix = "use lm.distributed in the process that the launcher has started"});
  if (w.ended)
    throw Error(ErrorKind::state, {.what = "this rank has ended its part of the job", .where = "", .why = "the process ends", .fix = ""});
  w.started = true;
  return *w.communicator;
}

Communicator& current() { return rank_of_thread() ? *rank_of_thread() : world(); }
RankScope::RankScope(Communicator& communicator) : before_(std::exchange(rank_of_thread(), &communicator)) {}
RankScope::~RankScope() { rank_of_thread() = before_; }

int rank() { return current().rank(); }
int size() { return current().size(); }
bool is_started() { return state().started; }
void set_step(int64_t step) { world().record().set_step(step); }

// Every rank waits here for the others, so that none is taken for dead.
void end_world() {
  World& w = state();
  if (!w.mpi || getpid() != w.process || w.ended.exchange(true)) return;
  try {
    end(*w.mpi);
  } catch (const std::exception& e) {
    w.mpi->fail(e.what());
  }
  w.mpi->finish();
}

void fail(const std::string& why) {
  World& w = state();
  if (w.mpi && w.mpi->size() > 1 && getpid() == w.process) w.mpi->fail(why);
}

std::string mpi_report() {
  if (const std::string path = mpi_library_path(); path.empty()) return "missing: " + mpi_library().why;
  const MpiLibrary& library = mpi_library();
  if (!library.table) return library.why;
  return cat(library.path, ", built with ", library.table->built_with, "; loaded: ", library.table->library());
}

}  // namespace lamina::distributed
