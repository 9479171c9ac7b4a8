// LaminaMpi: what liblamina_mpi.so does for liblamina.so. It moves bytes by MPI and decides nothing. The plug-in exports one C symbol,
// lamina_mpi, which returns this table.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {

struct LaminaMpiTransfer {
  int rank;
  int sends;  // 0: receives
  void* data;
  size_t bytes;
};

// Functions that return int return 0, or an error that `why` words. Those of data and those of control may run on two threads at once.
struct LaminaMpi {
  uint32_t version;        // kLaminaMpiVersion of the plug-in
  const char* built_with;  // "Open MPI 4.1.4"
  // MPI_Init_thread, unless the process has done it; then this rank and the number of ranks.
  int (*start)(int* rank, int* size);
  const char* (*library)();  // what MPI says of itself
  // Each starts moving data; test() says when it has ended, and frees the request then.
  int (*exchange)(const LaminaMpiTransfer* transfers, size_t count, void** request);
  int (*all_gather)(const void* own, void* all, size_t bytes, void** request);
  int (*broadcast)(void* data, size_t bytes, int root, void** request);
  int (*barrier)(void** request);
  int (*sum)(void* data, size_t count, int is_double, void** request);  // MPI_Iallreduce in place
  // Collective, and waits: memory of this many bytes of each rank, which all ranks reach. *shared is 0 where ranks are on several hosts, or
  // this rank has got none. What a rank wrote before a barrier, all read behind it.
  int (*share)(size_t bytes, void** of_ranks, int* shared);
  int (*test)(void* request, int* ended);
  // Messages of the control thread, on a communicator of their own. A message to a rank that has not taken the last eight is not sent.
  int (*send_control)(int to, const void* data, size_t bytes, int* sent);
  int (*receive_control)(void* data, size_t room, size_t* bytes, int* from);  // bytes 0: there is none
  void (*why)(char* text, size_t room);                                       // of this thread's last error
  int (*finish)();          // MPI_Finalize, if start() has initialised MPI. Every control message has been received
  void (*abort)(int code);  // MPI_Abort: ends all ranks
  void (*leave)(int code);  // ends this process at once
};

}  // extern "C"

namespace lamina::distributed {
constexpr uint32_t kLaminaMpiVersion = 3;
constexpr size_t kMostMpiBytes = size_t(1) << 30;  // of one all_gather or broadcast: MPI counts with int
// For programs that link the plug-in's objects, as lamina_mpi_tests does.
void provide_mpi(const LaminaMpi* table);
}  // namespace lamina::distributed
