#include "runtime/dist/collectives.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "runtime/device/backend.h"
#include "runtime/dist/checked_call.h"

namespace lamina::distributed {
namespace {

constexpr size_t kSmall = 8192;            // bytes of all roots below which every rank gets all of them and adds by itself
constexpr size_t kMostBytes = 1ull << 47;  // of one collective
constexpr int64_t kFewest = 1024;          // elements for which a turn through shared memory is worth its barriers

void require(bool holds, const char* op, const std::string& what, const std::string& why, const std::string& fix, Subject subject) {
  if (!holds)
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": ", what), .where = std::string(subject.line), .why = why, .fix = fix});
}

size_t bytes_of(const char* op, DType dtype, int64_t count, int64_t times, Subject subject) {
  size_t bytes = 0;
  const bool fits = count >= 0 && times >= 0 && !__builtin_mul_overflow(size_t(count), size_of(dtype), &bytes) &&
                    !__builtin_mul_overflow(bytes, size_t(times), &bytes) && bytes <= kMostBytes;
  require(fits, op, cat(count, " elements are no length"), "lengths are at least 0, and all data at most 2^47 bytes",
          "pass the array's length", subject);
  return bytes;
}

// The sums of this rank's roots: addresses of `count` elements of `wire` each, in leaves or in `room`.
std::vector<const void*> root_sums(const Place& at, const SumOf& sum, DType wire, std::span<const Range> roots, const void* leaves,
                                   std::optional<Place::Room>& room) {
  const size_t leaf = size_t(sum.count) * size_of(sum.dtype), root = size_t(sum.count) * size_of(wire);
  const auto is_there = [&](const Range& r) { return (r.size() == 1 || sum.of_roots) && wire == sum.dtype; };
  room.emplace(at, root * size_t(std::count_if(roots.begin(), roots.end(), [&](const Range& r) { return !is_there(r); })));
  std::vector<const void*> out;
  const char* from = static_cast<const char*>(leaves);
  char* to = room->data();
  for (const Range& r : roots) {
    std::vector<Range> parts;
    std::vector<const void*> arrays;
    for (int64_t i = r.begin; i < r.end; i = parts.back().end) {
      parts.push_back({i, sum.of_roots ? r.end : i + 1});
      arrays.push_back(from);
      from += leaf;
    }
    if (is_there(r)) {
      out.push_back(arrays[0]);
      continue;
    }
    const std::vector<uint8_t> joins = joins_of(parts, sum.shards);
    at.add({.from = sum.dtype, .to = wire, .count = sum.count, .joins = joins.data()}, arrays, to);
    out.push_back(to);
    to += root;
  }
  return out;
}

// Adds every rank's roots: each rank adds a slice of the elements.
class RootExchange {
 public:
  RootExchange(const Place& at, const SumOf& sum) : at_(at), c_(at.ranks()), sum_(sum), wire_(is_half(sum.dtype) ? DType::f32 : sum.dtype) {
    for (int r = 0; r < c_.size(); ++r) {
      of_rank_.push_back(roots_of(part_of(sum.shards, c_.size(), r), sum.shards));
      all_.insert(all_.end(), of_rank_.back().begin(), of_rank_.back().end());
    }
    joins_ = joins_of(all_, sum.shards);
  }

  // The sum of this rank's slice.
  void scatter(const void* leaves, void* result) const {
    if (SharedMemory* shared = memory()) return through(*shared, leaves, result, false);
    by_messages(leaves, result, [&](int r) { return slice(r); });
  }
  // The whole sum.
  void reduce(const void* leaves, void* result) const {
    if (c_.size() == 1 || all_.size() * size_t(sum_.count) * size_of(wire_) <= kSmall)
      return by_messages(leaves, result, [&](int) { return Range{0, sum_.count}; });
    if (SharedMemory* shared = memory()) return through(*shared, leaves, result, true);
    const size_t unit = size_of(sum_.dtype);
    const auto place = [&](int r) { return static_cast<char*>(result) + size_t(slice(r).begin) * unit; };
    scatter(leaves, place(c_.rank()));
    std::vector<Transfer> transfers;
    for (int r = 0; r < c_.size(); ++r) {
      if (r == c_.rank()) continue;
      if (const Range own = slice(c_.rank()); own.size()) transfers.push_back(to_rank(r, place(c_.rank()), size_t(own.size()) * unit));
      if (const Range theirs = slice(r); theirs.size()) transfers.push_back(from_rank(r, place(r), size_t(theirs.size()) * unit));
    }
    at_.exchange(transfers);
  }

