#include "runtime/dist/flight_record.h"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/core/error.h"
#include "runtime/core/settings.h"
#include "runtime/io/files.h"

namespace lamina::distributed {
namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

nlohmann::json object(const Entry& e) {
  if (e.op == Op::none) return nullptr;
  return {{"sequence", e.sequence}, {"op", name(e.op)},       {"dtype", name(e.dtype)},       {"count", e.count},
          {"shards", e.shards},     {"root", e.root},         {"tensor", e.tensor},           {"bytes", e.bytes},
          {"line", e.line},         {"state", name(e.state)}, {"started_seconds", e.started}, {"ended_seconds", e.ended}};
}

}  // namespace

const char* name(Op op) {
  switch (op) {
    case Op::none: return "none";
    case Op::barrier: return "barrier";
    case Op::broadcast: return "broadcast";
    case Op::all_gather: return "all_gather";
    case Op::all_reduce: return "all_reduce";
    case Op::reduce_scatter: return "reduce_scatter";
    case Op::send_receive: return "send_receive";
    case Op::failure: return "failure";
    case Op::window: return "window";
    case Op::end: return "end";
  }
  return "unknown";
}

const char* name(State state) { return state == State::open ? "open" : state == State::finished ? "finished" : "failed"; }

std::string text(const Entry& e) {
  if (e.op == Op::none) return "nothing";
  if (e.op == Op::end) return "the end of its program";
  if (e.op == Op::failure) return cat("a failure, ", e.tensor);
  std::string out = name(e.op);
  if (e.op != Op::barrier && e.op != Op::send_receive) out += cat(" of ", e.dtype, "[", e.count, "]");
  if (*e.tensor) out += cat(" '", e.tensor, "'");
  if (e.op == Op::broadcast) out += cat(" from rank ", e.root);
  if (e.op == Op::all_reduce || e.op == Op::reduce_scatter)
    out += e.shards == 0 ? std::string(" in any order") : cat(" in ", e.shards, e.shards == 1 ? " shard" : " shards");
  if (*e.line) out += cat(" (", e.line, ")");
  return out;
}

void put_text(char* to, size_t room, std::string_view text) {
  const size_t length = std::min(text.size(), room - 1);
  if (length) std::memcpy(to, text.data() + (text.size() - length), length);
  if (length < text.size()) std::memcpy(to, "...", 3);
  std::memset(to + length, 0, room - length);
}

FlightRecord::FlightRecord(size_t capacity) : made_(seconds()), capacity_(capacity) { ring_.reserve(capacity); }

double FlightRecord::now() const { return seconds() - made_; }

Entry FlightRecord::begin(Entry entry) {
  const std::lock_guard lock(mutex_);
  entry.sequence = ++begun_ + skipped_;
  entry.state = State::open;
  entry.started = now();
  if (ring_.size() < capacity_)
    ring_.push_back(entry);
  else
    ring_[size_t(begun_ - 1) % capacity_] = entry;
  return entry;
}

void FlightRecord::end(State state) {
  const std::lock_guard lock(mutex_);
  if (begun_ == 0) return;
  Entry& e = ring_[size_t(begun_ - 1) % capacity_];
  e.state = state;
  e.ended = now();
  if (state == State::finished) last_ = e;
}

int64_t FlightRecord::renumber(int64_t sequence) {
  const std::lock_guard lock(mutex_);
  skipped_ = sequence - begun_;
  return ring_[size_t(begun_ - 1) % capacity_].sequence = sequence;
}

void FlightRecord::set_step(int64_t step) {
  const std::lock_guard lock(mutex_);
  step_ = step;
}

int64_t FlightRecord::step() const {
  const std::lock_guard lock(mutex_);
  return step_;
}

Entry FlightRecord::current() const {
  const std::lock_guard lock(mutex_);
  if (begun_ == 0) return {};
  const Entry& e = ring_[size_t(begun_ - 1) % capacity_];
  return e.state == State::open ? e : Entry{};
}

Entry FlightRecord::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

std::vector<Entry> FlightRecord::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> out;
  const size_t first = ring_.size() < capacity_ ? 0 : size_t(begun_) % capacity_;
  for (size_t i = 0; i < ring_.size(); ++i) out.push_back(ring_[(first + i) % ring_.size()]);
  return out;
}

std::string text(const RankStatus& s) {
  std::string out = cat("rank ", s.rank, " (host ", *s.host ? s.host : "unknown", ", pid ", s.pid, "): ");
  if (s.step >= 0) out += cat("step ", s.step, ", ");
  out += s.last.op == Op::none ? "no finished collective" : cat("last finished collective ", s.last.sequence, ", ", text(s.last));
  if (s.current.op != Op::none) out += cat("; open: collective ", s.current.sequence, ", ", text(s.current));
  if (s.age >= 0.05) out += cat(", ", double(int64_t(s.age * 10 + 0.5)) / 10, " s ago");
  return out;
}

std::string json(const FlightRecord& record, int rank, const std::string& why, const std::vector<RankStatus>& ranks) {
  nlohmann::json out{{"rank", rank}, {"why", why}, {"step", record.step()}, {"seconds", record.now()}};
  for (const RankStatus& s : ranks)
    out["ranks"].push_back({{"rank", s.rank},
                            {"host", s.host},
                            {"pid", s.pid},
                            {"step", s.step},
                            {"heartbeat_age_seconds", s.age},
                            {"last_finished", object(s.last)},
                            {"open", object(s.current)}});
  out["collectives"] = nlohmann::json::array();
  for (const Entry& e : record.entries()) out["collectives"].push_back(object(e));
  return out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string write_json(const FlightRecord& record, int rank, const std::string& why, const std::vector<RankStatus>& ranks) noexcept {
  try {
    const std::string folder = config::text(Setting::flight_records);
    const std::string path = (std::filesystem::path(folder.empty() ? "." : folder) / cat("lamina-rank-", rank, ".json")).native();
    io::Replacement replacement(path, false);
    replacement.file().write(json(record, rank, why, ranks));
    replacement.commit();
    return path;
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "it cannot be written";
  }
}

}  // namespace lamina::distributed
