#include "graph/cost/simulate.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <queue>
#include <set>
#include <sstream>

#include "runtime/core/cores.h"
#include "runtime/core/error.h"
#include "runtime/device/backend.h"

namespace lamina::cost {
namespace {

class Simulation {
 public:
  explicit Simulation(const Play& play)
      : play_(play), state_(play.tasks.size()), load_(play.resources.size()), running_(play.resources.size()) {
    out_.start.resize(play.tasks.size()), out_.end.resize(play.tasks.size());
  }

  Timeline run() {
    connect();
    for (size_t t = 0; t < state_.size(); ++t)
      if (state_[t].missing == 0) events_.push({0, int(t), 0});
    size_t ended = 0;
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      State& s = state_[size_t(event.task)];
      if (event.version != s.version) continue;  // the task's speed has changed since
      if (!s.runs) {
        begin(event.task, event.time);
      } else {
        end(event.task, event.time);
        ++ended;
      }
    }
    if (ended != state_.size()) internal_error(cat(state_.size() - ended, " of ", state_.size(), " tasks wait for each other"));
    return std::move(out_);
  }

 private:
  struct Event {
    double time;
    int task, version;
    // Ends come before starts of the same time because they were queued earlier or have a smaller task; ties go by task.
    bool operator<(const Event& other) const { return time != other.time ? time > other.time : task > other.task; }
  };
  struct State {
    int missing = 0, version = 0;
    int next_on_stream = -1;
    int first_follower = 0, followers = 0;
    bool runs = false;
    double ready = 0;                    // when the last of the tasks before it is seen to have ended
    double left = 0, speed = 1, at = 0;  // microseconds of work left at the time `at`
  };

  void connect() {
    std::vector<int> last(size_t(play_.streams), -1);
    for (size_t t = 0; t < state_.size(); ++t) {
      const Task& task = play_.tasks[t];
      state_[t].left = task.microseconds;
      state_[t].missing = task.after;
      int& previous = last[size_t(task.stream)];
      if (previous >= 0) state_[size_t(previous)].next_on_stream = int(t), ++state_[t].missing;
      previous = int(t);
      for (int a = task.first_after; a < task.first_after + task.after; ++a) ++state_[size_t(play_.after[size_t(a)].first)].followers;
    }
    int sum = 0;
    for (State& s : state_) s.first_follower = sum, sum += std::exchange(s.followers, 0);
    followers_.resize(size_t(sum));
    for (size_t t = 0; t < state_.size(); ++t)
      for (int a = play_.tasks[t].first_after; a < play_.tasks[t].first_after + play_.tasks[t].after; ++a) {
        const auto& [earlier, latency] = play_.after[size_t(a)];
        State& s = state_[size_t(earlier)];
        followers_[size_t(s.first_follower + s.followers++)] = {int(t), latency};
      }
  }

  void begin(int t, double now) {
    State& s = state_[size_t(t)];
    s.runs = true, s.at = now;
    out_.start[size_t(t)] = now;
    share(t, now, +1);
    s.speed = speed(t);
    plan_end(t);
  }
  void end(int t, double now) {
    State& s = state_[size_t(t)];
    ++s.version;
    out_.end[size_t(t)] = now;
    out_.microseconds = std::max(out_.microseconds, now);
    share(t, now, -1);
    if (s.next_on_stream >= 0) reach(s.next_on_stream, now);
    for (int f = s.first_follower; f < s.first_follower + s.followers; ++f)
      reach(followers_[size_t(f)].first, now + followers_[size_t(f)].second);
  }
  void reach(int t, double when) {
    State& s = state_[size_t(t)];
    s.ready = std::max(s.ready, when);
    if (--s.missing == 0) events_.push({s.ready, t, s.version});
  }

  double speed(int t) const {
    double out = 1;
    for (const int r : play_.tasks[size_t(t)].resources)
      if (r >= 0 && load_[size_t(r)] > play_.resources[size_t(r)]) out = std::min(out, play_.resources[size_t(r)] / load_[size_t(r)]);
    return out;
  }
  // A task begins or ends: others on its resources may change their speed.
  void share(int t, double now, int sign) {
    const Task& task = play_.tasks[size_t(t)];
    for (int i = 0; i < 2; ++i) {
      const int r = task.resources[i];
      if (r < 0) continue;
      const double most = play_.resources[size_t(r)] * (1 + 1e-9), before = load_[size_t(r)];
      double& load = load_[size_t(r)];
      load += sign * task.amounts[i];
      std::vector<int>& running = running_[size_t(r)];
      if (sign < 0) running.erase(std::find(running.begin(), running.end(), t));
      if (running.empty()) load = sign < 0 ? 0 : load;  // without rounding
      if (before > most || load > most)
        for (int other : running) change_speed(other, now);
      if (sign > 0) running.push_back(t);
    }
  }
  void change_speed(int t, double now) {
    State& s = state_[size_t(t)];
    const double new_speed = speed(t);
    if (new_speed == s.speed) return;
    s.left = std::max(0.0, s.left - (now - s.at) * s.speed);
    s.at = now, s.speed = new_speed;
    plan_end(t);
  }
  void plan_end(int t) {
    State& s = state_[size_t(t)];
    events_.push({s.at + s.left / s.speed, t, ++s.version});
  }

