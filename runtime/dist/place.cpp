#include "runtime/dist/place.h"

#include <cstring>

#include "kernels/gpu_kernel.h"
#include "runtime/core/per_thread.h"
#include "runtime/device/backend.h"
#include "runtime/dist/collectives.h"
#include "runtime/dist/processes.h"

namespace lamina::distributed {
namespace {

// Launches a function of kernels/cuda; a backend refuses one that is not registered.
template <auto function, class... A>
void launch_on_device(const char* name, Stream& stream, const A&... arguments) {
  const auto work = [&](Stream& s) { kernels::gpu_kernel<function>()(s, arguments...); };
  constexpr auto run = [](const KernelCall& call) { (*static_cast<decltype(work)*>(call.args))(call.stream); };
  const Kernel kernel{.run = kernels::gpu_kernel<function>() ? +run : nullptr, .args = nullptr};
  stream.backend->launch(stream, kernel, {stream, &work, {}, {}}, name);
}

std::vector<std::vector<char>>& kept_rooms() { return PerThread<std::vector<std::vector<char>>, Place>::get(); }

// Two ranks on one device would wait for each other for ever, or the library refuses them without a name.
struct DeviceOfRank {
  uint64_t place = 0;
  char id[64] = "", host[64] = "";
};
void require_own_devices(Communicator& c, Device device, JoinsPeers& backend) {
  const RankStatus self = this_process(c.rank());
  DeviceOfRank own{.place = self.place};
  put_text(own.id, backend.device_id(device));
  put_text(own.host, self.host);
  std::vector<DeviceOfRank> all(static_cast<size_t>(c.size()));
  c.all_gather(&own, all.data(), sizeof own);
  for (size_t a = 0; a < all.size(); ++a)
    for (size_t b = a + 1; b < all.size(); ++b)
      if (all[a].place == all[b].place && std::string_view(all[a].id) == all[b].id)
        throw Error(ErrorKind::collective, {.what = cat("ranks ", a, " and ", b, " have one GPU, ", all[a].id, " of host ", all[a].host),
                                            .where = "",
                                            .why = "each rank needs a GPU of its own",
                                            .fix = "start at most one rank for each GPU, and place rank r of a host on gpu:r"});
}

}  // namespace

std::unique_ptr<Peers> join_devices(Communicator& c, Device device) {
  JoinsPeers& backend = JoinsPeers::of(device);
  require_own_devices(c, device, backend);
  std::string id = c.rank() == 0 ? backend.peers_id() : "";
  uint64_t length = id.size();
  c.broadcast(&length, sizeof length, 0);
  id.resize(length);
  c.broadcast(id.data(), length, 0);
  return backend.join_peers({.device = device,
                             .rank = c.rank(),
                             .ranks = c.size(),
                             .id = id,
                             .patience = c.patience(),
                             .missing = [&c] { return c.missing_text(); },
                             .warn = say,
                             .job_ended = [&c] { return c.why_ended(); },
                             .failed = [&c](const Error& e) { fail_together(c, e); }});
}

void Place::exchange(std::span<const Transfer> transfers) const {
  if (on_host()) return c_.exchange(transfers);
  if (peers_) peers_->exchange(stream_, transfers, c_.current_text());
}

void Place::all_gather(const void* own, void* all, size_t bytes) const {
  if (on_host()) return c_.all_gather(own, all, bytes);
  if (peers_) return peers_->all_gather(stream_, own, all, bytes, c_.current_text());
  if (own != all) stream_.backend->copy(stream_, all, own, bytes, CopyKind::within_device);
}

void Place::broadcast(void* data, size_t bytes, int root) const {
  if (on_host()) return c_.broadcast(data, bytes, root);
  if (peers_) peers_->broadcast(stream_, data, bytes, root, c_.current_text());
}

void Place::sum(DType dtype, void* data, int64_t count) const {
  if (on_host()) return c_.sum(dtype, data, count);
  if (peers_) peers_->sum(stream_, dtype, data, count, c_.current_text());
}

void Place::add(const TreeSum& sum, std::span<const void* const> arrays, void* result) const {
  if (on_host()) return cpu::tree_sum(sum, arrays, result);
  launch_on_device<&kernels::cuda::tree_sum>("tree_sum", stream_, sum, arrays, result);
}

void Place::copy(std::span<const Piece> pieces) const {
  if (!on_host()) return launch_on_device<&kernels::cuda::copy_pieces>("copy_pieces", stream_, pieces);
  for (const Piece& p : pieces)
    if (p.bytes) std::memcpy(p.to, p.from, p.bytes);
}

std::vector<char*> Place::window(size_t bytes) const { return peers_->window(stream_, bytes, c_.current_text()); }
void Place::watch(const std::string& what) const {
  if (peers_) peers_->watch(stream_, what);
}

void Place::clear(void* data, size_t bytes) const {
  if (bytes == 0) return;
  if (on_host()) {
    std::memset(data, 0, bytes);
    return;
  }
  const std::vector<char> zeros(bytes);
  stream_.backend->copy(stream_, data, zeros.data(), bytes, CopyKind::to_device);
}

Place Place::of(Communicator& c, const Stream& stream) {
  if (stream.device.kind == DeviceKind::cpu) return {c};
  return {c, c.size() > 1 ? &c.joined(stream.device) : nullptr, stream};
}

Place::Room::Room(const Place& at, size_t bytes) {
  if (!at.on_host()) {
    device_ = std::make_unique<LaunchMemory>(at.stream_, bytes);
    return;
  }
  if (!kept_rooms().empty()) {
    host_ = std::move(kept_rooms().back());
    kept_rooms().pop_back();
  }
  if (host_.size() < bytes) host_.resize(bytes);
}
Place::Room::~Room() {
  if (!device_) kept_rooms().push_back(std::move(host_));
}

}  // namespace lamina::distributed
