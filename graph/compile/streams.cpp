#include "graph/compile/streams.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "graph/compile/select.h"
#include "graph/ops/collectives.h"
#include "graph/ops/ops.h"
#include "kernels/section/flatten.h"
#include "runtime/core/settings.h"

namespace lamina::compile {
namespace {

using exec::StorageKind;

// Smaller work takes about as long as waiting for its event. An estimate, not measured on a card.
constexpr double kLargeBytes = 1 << 20, kLargeMultiplyAdds = 4 << 20;
constexpr double kMultiplyAddsPerByte = 10;  // balance of a card's arithmetic and memory, to compare the two
constexpr size_t kMostGroups = 4096;         // above, everything is on one stream, because planning memory is then quadratic

class StreamPlanner {
 public:
  StreamPlanner(Lowered& lowered, const ir::Graph& g, const Options& options) : in_(lowered), g_(g), options_(options) {}

  void run() {
    if (options_.memory_budget <= 0) find_exchanges();
    group_work();
    name_first_streams();
    const bool alone = options_.memory_budget > 0 || groups().size() > kMostGroups;
    for (Group& g : groups()) g.exchange = g.exchange && !alone;
    if (const int asked = options_.streams > 0 ? options_.streams : int(config::number(Setting::cuda_streams).value_or(kUsualStreams));
        !alone)
      most_ = std::min(asked, kMostStreams);
    const auto may_have_several = [&](Device d) { return d.kind != DeviceKind::cpu || options_.streams > 1; };
    const bool several = most_ > 1 && std::any_of(in_.streams.begin(), in_.streams.end(), may_have_several);
    const bool exchanges = std::any_of(groups().begin(), groups().end(), [](const Group& g) { return g.exchange; });
    if (!several && !exchanges) return;
    find_dependencies();
    find_costs();
    const size_t all = in_.streams.size() * size_t(most_ + 1);
    last_.assign(all, -1), tail_.assign(all, -1), last_large_.assign(all, -1), load_.assign(all, 0);
    for (int i = 0; i < int(groups().size()); ++i) {
      std::vector<int>& done = group(i).done;
      done.assign(all, -1);
      for (int p : before_[size_t(i)]) add_end(done, p);
      wait_for_the_card(i);
      const int stream = group(i).exchange                        ? exchange_stream(device(i))
                         : several && may_have_several(device(i)) ? choose(i)
                                                                  : group(i).stream;
      group(i).stream = stream;
      if (const int previous = last_[size_t(stream)]; previous >= 0) add_end(done, previous);
      last_[size_t(stream)] = i;
      if (large_[size_t(i)]) last_large_[size_t(stream)] = i;
      if (!group(i).exchange && (chain_is_large_[size_t(i)] || is_pinned(i))) tail_[size_t(stream)] = i;
      load_[size_t(stream)] += cost_[size_t(i)];
    }
  }

 private:
  std::vector<Group>& groups() { return in_.groups; }
  Group& group(int i) { return in_.groups[size_t(i)]; }
  std::span<const Work> work(int i) { return std::span(in_.work).subspan(group(i).begin, group(i).end - group(i).begin); }
  Device device(int i) { return in_.work[group(i).begin].device; }

