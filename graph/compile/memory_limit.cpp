#include "graph/compile/memory_limit.h"

#include <algorithm>
#include <utility>

#include "graph/compile/label.h"
#include "runtime/device/memory.h"

namespace lamina::compile {
namespace {

using exec::StorageKind;

constexpr size_t kNamed = 3;  // tensors in the message

bool is_alive(const Lowered& in, size_t s, int at) {
  return in.first_use[s] <= at && (in.last_use[s] >= at || in.storages[s].kind == StorageKind::output);
}

// The first work during which most bytes are alive on the device.
int peak_of(const Lowered& in, Device device) {
  std::vector<int64_t> change(in.work.size() + 1);
  for (size_t s = 0; s < in.storages.size(); ++s) {
    const StorageKind kind = in.storages[s].kind;
    if (in.storage_devices[s] != device || in.last_use[s] < 0 || (kind != StorageKind::arena && kind != StorageKind::output)) continue;
    change[size_t(in.first_use[s])] += in.storages[s].bytes;
    if (kind == StorageKind::arena) change[size_t(in.last_use[s]) + 1] -= in.storages[s].bytes;
  }
  int64_t now = 0, most = -1;
  int at = 0;
  for (size_t w = 0; w < in.work.size(); ++w)
    if ((now += change[w]) > most) most = now, at = int(w);
  return at;
}

std::string largest_at(const Lowered& in, const ir::Graph& g, Device device, int at) {
  std::vector<size_t> alive;
  for (size_t s = 0; s < in.storages.size(); ++s) {
    const StorageKind kind = in.storages[s].kind;
    if (in.storage_devices[s] == device && (kind == StorageKind::arena || kind == StorageKind::output) && in.last_use[s] >= 0 &&
        is_alive(in, s, at))
      alive.push_back(s);
  }
  std::stable_sort(alive.begin(), alive.end(), [&](size_t a, size_t b) { return in.storages[a].bytes > in.storages[b].bytes; });
  std::string out;
  for (size_t i = 0; i < std::min(kNamed, alive.size()); ++i) {
    const Work& maker = in.work[size_t(in.first_use[alive[i]])];
    std::string type;
    for (const Place& place : maker.outputs)
      if (place.storage == int(alive[i]))
        type = text(TensorType{place.view.dtype, Shape(place.view.shape, place.view.shape + place.view.rank)});
    out += cat(i ? ", " : "", maker.node >= 0 ? label(g[maker.node]) : maker.name, " ", type,
               maker.line.known() ? cat(" (", text(maker.line), ")") : "", " of ", in.storages[alive[i]].bytes, " bytes");
  }
  return out;
}

int64_t most_of(Device device, const Options& options) { return options.device_memory > 0 ? options.device_memory : memory::limit(device); }
// Bytes of results and of constants.
std::pair<int64_t, int64_t> beside_arena(const Lowered& in, Device device) {
  int64_t results = 0, constants = 0;
  for (size_t s = 0; s < in.storages.size(); ++s) {
    if (in.storage_devices[s] != device) continue;
    if (in.storages[s].kind == StorageKind::output) results += in.storages[s].bytes;
    if (in.storages[s].kind == StorageKind::constant && device.kind != DeviceKind::cpu) constants += in.storages[s].bytes;
  }
  return {results, constants};
}

}  // namespace

int64_t room_for_arena(const Lowered& in, Device device, const Options& options) {
  const auto [results, constants] = beside_arena(in, device);
  return most_of(device, options) - results - constants;
}

void check_memory(const Lowered& in, const ir::Graph& g, const Options& options) {
  if (options.memory_budget > 0) return;
  for (size_t d = 0; d < in.devices.size(); ++d) {
    const Device device = in.devices[d];
    const int64_t most = most_of(device, options);
    const auto [results, constants] = beside_arena(in, device);
    if (in.arena_bytes[d] + results + constants <= most) continue;
    throw Error(ErrorKind::out_of_memory,
                {.what = cat("the plan needs ", in.arena_bytes[d] + results + constants, " bytes on ", device, ", which has ", most),
                 .where = "",
                 .why = cat(in.arena_bytes[d], " bytes of temporaries, ", results, " of results, ", constants,
                            " of constants; the largest at its peak: ", largest_at(in, g, device, peak_of(in, device))),
                 .fix = "use a smaller batch or model, a function's memory_budget, which recomputes values, or more devices"});
  }
}

}  // namespace lamina::compile