 private:
  Range slice(int r) const { return part_of(sum_.count, c_.size(), r); }

  // wanted(rank): the elements that a rank adds. Their sum on this rank is written to `result`.
  template <class Wanted>
  void by_messages(const void* leaves, void* result, Wanted wanted) const {
    const int self = c_.rank();
    std::optional<Place::Room> room;
    const Range mine = wanted(self);
    const size_t unit = size_of(wire_), piece = size_t(mine.size()) * unit;
    const std::vector<const void*> sums = root_sums(at_, sum_, wire_, of_rank_[size_t(self)], leaves, room);
    Place::Room received(at_, piece * (all_.size() - sums.size()));
    std::vector<Transfer> transfers;
    std::vector<const void*> pieces;
    char* to = received.data();
    for (int r = 0; r < c_.size(); ++r) {
      const Range theirs = wanted(r);
      if (r == self) {
        for (const void* s : sums) pieces.push_back(static_cast<const char*>(s) + size_t(mine.begin) * unit);
        continue;
      }
      for (const void* s : sums)
        if (theirs.size())
          transfers.push_back(to_rank(r, static_cast<const char*>(s) + size_t(theirs.begin) * unit, size_t(theirs.size()) * unit));
      for (size_t i = 0; i < of_rank_[size_t(r)].size(); ++i, to += piece) {
        if (piece) transfers.push_back(from_rank(r, to, piece));
        pieces.push_back(to);
      }
    }
    at_.exchange(transfers);
    at_.add({.from = wire_, .to = sum_.dtype, .count = mine.size(), .joins = joins_.data()}, pieces, result);
  }

  // Null where ranks do not share memory, or are so many that too little of it is each one's.
  SharedMemory* memory() const {
    if (!at_.on_host() || c_.size() == 1) return nullptr;
    SharedMemory& shared = c_.shared();
    return !shared.of_ranks.empty() && elements_in(shared) >= kFewest ? &shared : nullptr;
  }
  // Beside the elements that are rounded up to in each rank's slice.
  int64_t elements_in(const SharedMemory& shared) const {
    size_t roots = 0;
    for (const auto& of_rank : of_rank_) roots = std::max(roots, of_rank.size());
    return int64_t(shared.half / (roots * size_of(wire_))) - c_.size();
  }
  // Each rank shows the others what they add of its roots, adds its slice, and shows the sum in the place where its own part of its first
  // root would be. As many elements at once as half of the memory holds.
  void through(SharedMemory& shared, const void* leaves, void* result, bool whole) const {
    const int self = c_.rank();
    std::optional<Place::Room> room;
    const std::vector<const void*> sums = root_sums(at_, sum_, wire_, of_rank_[size_t(self)], leaves, room);
    const size_t unit = size_of(wire_), to_unit = size_of(sum_.dtype);
    const int64_t at_once = elements_in(shared), turns = (sum_.count + at_once - 1) / at_once;
    for (int64_t turn = 0; turn < turns; ++turn, shared.turn ^= 1) {
      std::vector<Range> wanted;     // by rank: the elements that it adds
      std::vector<size_t> first(1);  // where they lie
      for (int r = 0; r < c_.size(); ++r) {
        const Range all = slice(r), part = part_of(all.size(), turns, turn);
        wanted.push_back({all.begin + part.begin, all.begin + part.end});
        first.push_back(first.back() + size_t(part.size()) * unit);
      }
      const auto shown = [&](int of, size_t root, int to) { return shared.of(of) + root * first.back() + first[size_t(to)]; };
      const auto from = [&](const void* root, int r) { return static_cast<const char*>(root) + size_t(wanted[size_t(r)].begin) * unit; };
      const auto place = [&](int r) {
        return static_cast<char*>(result) + size_t(wanted[size_t(r)].begin - (whole ? 0 : slice(r).begin)) * to_unit;
      };
      const auto length = [&](int r) { return size_t(wanted[size_t(r)].size()); };
      for (size_t i = 0; i < sums.size(); ++i)
        for (int r = 0; r < c_.size(); ++r)
          if (r != self) std::memcpy(shown(self, i, r), from(sums[i], r), length(r) * unit);
      c_.barrier();
      std::vector<const void*> pieces;
      for (int r = 0; r < c_.size(); ++r)
        for (size_t i = 0; i < of_rank_[size_t(r)].size(); ++i) pieces.push_back(r == self ? from(sums[i], r) : shown(r, i, self));
      at_.add({.from = wire_, .to = sum_.dtype, .count = wanted[size_t(self)].size(), .joins = joins_.data()}, pieces, place(self));
      if (!whole) continue;
      std::memcpy(shown(self, 0, self), place(self), length(self) * to_unit);
      c_.barrier();
      for (int r = 0; r < c_.size(); ++r)
        if (r != self) std::memcpy(place(r), shown(r, 0, r), length(r) * to_unit);
    }
  }

