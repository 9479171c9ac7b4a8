#include "runtime/dist/threads.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <thread>

#include "runtime/core/mutex.h"
#include "runtime/dist/collectives.h"
#include "runtime/dist/world.h"

namespace lamina::distributed {
namespace {

// A piece that a rank offers to another one, which copies it.
struct Offer {
  const Transfer* piece = nullptr;
  enum class Stage { offered, taken, copied } stage = Stage::offered;
};

class ThreadCommunicator;

struct Group {
  explicit Group(int size) : offers(size_t(size) * size_t(size)), members(size_t(size)), memory(size_t(size)) {}
  std::deque<Offer*>& between(int from, int to) { return offers[size_t(from) * members.size() + size_t(to)]; }

  Mutex mutex;
  std::vector<std::deque<Offer*>> offers;
  std::vector<ThreadCommunicator*> members;
  std::vector<std::unique_ptr<char[]>> memory;  // that ranks share: by rank
  std::atomic<bool> ended{false};
  std::optional<Error> why;  // once ended
  std::exception_ptr first;  // what the first rank that failed has thrown
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(Group& group, int rank, Patience patience) : Communicator(rank, int(group.members.size()), patience), group_(group) {}
  const char* name() const override { return "threads"; }

  void exchange(std::span<const Transfer> transfers) override {
    std::vector<Offer> own;
    own.reserve(transfers.size());
    {
      const std::lock_guard lock(group_.mutex);
      throw_if_ended();
      for (const Transfer& t : transfers)
        if (t.sends) group_.between(rank(), t.rank).push_back(&own.emplace_back(Offer{.piece = &t}));
    }
    try {
      for (const Transfer& t : transfers)
        if (!t.sends) receive(t);
      wait([&] {
        const std::lock_guard lock(group_.mutex);
        throw_if_ended();
        return std::all_of(own.begin(), own.end(), [](const Offer& o) { return o.stage == Offer::Stage::copied; });
      });
    } catch (...) {
      take_back(own);
      throw;
    }
  }

  std::vector<char*> share(size_t bytes) override {
    group_.memory[size_t(rank())] = std::make_unique_for_overwrite<char[]>(bytes);
    barrier();
    std::vector<char*> out;
    for (const auto& of_rank : group_.memory) out.push_back(of_rank.get());
    return out;
  }

  void abort(const Error& why) override {
    const std::lock_guard lock(group_.mutex);
    if (group_.ended) return;
    group_.why.emplace(why);
    group_.first = std::current_exception() ? std::current_exception() : std::make_exception_ptr(why);
    group_.ended = true;
  }

  std::optional<Error> why_ended() const override {
    const std::lock_guard lock(group_.mutex);
    return group_.why;
  }

  std::vector<RankStatus> ranks() const override {
    std::vector<RankStatus> out;
    for (const ThreadCommunicator* member : group_.members) {
      RankStatus s{.rank = member->rank(), .pid = getpid(), .step = member->record().step()};
      gethostname(s.host, sizeof s.host - 1);
      s.current = member->record().current();
      s.last = member->record().last();
      out.push_back(s);
    }
    return out;
  }

 private:
  void throw_if_ended() const {
    if (group_.ended) throw *group_.why;
  }
  void receive(const Transfer& t) {
    Offer* found = nullptr;
    wait([&] {
      const std::lock_guard lock(group_.mutex);
      throw_if_ended();
      auto& queue = group_.between(t.rank, rank());
      if (queue.empty()) return false;
      found = queue.front();
      queue.pop_front();
      found->stage = Offer::Stage::taken;
      return true;
    });
    const bool fits = found->piece->bytes == t.bytes;
    if (fits && t.bytes) std::memcpy(t.data, found->piece->data, t.bytes);
    {
      const std::lock_guard lock(group_.mutex);
      found->stage = Offer::Stage::copied;
    }
    if (!fits) internal_error(cat("rank ", t.rank, " sends another number of bytes than rank ", rank(), " receives"));
  }
  // No other rank may look at these offers any more.
  void take_back(const std::vector<Offer>& own) {
    for (bool copying = true; copying;) {
      copying = false;
      const std::lock_guard lock(group_.mutex);
      for (const Offer& o : own) {
        if (o.stage == Offer::Stage::taken) copying = true;
        if (o.stage == Offer::Stage::offered) std::erase(group_.between(rank(), o.piece->rank), &o);
      }
    }
  }
  void stalled(const Error& error) override {
    write_json(record(), rank(), error.what(), ranks());
    abort(error);
    throw error;
  }

  Group& group_;
};

Error failed(int rank, const std::string& why) {
  return Error(ErrorKind::collective, {.what = cat("rank ", rank, " has failed"), .where = "", .why = why, .fix = "see its error"});
}

}  // namespace

void run_ranks(int ranks, const std::function<void(Communicator&)>& body, Patience patience) {
  if (ranks < 1 || ranks > 1024)
    throw Error(ErrorKind::invalid_argument,
                {.what = cat(ranks, " ranks"), .where = "run_ranks", .why = "there are 1 to 1024", .fix = "pass such a number"});
  Group group(ranks);
  std::vector<std::unique_ptr<ThreadCommunicator>> members;
  for (int r = 0; r < ranks; ++r) members.push_back(std::make_unique<ThreadCommunicator>(group, r, patience));
  for (int r = 0; r < ranks; ++r) group.members[size_t(r)] = members[size_t(r)].get();
  const auto run = [&](int r) {
    Communicator& own = *members[size_t(r)];
    const RankScope scope(own);
    try {
      body(own);
      end(own);
    } catch (const Error& e) {
      own.abort(e.kind == ErrorKind::collective ? e : failed(r, e.what()));
    } catch (const std::exception& e) {
      own.abort(failed(r, e.what()));
    } catch (...) {
      own.abort(failed(r, "it has thrown something that is no exception"));
    }
    own.leave_devices();
  };
  std::vector<std::thread> threads;
  try {
    threads.reserve(size_t(ranks));
    for (int r = 1; r < ranks; ++r) threads.emplace_back(run, r);
    run(0);
  } catch (const std::exception& e) {  // there is no thread for a rank
    members[0]->abort(failed(int(threads.size()) + 1, e.what()));
  }
  for (std::thread& t : threads) t.join();
  if (group.first) std::rethrow_exception(group.first);
}

}  // namespace lamina::distributed
