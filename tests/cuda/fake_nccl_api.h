// The fake NCCL's table of functions.
#pragma once
#include <cstring>

#include "tests/cuda/fake_nccl.h"

namespace lamina::cuda {

namespace fake_windows {
inline int mem_alloc(void** data, size_t bytes) {
  FakeNccl& f = FakeNccl::now();
  std::lock_guard lock(f.mutex);
  if (const int status = f.call("ncclMemAlloc")) return status;
  f.windows.memory[*data = std::aligned_alloc(4096, bytes)] = bytes;
  std::memset(*data, 0x5a, bytes);
  return 0;
}
inline int mem_free(void* data) {
  FakeNccl& f = FakeNccl::now();
  std::lock_guard lock(f.mutex);
  const int status = f.call("ncclMemFree");
  f.expect(f.windows.memory.erase(data) == 1, "ncclMemFree of other memory");
  for (const auto& [handle, w] : f.windows.registered)
    f.expect(w.data != data || f.comms.count(w.communicator) == 0, "ncclMemFree of a window");
  std::free(data);
  return status;
}
// Ready when all ranks have registered theirs.
inline int register_window(void* communicator, void* data, size_t bytes, void** window, int flags) {
  FakeNccl& f = FakeNccl::now();
  std::lock_guard lock(f.mutex);
  const int status = f.call("ncclCommWindowRegister");
  FakeNccl::Comm* comm = f.find(communicator, "ncclCommWindowRegister");
  if (!comm || (status && status != nccl::kInProgress)) return status;
  f.expect(flags == nccl::kSymmetric, "a window that is not symmetric");
  f.expect(f.windows.memory.count(data) && f.windows.memory[data] == bytes, "ncclCommWindowRegister of other memory");
  f.expect(comm->state == nccl::kSuccess && comm->polls == 0, "ncclCommWindowRegister of what is not ready");
  *window = reinterpret_cast<void*>(0x200000 + 16 * intptr_t(++f.windows.made));
  f.windows.registered[*window] = {communicator, comm->windows++, data, bytes};
  comm->state = nccl::kInProgress;
  const auto of_all = [&](const auto& each) {
    int count = 0;
    for (const auto& [handle, w] : f.windows.registered)
      if (const auto other = f.comms.find(w.communicator);  // unless it was aborted
          other != f.comms.end() && other->second.id == comm->id && w.number == comm->windows - 1)
        ++count, each(other->second, w);
    return count;
  };
  if (of_all([&](const FakeNccl::Comm&, const FakeWindows::Window& w) { f.expect(w.bytes == bytes, "windows of different lengths"); }) ==
      comm->ranks)
    of_all([&](FakeNccl::Comm& other, const FakeWindows::Window&) { other.state = nccl::kSuccess; });
  return status;
}
inline int deregister_window(void* communicator, void* window) {
  FakeNccl& f = FakeNccl::now();
  std::lock_guard lock(f.mutex);
  const int status = f.call("ncclCommWindowDeregister");
  f.find(communicator, "ncclCommWindowDeregister");
  f.expect(f.windows.registered.erase(window) == 1, "ncclCommWindowDeregister of no window");
  return status;
}
inline int peer_pointer(void* window, size_t offset, int peer, void** data) {
  FakeNccl& f = FakeNccl::now();
  std::lock_guard lock(f.mutex);
  if (const int status = f.call("ncclGetPeerDevicePointer")) return status;
  const FakeWindows::Window own = f.windows.registered[window];
  const auto mine = f.comms.find(own.communicator);
  *data = nullptr;
  for (const auto& [handle, w] : f.windows.registered)
    if (const auto other = f.comms.find(w.communicator);  // unless it was aborted
        mine != f.comms.end() && other != f.comms.end() && other->second.id == mine->second.id && other->second.rank == peer &&
        w.number == own.number)
      *data = f.windows.reach ? static_cast<char*>(w.data) + offset : nullptr;
  return 0;
}

}  // namespace fake_windows

inline const NcclApi& fake_nccl() {
  using F = FakeNccl;
  static const NcclApi api{
      .version = [](int* v) { return *v = F::now().version, F::now().version ? 0 : nccl::kInternalError; },
      .unique_id = F::unique_id,
      .init_rank = F::init_rank,
      .finalize = F::finalize,
      .destroy = F::destroy,
      .abort = F::abort,
      .async_error = F::async_error,
      .group_start = F::group_start,
      .group_end = F::group_end,
      .send =
          [](const void* data, size_t count, int type, int to, void* c, void* s) {
            return F::exchange("ncclSend", type, c, s, [=](const F::Comm&) {
              return std::vector<F::Part>{{.other = to, .sends = true, .data = const_cast<void*>(data), .bytes = count}};
            });
          },
      .receive =
          [](void* data, size_t count, int type, int from, void* c, void* s) {
            return F::exchange("ncclRecv", type, c, s, [=](const F::Comm&) {
              return std::vector<F::Part>{{.other = from, .sends = false, .data = data, .bytes = count}};
            });
          },
      .broadcast =
          [](const void* in, void* out, size_t count, int type, int root, void* c, void* s) {
            return F::exchange("ncclBroadcast", type, c, s, [=](const F::Comm& comm) {
              F::now().expect(in == out, "ncclBroadcast is not in place");
              std::vector<F::Part> parts;
              for (int r = 0; r < comm.ranks; ++r)
                if (r != comm.rank && (comm.rank == root || r == root))
                  parts.push_back({.other = r, .sends = comm.rank == root, .data = out, .bytes = count, .kind = cat("broadcast ", count)});
              return parts;
            });
          },
      .all_gather =
          [](const void* in, void* out, size_t count, int type, void* c, void* s) {
            return F::exchange("ncclAllGather", type, c, s, [=](const F::Comm& comm) {
              const auto place = [&](int r) { return static_cast<char*>(out) + size_t(r) * count; };
              void* own = const_cast<void*>(in);
              std::vector<F::Part> parts;
              for (int r = 0; r < comm.ranks; ++r)
                for (const bool sends : {true, false})
                  if (r != comm.rank) parts.push_back({r, sends, sends ? own : place(r), count, cat("all_gather ", count)});
              const auto cuda = FakeCuda::lock();
              if (own != place(comm.rank))
                cuda->work.add(s, {.arguments = {}, .other = [=, to = place(comm.rank)] { std::memmove(to, own, count); }});
              return parts;
            });
          },
      .all_reduce =
          [](const void* in, void* out, size_t count, int type, int op, void* c, void* s) {
            F::now().expect(in == out && op == nccl::kSum, "ncclAllReduce is not a sum in place");
            return type == nccl::kFloat64 ? F::sum(static_cast<double*>(out), count, type, c, s)
                                          : F::sum(static_cast<float*>(out), count, type, c, s);
          },
      .status_text =
          [](int status) { return status == nccl::kRemoteError ? "remote process exited or there was a network error" : "another error"; },
      .last_error = [](void*) { return F::now().last_error.c_str(); },
      .mem_alloc = fake_windows::mem_alloc,
      .mem_free = fake_windows::mem_free,
      .register_window = fake_windows::register_window,
      .deregister_window = fake_windows::deregister_window,
      .peer_pointer = fake_windows::peer_pointer,
  };
  return api;
}

}  // namespace lamina::cuda