  const Play& play_;
  std::vector<State> state_;
  std::vector<double> load_;                       // per resource
  std::vector<std::vector<int>> running_;          // per resource
  std::vector<std::pair<int, double>> followers_;  // of all tasks, one after another
  std::priority_queue<Event> events_;
  Timeline out_;
};

}  // namespace

int Play::add(Task task, const std::vector<std::pair<int, double>>& earlier) {
  task.first_after = int(after.size()), task.after = int(earlier.size());
  after.insert(after.end(), earlier.begin(), earlier.end());
  tasks.push_back(task);
  return int(tasks.size()) - 1;
}

Timeline simulate(const Play& play) { return Simulation(play).run(); }

Play play_of(const exec::Program& program, const Costs& costs) {
  Play out;
  out.streams = int(program.streams.size());
  // Resource 0: the machine's cores. Then one per device: its threads, or the whole card.
  out.resources = {double(cores().usable())};
  std::map<Device, int> resource;
  for (const exec::StreamUse& stream : program.streams) {
    const auto [at, is_new] = resource.try_emplace(stream.device, int(out.resources.size()));
    if (is_new)
      out.resources.push_back(
          stream.device.kind == DeviceKind::cpu ? std::max(1, backend_of(stream.device).properties(stream.device).threads) : 1);
  }
  std::vector<int> signalled(size_t(program.events), -1);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const exec::Instruction& instruction = program.instructions[i];
    const Device device = program.streams[size_t(instruction.stream)].device;
    Task task{.stream = instruction.stream, .microseconds = costs.microseconds(program, instruction)};
    task.resources[0] = resource.at(device);
    if (device.kind == DeviceKind::cpu) {
      const int threads = threads_of(program, instruction);
      task.amounts[0] = threads;
      task.resources[1] = 0, task.amounts[1] = threads;
    } else {
      constexpr double elements_per_multiprocessor = 2048;
      double elements = 0;
      for (int slot : instruction.outputs) elements += double(program.slots[size_t(slot)].view.size());
      const double all = elements_per_multiprocessor * std::max(1, backend_of(device).properties(device).multiprocessors);
      task.amounts[0] = instruction.alone ? 1 : instruction.kernel ? std::clamp(elements / all, 0.01, 1.0) : 0.01;
    }
    std::vector<std::pair<int, double>> after;
    for (int event : instruction.wait_for) {
      const int earlier = signalled[size_t(event)];
      if (earlier < 0) internal_error(cat("instruction ", i, " waits for event ", event, ", which nothing before it signals"));
      const Device from = program.streams[size_t(program.instructions[size_t(earlier)].stream)].device;
      const bool threads = from.kind == DeviceKind::cpu && device.kind == DeviceKind::cpu;
      after.emplace_back(earlier, from == device && !threads ? 1.5 : threads ? costs.cpu().hand_over : costs.link(from, device).latency);
    }
    out.add(task, after);
    if (instruction.signal >= 0) signalled[size_t(instruction.signal)] = int(i);
  }
  return out;
}

Timeline simulate(const exec::Program& program, const Costs& costs) {
  Timeline out = simulate(play_of(program, costs));
  // The first stream's work runs on the caller's thread if there is only one; otherwise threads are woken, and wake the caller.
  std::set<int> on_cpu;
  for (const exec::Instruction& i : program.instructions)
    if (program.streams[size_t(i.stream)].device.kind == DeviceKind::cpu) on_cpu.insert(i.stream);
  if (on_cpu.size() > 1) out.microseconds += 2 * costs.cpu().hand_over;
  return out;
}

std::string text(const exec::Program& program, const Timeline& timeline) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // a failed allocation must throw, not truncate the text
  out << std::fixed << std::setprecision(1);
  for (size_t i = 0, next; i < program.instructions.size(); i = next) {
    const exec::Instruction& instruction = program.instructions[i];
    for (next = i + 1; !instruction.kernel && next < program.instructions.size() && !program.instructions[next].kernel &&
                       program.instructions[next].stream == instruction.stream;)
      ++next;  // copies in a row
    out << "  " << timeline.start[i] << " to " << timeline.end[next - 1] << " us on " << program.streams[size_t(instruction.stream)].device
        << " stream " << exec::stream_number(program, instruction.stream) << ": ";
    if (next - i > 1) out << next - i << " times ";
    out << instruction.name << "\n";
  }
  return out.str();
}

}  // namespace lamina::cost