  const Place& at_;
  Communicator& c_;
  const SumOf sum_;
  const DType wire_;  // in which sums of roots travel
  std::vector<std::vector<Range>> of_rank_;
  std::vector<Range> all_;
  std::vector<uint8_t> joins_;
};

// Each rank adds what it has one after the other; the library adds the ranks' sums.
void sum_by_library(const Place& at, const SumOf& sum, const void* leaves, void* result) {
  const DType wire = is_half(sum.dtype) ? DType::f32 : sum.dtype;
  const size_t leaf = size_t(sum.count) * size_of(sum.dtype);
  const Range own = part_of(sum.shards, at.ranks().size(), at.ranks().rank());
  Place::Room room(at, wire == sum.dtype ? 0 : size_t(sum.count) * size_of(wire));
  void* added = wire == sum.dtype ? result : room.data();
  std::vector<const void*> arrays;
  const size_t given = sum.of_roots ? roots_of(own, sum.shards).size() : size_t(own.size());
  for (size_t i = 0; i < given; ++i) arrays.push_back(static_cast<const char*>(leaves) + i * leaf);
  at.add({.from = sum.dtype, .to = wire, .count = sum.count, .joins = one_by_one(arrays.size()).data()}, arrays, added);
  at.sum(wire, added, sum.count);
  if (wire == sum.dtype) return;
  const void* one[] = {added};
  at.add({.from = wire, .to = sum.dtype, .count = sum.count, .joins = one_by_one(1).data()}, one, result);
}

void check_sum(const char* op, const Communicator& c, const SumOf& sum, Subject subject) {
  if (sum.dtype == DType::boolean)
    throw Error(ErrorKind::type, {.what = cat(op, ": bool has no sum"),
                                  .where = std::string(subject.line),
                                  .why = "sums are of numbers",
                                  .fix = "convert it to an integer type first"});
  require(sum.shards >= 1 && sum.shards <= kMostShards, op, cat(sum.shards, " shards"), cat("there are 1 to ", kMostShards),
          "pass such a number", subject);
  require(c.size() <= sum.shards, op, cat(c.size(), " ranks are more than ", sum.shards, " shards"),
          "each rank has at least one shard of the batch, and the number of shards fixes the order of the sums",
          cat("start at most ", sum.shards, " ranks, or use at least ", c.size(), " shards"), subject);
  bytes_of(op, sum.dtype, sum.count, sum.shards, subject);
}

}  // namespace

void barrier(Communicator& c, Subject subject) {
  const CheckedCall call(c, {.op = Op::barrier}, subject);
  c.barrier();
}

void broadcast(const Place& at, DType dtype, void* data, int64_t count, int root, Subject subject) {
  Communicator& c = at.ranks();
  const size_t bytes = bytes_of("broadcast", dtype, count, 1, subject);
  require(root >= 0 && root < c.size(), "broadcast", cat("there is no rank ", root), cat("there are ranks 0 to ", c.size() - 1),
          "pass one of them as root", subject);
  const CheckedCall call(c, {.op = Op::broadcast, .dtype = dtype, .root = root, .count = count, .bytes = int64_t(bytes)}, subject);
  if (c.size() > 1 && bytes) at.broadcast(data, bytes, root);
}

void all_gather(const Place& at, DType dtype, const void* own, void* all, int64_t count, Subject subject) {
  Communicator& c = at.ranks();
  bytes_of("all_gather", dtype, count, c.size(), subject);
  const size_t bytes = size_t(count) * size_of(dtype);
  const CheckedCall call(c, {.op = Op::all_gather, .dtype = dtype, .count = count, .bytes = int64_t(bytes)}, subject);
  if (bytes) at.all_gather(own, all, bytes);
}

