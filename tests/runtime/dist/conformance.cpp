#include "tests/runtime/dist/conformance.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "runtime/dist/checked_call.h"

namespace lamina::distributed::tests {
namespace {

std::string differs(const char* what, int64_t at) { return cat(what, " differs at byte ", at); }

std::string compare(const char* what, const void* a, const void* b, size_t bytes) {
  const char *x = static_cast<const char*>(a), *y = static_cast<const char*>(b);
  for (size_t i = 0; i < bytes; ++i)
    if (x[i] != y[i]) return differs(what, int64_t(i));
  return "";
}

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, f16> || std::is_same_v<T, bf16>, float, T>;

template <class T>
std::vector<Wide<T>> tree(int64_t count, int64_t begin, int64_t end) {
  if (end - begin == 1) {
    const std::vector<char> bytes = leaf(dtype_of<T>(), count, begin);
    std::vector<Wide<T>> out(static_cast<size_t>(count));
    for (size_t i = 0; i < out.size(); ++i) {
      T x;
      std::memcpy(static_cast<void*>(&x), bytes.data() + i * sizeof(T), sizeof(T));
      out[i] = Wide<T>(x);
    }
    return out;
  }
  int64_t half = 1;
  while (half * 2 < end - begin) half *= 2;
  std::vector<Wide<T>> a = tree<T>(count, begin, begin + half), b = tree<T>(count, begin + half, end);
  for (size_t i = 0; i < a.size(); ++i) {
    if constexpr (std::is_integral_v<T>)
      a[i] = T(uint64_t(a[i]) + uint64_t(b[i]));
    else
      a[i] = a[i] + b[i];
  }
  return a;
}

constexpr DType kSummed[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64};

std::string barriers(Communicator& c) {
  for (int i = 0; i < 20; ++i) barrier(c, {.tensor = "again"});
  return c.record().last().op == Op::barrier ? "" : "the record does not end with a barrier";
}

std::string broadcasts(Communicator& c) {
  for (const int64_t count : {0, 1, 5, 1000, 300000})
    for (int root = 0; root < c.size(); ++root) {
      std::vector<int32_t> data(size_t(count), c.rank() == root ? 7 * root + 1 : -1);
      broadcast(c, DType::i32, data.data(), count, root);
      for (const int32_t x : data)
        if (x != 7 * root + 1) return cat("broadcast from ", root, " gives ", x);
    }
  return "";
}

std::string gathers(Communicator& c) {
  for (const int64_t count : {0, 1, 3, 1000, 100000}) {
    std::vector<int64_t> own(size_t(count), 100 + c.rank()), all(size_t(count * c.size()), -1);
    all_gather(c, DType::i64, own.data(), all.data(), count);
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i] != 100 + int64_t(i) / count) return cat("all_gather of ", count, " gives ", all[i], " at ", i);
  }
  return "";
}

// Every rank sends to every other one, in a different order on each, both small and large pieces.
std::string exchanges(Communicator& c) {
  std::mt19937 random(unsigned(c.rank()) + 1);
  for (int round = 0; round < 10; ++round)
    for (const size_t bytes : {size_t(1), size_t(4000), size_t(300000)}) {
      std::vector<std::vector<char>> out, in(size_t(c.size()), std::vector<char>(bytes, 0));
      std::vector<Transfer> transfers;
      for (int r = 0; r < c.size(); ++r) out.emplace_back(bytes, char(c.rank() * 16 + r));
      for (int r = 0; r < c.size(); ++r)
        if (r != c.rank()) {
          transfers.push_back(to_rank(r, out[size_t(r)].data(), bytes));
          transfers.push_back(from_rank(r, in[size_t(r)].data(), bytes));
        }
      std::shuffle(transfers.begin(), transfers.end(), random);
      send_receive(c, transfers, {.tensor = "all to all"});
      for (int r = 0; r < c.size(); ++r)
        for (const char x : in[size_t(r)])
          if (r != c.rank() && x != char(r * 16 + c.rank())) return cat("exchange of ", bytes, " bytes with rank ", r, " gives ", int(x));
    }
  return "";
}

// Two pieces between two ranks keep their order; other ranks have none.
std::string pieces_in_order(Communicator& c) {
  int32_t first = 1, second = 2;
  std::vector<Transfer> transfers;
  if (c.size() > 1 && c.rank() == 0) transfers = {to_rank(1, &first, 4), to_rank(1, &second, 4)};
  int32_t got[2] = {};
  if (c.rank() == 1) transfers = {from_rank(0, &got[0], 4), from_rank(0, &got[1], 4)};
  send_receive(c, transfers);
  return c.rank() != 1 || (got[0] == 1 && got[1] == 2) ? "" : cat("got ", got[0], " and ", got[1]);
}

