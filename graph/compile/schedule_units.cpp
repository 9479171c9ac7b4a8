// List scheduling of units on devices, and the search for the best of several schedules.
#include <algorithm>
#include <limits>
#include <queue>

#include "graph/compile/place.h"
#include "runtime/core/cores.h"
#include "runtime/core/error.h"

namespace lamina::compile {
namespace {

class Scheduler {
 public:
  Scheduler(const Units& units, const cost::Costs& costs)
      : in_(units), costs_(costs), users_(units.units.size()), rank_(units.units.size()) {
    const size_t devices = in_.devices.size();
    latency_.resize(devices * devices), per_byte_.resize(devices * devices), call_.resize(devices * devices);
    for (size_t a = 0; a < devices; ++a)
      for (size_t b = 0; b < devices; ++b) {
        const cost::Link link = costs_.link(in_.devices[a], in_.devices[b]);
        latency_[a * devices + b] = link.latency, per_byte_[a * devices + b] = 1 / link.bytes;
        call_[a * devices + b] = costs_.copy(in_.devices[a], in_.devices[b], 0);
      }
    for (size_t u = 0; u < users_.size(); ++u)
      for (int p : in_.units[u].after) users_[size_t(p)].push_back(int(u));
    // The longest way to the end, with the mean time of a unit and half of a copy's.
    for (size_t u = users_.size(); u-- > 0;) {
      double sum = 0, count = 0;
      for (double time : in_.units[u].time)
        if (time < kNever) sum += time, ++count;
      for (int next : users_[u]) rank_[u] = std::max(rank_[u], rank_[size_t(next)] + (devices > 1 ? latency_[1] / 2 : 0));
      rank_[u] += (count > 0 ? sum / count : 0) + 1e-6;
    }
  }

  double work(int u) const { return rank_[size_t(u)]; }
  const std::vector<std::vector<int>>& users() const { return users_; }

  // Chooses the device on which each unit ends first, in order of rank.
  std::vector<int> choose() {
    const size_t devices = in_.devices.size();
    std::vector<int> by_rank(in_.units.size()), device(in_.units.size(), -1);
    for (size_t u = 0; u < by_rank.size(); ++u) by_rank[u] = int(u);
    std::stable_sort(by_rank.begin(), by_rank.end(), [&](int a, int b) { return rank_[size_t(a)] > rank_[size_t(b)]; });
    begin();
    std::vector<double> trial;
    for (int u : by_rank) {
      const Units::Unit& unit = in_.units[size_t(u)];
      int best = -1;
      double best_end = 0;
      for (size_t d = 0; d < devices; ++d) {
        if (unit.device >= 0 && unit.device != int(d)) continue;
        const double ends = start(u, int(d), device, nullptr) + unit.time[d];
        if (best < 0 || ends < best_end) best = int(d), best_end = ends;
      }
      device[size_t(u)] = best;
      const double begins = start(u, best, device, this);
      free_[size_t(best)] = end_[size_t(u)] = begins + unit.time[size_t(best)];
    }
    return device;
  }

