#include "runtime/exec/order.h"

#include <algorithm>
#include <map>

#include "kernels/section/table.h"
#include "runtime/core/error.h"

namespace lamina::exec {
namespace {

// Per stream: its last instruction that has surely ended; -1: none.
using Clock = std::vector<int>;

void join(Clock& clock, const Clock& other) {
  for (size_t s = 0; s < clock.size(); ++s) clock[s] = std::max(clock[s], other[s]);
}

section::OperandRange range_of(const Program& p, int number) {
  const Slot& slot = p.slots[size_t(number)];
  const Storage& storage = p.storages[size_t(slot.storage)];
  const bool arena = storage.kind == StorageKind::arena;
  return section::range_of(slot.view, arena ? -1 - storage.index : slot.storage, slot.offset + (arena ? storage.offset : 0));
}

struct Access {
  section::OperandRange range;
  int instruction;
  bool write;
};

}  // namespace

bool is_exchange(const Program& p, const Instruction& i) { return i.host_effect && stream_number(p, i.stream) > 0; }

std::string what_is_unordered(const Program& p) {
  std::vector<Clock> of_stream(p.streams.size(), Clock(p.streams.size(), -1)), at_event(size_t(p.events));
  std::map<int, std::vector<Access>> accesses;  // per space
  std::map<Device, std::vector<int>> alone, all;
  int last_host_effect = -1;
  for (size_t i = 0; i < p.instructions.size(); ++i) {
    const Instruction& it = p.instructions[i];
    const auto place = [&](int other) { return cat(other, " ", p.instructions[size_t(other)].name, " and ", i, " ", it.name); };
    Clock& clock = of_stream[size_t(it.stream)];
    for (int event : it.wait_for) {
      if (event < 0 || event >= p.events || at_event[size_t(event)].empty())
        return cat(i, " ", it.name, ": nothing before it signals event ", event);
      join(clock, at_event[size_t(event)]);
    }
    const auto before = [&](int other) { return clock[size_t(p.instructions[size_t(other)].stream)] >= other; };
    for (const auto* list : {&it.inputs, &it.outputs})
      for (int slot : *list) {
        const section::OperandRange range = range_of(p, slot);
        for (const Access& a : accesses[range.space])
          if ((a.write || list == &it.outputs) && a.range.begin < range.end && range.begin < a.range.end && !before(a.instruction))
            return cat(place(a.instruction), ": the same bytes");
      }
    const Device device = p.streams[size_t(it.stream)].device;
    const bool exchange = is_exchange(p, it);
    for (int other : it.alone ? all[device] : alone[device])
      if (!exchange && !before(other)) return cat(place(other), ": a section or loop beside something");
    if (it.host_effect) {
      if (last_host_effect >= 0 && !before(last_host_effect)) return cat(place(last_host_effect), ": prints or checks");
      last_host_effect = int(i);
    }
    for (const auto* list : {&it.inputs, &it.outputs})
      for (int slot : *list) {
        const section::OperandRange range = range_of(p, slot);
        std::vector<Access>& earlier = accesses[range.space];
        const bool write = list == &it.outputs;
        // What a write covers entirely is ordered before it, so before everything ordered after it.
        if (write)
          std::erase_if(earlier, [&](const Access& a) {
            return a.instruction != int(i) && range.begin <= a.range.begin && a.range.end <= range.end;
          });
        earlier.push_back({range, int(i), write});
      }
    if (!exchange) all[device].push_back(int(i));
    if (it.alone) alone[device].push_back(int(i));
    clock[size_t(it.stream)] = int(i);
    if (it.signal >= 0) at_event[size_t(it.signal)] = clock;
  }
  return "";
}

}  // namespace lamina::exec