// all_reduce and reduce_scatter of this rank's leaves.
std::string wrong_sums(Communicator& c, DType dtype, int64_t count, int64_t shards) {
  const size_t unit = size_of(dtype), bytes = size_t(count) * unit;
  const std::vector<char> leaves = own_leaves(c, dtype, count, shards), expected = expected_sum(dtype, count, shards);
  std::vector<char> all(bytes + 1, 'x'), slice(bytes + 1, 'x');
  const SumOf sum{.dtype = dtype, .count = count, .shards = shards};
  const std::string what = cat(": ", dtype, "[", count, "] in ", shards, " shards");
  all_reduce(c, sum, leaves.data(), all.data(), {.tensor = "w"});
  if (auto wrong = compare("all_reduce", all.data(), expected.data(), bytes); !wrong.empty()) return wrong + what;
  reduce_scatter(c, sum, leaves.data(), slice.data(), {.tensor = "w"});
  const Range own = part_of(count, c.size(), c.rank());
  const size_t own_bytes = size_t(own.size()) * unit;
  if (auto wrong = compare("reduce_scatter", slice.data(), expected.data() + size_t(own.begin) * unit, own_bytes); !wrong.empty())
    return wrong + what;
  return all[bytes] == 'x' && slice[own_bytes] == 'x' ? "" : "a sum was written beyond its end" + what;
}

std::string sums(Communicator& c) {
  for (const DType dtype : kSummed)
    for (const int64_t shards : {8, 11, 64}) {
      if (shards < c.size()) continue;
      for (const int64_t count : {0, 1, 7, 1000, 5003}) {
        if (count * shards > 8 * 5003) continue;
        if (auto wrong = wrong_sums(c, dtype, count, shards); !wrong.empty()) return wrong;
      }
    }
  return "";
}