  // --- instructions ---
  bool can_join(const Work& work) const {
    if (!options_.sections || !work.step) return false;
    return work.device.kind == DeviceKind::cpu || !why_in_no_section(work, options_);
  }
  // One past the last work of the section that begins with work i.
  size_t section_end(size_t i) const {
    size_t end = i;
    std::set<int> pieces;  // blocks of memory, whose addresses are launch arguments on a GPU
    section::Needs needs;
    while (end < in_.work.size() && can_join(in_.work[end]) && in_.work[end].device == in_.work[i].device) {
      if (end > i && waits_for_exchange(in_.work[end])) break;
      if (in_.work[i].device.kind != DeviceKind::cpu) {
        for (const auto* places : {&in_.work[end].inputs, &in_.work[end].outputs})
          for (const Place& place : *places)
            pieces.insert(in_.storages[size_t(place.storage)].kind == StorageKind::arena ? -1 : place.storage);
        if (in_.work[end].nested) needs += section::needs_of(*in_.work[end].nested);
        if (pieces.size() + size_t(needs.constants) > size_t(section::kMostBases) || section::why_too_much(needs)) break;
      }
      ++end;
    }
    return end;
  }
  void group_work() {
    for (size_t i = 0; i < in_.work.size();) {
      const size_t end = section_end(i);
      const bool sums = in_.work[i].step && in_.work[i].step->sum;
      const bool alone = options_.lone_sections || in_.work[i].nested || sums || !in_.work[i].kernel;
      const bool section = end > i + 1 || (end > i && alone);
      const bool loops = in_.work[i].node >= 0 && ops::owns_programs(g_[in_.work[i].node]);
      const bool exchange = !exchanges_.empty() && exchanges_[i];
      groups().push_back(
          {.begin = i, .end = section ? end : i + 1, .section = section, .alone = section || loops, .exchange = exchange, .done = {}});
      for (; i < groups().back().end; ++i)
        for (const Place& place : in_.work[i].inputs) exchanged_.erase(place.storage);
      for (const Place& place : in_.work[i - 1].outputs)
        if (exchange) exchanged_.insert(place.storage);
    }
  }
  int first_stream_on(Device device) {
    for (size_t s = 0; s < in_.streams.size(); ++s)
      if (in_.streams[s] == device) return int(s);
    in_.streams.push_back(device);
    return int(in_.streams.size()) - 1;
  }
  void name_first_streams() {
    first_stream_on(options_.device);  // the first stream: it runs on the caller's thread
    for (int i = 0; i < int(groups().size()); ++i) {
      group(i).stream = first_stream_on(device(i));
      if (const Work& only = work(i)[0]; !only.kernel && !group(i).section)
        first_stream_on(in_.storage_devices[size_t(only.inputs[0].storage)]);
    }
  }

  // --- what needs what ---
  void find_dependencies() {
    struct Access {
      section::OperandRange range;
      int group;
      bool write;
    };
    std::vector<std::vector<Access>> accesses(in_.storages.size());
    before_.resize(groups().size()), after_.resize(groups().size());
    for (int i = 0; i < int(groups().size()); ++i) {
      std::set<int> before;
      const auto touch = [&](const Place& place, bool write) {
        const section::OperandRange range = section::range_of(place.view, place.storage, place.offset);
        std::vector<Access>& list = accesses[size_t(place.storage)];
        for (const Access& a : list)
          if ((write || a.write) && a.group != i && a.range.begin < range.end && range.begin < a.range.end) before.insert(a.group);
        // The later node depends on the earlier one.
        if (write && range.begin <= 0 && range.end >= in_.storages[size_t(place.storage)].bytes) list.clear();
        list.push_back({range, i, write});
      };
      for (const Work& w : work(i)) {
        for (const Place& place : w.inputs) touch(place, false);
        for (const Place& place : w.outputs) touch(place, true);
      }
      before_[size_t(i)].assign(before.begin(), before.end());
      for (int p : before) after_[size_t(p)].push_back(i);
    }
  }

  // --- exchanges between ranks ---
  // Those with large work of their device that comes after them and before what needs their results.
  void find_exchanges() {
    exchanges_.assign(in_.work.size(), false);
    for (size_t e = 0; e < in_.work.size(); ++e) {
      const int node = in_.work[e].node;
      if (node < 0 || g_[node].op->effect != ir::Effect::ranks || ir::attrs_of<ops::CollectiveAttrs>(*g_[node].attrs).ranks < 2 ||
          in_.work[e].step)
        continue;
      std::set<int> results;
      for (const Place& place : in_.work[e].outputs) results.insert(place.storage);
      double beside = 0;
      for (size_t w = e + 1; w < in_.work.size() && !exchanges_[e]; ++w) {
        const Work& work = in_.work[w];
        if (std::any_of(work.inputs.begin(), work.inputs.end(), [&](const Place& p) { return results.contains(p.storage); })) break;
        if (work.device != in_.work[e].device || (work.node >= 0 && on_host(g_[work.node]))) continue;
        beside += bytes_of(work) + multiply_adds(work, g_) / kMultiplyAddsPerByte;
        exchanges_[e] = options_.share_all_streams || beside >= kLargeBytes;
      }
    }
  }
  bool waits_for_exchange(const Work& work) const {
    return std::any_of(work.inputs.begin(), work.inputs.end(), [&](const Place& p) { return exchanged_.contains(p.storage); });
  }
  // One for each device: exchanges keep their order.
  int exchange_stream(Device device) {
    const auto known =
        std::find_if(exchange_streams_.begin(), exchange_streams_.end(), [&](int s) { return in_.streams[size_t(s)] == device; });
    if (known != exchange_streams_.end()) return *known;
    in_.streams.push_back(device);
    return *exchange_streams_.insert(int(in_.streams.size()) - 1).first;
  }
  bool is_for_work(int stream, Device device) const { return in_.streams[size_t(stream)] == device && !exchange_streams_.contains(stream); }

