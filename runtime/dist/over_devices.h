// Ranks as processes without MPI, which torchrun has started: NCCL connects their GPUs, and what they exchange on the host goes through
// these. There are no heartbeats: a rank that is gone is found by NCCL, by the patience, or by the launcher.
#pragma once
#include <memory>

#include "runtime/dist/communicator.h"
#include "runtime/dist/launch.h"

namespace lamina::distributed {

// `id`: of JoinsPeers::peers_id(), the same on all ranks.
std::unique_ptr<Communicator> join_over_devices(int rank, int size, Device device, const std::string& id, Patience patience);

// NCCL on rank 0 waits at "host:port" for the other ranks; an error if another program does.
void require_free_port(const std::string& meeting);

// The rank of this process, on gpu:LOCAL_RANK.
std::unique_ptr<Communicator> start_over_devices(const Launch& launch);

}  // namespace lamina::distributed