// More than the memory that ranks share holds at once.
std::string long_sums(Communicator& c) {
  constexpr int64_t kShards = 11;
  if (c.size() > kShards) return "";
  for (const DType dtype : {DType::f32, DType::bf16})
    if (auto wrong = wrong_sums(c, dtype, 400'001, kShards); !wrong.empty()) return wrong;
  return "";
}

std::string plain_sums(Communicator& c) {
  for (const int64_t count : {1, 1000, 50000}) {
    const std::vector<char> own = leaf(DType::f32, count, c.rank());
    std::vector<char> all(own.size());
    all_reduce(c, DType::f32, own.data(), all.data(), count);
    if (auto wrong = compare("all_reduce", all.data(), expected_sum(DType::f32, count, c.size()).data(), all.size()); !wrong.empty())
      return wrong;
  }
  return "";
}

// A sum in the order of ranks must not have the tree's bits at 3 ranks; it has them at 1, 2, 4 and 8.
std::string rank_order_is_found(Communicator& c) {
  constexpr int64_t kCount = 1000, kShards = 8;
  if (c.size() > kShards) return "";
  const std::vector<char> leaves = own_leaves(c, DType::f32, kCount, kShards);
  std::vector<float> own(kCount), all(size_t(kCount * c.size()));
  const Range numbers = leaves_of(c, kShards);
  for (int64_t i = 0; i < numbers.size(); ++i)
    for (int64_t k = 0; k < kCount; ++k) {
      float x;
      std::memcpy(&x, leaves.data() + size_t(i * kCount + k) * sizeof x, sizeof x);
      own[size_t(k)] = i ? own[size_t(k)] + x : x;
    }
  all_gather(c, DType::f32, own.data(), all.data(), kCount);
  const std::vector<float> planted = rank_order_sum(c, all, kCount);
  const bool same = compare("", planted.data(), expected_sum(DType::f32, kCount, kShards).data(), kCount * 4).empty();
  return same && c.size() == 3 ? "a sum in the order of ranks has the tree's bits" : "";
}

// Sums by the library: near the tree's, with the same bits on every rank; integers have the tree's bits.
std::string sums_by_the_library(Communicator& c) {
  constexpr int64_t kShards = 11;
  if (c.size() > kShards) return "";
  for (const DType dtype : kSummed)
    for (const int64_t count : {0, 1, 1000, 50003}) {
      const std::vector<char> leaves = own_leaves(c, dtype, count, kShards), tree = expected_sum(dtype, count, kShards);
      std::vector<char> result(tree.size() + 1, 'x');
      all_reduce(c, {.dtype = dtype, .count = count, .shards = kShards, .reproducible = false}, leaves.data(), result.data());
      const std::string what = cat("a sum by the library of ", dtype, "[", count, "]");
      if (result.back() != 'x') return what + " was written beyond its end";
      result.pop_back();
      std::vector<char> all(result.size() * size_t(c.size()));
      all_gather(c, DType::u8, result.data(), all.data(), int64_t(result.size()));
      for (int r = 0; r < c.size(); ++r)
        if (!std::equal(result.begin(), result.end(), all.begin() + r * std::ptrdiff_t(result.size())))
          return what + " differs between ranks";
      std::string wrong;
      with_dtype(dtype, [&]<class T>() {
        const double unit = std::is_integral_v<T> ? 0 : dtype == DType::bf16 ? 0x1p-7 : dtype == DType::f16 ? 0x1p-9 : 0x1p-20;
        for (size_t i = 0; i < size_t(count); ++i) {
          T got, want;
          std::memcpy(static_cast<void*>(&got), result.data() + i * sizeof(T), sizeof(T));
          std::memcpy(static_cast<void*>(&want), tree.data() + i * sizeof(T), sizeof(T));
          // Leaves are below 1024, so rounding while they are added is below 11 * 1024 units in the last place of the wire.
          const double room = unit * std::abs(double(want)) + (std::is_integral_v<T> ? 0 : 11 * 1024 * 0x1p-22);
          if (!(std::abs(double(got) - double(want)) <= room)) wrong = cat(what, " is ", double(got), ", not ", double(want));
        }
      });
      if (!wrong.empty()) return wrong;
      if (dtype == DType::f32 && count > 1000 && c.size() == 3 && compare("", result.data(), tree.data(), tree.size()).empty())
        return what + " has the tree's bits";
    }
  // A rank that asks for the tree beside one that does not is one error on every rank.
  if (c.size() == 1) return "";
  std::string said;
  const std::vector<char> leaves = own_leaves(c, DType::f32, 5, kShards);
  std::vector<float> result(5);
  try {
    all_reduce(c, {.dtype = DType::f32, .count = 5, .shards = kShards, .reproducible = c.rank() != 1}, leaves.data(), result.data(),
               {.tensor = "w"});
  } catch (const Error& e) {
    said = e.what();
  }
  for (const char* part : {"ranks disagree about collective", "of f32[5] 'w' in any order", "of f32[5] 'w' in 11 shards"})
    if (said.find(part) == std::string::npos) return cat("'", part, "' is not in: ", said);
  barrier(c, {.tensor = "afterwards"});
  return "";
}

// Every rank throws the same error, which names both sides, and no data has moved.
std::string disagreement(Communicator& c) {
  if (c.size() == 1) return "";
  std::vector<float> own(101, 1), result(101, -1);
  std::string said;
  try {
    const int64_t count = c.rank() == 1 ? 101 : 100;
    all_reduce(c, DType::f32, own.data(), result.data(), count, {.tensor = "w", .line = "train.py:40"});
  } catch (const Error& e) {
    said = e.what();
    if (e.kind != ErrorKind::collective) return cat("another kind of error: ", said);
  }
  for (const char* part : {"ranks disagree about collective", "rank 1 ", "f32[101] 'w'", "f32[100] 'w'", "(train.py:40)"})
    if (said.find(part) == std::string::npos) return cat("'", part, "' is not in: ", said);
  if (result != std::vector<float>(101, -1)) return "data has moved";
  barrier(c, {.tensor = "afterwards"});  // the ranks agree again
  return "";
}

std::string bad_arguments(Communicator& c) {
  float x = 0;
  const auto kind_of = [&](auto call) {
    try {
      call();
    } catch (const Error& e) {
      return e.kind;
    }
    return ErrorKind::internal;
  };
  const SumOf few{.count = 1, .shards = c.size() - 1}, no_number{.dtype = DType::boolean, .count = 1}, negative{.count = -1, .shards = 64};
  if (kind_of([&] { all_reduce(c, few, &x, &x); }) != ErrorKind::invalid_argument) return "more ranks than shards";
  if (kind_of([&] { all_reduce(c, no_number, &x, &x); }) != ErrorKind::type) return "a sum of bool";
  if (kind_of([&] { all_reduce(c, negative, &x, &x); }) != ErrorKind::invalid_argument) return "a negative count";
  if (kind_of([&] { broadcast(c, DType::f32, &x, 1, c.size()); }) != ErrorKind::invalid_argument) return "a root that is not there";
  const Transfer self = to_rank(c.rank(), &x, 4);
  if (kind_of([&] { send_receive(c, {&self, 1}); }) != ErrorKind::invalid_argument) return "an exchange with itself";
  return "";
}

// Calls of graphs with a few collectives each, in which ranks fail before one of these or behind the last. Ranks that have collectives of
// the call left get the same error, and all go on with the same call.
std::string failures(Communicator& c) {
  std::mt19937 random(7);  // the same draws on every rank
  for (int call = 0; call < 200; ++call) {
    const int collectives = int(random() % 4);
    std::vector<int> fails;  // before which collective; beyond the last: never
    for (int r = 0; r < c.size(); ++r) fails.push_back(random() % 4 == 0 ? int(random() % unsigned(collectives + 1)) : 100);
    const int first = *std::min_element(fails.begin(), fails.end());
    const auto gather = [&](const char* name) {
      const int64_t own = call;
      std::vector<int64_t> all(size_t(c.size()));
      all_gather(c, DType::i64, &own, all.data(), 1, {.tensor = name});
      return std::all_of(all.begin(), all.end(), [&](int64_t other) { return other == call; });
    };
    if (random() % 3 == 0 && !gather("between")) return cat("ranks meet in other calls, before call ", call);
    std::string thrown;
    try {
      const bool met = in_graph_call(c, [&] {
        for (int i = 0; i <= collectives; ++i) {
          if (fails[size_t(c.rank())] == i) throw Error(ErrorKind::index, {.what = "a label", .where = "here", .why = "why", .fix = "fix"});
          if (i < collectives && !gather("sum")) return false;
        }
        return true;
      });
      if (!met) return cat("ranks meet in other calls, in call ", call);
    } catch (const Error& e) {
      if (e.kind != ErrorKind::index || e.parts.why != "why" || e.parts.fix != "fix") return e.what();
      thrown = e.parts.what;
    }
    const int failing = int(std::find(fails.begin(), fails.end(), first) - fails.begin());
    const std::string wanted = fails[size_t(c.rank())] == first && first < 100 ? "a label"
                               : first < collectives                           ? cat("rank ", failing, ": a label")
                                                                               : "";
    if (thrown != wanted) return cat("call ", call, " throws '", thrown, "' in place of '", wanted, "'");
  }
  barrier(c, {.tensor = "at the end"});
  return "";
}

constexpr Case kCases[] = {{"barriers", barriers},
                           {"broadcasts", broadcasts},
                           {"gathers", gathers},
                           {"exchanges", exchanges},
                           {"pieces_in_order", pieces_in_order},
                           {"sums", sums},
                           {"long_sums", long_sums},
                           {"plain_sums", plain_sums},
                           {"rank_order_is_found", rank_order_is_found},
                           {"sums_by_the_library", sums_by_the_library},
                           {"disagreement", disagreement},
                           {"failures", failures},
                           {"bad_arguments", bad_arguments}};

}  // namespace

std::span<const Case> conformance_cases() { return kCases; }

std::vector<char> leaf(DType dtype, int64_t count, int64_t number) {
  std::vector<char> out(size_t(count) * size_of(dtype));
  std::mt19937 random(unsigned(number) + 17);
  with_dtype(dtype, [&]<class T>() {
    for (int64_t i = 0; i < count; ++i) {
      const double size = std::ldexp(1.0, int(random() % 21) - 10), part = double(random()) / 2147483648.0 - 1;
      T x;
      if constexpr (std::is_integral_v<T>)
        x = T(random());
      else
        x = T(float(part * size));
      std::memcpy(out.data() + size_t(i) * sizeof(T), static_cast<const void*>(&x), sizeof(T));
    }
  });
  return out;
}

std::vector<char> own_leaves(const Communicator& c, DType dtype, int64_t count, int64_t shards) {
  std::vector<char> out;
  const Range own = leaves_of(c, shards);
  for (int64_t i = own.begin; i < own.end; ++i) {
    const std::vector<char> one = leaf(dtype, count, i);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

std::vector<char> expected_sum(DType dtype, int64_t count, int64_t shards) {
  std::vector<char> out(size_t(count) * size_of(dtype));
  with_dtype(dtype, [&]<class T>() {
    const auto sum = tree<T>(count, 0, shards);
    for (size_t i = 0; i < sum.size(); ++i) {
      const T x = T(sum[i]);
      std::memcpy(out.data() + i * sizeof(T), static_cast<const void*>(&x), sizeof(T));
    }
  });
  return out;
}

std::vector<float> rank_order_sum(const Communicator& c, const std::vector<float>& sums, int64_t count) {
  std::vector<float> out(sums.begin(), sums.begin() + count);
  for (int r = 1; r < c.size(); ++r)
    for (int64_t k = 0; k < count; ++k) out[size_t(k)] += sums[size_t(r * count + k)];
  return out;
}

}  // namespace lamina::distributed::tests