  void find_costs() {
    const size_t count = groups().size();
    cost_.assign(count, 0), height_.assign(count, 0);
    large_.assign(count, false), chain_is_large_.assign(count, false);
    critical_.assign(count, -1);
    for (size_t i = count; i-- > 0;) {
      double bytes = 0, products = 0;
      for (const Work& w : work(int(i))) {
        products += multiply_adds(w, g_);
        bytes += bytes_of(w);
      }
      cost_[i] = 1 + bytes + products / kMultiplyAddsPerByte;
      large_[i] = options_.share_all_streams || bytes >= kLargeBytes || products >= kLargeMultiplyAdds;
      for (int next : after_[i])
        if (critical_[i] < 0 || height_[size_t(next)] > height_[size_t(critical_[i])]) critical_[i] = next;
      height_[i] = cost_[i] + (critical_[i] < 0 ? 0 : height_[size_t(critical_[i])]);
      const bool goes_on = after_[i].size() == 1 && before_[size_t(after_[i][0])].size() == 1;
      chain_is_large_[i] = large_[i] || (goes_on && chain_is_large_[size_t(after_[i][0])]);
    }
  }

  // --- streams ---
  bool is_pinned(int i) {
    const Work& first = work(i)[0];
    return group(i).alone || !first.kernel || (first.node >= 0 && on_host(g_[first.node]));
  }
  // Work that needs its device alone comes after all earlier work and before all later work.
  void wait_for_the_card(int i) {
    std::vector<int>& done = group(i).done;
    if (group(i).exchange) return;
    for (size_t t = 0; group(i).alone && t < in_.streams.size(); ++t)
      if (is_for_work(int(t), device(i)) && last_[t] >= 0) add_end(done, last_[t]);
    const auto before = last_alone_.find(device(i));
    if (before != last_alone_.end()) add_end(done, before->second);
    if (group(i).alone) last_alone_[device(i)] = i;
  }
  void add_end(std::vector<int>& done, int p) {
    for (size_t t = 0; t < done.size(); ++t) done[t] = std::max(done[t], group(p).done[t]);
    int& own = done[size_t(group(p).stream)];
    own = std::max(own, p);
  }
  // Whether the group that continues the last group's stream is still to come.
  bool is_awaited(int stream, int i) const {
    const int tail = tail_[size_t(stream)];
    return tail >= 0 && critical_[size_t(tail)] > i;
  }
  // Whether something large can run at the same time.
  bool has_company(int i) {
    for (size_t t = 0; t < in_.streams.size(); ++t)
      if (is_for_work(int(t), device(i)) && last_large_[t] > group(i).done[t]) return true;
    return std::any_of(before_[size_t(i)].begin(), before_[size_t(i)].end(), [&](int p) {
      const int other = critical_[size_t(p)];
      return other > i && !group(other).alone && device(other) == device(i) && chain_is_large_[size_t(other)];
    });
  }
  int choose(int i) {
    const int first = group(i).stream;
    if (is_pinned(i)) return first;
    const bool branches = chain_is_large_[size_t(i)] && has_company(i);
    int on = -1;
    for (int p : before_[size_t(i)]) {
      const int stream = group(p).stream;
      const bool goes_on = device(p) == device(i) && is_for_work(stream, device(i)) && tail_[size_t(stream)] == p &&
                           (critical_[size_t(p)] == i || !branches);
      if (goes_on && (on < 0 || stream < on)) on = stream;
    }
    if (on >= 0) return on;
    if (branches) return stream_beside(i);
    for (int p : before_[size_t(i)])
      if (is_for_work(group(p).stream, device(i))) on = group(p).stream;
    return on < 0 ? first : on;
  }
  // An idle stream, a new one, or the one with the least work.
  int stream_beside(int i) {
    int count = 0, least = -1;
    for (int t = 0; t < int(in_.streams.size()); ++t) {
      if (!is_for_work(t, device(i))) continue;
      ++count;
      if (is_awaited(t, i)) continue;
      if (tail_[size_t(t)] <= group(i).done[size_t(t)]) return t;
      if (least < 0 || load_[size_t(t)] < load_[size_t(least)]) least = t;
    }
    if (count < most_) {
      in_.streams.push_back(device(i));
      return int(in_.streams.size()) - 1;
    }
    if (least >= 0) return least;
    for (int t = 0; t < int(in_.streams.size()); ++t)
      if (is_for_work(t, device(i)) && (least < 0 || load_[size_t(t)] < load_[size_t(least)])) least = t;
    return least;
  }