  // The order on each device: of what can start first, the unit with the longest way to the end.
  double order(const std::vector<int>& device, std::vector<int>* order) {
    const size_t devices = in_.devices.size();
    begin();
    missing_.resize(in_.units.size());
    waiting_.assign(devices, {}), ready_.assign(devices, {});
    for (size_t u = 0; u < in_.units.size(); ++u) {
      missing_[u] = int(in_.units[u].after.size());
      if (missing_[u] == 0) waiting_[size_t(device[u])].push({-0.0, -int(u)});
    }
    struct Start {
      double time;
      int unit;
    };
    std::vector<Start> starts;
    starts.reserve(in_.units.size());
    double last = 0;
    for (size_t left = in_.units.size(); left > 0; --left) {
      int on = -1;
      double at = 0;
      for (size_t d = 0; d < devices; ++d) {
        if (ready_[d].empty() && waiting_[d].empty()) continue;
        const double here = ready_[d].empty() ? std::max(free_[d], -waiting_[d].top().first) : free_[d];
        if (on < 0 || here < at) on = int(d), at = here;
      }
      if (on < 0) internal_error("units wait for each other");
      auto& waiting = waiting_[size_t(on)];
      auto& ready = ready_[size_t(on)];
      while (!waiting.empty() && -waiting.top().first <= at) {
        const int u = -waiting.top().second;
        waiting.pop();
        ready.push({rank_[size_t(u)], -u});
      }
      const int u = -ready.top().second;
      ready.pop();
      const double begins = start(u, on, device, this);
      starts.push_back({begins, u});
      const double ends = begins + in_.units[size_t(u)].time[size_t(on)];
      free_[size_t(on)] = end_[size_t(u)] = ends;
      last = std::max(last, ends);
      for (int next : users_[size_t(u)]) {
        if (--missing_[size_t(next)] > 0) continue;
        double arrival = 0;
        for (int p : in_.units[size_t(next)].after)
          arrival = std::max(arrival, end_[size_t(p)] + latency(device[size_t(p)], device[size_t(next)]));
        waiting_[size_t(device[size_t(next)])].push({-arrival, -next});
      }
    }
    if (order) {
      std::stable_sort(starts.begin(), starts.end(), [](const Start& a, const Start& b) { return a.time < b.time; });
      order->clear();
      for (const Start& s : starts) order->push_back(s.unit);
      in_program_order(*order);
    }
    return last;
  }

  Schedule finish(std::vector<int> device) {
    Schedule out;
    (void)order(device, &out.order);
    out.device = std::move(device);
    out.microseconds = simulate(out);
    out.memory = memory(out);
    return out;
  }

 private:
  double latency(int from, int to) const { return latency_[size_t(from) * in_.devices.size() + size_t(to)]; }
  double copy(int from, int to, double bytes) const {
    const size_t way = size_t(from) * in_.devices.size() + size_t(to);
    return call_[way] + bytes * per_byte_[way];
  }
  void begin() {
    free_.assign(in_.devices.size(), 0), end_.assign(in_.units.size(), 0);
    arrived_.assign(in_.values.size() * in_.devices.size(), 0);
  }
  // When unit u would start on device d, after its copies there. With `keep`, these copies are made.
  double start(int u, int d, const std::vector<int>& device, Scheduler* keep) const {
    const Units::Unit& unit = in_.units[size_t(u)];
    double at = free_[size_t(d)], arrival = 0;
    for (int v : unit.needs) {
      const Units::Value& value = in_.values[size_t(v)];
      const int from = value.from < 0 ? value.location : device[size_t(value.from)];
      char* arrived = keep ? &keep->arrived_[size_t(v) * in_.devices.size() + size_t(d)] : nullptr;
      if (from == d || arrived_[size_t(v) * in_.devices.size() + size_t(d)]) continue;
      at = std::max(at, value.from < 0 ? 0 : end_[size_t(value.from)] + latency(from, d)) + copy(from, d, value.bytes);
      if (arrived) *arrived = 1;
    }
    for (int p : unit.after) arrival = std::max(arrival, end_[size_t(p)] + (device[size_t(p)] == d ? 0 : latency(device[size_t(p)], d)));
    return std::max(at, arrival);
  }

  // Starts of the same time may stand in the wrong order when a unit takes no time.
  void in_program_order(std::vector<int>& order) const {
    std::vector<int> position(order.size());
    for (size_t i = 0; i < order.size(); ++i) position[size_t(order[i])] = int(i);
    std::vector<int> missing(order.size());
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;  // by position
    for (size_t u = 0; u < order.size(); ++u)
      if ((missing[u] = int(in_.units[u].after.size())) == 0) ready.push(position[u]);
    std::vector<int> out;
    while (!ready.empty()) {
      const int u = order[size_t(ready.top())];
      ready.pop();
      out.push_back(u);
      for (int next : users_[size_t(u)])
        if (--missing[size_t(next)] == 0) ready.push(position[size_t(next)]);
    }
    order = std::move(out);
  }

