#include "runtime/dist/checked_call.h"

#include <algorithm>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace lamina::distributed {
namespace {

// What ranks compare. The texts are for the error; only the tensor's hash is compared.
struct Header {
  int64_t sequence = 0, count = 0, shards = 0;
  int64_t call = 0;              // Communicator::graph_call(); told, not compared
  bool failed = false;           // this call of a graph has failed on the rank, and it calls no more of its collectives
  int32_t root = 0, signal = 0;  // the signal is told, not compared
  Op op = Op::none;
  DType dtype = DType::u8;
  uint64_t tensor_hash = 0;
  char tensor[96] = "", line[96] = "";

  bool agrees(const Header& o) const {
    return failed == o.failed && sequence == o.sequence && count == o.count && shards == o.shards && root == o.root && op == o.op &&
           dtype == o.dtype && tensor_hash == o.tensor_hash;
  }
};

std::string text(const Header& h) {
  Entry e{.op = h.op, .dtype = h.dtype, .root = h.root, .shards = int32_t(h.shards), .count = h.count};
  put_text(e.tensor, h.tensor);
  put_text(e.line, h.line);
  return text(e);
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) out += cat(i ? ", " : "", ranks[i]);
  return out;
}

std::vector<Header> headers_of_all(Communicator& c, const Header& own) {
  std::vector<Header> all(static_cast<size_t>(c.size()));
  c.all_gather(&own, all.data(), sizeof own);
  return all;
}

// The earliest call of a graph that has failed on a rank, and that rank; and its error, which it tells all others.
struct Failure {
  int64_t call = 0;
  int rank = 0;
};
std::optional<Failure> failure_among(const std::vector<Header>& all) {
  std::optional<Failure> out;
  for (size_t r = 0; r < all.size(); ++r)
    if (all[r].failed && (!out || all[r].call < out->call)) out = {all[r].call, int(r)};
  return out;
}
Error shared_error(Communicator& c, const Failure& failure, const Error* own) {
  nlohmann::json told;
  if (own && failure.rank == c.rank()) told = {int(own->kind), own->parts.what, own->parts.where, own->parts.why, own->parts.fix};
  std::string text = told.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  uint64_t length = text.size();
  c.broadcast(&length, sizeof length, failure.rank);
  text.resize(length);
  c.broadcast(text.data(), length, failure.rank);
  told = nlohmann::json::parse(text);
  return Error(ErrorKind(told[0].get<int>()),
               {.what = cat("rank ", failure.rank, ": ", told[1].get<std::string>()), .where = told[2], .why = told[3], .fix = told[4]});
}
// The number of a rank's collective after a failure was told: that of the failure, if it ended there, or the next one.
int64_t next_sequence(const std::vector<Header>& all, bool ends) {
  const auto latest = std::max_element(all.begin(), all.end(), [](const Header& a, const Header& b) { return a.sequence < b.sequence; });
  return latest->sequence + (ends ? 0 : 1);
}

// Takes the place of this rank's next collective: the others' throws this error, if it is one of the same call of a graph.
void tell_failure(Communicator& c, const Error& why) {
  const std::lock_guard turn(c.calls());
  Header own{.call = c.graph_call(), .failed = true};
  Entry entry{.op = Op::failure};
  put_text(entry.tensor, why.parts.what);
  put_text(entry.line, why.parts.where);
  own.sequence = c.record().begin(entry).sequence;
  std::optional<Failure> failure;
  do {  // again where the others know of an earlier call that has failed
    const std::vector<Header> all = headers_of_all(c, own);
    failure = failure_among(all);
    (void)shared_error(c, *failure, &why);
    own.sequence = c.record().renumber(next_sequence(all, failure->call == own.call));
  } while (failure->call < own.call);
  c.record().end(State::failed);
}

}  // namespace

uint64_t hash_of_text(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ uint8_t(c)) * 0x100000001b3;
  return h;
}

CheckedCall::CheckedCall(Communicator& c, Entry entry, Subject subject, int own_signal)
    : c_(c), turn_(c.calls()), signal_(own_signal), exceptions_(std::uncaught_exceptions()) {
  put_text(entry.tensor, subject.tensor);
  put_text(entry.line, subject.line);
  entry_ = c_.record().begin(entry);
  try {
    compare(hash_of_text(subject.tensor));
  } catch (...) {
    c_.record().end(State::failed);
    throw;
  }
}

GraphCall::GraphCall(Communicator& c) : c_(c) {
  if (c_.graphs_running_.fetch_add(1) == 0) c_.graphs_begun_.fetch_add(1);
}
GraphCall::~GraphCall() { c_.graphs_running_.fetch_sub(1); }

void GraphCall::failed(const Error& why) noexcept try {
  const bool all_know = why.kind == ErrorKind::collective || c_.failed_graph_.load() == c_.graph_call();
  if (c_.size() > 1 && !all_know) tell_failure(c_, why);
} catch (...) {  // the job has ended; the failure itself is what the caller throws
}

CheckedCall::~CheckedCall() { c_.record().end(std::uncaught_exceptions() > exceptions_ ? State::failed : State::finished); }

void CheckedCall::compare(uint64_t tensor_hash) {
  if (c_.size() == 1) return;
  Header own{.sequence = entry_.sequence,
             .count = entry_.count,
             .shards = entry_.shards,
             .root = entry_.root,
             .signal = signal_,
             .op = entry_.op,
             .dtype = entry_.dtype,
             .tensor_hash = tensor_hash};
  put_text(own.tensor, entry_.tensor);
  put_text(own.line, entry_.line);
  own.call = c_.graph_call();
  std::vector<Header> all = headers_of_all(c_, own);
  while (const std::optional<Failure> failure = failure_among(all)) {
    const Error error = shared_error(c_, *failure, nullptr);
    const bool ends = own.call <= failure->call;
    own.sequence = entry_.sequence = c_.record().renumber(next_sequence(all, ends));
    if (ends) {
      c_.failed_graph_.store(failure->call, std::memory_order_relaxed);
      throw error;
    }
    all = headers_of_all(c_, own);  // of a call that has ended here, before that rank failed
  }
  for (const Header& h : all) signal_ = std::max(signal_, int(h.signal));

  std::vector<std::vector<int>> groups;  // ranks that agree
  for (int rank = 0; rank < c_.size(); ++rank) {
    auto same = groups.begin();
    while (same != groups.end() && !all[size_t(same->front())].agrees(all[size_t(rank)])) ++same;
    if (same == groups.end())
      groups.push_back({rank});
    else
      same->push_back(rank);
  }
  if (groups.size() == 1) return;
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  std::string calls;
  for (const auto& group : groups) {
    const Header& h = all[size_t(group.front())];
    calls += cat(calls.empty() ? "" : "; ", ranks_text(group), group.size() == 1 ? " is" : " are", " at ", text(h));
    if (h.sequence != own.sequence) calls += cat(", its collective ", h.sequence);
  }
  throw Error(ErrorKind::collective,
              {.what = cat("ranks disagree about collective ", own.sequence),
               .where = entry_.line,
               .why = calls,
               .fix = "make every rank call the same collectives in the same order, with the same shapes and dtypes"});
}

}  // namespace lamina::distributed