  Lowered& in_;
  const ir::Graph& g_;
  const Options& options_;
  int most_ = 1;
  // Per group.
  std::vector<std::vector<int>> before_, after_;
  std::vector<double> cost_, height_;  // height: the longest path from it, including itself
  std::vector<bool> large_, chain_is_large_;
  std::vector<int> critical_;  // the successor on the critical path
  // Per stream. A tail is the last large group; small ones may follow it.
  std::vector<int> last_, tail_, last_large_;
  std::vector<double> load_;
  std::map<Device, int> last_alone_;
  std::set<int> exchange_streams_;
  std::vector<bool> exchanges_;  // per work
  std::set<int> exchanged_;      // storages with results of exchanges that no group has waited for
};

}  // namespace

double multiply_adds(const Work& w, const ir::Graph& g) {
  if (w.step) return w.step->flops / 2;
  if (w.node < 0) return 0;
  const ir::OpDef* op = g[w.node].op;
  const auto size = [](const Place& place) { return double(place.view.size()); };
  const auto window = [&](const Place& filters) { return size(filters) / double(std::max<int64_t>(filters.view.shape[3], 1)); };
  if (op == &ops::def::conv2d) return size(w.outputs[0]) * window(w.inputs[1]);
  if (op == &ops::def::conv2d_grad_input) return size(w.inputs[0]) * window(w.inputs[1]);
  if (op == &ops::def::conv2d_grad_filter) return size(w.inputs[1]) * window(w.outputs[0]);
  // For [m,k] and [k,n], transposed or not, m k n is the square root of the product of the three sizes.
  if (op == &ops::def::matmul || op == &ops::def::dense_grad_weights)
    return std::sqrt(size(w.inputs[0]) * size(w.inputs[1]) * size(w.outputs[0]));
  return 0;
}

double bytes_of(const Work& work) {
  const auto size = [](const Place& place) { return double(place.view.size()) * double(size_of(place.view.dtype)); };
  double bytes = 0;
  for (const Place& place : work.inputs) bytes += size(place);
  for (const Place& place : work.outputs) {
    bytes += size(place);
    if (work.step && !work.step->parts.empty()) break;  // the others are parts of it
  }
  return bytes;
}

const char* why_in_no_section(const Work& work, const Options& options) {
  if (const char* why = why_in_no_section(*work.step, work.nested.get(), work.device)) return why;
  if (!work.kernel) return nullptr;
  if (!work.step->parts.empty()) {  // perhaps one block's
    const int64_t most_elements = options.inside ? 262'144 : 16'384;
    return work.outputs[0].view.size() > most_elements ? "its elements are worth the whole card" : nullptr;
  }
  // In a loop, another launch would take the whole loop out of its section.
  if (options.inside) return nullptr;
  // Estimates of what takes longer than a launch and the cut of a section. A column's thread has 16 loads on their way, a warp's lane one.
  constexpr int64_t most_of_column = 1024, most_of_lane = 512, most_elements_of_block = 16384, most_blocks = 128;
  const section::Step& s = work.step->step;
  switch (s.kind) {
    case section::StepKind::reduce: {
      const bool by_columns = s.reduced == section::Broadcast::row && s.n > 1;
      return section::serial_terms(s) > (by_columns ? most_of_column : most_of_lane) ? "its sum is worth the whole card" : nullptr;
    }
    case section::StepKind::elementwise:
    case section::StepKind::dropout:
    case section::StepKind::softmax:
    case section::StepKind::log_softmax:
    case section::StepKind::sparse_cross_entropy: {
      if (s.partition == section::Partition::models || work.is_update) return nullptr;
      const bool by_rows = s.partition == section::Partition::rows;
      const int64_t blocks = by_rows ? std::clamp<int64_t>(s.rows / section::kRowsPerSpine, 1, most_blocks) : 1;
      return work.outputs[0].view.size() / blocks > most_elements_of_block ? "its elements are worth the whole card" : nullptr;
    }
    default: return nullptr;
  }
}

void plan_streams(Lowered& lowered, const ir::Graph& g, const Options& options) { StreamPlanner(lowered, g, options).run(); }

}  // namespace lamina::compile
