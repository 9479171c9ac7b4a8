#include "graph/cost/ranks.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "graph/cost/predict.h"
#include "runtime/core/error.h"
#include "runtime/device/backend.h"
#include "runtime/dist/collectives.h"

namespace lamina::cost {
namespace {

// NCCL's own model, in microseconds: src/graph/tuning.cc of github.com/NVIDIA/nccl. A message in its Simple protocol, and a ring in LL: a
// base, and each hop inside of a host by NVLink or PCI Express, or between hosts. LL hops of a host take 1.8 times as long with several
// hosts.
constexpr double kSimpleBase = 8.4, kRingBase = 3.6;
struct Hops {
  double simple, ring;
};
constexpr Hops kNvlinkHop{3.4, 0.47}, kPcieHop{5.7, 1.0}, kHostHop{9.6, 2.7};
constexpr double kRingOfHosts = 1.8;
// src/device/symmetric in the same place: kernels that read the other ranks' memory begin after 4.5 us when each rank reads all of the
// others' arrays (LL), and 7.8 us when it reads a slice and gathers the rest.
constexpr double kReadAll = 4.5, kReadSlice = 7.8;
// One 400 Gbit/s adapter of InfiniBand NDR per GPU, as in NVIDIA's DGX H100, at four fifths.
constexpr double kInfiniband = 40e3;
// The kernel that adds slices in the tree's order: a launch, and its reads at a usual share of a card's memory.
constexpr double kAddBytes = 3.35e6 * 0.7;

Link inside(const Ranks& r) {
  const Device first{r.device.kind, r.device.model, 0}, second{r.device.kind, r.device.model, 1};
  return Costs::here().link(first, second);
}
bool is_nvlink(const Ranks& r) { return std::string_view(inside(r).name).starts_with("NVLink"); }

// Each rank gets a slice of everyone's array, adds it, and all gather the slices: NCCL moves bytes.
SumTime by_nccl(const Ranks& r, double bytes) {
  const double n = r.count, on_host = n / r.hosts;
  const Hops hop = is_nvlink(r) ? kNvlinkHop : kPcieHop;
  double phase = bytes * (on_host - 1) / n / inside(r).bytes;
  if (r.hosts > 1) phase = std::max(phase, bytes * (n - on_host) / n / kInfiniband);
  const double pieces = kSimpleBase + (r.hosts > 1 ? kHostHop.simple : hop.simple);
  const double gather =
      kRingBase + (n - r.hosts) * hop.ring * (r.hosts > 1 ? kRingOfHosts : 1) + (r.hosts > 1 ? (r.hosts - 1) * kHostHop.ring : 0);
  const double add = kLaunchMicroseconds + bytes / kAddBytes;
  return {pieces + gather + add + 2 * phase, 2 * phase + add};
}

SumTime by_reading(const Ranks& r, double bytes) {
  const double n = r.count, all = (n - 1) * bytes / inside(r).bytes, slices = 2 * (n - 1) / n * bytes / inside(r).bytes;
  const SumTime one{kReadAll + all, all}, two{kReadSlice + slices, slices};
  return one.microseconds <= two.microseconds ? one : two;
}

std::vector<double> together(const std::vector<double>& gradients, int sums) {
  std::vector<double> out(size_t(sums), 0);
  for (size_t i = 0; i < gradients.size(); ++i) out[i * size_t(sums) / gradients.size()] += gradients[i];
  return out;
}

}  // namespace

const char* name(Exchange exchange) {
  switch (exchange) {
    case Exchange::after: return "one sum by NCCL after the backward pass";
    case Exchange::beside: return "sums by NCCL beside the backward pass";
    case Exchange::in_launch: return "sums in the step's launch";
  }
  return "";
}

bool reach_memory(const Ranks& r) { return r.hosts == 1 && is_nvlink(r); }

SumTime sum_time(const Ranks& ranks, Exchange exchange, double bytes) {
  if (ranks.count < 1 || ranks.hosts < 1 || ranks.count % ranks.hosts) internal_error("ranks are not evenly on hosts");
  if (ranks.count == 1 || bytes == 0) return {};
  return exchange == Exchange::in_launch ? by_reading(ranks, bytes) : by_nccl(ranks, bytes);
}

Play play_of(const Step& step, const Ranks& ranks, Exchange exchange, int sums) {
  const std::vector<double> bytes = together(step.gradients, sums);
  const double forward = step.microseconds / 3, backward = step.microseconds - forward, piece = backward / double(sums);
  Play out;
  out.streams = 2 * ranks.count + 1;
  const int meetings = 2 * ranks.count;  // a stream of its own: where the ranks' signals come together
  std::vector<std::vector<std::pair<int, double>>> finished(static_cast<size_t>(sums));
  for (int r = 0; r < ranks.count; ++r) {
    out.add({.stream = r, .microseconds = forward}, {});
    for (int s = 0; s < sums; ++s) finished[size_t(s)].emplace_back(out.add({.stream = r, .microseconds = piece}, {}), 0);
  }
  std::vector<std::vector<std::pair<int, double>>> summed(static_cast<size_t>(ranks.count));
  for (int s = 0; s < sums; ++s) {
    const SumTime time = sum_time(ranks, exchange, bytes[size_t(s)]);
    const int all = out.add({.stream = meetings}, finished[size_t(s)]);
    for (int r = 0; r < ranks.count; ++r)
      summed[size_t(r)].emplace_back(out.add({.stream = ranks.count + r, .microseconds = time.occupied}, {{all, 0}}),
                                     time.microseconds - time.occupied);
  }
  // What is left of the step is the update of the last gradients; the others' updates lie within the backward pass.
  const bool exchanges = ranks.count > 1 && !step.gradients.empty();
  const double update = exchanges ? step.microseconds / 3 / double(step.gradients.size()) : 0;
  const double launch = exchanges && exchange != Exchange::in_launch ? kLaunchMicroseconds : 0;
  for (int r = 0; r < ranks.count; ++r) out.add({.stream = r, .microseconds = update + launch}, summed[size_t(r)]);
  return out;
}

StepTime step_time(const Step& step, const Ranks& ranks, Exchange exchange) {
  const int most = exchange == Exchange::after ? 1 : std::max<int>(1, int(step.gradients.size()));
  StepTime best{exchange, 1, -1, 0};
  for (int sums = exchange == Exchange::beside ? std::min(2, most) : 1;; sums = std::min(sums * 2, most)) {
    const double time = simulate(play_of(step, ranks, exchange, sums)).microseconds;
    if (best.microseconds < 0 || time < best.microseconds) best = {exchange, sums, time, std::max(0.0, time - step.microseconds)};
    if (sums == most) return best;
  }
}

StepTime step_time(const Step& step, const HostRank& rank) {
  constexpr double kWorthIt = 0.98;  // of the time with fewer sums
  const int most = std::max<int>(1, int(step.gradients.size()));
  StepTime best{Exchange::after, 1, -1, 0};
  for (int sums = 1;; sums = std::min(2 * sums, most)) {
    Play play{.tasks = {}, .after = {}, .resources = {std::max(rank.cores, rank.threads)}, .streams = 2};
    const auto add = [&](int stream, double microseconds, double cores, const std::vector<std::pair<int, double>>& after) {
      return play.add({.stream = stream, .microseconds = microseconds, .resources = {0, -1}, .amounts = {cores, 0}}, after);
    };
    const double forward = step.microseconds / 3, piece = (step.microseconds - forward) / sums;
    const double hand_over = sums > 1 ? Costs::here().cpu().hand_over : 0;
    add(0, forward, rank.threads, {});
    for (const double bytes : together(step.gradients, sums)) {
      const int made = add(0, piece, rank.threads, {});
      add(1, rank.sums.microseconds(bytes), 1, {{made, hand_over}});
    }
    const double time = simulate(play).microseconds;
    if (best.microseconds < 0 || time < best.microseconds * kWorthIt)
      best = {sums > 1 ? Exchange::beside : Exchange::after, sums, time, std::max(0.0, time - step.microseconds)};
    if (sums == most) return best;
  }
}

std::string text(const Ranks& r) {
  std::string out = cat(r.count, r.count == 1 ? " rank of " : " ranks of ", Device{r.device.kind, r.device.model, 0}, " on ", r.hosts,
                        r.hosts == 1 ? " host" : " hosts");
  if (r.count > r.hosts) out += cat(", joined by ", inside(r).name);
  if (r.hosts > 1) out += cat(r.count > r.hosts ? " and" : ", joined by", " InfiniBand NDR (one 400 Gbit/s adapter a GPU) between hosts");
  return out;
}

HostSums measured_sums(distributed::Communicator& c) {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kFew = 16, kMany = 1 << 18;  // elements
  constexpr size_t kArrays = 4;                 // by turns: gradients come from memory or a cache that cores share
  std::vector<float> own(kArrays * kMany, 1.0f), all(kArrays * kMany);
  double best[2] = {1e12, 1e12};
  for (size_t i = 0; i < 12; ++i)
    for (const int size : {0, 1}) {
      const size_t at = i % kArrays * kMany;
      const auto start = Clock::now();
      distributed::all_reduce(c, DType::f32, own.data() + at, all.data() + at, int64_t(size ? kMany : kFew), {.tensor = "measured"});
      best[size] = std::min(best[size], std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
  std::vector<double> of_all(2 * size_t(c.size()));
  distributed::all_gather(c, DType::f64, best, of_all.data(), 2, {.tensor = "measured"});
  for (size_t r = 0; r < of_all.size(); r += 2) best[0] = std::max(best[0], of_all[r]), best[1] = std::max(best[1], of_all[r + 1]);
  return {.latency = best[0], .bytes = double(kMany * sizeof(float)) / std::max(best[1] - best[0], 1.0)};
}

}  // namespace lamina::cost
