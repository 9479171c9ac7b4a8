#include "runtime/dist/checked_call.h"

#include <algorithm>
#include <exception>
#include <map>

namespace lamina::distributed {
namespace {

// What ranks compare. The texts are for the error; only the tensor's hash is compared.
struct Header {
  int64_t sequence = 0, count = 0, shards = 0;
  int32_t root = 0, signal = 0;  // the signal is told, not compared
  Op op = Op::none;
  DType dtype = DType::u8;
  uint64_t tensor_hash = 0;
  char tensor[96] = "", line[96] = "";

  bool agrees(const Header& o) const {
    return sequence == o.sequence && count == o.count && shards == o.shards && root == o.root && op == o.op && dtype == o.dtype &&
           tensor_hash == o.tensor_hash;
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
  std::vector<Header> all(static_cast<size_t>(c_.size()));
  c_.all_gather(&own, all.data(), sizeof own);
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