void send_receive(const Place& at, std::span<const Transfer> transfers, Subject subject) {
  Communicator& c = at.ranks();
  size_t bytes = 0;
  // Row r: what r sends to each rank, then what it receives from each: pieces mixed with bytes.
  const size_t n = size_t(c.size());
  std::vector<uint64_t> row(2 * n), all(2 * n * n);
  for (const Transfer& t : transfers) {
    require(t.rank >= 0 && t.rank < c.size() && t.rank != c.rank(), "send_receive", cat("rank ", c.rank(), " has no other rank ", t.rank),
            cat("there are ranks 0 to ", c.size() - 1), "name another rank", subject);
    uint64_t& entry = row[size_t(t.rank) + (t.sends ? 0 : n)];
    entry = entry * 0x9e3779b97f4a7c15 + t.bytes + 1;  // the lengths in their order
    if (t.sends) bytes += t.bytes;
  }
  const CheckedCall call(c, {.op = Op::send_receive, .bytes = int64_t(bytes)}, subject);
  if (c.size() == 1) return;
  c.all_gather(row.data(), all.data(), row.size() * sizeof(uint64_t));
  for (size_t from = 0; from < n; ++from)
    for (size_t to = 0; to < n; ++to)
      if (all[from * 2 * n + to] != all[to * 2 * n + n + from])
        throw Error(ErrorKind::collective, {.what = cat("ranks disagree about collective ", c.record().current().sequence),
                                            .where = std::string(subject.line),
                                            .why = cat("what rank ", from, " sends to rank ", to, " is not what rank ", to,
                                                       " receives from rank ", from, ": number, order or lengths of the pieces differ"),
                                            .fix = "let both ranks compute the pieces from the same shapes"});
  at.exchange(transfers);
}

void end(Communicator& c) {
  const CheckedCall call(c, {.op = Op::end}, {});
  c.leave_devices();
}

Range leaves_of(const Communicator& c, int64_t shards) { return part_of(shards, c.size(), c.rank()); }

namespace {
bool is_by_library(const SumOf& sum) { return !sum.reproducible && is_floating(sum.dtype); }
Entry entry_of(const SumOf& sum) {
  return {.op = Op::all_reduce,
          .dtype = sum.dtype,
          .shards = is_by_library(sum) ? 0 : int32_t(sum.shards),
          .count = sum.count,
          .bytes = sum.count * int64_t(size_of(sum.dtype))};
}
}  // namespace

void compare_sum(Communicator& c, const SumOf& sum, Subject subject) {
  check_sum("all_reduce", c, sum, subject);
  const CheckedCall call(c, entry_of(sum), subject);
}

std::vector<char*> window(const Place& at, int64_t bytes, Subject subject) {
  Communicator& c = at.ranks();
  const CheckedCall call(c, {.op = Op::window, .dtype = DType::u8, .count = bytes, .bytes = bytes}, subject);
  const auto on_all = [&](char own) {
    std::vector<char> all(size_t(c.size()));
    c.all_gather(&own, all.data(), 1);
    return std::find(all.begin(), all.end(), 0) == all.end();
  };
  if (!on_all(at.has_windows())) return {};
  std::vector<char*> addresses = at.window(size_t(bytes));
  if (!on_all(!addresses.empty())) return {};
  return addresses;
}

bool reach_memory(Communicator& c, Device device) {
  constexpr int64_t bytes = 256;
  if (c.size() == 1) return false;
  std::optional<bool>& known = c.reaches(device);
  if (!known) known = !window({c, &c.joined(device), backend_of(device).default_stream(device)}, bytes, {.tensor = "a trial"}).empty();
  return *known;
}

void all_reduce(const Place& at, const SumOf& sum, const void* leaves, void* result, Subject subject) {
  Communicator& c = at.ranks();
  check_sum("all_reduce", c, sum, subject);
  const CheckedCall call(c, entry_of(sum), subject);
  if (sum.count == 0) return;
  const bool by_library = is_by_library(sum);
  if (by_library && c.size() > 1) return sum_by_library(at, sum, leaves, result);
  RootExchange(at, sum).reduce(leaves, result);
}

void reduce_scatter(const Place& at, const SumOf& sum, const void* leaves, void* slice, Subject subject) {
  Communicator& c = at.ranks();
  check_sum("reduce_scatter", c, sum, subject);
  const CheckedCall call(c,
                         {.op = Op::reduce_scatter,
                          .dtype = sum.dtype,
                          .shards = int32_t(sum.shards),
                          .count = sum.count,
                          .bytes = int64_t(size_t(sum.count) * size_of(sum.dtype))},
                         subject);
  if (sum.count == 0) return;
  RootExchange(at, sum).scatter(leaves, slice);
}

void all_reduce(const Place& at, DType dtype, const void* own, void* result, int64_t count, Subject subject) {
  all_reduce(at, SumOf{.dtype = dtype, .count = count, .shards = at.ranks().size()}, own, result, subject);
}

}  // namespace lamina::distributed