  double simulate(const Schedule& s) const {
    cost::Play play;
    const size_t devices = in_.devices.size();
    play.streams = int(devices);
    play.resources = {double(cores().usable())};
    std::vector<int> task_of(in_.units.size(), -1), copied(in_.values.size() * devices, -1);
    std::vector<char> used(devices);
    std::vector<std::pair<int, double>> after;
    const auto task = [&](int d, double microseconds, double threads) {
      cost::Task out{.stream = d, .microseconds = microseconds};
      if (in_.devices[size_t(d)].kind == DeviceKind::cpu) out.resources[0] = 0, out.amounts[0] = threads;
      return out;
    };
    for (int u : s.order) {
      const Units::Unit& unit = in_.units[size_t(u)];
      const int d = s.device[size_t(u)];
      if (!unit.nodes.empty()) used[size_t(d)] = true;
      for (int v : unit.needs) {
        const Units::Value& value = in_.values[size_t(v)];
        const int from = value.from < 0 ? value.location : s.device[size_t(value.from)];
        int& there = copied[size_t(v) * devices + size_t(d)];
        if (from == d || there >= 0) continue;
        after.clear();
        if (value.from >= 0) after.emplace_back(task_of[size_t(value.from)], latency(from, d));
        there = play.add(task(d, copy(from, d, value.bytes), 1), after);
      }
      after.clear();
      for (int p : unit.after)
        if (const int other = s.device[size_t(p)]; other != d) after.emplace_back(task_of[size_t(p)], latency(other, d));
      task_of[size_t(u)] = play.add(task(d, unit.time[size_t(d)], in_.threads[size_t(d)]), after);
    }
    int on_cpu = 0;
    for (size_t d = 0; d < devices; ++d) on_cpu += used[d] && in_.devices[d].kind == DeviceKind::cpu;
    return cost::simulate(play).microseconds + (on_cpu > 1 ? 2 * costs_.cpu().hand_over : 0);
  }

  // Values are there from the unit that makes or copies them to the last one that needs them.
  std::vector<double> memory(const Schedule& s) const {
    const size_t devices = in_.devices.size(), count = s.order.size();
    std::vector<size_t> position(count);
    for (size_t i = 0; i < count; ++i) position[size_t(s.order[i])] = i;
    std::vector<std::vector<double>> change(devices, std::vector<double>(count + 1));
    std::vector<size_t> first(in_.values.size() * devices, count), last(in_.values.size() * devices);
    for (size_t u = 0; u < count; ++u)
      for (int v : in_.units[u].needs)
        for (const int d : {s.device[u], in_.values[size_t(v)].from < 0 ? -1 : s.device[size_t(in_.values[size_t(v)].from)]}) {
          if (d < 0) continue;
          const size_t at = size_t(v) * devices + size_t(d);
          first[at] = std::min(first[at], position[u]), last[at] = std::max(last[at], position[u]);
        }
    for (size_t v = 0; v < in_.values.size(); ++v)
      for (size_t d = 0; d < devices; ++d) {
        const Units::Value& value = in_.values[v];
        const bool here = value.from >= 0 ? s.device[size_t(value.from)] == int(d) : value.location == int(d);
        const size_t at = v * devices + d;
        if (first[at] == count || (value.from < 0 && here)) continue;
        change[d][here ? position[size_t(value.from)] : first[at]] += value.bytes;
        change[d][last[at] + 1] -= value.bytes;
      }
    std::vector<double> out(devices);
    for (size_t d = 0; d < devices; ++d) {
      double now = 0;
      for (size_t i = 0; i < count; ++i) {
        now += change[d][i];
        const size_t u = size_t(s.order[i]);
        out[d] = std::max(out[d], now + (s.device[u] == int(d) ? in_.units[u].makes : 0));
      }
    }
    return out;
  }

