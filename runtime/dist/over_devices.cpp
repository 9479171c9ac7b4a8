#include "runtime/dist/over_devices.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "runtime/device/backend.h"
#include "runtime/device/launch_memory.h"
#include "runtime/dist/processes.h"

namespace lamina::distributed {
namespace {

class OverDevices final : public Communicator {
 public:
  OverDevices(int rank, int size, Device device, const std::string& id, Patience patience)
      : Communicator(rank, size, patience), stream_(backend_of(device).default_stream(device)) {
    peers_ = JoinsPeers::of(device).join_peers({.device = device,
                                                .rank = rank,
                                                .ranks = size,
                                                .id = id,
                                                .patience = patience,
                                                .missing = {},
                                                .warn = say,
                                                .job_ended = {},
                                                .failed = [this](const Error& e) { fail_together(*this, e); }});
  }
  const char* name() const override { return "nccl"; }

  void exchange(std::span<const Transfer> transfers) override {
    size_t bytes = 0;
    for (const Transfer& t : transfers) bytes += t.bytes;
    if (transfers.empty()) return;
    const LaunchMemory room(stream_, bytes);
    std::vector<Transfer> on_device(transfers.begin(), transfers.end());
    char* at = static_cast<char*>(room.data());
    for (Transfer& t : on_device) {
      if (t.sends) to_device(at, t.data, t.bytes);
      t.data = at;
      at += t.bytes;
    }
    peers_->exchange(stream_, on_device, current_text());
    for (size_t i = 0; i < transfers.size(); ++i)
      if (!transfers[i].sends) to_host(transfers[i].data, on_device[i].data, transfers[i].bytes);
    stream_.backend->synchronize(stream_);
  }
  void all_gather(const void* own, void* all, size_t bytes) override {
    const LaunchMemory room(stream_, size_t(size()) * bytes);
    char* place = static_cast<char*>(room.data()) + size_t(rank()) * bytes;
    to_device(place, own, bytes);
    peers_->all_gather(stream_, place, room.data(), bytes, current_text());
    to_host(all, room.data(), room.bytes());
    stream_.backend->synchronize(stream_);
  }
  void broadcast(void* data, size_t bytes, int root) override {
    const LaunchMemory room(stream_, bytes);
    if (rank() == root) to_device(room.data(), data, bytes);
    peers_->broadcast(stream_, room.data(), bytes, root, current_text());
    if (rank() != root) to_host(data, room.data(), bytes);
    stream_.backend->synchronize(stream_);
  }

  void abort(const Error& why) override { peers_->abort(why); }
  std::vector<RankStatus> ranks() const override {
    RankStatus own = this_process(rank());
    own.current = record().current(), own.last = record().last(), own.step = record().step();
    return {own};
  }

 private:
  void to_device(void* to, const void* from, size_t bytes) { stream_.backend->copy(stream_, to, from, bytes, CopyKind::to_device); }
  void to_host(void* to, const void* from, size_t bytes) { stream_.backend->copy(stream_, to, from, bytes, CopyKind::to_host); }
  void stalled(const Error& error) override { throw error; }

  Stream stream_;
  std::unique_ptr<Peers> peers_;
};

// NCCL reads it when ranks join.
class CommId {
 public:
  explicit CommId(const std::string& where) { setenv("NCCL_COMM_ID", where.c_str(), 1); }
  ~CommId() {
    if (before_)
      setenv("NCCL_COMM_ID", before_->c_str(), 1);
    else
      unsetenv("NCCL_COMM_ID");
  }
  CommId(const CommId&) = delete;

 private:
  const std::optional<std::string> before_ = environment("NCCL_COMM_ID");
};

}  // namespace

std::unique_ptr<Communicator> join_over_devices(int rank, int size, Device device, const std::string& id, Patience patience) {
  return std::make_unique<OverDevices>(rank, size, device, id, patience);
}

// NCCL's own message says which system call failed, but neither the port nor whose it is.
void require_free_port(const std::string& meeting) {
  const size_t colon = meeting.rfind(':');
  if (colon == std::string::npos) return;
  std::string host = meeting.substr(0, colon);
  const std::string port = meeting.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  const int socket_ = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
  if (socket_ < 0) return;
  const int again = 1;
  setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &again, sizeof again);  // a port that a job has just left is free
  const bool in_use = bind(socket_, found->ai_addr, found->ai_addrlen) != 0 && errno == EADDRINUSE;
  close(socket_);
  if (in_use)
    throw Error(
        ErrorKind::device,
        {.what = cat("port ", port, " of ", host, " is in use"),
         .where = "rank 0",
         .why = "the ranks' GPUs meet there: rank 0 would wait at it for the others, but another program does",
         .fix =
             "start torchrun with another --master-port (the port is the one behind it), set NCCL_COMM_ID=host:port for all ranks, or end "
             "that program, which 'ss -ltnp' names"});
}

std::unique_ptr<Communicator> start_over_devices(const Launch& launch) {
  const Device device{DeviceKind::gpu, 0, int16_t(launch.local_rank)};
  Backend& gpus = backend_of(device);
  if (launch.local_rank >= gpus.device_count())
    throw Error(
        ErrorKind::device,
        {.what = cat("torchrun has started this process as rank ", launch.rank, " of ", launch.size, ", but there is no ", device),
         .where = "",
         .why = gpus.device_count() ? cat("this host has ", gpus.device_count(), gpus.device_count() == 1 ? " GPU" : " GPUs",
                                          ", and each rank needs one of its own")
                                    : gpus.unavailable_reason(),
         .fix = "start at most one rank for each GPU; on CPUs start the program by mpirun, srun --mpi=pmix or python -m lamina launch"});
  if (launch.rank == 0) require_free_port(launch.meeting);
  const CommId meeting(launch.meeting);
  return join_over_devices(launch.rank, launch.size, device, JoinsPeers::of(device).peers_id(), Patience::of_settings());
}

}  // namespace lamina::distributed
