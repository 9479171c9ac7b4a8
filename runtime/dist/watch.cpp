#include "runtime/dist/watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "runtime/core/settings.h"
#include "runtime/dist/processes.h"
#include "runtime/dist/stop.h"

namespace lamina::distributed {
namespace {

constexpr std::chrono::milliseconds kTurn{20}, kLastTurn{1};
constexpr double kLookEvery = 0.1;                               // seconds between looks at the processes of this host
constexpr double kAnswers = 0.25, kRecords = 0.1, kSpeaker = 1;  // seconds: for ranks' answers, for their records, for the report
constexpr double kLeave = 5;                                     // seconds, at least: for all ranks to leave
constexpr size_t kReport = 1 << 16;

std::string seconds_text(double seconds) { return cat(std::round(seconds * 10) / 10, " s"); }

}  // namespace

Watch::Watch(const LaminaMpi& mpi, Communicator& own, std::vector<RankStatus> known, double limit)
    : mpi_(mpi),
      own_(own),
      limit_(limit),
      interval_(limit / 10),
      known_(std::move(known)),
      heard_(known_.size(), own.record().now()),
      told_(known_.size(), false),
      left_(known_.size(), false) {
  last_turn_ = own_.record().now();
  watch_signals();
  thread_ = std::thread([this] { run(); });
}

Watch::~Watch() { finish(); }

void Watch::finish() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

RankStatus Watch::own_status() const {
  RankStatus out = known_[size_t(own_.rank())];
  out.step = own_.record().step();
  out.current = own_.record().current();
  out.last = own_.record().last();
  out.age = 0;
  return out;
}

std::vector<RankStatus> Watch::ranks() const {
  const std::lock_guard lock(mutex_);
  std::vector<RankStatus> out = known_;
  const double now = own_.record().now();
  for (size_t r = 0; r < out.size(); ++r) out[r].age += now - heard_[r];
  out[size_t(own_.rank())] = own_status();
  return out;
}

void Watch::end_job(const std::string& why, int guilty) {
  {
    const std::lock_guard lock(mutex_);
    if (!asked_) asked_ = Verdict{why, guilty};
  }
  // The control thread ends this process. It may itself have been told to stop.
  for (int i = 0; i < 100; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  say(cat("lamina: ", why));
  for (;;) mpi_.leave(1);
}

void Watch::run() {
  const RankStatus self = own_status();
  for (const RankStatus& s : ranks())
    if (s.rank != self.rank && s.place == self.place)
      if (const long opened = syscall(SYS_pidfd_open, pid_t(s.pid), 0); opened >= 0)
        processes_.push_back({.fd = int(opened), .events = POLLIN, .revents = 0});
  for (bool left = false; !left;) {
    try {
      turn();
      left = stop_ && leave();
      if (!left) rest();
    } catch (const std::exception& e) {
      say(cat("lamina: the control thread of rank ", own_.rank(), ": ", e.what()));
    }
  }
  for (const pollfd& p : processes_) close(p.fd);
}

// Until the next turn. The end of a process of this host ends the rest: until its parent has asked, the system knows the signal.
void Watch::rest() {
  const std::chrono::milliseconds turn = stop_ ? kLastTurn : kTurn;
  if (processes_.empty()) {
    std::this_thread::sleep_for(turn);
  } else if (poll(processes_.data(), processes_.size(), int(turn.count())) > 0) {
    std::erase_if(processes_, [](const pollfd& p) { return p.revents != 0 && close(p.fd) == 0; });
    next_look_ = std::min(next_look_, own_.record().now());  // after this rank has read what the others say
  }
}

void Watch::turn() {
  const double now = own_.record().now();
  if (now - last_turn_ > limit_ / 2) {  // this process itself was stopped: it knows nothing of the others, which may have ended the job
    const std::lock_guard lock(mutex_);
    for (double& heard : heard_) heard = now;
    for (RankStatus& s : known_) s.age = 0;
    awake_ = now + kSpeaker;
    leave_by_ = 0;
  }
  last_turn_ = now;
  std::optional<Verdict> asked;
  {
    const std::lock_guard lock(mutex_);
    asked = asked_;
  }
  if (asked) conclude(*asked);
  while (const std::optional<Letter> letter = receive())
    if (letter->kind == Kind::verdict) conclude({letter->data, letter->guilty});
  if (const int number = signal_came(); number && !stop_) on_signal(number);  // a rank that leaves ends anyway, by its own status
  if (now >= next_beat_ && !stop_) {
    next_beat_ = now + interval_;
    beat();
  }
  if (now >= next_look_ && !was_stopped()) {
    next_look_ = now + kLookEvery;
    look();
  }
}

// Whether this process was stopped a moment ago, perhaps within a turn: then it knows nothing of the others.
bool Watch::was_stopped() const {
  const double now = own_.record().now();
  return now < awake_ || now - last_turn_ > limit_ / 2;
}

bool Watch::send(int to, Kind kind, int guilty, const void* data, size_t bytes) {
  const int32_t head[2] = {int32_t(kind), guilty};
  std::vector<char> all(sizeof head + bytes);
  std::memcpy(all.data(), head, sizeof head);
  if (bytes) std::memcpy(all.data() + sizeof head, data, bytes);
  int sent = 0;
  return mpi_.send_control(to, all.data(), all.size(), &sent) == 0 && sent;
}

std::optional<Watch::Letter> Watch::receive() {
  room_.resize(2 * sizeof(int32_t) + std::max(kReport, known_.size() * sizeof(RankStatus)));
  size_t bytes = 0;
  Letter out;
  int32_t head[2];
  if (mpi_.receive_control(room_.data(), room_.size(), &bytes, &out.from) != 0 || bytes < sizeof head) return std::nullopt;
  std::memcpy(head, room_.data(), sizeof head);
  out.kind = Kind(head[0]), out.guilty = head[1];
  out.data.assign(room_.data() + sizeof head, bytes - sizeof head);
  const std::lock_guard lock(mutex_);
  const double now = own_.record().now();
  if ((out.kind == Kind::beat || out.kind == Kind::answer) && out.data.size() == sizeof(RankStatus)) {
    std::memcpy(&known_[size_t(out.from)], out.data.data(), out.data.size());
    heard_[size_t(out.from)] = now;
  } else if (out.kind == Kind::table && out.data.size() == known_.size() * sizeof(RankStatus)) {
    const RankStatus self = known_[size_t(own_.rank())];
    std::memcpy(known_.data(), out.data.data(), out.data.size());
    known_[size_t(own_.rank())] = self;
    std::fill(heard_.begin(), heard_.end(), now);
  } else if (out.kind == Kind::leave) {
    left_[size_t(out.from)] = true;
  }
  return out;
}

void Watch::beat() {
  const std::vector<RankStatus> all = ranks();
  if (own_.rank() != 0) {
    send(0, Kind::beat, -1, &all[size_t(own_.rank())], sizeof(RankStatus));
    return;
  }
  for (int r = 1; r < own_.size(); ++r) send(r, Kind::table, -1, all.data(), all.size() * sizeof(RankStatus));
}

// Which ranks are lost. Rank 0 hears of all, the others of rank 0; every rank looks at the processes of its own system.
void Watch::look() {
  const std::vector<RankStatus> all = ranks();
  const RankStatus& self = all[size_t(own_.rank())];
  for (const RankStatus& s : all) {
    if (s.rank == self.rank || left_[size_t(s.rank)]) continue;
    const Process process = s.place == self.place ? process_of(s.pid) : Process{};
    const bool silent = s.age > limit_ && (self.rank == 0 || s.rank == 0);
    if (!process.dead && !silent) continue;
    if (was_stopped()) return;
    const std::string who = cat("rank ", s.rank, " (host ", s.host, ", pid ", s.pid, ")");
    conclude({process.dead
                  ? cat(who, " is dead: ", death_text(process.signal))
                  : cat(who, " is lost: no heartbeat for ", seconds_text(s.age), process.stopped ? "; its process is stopped" : ""),
              s.rank});
  }
}

// Messages of a rank arrive in order, so none is on its way to this rank once all have left. MPI may then end, which with messages under
// way it does not survive.
bool Watch::leave() {
  const double now = own_.record().now(), patience = std::max(limit_, kLeave);
  if (!leave_by_) leave_by_ = now + patience;
  int late = -1;
  for (int r = 0; r < own_.size(); ++r) {
    if (r == own_.rank()) continue;
    if (!told_[size_t(r)]) told_[size_t(r)] = send(r, Kind::leave, -1, nullptr, 0);
    if (!told_[size_t(r)] || !left_[size_t(r)]) late = r;
  }
  if (late >= 0 && now > leave_by_ && !was_stopped()) {
    const RankStatus s = ranks()[size_t(late)];
    conclude({cat("rank ", late, " (host ", s.host, ", pid ", s.pid, ") is lost: it has not left within ", seconds_text(patience),
                  " of the end of the job"),
              late});
  }
  return late < 0;
}

// The launcher ends all ranks when one has died, and when it is told to end itself.
void Watch::on_signal(int number) {
  if (stops_are_expected()) {
    write_json(own_.record(), own_.rank(), cat(signal_name(number), ": the program ends after its step, with a checkpoint"), ranks());
    return;
  }
  std::string why = cat(signal_name(number), ": the launcher ends the job");
  int guilty = -1;
  for (const RankStatus& s : ranks())
    if (s.rank != own_.rank() && guilty < 0 && s.age > 3 * interval_) {
      why += cat("; rank ", s.rank, " (host ", s.host, ", pid ", s.pid, ") sends no heartbeat since ", seconds_text(s.age));
      guilty = s.rank;
    }
  const std::string text = report(why);
  const std::string path = write_json(own_.record(), own_.rank(), text, ranks());
  if (own_.rank() == (guilty == 0 ? 1 : 0) && !was_stopped()) say(text);
  if (signals_end()) mpi_.leave(128 + number);
}

std::string Watch::report(const std::string& why) const {
  const std::string folder = config::text(Setting::flight_records);
  std::string out = "lamina: the job ends. " + why;
  for (const RankStatus& s : ranks()) out += "\n  " + text(s);
  out += cat("\n  flight records: lamina-rank-N.json in ", folder.empty() ? "the current folder" : folder, " of each host");
  if (out.size() > kReport) out.resize(kReport);
  return out;
}

void Watch::send_all(Kind kind, const Verdict& verdict, double seconds) {
  std::vector<bool> told(size_t(own_.size()), false);
  told[size_t(own_.rank())] = true;
  for (const double until = own_.record().now() + seconds; own_.record().now() < until;) {
    bool all = true;
    for (int r = 0; r < own_.size(); ++r) {
      if (!told[size_t(r)]) told[size_t(r)] = send(r, kind, verdict.guilty, verdict.why.data(), verdict.why.size());
      all = all && (told[size_t(r)] || r == verdict.guilty);
    }
    if (all) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// The report of the rank that speaks for all: with the state of every rank at this moment, as far as they answer.
std::string Watch::collect(const Verdict& verdict) {
  const double start = own_.record().now();
  send_all(Kind::verdict, verdict, kAnswers);
  std::vector<bool> answered(size_t(own_.size()), false);
  answered[size_t(own_.rank())] = true;
  if (verdict.guilty >= 0) answered[size_t(verdict.guilty)] = true;
  while (std::find(answered.begin(), answered.end(), false) != answered.end() && own_.record().now() < start + kAnswers)
    if (const std::optional<Letter> letter = receive()) {
      if (letter->kind == Kind::answer) answered[size_t(letter->from)] = true;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  std::string text = report(verdict.why);
  send_all(Kind::report, {text, verdict.guilty}, kRecords);
  return text;
}

// The report of that rank; nothing if it does not answer.
std::optional<std::string> Watch::ask_speaker(const Verdict& verdict, int speaker) {
  const auto answer = [&] {
    const RankStatus own = own_status();
    send(speaker, Kind::answer, -1, &own, sizeof own);
  };
  bool told = false;
  for (const double until = own_.record().now() + kSpeaker; own_.record().now() < until;) {
    if (!told && (told = send(speaker, Kind::verdict, verdict.guilty, verdict.why.data(), verdict.why.size()))) answer();
    const std::optional<Letter> letter = receive();
    if (letter && letter->kind == Kind::report) return letter->data;
    if (letter && letter->kind == Kind::verdict) answer();
    if (!letter) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return std::nullopt;
}

// The others took this rank for lost and have ended the job.
void Watch::leave_job(Verdict verdict) {
  for (const double until = own_.record().now() + kAnswers; own_.record().now() < until;)
    if (const std::optional<Letter> letter = receive()) {
      if (letter->kind == Kind::report) verdict.why = letter->data;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  write_json(own_.record(), own_.rank(), verdict.why, ranks());
  for (;;) mpi_.leave(1);
}

void Watch::conclude(const Verdict& verdict) {
  const int speaker = verdict.guilty == 0 && own_.size() > 1 ? 1 : 0;
  const auto pause = [](double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); };
  std::optional<std::string> text;
  if (own_.rank() == verdict.guilty) return leave_job(verdict);
  if (own_.rank() != speaker) text = ask_speaker(verdict, speaker);
  const bool spoken = text.has_value();
  if (!spoken) text = collect(verdict);
  write_json(own_.record(), own_.rank(), *text, ranks());
  signal(SIGTERM, SIG_DFL);  // the launcher ends this process
  if (spoken) pause(2 * kSpeaker);
  if (!spoken) {
    say(*text);
    pause(kRecords);
  }
  mpi_.abort(1);
  for (;;) mpi_.leave(1);
}

}  // namespace lamina::distributed
