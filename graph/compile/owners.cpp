#include "graph/compile/owners.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace lamina::compile {
namespace {

constexpr int64_t kTinyElements = 16;  // scalars connect parts without merging them: losses are added, a step count is read by all
constexpr double kMostUneven = 1.2;    // busiest thread's work over the average

class Run {
 public:
  Run(std::span<Work> work, int threads) : work_(work), threads_(threads), part_of_(work.size()), tiny_(work.size()), cost_(work.size()) {
    std::iota(part_of_.begin(), part_of_.end(), 0);
    for (size_t i = 0; i < work.size(); ++i) {
      int64_t largest = 0, elements = 0;
      for (const Place& place : work[i].outputs) largest = std::max(largest, place.view.size()), elements += place.view.size();
      tiny_[i] = largest <= kTinyElements;
      cost_[i] = work[i].step->flops + 4 * double(elements);
    }
  }

  void run(bool even_or_not) {
    join_what_touches();
    const std::vector<int> owners = share_out(even_or_not);
    if (owners.empty()) return;
    for (size_t i = 0; i < work_.size(); ++i)
      if (!tiny_[i]) work_[i].owner = owners[size_t(part(int(i)))];
    follow_with_tiny_steps();
  }

 private:
  int part(int i) {
    while (part_of_[size_t(i)] != i) i = part_of_[size_t(i)] = part_of_[size_t(part_of_[size_t(i)])];
    return i;
  }
  void join(int a, int b) { part_of_[size_t(part(a))] = part(b); }

  // Union-find: reader and writer of the same memory are in one part.
  void join_what_touches() {
    struct Touched {
      int writer = -1;
      std::vector<int> readers;
    };
    std::unordered_map<int, Touched> storages;
    for (int i = 0; i < int(work_.size()); ++i) {
      if (tiny_[size_t(i)]) continue;
      for (const Place& place : work_[size_t(i)].inputs) {
        Touched& t = storages[place.storage];
        if (t.writer >= 0) join(i, t.writer);
        t.readers.push_back(i);
      }
      for (const Place& place : work_[size_t(i)].outputs) {
        Touched& t = storages[place.storage];
        if (t.writer >= 0) join(i, t.writer);
        for (int reader : t.readers) join(i, reader);
        t = {i, {}};
      }
    }
  }

  // Per part (by its name): its thread. Empty if the parts cannot be divided evenly.
  std::vector<int> share_out(bool even_or_not) {
    std::vector<double> cost(work_.size());
    double all = 0;
    for (int i = 0; i < int(work_.size()); ++i)
      if (!tiny_[size_t(i)]) cost[size_t(part(i))] += cost_[size_t(i)], all += cost_[size_t(i)];
    std::vector<int> parts;
    for (int i = 0; i < int(work_.size()); ++i)
      if (cost[size_t(i)] > 0) parts.push_back(i);
    if (parts.size() < 2) return {};
    std::stable_sort(parts.begin(), parts.end(), [&](int a, int b) { return cost[size_t(a)] > cost[size_t(b)]; });
    std::vector<double> load(static_cast<size_t>(threads_));
    std::vector<int> owners(work_.size(), -1);
    for (int p : parts) {
      const size_t least = size_t(std::min_element(load.begin(), load.end()) - load.begin());
      load[least] += cost[size_t(p)];
      owners[size_t(p)] = int(least);
    }
    if (!even_or_not && *std::max_element(load.begin(), load.end()) > kMostUneven * all / threads_) return {};
    return owners;
  }

  // A scalar used by one part only belongs to that part's thread.
  void follow_with_tiny_steps() {
    std::unordered_map<int, int> written_by;  // storage -> owner
    for (size_t i = 0; i < work_.size(); ++i) {
      if (tiny_[i]) {
        int owner = -2;  // none yet
        for (const Place& place : work_[i].inputs)
          if (auto at = written_by.find(place.storage); at != written_by.end())
            owner = owner == -2 || owner == at->second ? at->second : -1;
        if (owner >= 0) work_[i].owner = owner;
      }
      for (const Place& place : work_[i].outputs) written_by[place.storage] = work_[i].owner;
    }
  }

  std::span<Work> work_;
  const int threads_;
  std::vector<int> part_of_;
  std::vector<char> tiny_;
  std::vector<double> cost_;
};

}  // namespace

void assign_owners(Lowered& lowered, const Options& options, int threads) {
  if (threads < 2 || !options.sections) return;
  std::vector<Work>& all = lowered.work;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin;
    bool models = false;
    for (; end < all.size() && all[end].step && all[end].device == all[begin].device && all[end].device.kind == DeviceKind::cpu; ++end)
      models = models || all[end].step->step.partition == section::Partition::models;
    if (end - begin > 1 && !models) Run(std::span(all).subspan(begin, end - begin), threads).run(options.share_all_sections);
    begin = std::max(end, begin + 1);
  }
}

}  // namespace lamina::compile
