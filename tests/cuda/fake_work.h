// Pending work of a fake GPU: a graph of operations. They run when someone waits, in a random order that respects only streams and events,
// so that missing ordering shows as on a real GPU. Capturing streams collect the operations instead.
#pragma once
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "runtime/cuda/cuda_api.h"

namespace lamina::cuda {

// The only argument of a test kernel's launch.
struct FakeArguments {
  void* data[4] = {};
  double number[2] = {};
  int64_t count = 0;
};

class FakeWork {
 public:
  using Kernel = void (*)(FakeArguments&);
  struct Operation {
    Kernel kernel = nullptr;  // null: an empty node
    FakeArguments arguments;
    std::vector<size_t> after = {};        // earlier operations of the same list
    std::function<void()> other = {};      // work that is no kernel and cannot be captured
    std::function<bool()> may_start = {};  // what else it waits for, such as another rank's work; empty: nothing
    bool done = false;
  };
  using Graph = std::vector<Operation>;

  std::mt19937 random{1};
  std::map<void*, Graph> graphs, executables;

  bool capturing(void* stream) { return streams_[stream].graph != nullptr; }

  void add(void* stream, Operation operation) {
    Place& place = streams_[stream];
    Graph& list = place.graph ? *place.graph : pending_;
    operation.after = place.last;
    list.push_back(std::move(operation));
    place.last = {list.size() - 1};
  }
  void record(void* event, void* stream) { events_[event] = streams_[stream]; }
  void forget(void* event) { events_.erase(event); }
  cudaError_t wait(void* stream, void* event) {
    Place& place = streams_[stream];
    const Place& other = events_[event];
    if (place.graph && place.graph != other.graph) return invalid_ = true, cudaErrorStreamCaptureIsolation;
    if (!place.graph && other.graph) {  // the stream joins that capture
      if (!captured_.count(other.graph.get())) return cudaErrorInvalidValue;
      before_[stream] = place.last;
      place = other;
      return cudaSuccess;
    }
    place.last.insert(place.last.end(), other.last.begin(), other.last.end());
    return cudaSuccess;
  }

  cudaError_t begin(void* stream) {
    if (capturing(stream)) return cudaErrorIllegalState;
    auto graph = std::make_shared<Graph>();
    captured_.insert(graph.get());
    before_[stream] = streams_[stream].last;
    streams_[stream] = {graph, {}};
    return cudaSuccess;
  }
  // The streams of the capture continue as before it.
  cudaError_t end(void* stream, Graph* made) {
    const std::shared_ptr<Graph> graph = streams_[stream].graph;
    if (!graph) return cudaErrorIllegalState;
    const std::set<size_t> joined = ancestors(*graph, streams_[stream].last);
    cudaError_t status = invalid_                         ? cudaErrorStreamCaptureInvalidated
                         : joined.size() == graph->size() ? cudaSuccess
                                                          : cudaErrorStreamCaptureUnjoined;
    invalid_ = false;
    captured_.erase(graph.get());
    for (auto& [name, place] : streams_)
      if (place.graph == graph) place = {nullptr, before_[name]};
    *made = *graph;
    return status;
  }
  void invalidate() { invalid_ = true; }

  // Accepts other addresses, numbers and kernels; nothing else.
  static bool update(Graph& executable, const Graph& graph) {
    if (executable.size() != graph.size()) return false;
    for (size_t i = 0; i < graph.size(); ++i)
      if (executable[i].after != graph[i].after) return false;
    executable = graph;
    return true;
  }
  void launch(void* stream, const Graph& graph) {
    Place& place = streams_[stream];
    const std::vector<size_t> before = place.last;
    const size_t first = pending_.size();
    std::set<size_t> ends;
    for (const Operation& operation : graph) {
      Operation o = operation;
      for (size_t& a : o.after) ends.erase(a += first);
      if (o.after.empty()) o.after = before;
      ends.insert(pending_.size());
      pending_.push_back(std::move(o));
    }
    if (!ends.empty()) place.last.assign(ends.begin(), ends.end());
  }

  // False if what is left waits for something that only another thread can start.
  bool finish(void* stream) { return finish(streams_[stream].last); }
  // Lets time pass: some more operations run. Returns whether the event has happened.
  bool advance(void* event) {
    if (are_done(events_[event].last)) return true;
    for (size_t some = 1 + random() % 8; some > 0 && !are_done(events_[event].last); --some)
      if (!run_one()) break;
    return false;
  }
  bool is_captured(void* event) { return events_[event].graph != nullptr; }
  bool finish_event(void* event) { return finish(events_[event].last); }
  bool finish_all() {
    std::vector<size_t> all(pending_.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    return finish(all);
  }

 private:
  struct Place {
    std::shared_ptr<Graph> graph;  // the graph being captured; null: pending_
    std::vector<size_t> last;
  };
  static std::set<size_t> ancestors(const Graph& graph, const std::vector<size_t>& of) {
    std::set<size_t> seen;
    std::vector<size_t> next = of;
    while (!next.empty()) {
      const size_t i = next.back();
      next.pop_back();
      if (seen.insert(i).second) next.insert(next.end(), graph[i].after.begin(), graph[i].after.end());
    }
    return seen;
  }
  bool are_done(const std::vector<size_t>& operations) {
    return std::all_of(operations.begin(), operations.end(), [&](size_t i) { return pending_[i].done; });
  }
  // Runs any one operation that is ready. Returns whether there was one.
  bool run_one() {
    std::vector<size_t> able;
    for (size_t i = 0; i < pending_.size(); ++i)
      if (!pending_[i].done && are_done(pending_[i].after) && (!pending_[i].may_start || pending_[i].may_start())) able.push_back(i);
    if (able.empty()) return false;
    Operation& o = pending_[able[random() % able.size()]];
    if (o.kernel) o.kernel(o.arguments);
    if (o.other) o.other();
    o.done = true;
    o.other = nullptr;
    o.may_start = nullptr;
    return true;
  }
  // Runs operations until these have run, or none can.
  bool finish(const std::vector<size_t>& wanted) {
    while (!are_done(wanted))
      if (!run_one()) return false;
    if (std::all_of(pending_.begin(), pending_.end(), [](const Operation& o) { return o.done; })) {
      pending_.clear();
      const auto has_ended = [](const auto& entry) { return !entry.second.graph; };
      std::erase_if(streams_, has_ended);
      std::erase_if(events_, has_ended);
      before_.clear();
    }
    return true;
  }

  Graph pending_;
  std::map<void*, Place> streams_, events_;
  std::map<void*, std::vector<size_t>> before_;  // the last operation of a stream before its capture
  std::set<Graph*> captured_;
  bool invalid_ = false;
};

}  // namespace lamina::cuda
