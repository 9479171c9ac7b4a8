// FlightRecord: the last collectives of one rank, kept for reports.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/dtype.h"
#include "runtime/core/export.h"
#include "runtime/core/mutex.h"

namespace lamina::distributed {

enum class Op : uint8_t { none, barrier, broadcast, all_gather, all_reduce, reduce_scatter, send_receive, window, failure, end };
LAMINA_API const char* name(Op op);

enum class State : uint8_t { open, finished, failed };
LAMINA_API const char* name(State state);

// One collective of one rank. Plain data: ranks send it to each other.
struct Entry {
  int64_t sequence = 0;  // 1 for the first collective
  Op op = Op::none;      // none: there is no such collective
  DType dtype = DType::u8;
  State state = State::open;
  int32_t root = 0, shards = 0;   // shards 0: a sum in the library's order
  int64_t count = 0, bytes = 0;   // elements; bytes that this rank gives
  double started = 0, ended = 0;  // seconds since the record was made
  char tensor[96] = "", line[96] = "";
};
// "all_reduce of f32[100] 'w' in 8 shards (train.py:40)"
LAMINA_API std::string text(const Entry& entry);

// Copies a text; of a long one the end, after "...".
LAMINA_API void put_text(char* to, size_t room, std::string_view text);
template <size_t n>
void put_text(char (&to)[n], std::string_view text) {
  put_text(to, n, text);
}

class LAMINA_API FlightRecord {
 public:
  explicit FlightRecord(size_t capacity = 256);
  Entry begin(Entry entry);  // the entry with its sequence and time
  void end(State state);
  int64_t renumber(int64_t sequence);  // of the entry begun last, which others count so; returns it
  void set_step(int64_t step);

  int64_t step() const;                // -1: nobody has said
  Entry current() const;               // the open one, or op none
  Entry last() const;                  // the last finished one, or op none
  std::vector<Entry> entries() const;  // oldest first
  double now() const;                  // seconds since the record was made

 private:
  mutable Mutex mutex_;
  const double made_;
  std::vector<Entry> ring_;
  const size_t capacity_;
  int64_t begun_ = 0, skipped_ = 0, step_ = -1;  // skipped: numbers of collectives that others have had
  Entry last_;
};

// What is known of a rank.
struct RankStatus {
  int32_t rank = 0;
  int64_t pid = 0;
  char host[64] = "";
  uint64_t place = 0;  // equal where pids of two ranks are numbers of one system
  int64_t step = -1;
  Entry current, last;
  double age = 0;  // seconds since this was true
};
// "rank 2 (host a, pid 12): in step 7; last finished collective 16, ...; open: ..."
LAMINA_API std::string text(const RankStatus& status);

// The record as JSON, for people and programs.
LAMINA_API std::string json(const FlightRecord& record, int rank, const std::string& why, const std::vector<RankStatus>& ranks);
// Writes it to LAMINA_FLIGHT_RECORDS/lamina-rank-N.json. Returns that path, or why it could not be written. Throws nothing.
LAMINA_API std::string write_json(const FlightRecord& record, int rank, const std::string& why,
                                  const std::vector<RankStatus>& ranks) noexcept;

}  // namespace lamina::distributed
