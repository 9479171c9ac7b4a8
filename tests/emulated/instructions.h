// Tests every function of kernels/cuda/device.h that is an instruction on a GPU and has a twin on the host. The expected results come from
// the manuals. instructions_test.cpp runs the kernels on the emulation, perf/gpu/instructions.cu on a card, so both must agree.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "tests/emulated/instructions_of_numbers.h"

namespace lamina::kernels::cuda::instructions {

// --- lanes ---

constexpr unsigned kKinds = 5, kVotes = 4;  // shuffle, up, down, xor, and xor among half of the lanes, as is the last vote
template <class T>
LAMINA_KERNEL(64)
lanes(T* out, unsigned* votes) {
  const unsigned l = lane();
  out += warp_index() * kKinds * kWarp * kWarp, votes += warp_index() * kVotes * kWarp * kWarp;
  const T v = T((l + 1) * 0x9e3779b97f4a7c15ull);
  for (unsigned k = 0; k < kWarp; ++k) {
    const T values[] = {shuffle(v, k), shuffle_up(v, k), shuffle_down(v, k), shuffle_xor(v, k)};
    for (unsigned kind = 0; kind < 4; ++kind) out[(kind * kWarp + k) * kWarp + l] = values[kind];
    const unsigned found[] = {ballot(l >= k), any(l == k) ? 1u : 0u, all(l != k) ? 1u : 0u};
    for (unsigned kind = 0; kind < 3; ++kind) votes[(kind * kWarp + k) * kWarp + l] = found[kind];
  }
  if (l >= 16) return;
  for (unsigned k = 0; k < kWarp; ++k) {
    out[(4 * kWarp + k) * kWarp + l] = shuffle_xor(v, k % 16, 0xffffu);
    votes[(3 * kWarp + k) * kWarp + l] =
        ballot(l == k, 0xffffu) | (all(l != k, 0xffffu) ? 1u << 31 : 0) | (any(l == k, 0xffffu) ? 1u << 30 : 0);
  }
}
template <class T, class M>
bool lanes_agree(M& m) {
  constexpr unsigned warps = 2;
  T* out = m.put(std::vector<T>(warps * kKinds * kWarp * kWarp));
  unsigned* votes = m.put(std::vector<unsigned>(warps * kVotes * kWarp * kWarp));
  launch<lanes<T>>(m.stream(), {.threads = warps * kWarp}, out, votes);
  const std::vector<T> got = m.take(out, warps * kKinds * kWarp * kWarp);
  const std::vector<unsigned> said = m.take(votes, warps * kVotes * kWarp * kWarp);
  bool agree = true;
  for (unsigned w = 0; w < warps; ++w)
    for (unsigned k = 0; k < kWarp; ++k)
      for (unsigned l = 0; l < kWarp; ++l) {
        const unsigned from[kKinds] = {k, l < k ? l : l - k, l + k < kWarp ? l + k : l, l ^ k, l ^ k % 16};
        const unsigned want[kVotes] = {kAllLanes << k, 1, 0, k < 16 ? 1u << k | 1u << 30 : 1u << 31};
        for (unsigned kind = 0; kind < kKinds; ++kind)
          if (kind < 4 || l < 16)
            agree &= got[((w * kKinds + kind) * kWarp + k) * kWarp + l] == T((from[kind] + 1) * 0x9e3779b97f4a7c15ull);
        for (unsigned kind = 0; kind < kVotes; ++kind)
          if (kind < 3 || l < 16) agree &= said[((w * kVotes + kind) * kWarp + k) * kWarp + l] == want[kind];
      }
  return agree;
}

// --- atomics ---

struct Words {
  int add = 0, least = 1 << 30, most = -(1 << 30);
  unsigned sum = 0, low = ~0u, high = 0, bits = 0, ticket = 0, last = 7, raised = 0;
  unsigned long long wide = 0, wide_raised = 0;
  long long wide_least = 1ll << 60, wide_most = -(1ll << 60);
  double real = 0;
  float single = 0;
};
LAMINA_KERNEL(128) atomics(Words* words, unsigned* tickets, unsigned* exchanged) {
  const unsigned g = block_index() * block_size() + thread_index();
  const int i = int(g) - 100;
  atomic_add(&words->add, i), atomic_min(&words->least, i), atomic_max(&words->most, i);
  atomic_add(&words->sum, g), atomic_min(&words->low, g + 3), atomic_max(&words->high, g), atomic_or(&words->bits, 1u << g % 31);
  atomic_add(&words->wide, static_cast<unsigned long long>(g) << 32);
  atomic_min(&words->wide_least, (long long)(i) * (1ll << 33)), atomic_max(&words->wide_most, (long long)(i) * (1ll << 33));
  atomic_add(&words->real, 0.5 * g), atomic_add(&words->single, 0.5f * float(g));
  tickets[g] = atomic_add(&words->ticket, 1u);
  exchanged[g] = atomic_exchange(&words->last, g + 100);
  for (unsigned old = 0, seen = 0; (seen = atomic_cas(&words->raised, old, old + 1)) != old; old = seen) {
  }
  for (unsigned long long old = 0, seen = 0; (seen = atomic_cas(&words->wide_raised, old, old + (1ull << 32))) != old; old = seen) {
  }
}
template <class M>
bool atomics_agree(M& m) {
  constexpr unsigned blocks = 8, n = blocks * 128;
  Words* words = m.put(std::vector<Words>(1));
  unsigned *tickets = m.put(std::vector<unsigned>(n)), *exchanged = m.put(std::vector<unsigned>(n));
  launch<atomics>(m.stream(), {.grid = {blocks}, .threads = 128}, words, tickets, exchanged);
  const Words w = m.take(words, 1)[0];
  std::vector<unsigned> order = m.take(tickets, n), chain = m.take(exchanged, n);
  chain.push_back(w.last);  // each number was stored once, and removed or left once
  std::sort(order.begin(), order.end()), std::sort(chain.begin(), chain.end());
  bool agree = chain[0] == 7;
  for (unsigned g = 0; g < n; ++g) agree &= order[g] == g && chain[g + 1] == g + 100;
  const unsigned sum = n * (n - 1) / 2;
  agree &= w.add == int(sum) - 100 * int(n) && w.least == -100 && w.most == int(n) - 101 && w.sum == sum && w.low == 3 && w.high == n - 1 &&
           w.bits == 0x7fffffffu;
  agree &= w.wide == static_cast<unsigned long long>(sum) << 32 && w.wide_least == -100 * (1ll << 33) &&
           w.wide_most == (int(n) - 101) * (1ll << 33);
  return agree && w.real == 0.5 * sum && w.single == 0.5f * float(sum) && w.ticket == n && w.raised == n &&
         w.wide_raised == static_cast<unsigned long long>(n) << 32;
}

// --- copies and barriers of a block ---

LAMINA_KERNEL(64) copies(const unsigned* from, unsigned* out) {
  const unsigned t = thread_index(), n = block_size();
  unsigned* to = dynamic_shared<unsigned>();  // n pieces of 4 words, of 2, of 1
  LAMINA_SHARED(unsigned, fixed, 64);
  copy_async<16>(to + 4 * t, from + 4 * t);
  commit_copies();
  copy_async<8>(to + 4 * n + 2 * t, from + 4 * n + 2 * t);
  copy_async<4>(to + 6 * n + t, from + 6 * n + t);
  commit_copies();
  wait_copies<1>();
  fixed[t] = to[4 * t] + to[4 * t + 3];  // a thread's own
  wait_copies<0>();
  sync_block();
  for (unsigned i = t; i < 7 * n; i += n) out[i] = to[7 * n - 1 - i];  // other threads' values
  out[7 * n + t] = fixed[n - 1 - t];
  // Over what came before: odd threads' copies are zeros, and nothing is read at their addresses.
  sync_block();
  const unsigned far = t % 2 ? 1u << 28 : 0;
  copy_async<16>(to + 4 * t, from + 4 * t + far, far == 0);
  copy_async<4>(to + 6 * n + t, from + 6 * n + t + far, far == 0);
  commit_copies();
  wait_copies<0>();
  out[9 * n + t] = to[4 * t] + to[4 * t + 3] + to[6 * n + t];
  unsigned seen = 0;
  for (unsigned k = 0; k < n; ++k) seen += sync_block_or(t == k) ? 1 : 0;
  out[8 * n + t] = seen + (sync_block_or(false) ? 1000 : 0);
}
template <class M>
bool copies_agree(M& m) {
  constexpr unsigned n = 64;
  std::vector<unsigned> from(7 * n);
  for (unsigned i = 0; i < from.size(); ++i) from[i] = i * i + 1;
  unsigned* out = m.put(std::vector<unsigned>(10 * n));
  launch<copies>(m.stream(), {.threads = n, .shared_bytes = 7 * n * 4}, m.put(from), out);
  const std::vector<unsigned> got = m.take(out, 10 * n);
  bool agree = true;
  for (unsigned i = 0; i < 7 * n; ++i) agree &= got[i] == from[7 * n - 1 - i];
  for (unsigned t = 0; t < n; ++t) agree &= got[9 * n + t] == (t % 2 ? 0 : from[4 * t] + from[4 * t + 3] + from[6 * n + t]);
  for (unsigned t = 0; t < n; ++t) agree &= got[7 * n + t] == from[4 * (n - 1 - t)] + from[4 * (n - 1 - t) + 3] && got[8 * n + t] == n;
  return agree;
}

// --- blocks that wait for each other ---

constexpr unsigned kRounds = 16;
// In each round a block writes, signals, waits for the next block, and reads its data.
LAMINA_KERNEL(64) hand_on(unsigned* data, unsigned* raised, unsigned* stored, unsigned* wrong) {
  const unsigned t = thread_index(), n = block_size(), b = block_index(), next = (b + 1) % block_count();
  for (unsigned r = 0; r < kRounds; ++r) {
    unsigned* of_round = data + r * block_count() * n;
    of_round[b * n + t] = r * 10000 + b * 100 + t;
    sync_block();
    if (t == 0) {
      if (r % 2 == 0) {
        add_release(&raised[b], 2);
        while (load_acquire(&raised[next]) < r + 2) pause();
      } else {
        store_release(&stored[b], r);
        while (load_acquire(&stored[next]) < r) pause();
      }
    }
    sync_block();
    if (load_shared_between_blocks(&of_round[next * n + (t + 1) % n]) != r * 10000 + next * 100 + (t + 1) % n) atomic_add(wrong, 1u);
  }
}
template <class M>
bool waits_agree(M& m) {
  constexpr unsigned blocks = 8, n = 64;
  unsigned *data = m.put(std::vector<unsigned>(kRounds * blocks * n)), *raised = m.put(std::vector<unsigned>(blocks)),
           *stored = m.put(std::vector<unsigned>(blocks));
  unsigned* wrong = m.put(std::vector<unsigned>(1));
  launch<hand_on>(m.stream(), {.grid = {blocks}, .threads = n, .cooperative = true}, data, raised, stored, wrong);
  return m.take(wrong, 1)[0] == 0 && m.take(raised, blocks) == std::vector<unsigned>(blocks, kRounds) &&
         m.take(stored, blocks) == std::vector<unsigned>(blocks, kRounds - 1);
}

// Warp 0 makes numbers, warp 1 adds them up at a barrier of the two, warp 2 learns of each sum from a word and counts it.
LAMINA_KERNEL(96) relay(unsigned* sums, unsigned* counter, unsigned rounds) {
  LAMINA_SHARED(unsigned, numbers, 2 * 32);
  LAMINA_SHARED(unsigned, done, 1);
  if (thread_index() == 0) *done = 0;
  sync_block();
  for (unsigned round = 0; round < rounds; ++round) {
    if (warp_index() == 0) {
      numbers[round % 2 * 32 + lane()] = round + lane();
      sync_some<1, 64>();
    } else if (warp_index() == 1) {
      sync_some<1, 64>();
      unsigned sum = 0;
      for (unsigned l = 0; l < kWarp; ++l) sum += numbers[round % 2 * 32 + l];
      if (lane() == 0) sums[round] = sum, store_release_in_block(done, round + 1);
      sync_warp();
    } else {
      while (load_acquire_in_block(done) <= round) pause();
      if (lane() == 0) add_release(counter, sums[round]);
    }
  }
}
template <class M>
bool relays_agree(M& m) {
  constexpr unsigned rounds = 20;
  unsigned* sums = m.put(std::vector<unsigned>(rounds));
  unsigned* counter = m.put(std::vector<unsigned>{0});
  launch<relay>(m.stream(), {.threads = 96}, sums, counter, rounds);
  unsigned all = 0;
  for (unsigned round = 0; round < rounds; ++round) all += 32 * round + 31 * 16;
  return m.take(counter, 1)[0] == all;
}

// Names of the functions whose results differ from the manuals. M provides memory: put(vector) returns its address there, take(address,
// count) waits and returns the contents. numbers: how many to try per arithmetic instruction.
template <class M>
std::vector<std::string> wrong(M& m, unsigned numbers = 4096) {
  std::vector<std::string> out;
  const auto add = [&](bool agrees, const char* name) {
    if (!agrees) out.push_back(name);
  };
  add(multiply_adds_agree<float>(m, numbers), "fma, float; or a product and a sum are one instruction");
  add(multiply_adds_agree<double>(m, numbers), "fma, double; or a product and a sum are one instruction");
  add(lanes_agree<unsigned>(m), "shuffles of 4 bytes, votes");
  add(lanes_agree<unsigned long long>(m), "shuffles of 8 bytes, votes");
  add(atomics_agree(m), "atomics");
  add(copies_agree(m), "copy_async, also of zeros, sync_block_or");
  add(waits_agree(m), "release and acquire between blocks");
  add(relays_agree(m), "barriers of some warps, words of a block, counters behind a fence");
  return out;
}

}  // namespace lamina::kernels::cuda::instructions