  const Units& in_;
  const cost::Costs& costs_;
  std::vector<std::vector<int>> users_;
  std::vector<double> rank_, latency_, per_byte_, call_;  // call_: of a copy without bytes
  // Of the schedule being made.
  std::vector<double> free_, end_;  // per device, per unit
  std::vector<char> arrived_;       // per value and device
  std::vector<int> missing_;
  using Queue = std::priority_queue<std::pair<double, int>>;
  std::vector<Queue> waiting_, ready_;  // per device: by arrival, by rank
};

// Moves units, and exchanges two of them, as long as the schedule becomes shorter. The work is bounded.
void improve(Scheduler& scheduler, const Units& units, std::vector<int>& device) {
  constexpr size_t most_steps = 20000, most_exchanged = 16;  // of evaluations times units; of units
  const size_t count = units.units.size();
  std::vector<int> free;
  for (size_t u = 0; u < count; ++u)
    if (units.units[u].device < 0) free.push_back(int(u));
  std::stable_sort(free.begin(), free.end(), [&](int a, int b) { return units.units[size_t(a)].time[0] > units.units[size_t(b)].time[0]; });
  size_t left = count < most_exchanged ? 10 * most_steps / count : most_steps / std::max<size_t>(count, 1);
  double best = scheduler.order(device, nullptr);
  const auto shorter = [&] {
    if (left == 0) return false;
    --left;
    const double now = scheduler.order(device, nullptr);
    if (now >= best * (1 - 1e-6)) return false;
    best = now;
    return true;
  };
  for (bool changed = true; changed && left > 0;) {
    changed = false;
    for (size_t i = 0; i < free.size() && left > 0; ++i) {
      int& on = device[size_t(free[i])];
      for (int d = 0; d < int(units.devices.size()); ++d) {
        if (d == on) continue;
        const int before = std::exchange(on, d);
        if (shorter())
          changed = true;
        else
          on = before;
      }
    }
    if (changed || free.size() > most_exchanged) continue;
    for (size_t i = 0; i < free.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        int &a = device[size_t(free[i])], &b = device[size_t(free[j])];
        for (int da = 0; da < int(units.devices.size()); ++da)
          for (int db = 0; db < int(units.devices.size()); ++db) {
            if (da == a || db == b) continue;
            const int a_before = std::exchange(a, da), b_before = std::exchange(b, db);
            if (shorter())
              changed = true;
            else
              a = a_before, b = b_before;
          }
      }
  }
}

std::string megabytes(double bytes) { return cat(int64_t(bytes / 1e4 + 0.5) / 100.0, " MB"); }

// The same units side by side on one device: a CPU's threads take one each, a GPU's streams share the card.
Units lanes_of(const Units& units, size_t device) {
  constexpr int gpu_streams = 4;
  Units out = units;
  const Device d = units.devices[device];
  const size_t lanes = d.kind == DeviceKind::cpu ? size_t(units.threads[device]) : gpu_streams;
  out.devices.assign(lanes, d), out.threads.assign(lanes, 1);
  for (Units::Unit& unit : out.units) {
    unit.time.assign(lanes, d.kind == DeviceKind::cpu ? unit.one_thread[device] : unit.time[device]);
    unit.device = unit.nodes.empty() ? 0 : -1;
  }
  for (Units::Value& value : out.values)
    if (value.from < 0) value.location = 0;
  return out;
}

}  // namespace

Schedule schedule_units(const Units& units, const cost::Costs& costs, std::vector<int> device) {
  Scheduler scheduler(units, costs);
  if (std::any_of(device.begin(), device.end(), [](int d) { return d < 0; })) device = scheduler.choose();
  return scheduler.finish(std::move(device));
}

Schedule best_schedule(const Units& units, const cost::Costs& costs, double memory, std::vector<exec::Candidate>& candidates) {
  Scheduler scheduler(units, costs);
  const size_t devices = units.devices.size();
  std::vector<int> pinned;
  for (const Units::Unit& unit : units.units) pinned.push_back(unit.device);
  std::vector<Schedule> schedules;
  const auto too_much = [&](const Schedule& s) -> std::string {
    for (size_t d = 0; d < devices; ++d) {
      const double most = memory > 0 ? memory : double(backend_of(units.devices[d]).properties(units.devices[d]).memory);
      if (s.memory[d] > most) return cat("needs ", megabytes(s.memory[d]), " on ", units.devices[d], ", which has ", megabytes(most));
    }
    return "";
  };
  const auto add = [&](std::string name, Schedule s, std::string why) {
    candidates.push_back({std::move(name), s.microseconds, why.empty() ? too_much(s) : std::move(why)});
    schedules.push_back(std::move(s));
  };
  std::vector<int> shortest;
  double shortest_time = 0;
  for (size_t d = 0; d < devices; ++d) {
    std::vector<int> device = pinned;
    for (int& on : device) on = on < 0 ? int(d) : on;
    Schedule s = scheduler.finish(device);
    if (shortest.empty() || s.microseconds < shortest_time) shortest = device, shortest_time = s.microseconds;
    add(cat(units.devices[d], " alone"), s, "");
    const bool lanes = units.devices[d].kind != DeviceKind::cpu || units.threads[d] > 1;
    const bool all_here = std::all_of(device.begin(), device.end(), [&](int on) { return on == int(d); });
    if (lanes && all_here) {
      const Units beside = lanes_of(units, d);
      Scheduler of_lanes(beside, costs);
      s.microseconds = of_lanes.finish(of_lanes.choose()).microseconds;
      add(cat("branches side by side on ", units.devices[d]), s, "");
    }
  }
  if (devices > 1) {
    std::string all;
    for (Device d : units.devices) all += (all.empty() ? "" : ", ") + text(d);
    std::vector<int> listed = scheduler.choose();
    Schedule s = scheduler.finish(listed);
    add("list scheduling over " + all, s, "");
    for (std::vector<int> from : {listed, shortest}) {
      std::vector<int> moved = from;
      improve(scheduler, units, moved);
      if (moved == listed || std::any_of(schedules.begin(), schedules.end(), [&](const Schedule& known) { return known.device == moved; }))
        continue;
      add(from == listed ? "list scheduling, then moving units over " + all : "one device, then moving units over " + all,
          scheduler.finish(moved), "");
    }
  }
  // The first of equal ones wins: one device before several.
  size_t best = schedules.size();
  for (size_t i = 0; i < schedules.size(); ++i)
    if (candidates[i].why.empty() && (best == schedules.size() || candidates[i].microseconds < candidates[best].microseconds * (1 - 1e-9)))
      best = i;
  if (best == schedules.size())  // nothing fits: the check of the plan's memory says what is too large
    best = size_t(std::min_element(schedules.begin(), schedules.end(),
                                   [](const Schedule& a, const Schedule& b) {
                                     return *std::max_element(a.memory.begin(), a.memory.end()) <
                                            *std::max_element(b.memory.begin(), b.memory.end());
                                   }) -
                  schedules.begin());
  for (size_t i = 0; i < candidates.size(); ++i)
    if (i != best && candidates[i].why.empty())
      candidates[i].why =
          candidates[i].microseconds > candidates[best].microseconds
              ? cat("takes ", int64_t(100 * (candidates[i].microseconds / candidates[best].microseconds - 1) + 0.5), " % longer")
              : "takes as long, and comes later in the list";
  if (candidates[best].why.empty()) candidates[best].why = "taken";
  std::rotate(candidates.begin(), candidates.begin() + int64_t(best), candidates.begin() + int64_t(best) + 1);
  return schedules[best];
}

}  // namespace lamina::compile
