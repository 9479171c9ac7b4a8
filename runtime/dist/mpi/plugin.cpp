// liblamina_mpi.so: the functions of LaminaMpi over MPI. Bytes move by MPI_Isend, MPI_Irecv, MPI_Iallgather and MPI_Ibcast, and
// between ranks of one host through memory of MPI_Win_allocate_shared. MPI adds in sum() alone, which programs must ask for: elsewhere the
// order of additions is Lamina's.
#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <list>
#include <string>
#include <vector>

#include "runtime/dist/mpi_table.h"

namespace lamina::distributed {
namespace {

constexpr int kNoThreads = -1;  // besides MPI's own errors
constexpr int kTag = 7;

MPI_Comm data = MPI_COMM_NULL, control = MPI_COMM_NULL;
MPI_Win memory = MPI_WIN_NULL;  // that ranks share
bool initialised_here = false;
thread_local int last_error = 0;

struct Request {
  std::vector<MPI_Request> parts;
};

// A control message that may not have left yet.
struct Letter {
  std::vector<char> text;
  MPI_Request request = MPI_REQUEST_NULL;
};
constexpr size_t kMostLetters = 8;  // to one rank: one that takes none is stopped or dead
std::vector<std::list<Letter>>& letters() {
  static auto* all = new std::vector<std::list<Letter>>;
  return *all;
}

int noted(int error) { return last_error = error; }

int start(int* rank, int* size) {
  int running = 0, given = 0;
  MPI_Initialized(&running);
  if (running) {
    MPI_Query_thread(&given);
  } else {
    if (const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &given)) return noted(error);
    initialised_here = true;
  }
  if (given < MPI_THREAD_MULTIPLE) return noted(kNoThreads);
  for (MPI_Comm* made : {&data, &control}) {
    if (const int error = MPI_Comm_dup(MPI_COMM_WORLD, made)) return noted(error);
    MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN);
  }
  MPI_Comm_rank(data, rank);
  MPI_Comm_size(data, size);
  letters().resize(size_t(*size));
  return 0;
}

const char* library() {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  return text;
}

int exchange(const LaminaMpiTransfer* transfers, size_t count, void** request) {
  auto* made = new Request;
  int error = 0;
  for (const bool sends : {false, true})  // a receive that waits already spares a copy
    for (size_t i = 0; i < count && !error; ++i) {
      const LaminaMpiTransfer& t = transfers[i];
      if (bool(t.sends) != sends) continue;
      for (size_t at = 0; (at < t.bytes || t.bytes == 0) && !error; at += kMostMpiBytes) {
        const size_t left = t.bytes - at;
        const int bytes = int(left < kMostMpiBytes ? left : kMostMpiBytes);
        char* address = static_cast<char*>(t.data) + at;
        MPI_Request& part = made->parts.emplace_back(MPI_REQUEST_NULL);
        error = sends ? MPI_Isend(address, bytes, MPI_BYTE, t.rank, kTag, data, &part)
                      : MPI_Irecv(address, bytes, MPI_BYTE, t.rank, kTag, data, &part);
        if (t.bytes == 0) break;
      }
    }
  *request = made;
  return noted(error);
}

int all_gather(const void* own, void* all, size_t bytes, void** request) {
  auto* made = new Request;
  *request = made;
  const bool in_place = own == nullptr;
  return noted(MPI_Iallgather(in_place ? MPI_IN_PLACE : own, in_place ? 0 : int(bytes), MPI_BYTE, all, int(bytes), MPI_BYTE, data,
                              &made->parts.emplace_back(MPI_REQUEST_NULL)));
}

int broadcast(void* bytes_of, size_t bytes, int root, void** request) {
  auto* made = new Request;
  *request = made;
  return noted(MPI_Ibcast(bytes_of, int(bytes), MPI_BYTE, root, data, &made->parts.emplace_back(MPI_REQUEST_NULL)));
}

int barrier(void** request) {
  auto* made = new Request;
  *request = made;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // what this rank wrote to shared memory
  return noted(MPI_Ibarrier(data, &made->parts.emplace_back(MPI_REQUEST_NULL)));
}

int sum(void* numbers, size_t count, int is_double, void** request) {
  auto* made = new Request;
  *request = made;
  return noted(MPI_Iallreduce(MPI_IN_PLACE, numbers, int(count), is_double ? MPI_DOUBLE : MPI_FLOAT, MPI_SUM, data,
                              &made->parts.emplace_back(MPI_REQUEST_NULL)));
}

int share(size_t bytes, void** of_ranks, int* shared) {
  MPI_Comm here = MPI_COMM_NULL;
  int ranks = 0, ranks_here = 0;
  *shared = 0;
  MPI_Comm_size(data, &ranks);
  if (const int error = MPI_Comm_split_type(data, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here)) return noted(error);
  MPI_Comm_set_errhandler(here, MPI_ERRORS_RETURN);
  MPI_Comm_size(here, &ranks_here);
  void* own = nullptr;
  if (ranks_here == ranks) {         // as every rank finds
    MPI_Info apart = MPI_INFO_NULL;  // each rank's memory has pages of its own
    MPI_Info_create(&apart);
    MPI_Info_set(apart, "alloc_shared_noncontig", "true");
    *shared = MPI_Win_allocate_shared(MPI_Aint(bytes), 1, apart, here, &own, &memory) == MPI_SUCCESS;
    MPI_Info_free(&apart);
  }
  MPI_Comm_free(&here);
  if (!*shared) {
    memory = MPI_WIN_NULL;
    return 0;
  }
  MPI_Win_lock_all(MPI_MODE_NOCHECK, memory);
  for (int rank = 0; rank < ranks; ++rank) {  // the same numbers: `here` is in the order of ranks
    MPI_Aint length = 0;
    int unit = 0;
    if (const int error = MPI_Win_shared_query(memory, rank, &length, &unit, &of_ranks[rank])) return noted(error);
  }
  return 0;
}

int test(void* request, int* ended) {
  auto* made = static_cast<Request*>(request);
  const int error = MPI_Testall(int(made->parts.size()), made->parts.data(), ended, MPI_STATUSES_IGNORE);
  if (*ended) std::atomic_thread_fence(std::memory_order_seq_cst);
  if (*ended && !error) delete made;
  return noted(error);
}

int send_control(int to, const void* text, size_t bytes, int* sent) {
  std::list<Letter>& open = letters()[size_t(to)];
  for (auto letter = open.begin(); letter != open.end();) {
    int gone = 0;
    if (const int error = MPI_Test(&letter->request, &gone, MPI_STATUS_IGNORE)) return noted(error);
    letter = gone ? open.erase(letter) : std::next(letter);
  }
  *sent = open.size() < kMostLetters;
  if (!*sent) return 0;
  Letter& letter = open.emplace_back();
  letter.text.assign(static_cast<const char*>(text), static_cast<const char*>(text) + bytes);
  return noted(MPI_Isend(letter.text.data(), int(bytes), MPI_BYTE, to, kTag, control, &letter.request));
}

int receive_control(void* text, size_t room, size_t* bytes, int* from) {
  int there = 0, length = 0;
  MPI_Status status;
  *bytes = 0;
  if (const int error = MPI_Iprobe(MPI_ANY_SOURCE, kTag, control, &there, &status)) return noted(error);
  if (!there) return 0;
  MPI_Get_count(&status, MPI_BYTE, &length);
  std::vector<char> whole(static_cast<size_t>(length));
  *from = status.MPI_SOURCE;
  if (const int error = MPI_Recv(whole.data(), length, MPI_BYTE, status.MPI_SOURCE, kTag, control, &status)) return noted(error);
  *bytes = whole.size() < room ? whole.size() : room;
  if (*bytes) std::memcpy(text, whole.data(), *bytes);
  return 0;
}

void why(char* text, size_t room) {
  if (last_error == kNoThreads) {
    std::snprintf(text, room, "MPI was initialised without MPI_THREAD_MULTIPLE");
    return;
  }
  char long_text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(last_error, long_text, &length);
  std::snprintf(text, room, "%s", long_text);
}

int finish() {
  int over = 0;
  MPI_Finalized(&over);
  if (over) return 0;
  for (std::list<Letter>& open : letters())
    for (Letter& letter : open)
      if (const int error = MPI_Wait(&letter.request, MPI_STATUS_IGNORE)) return noted(error);
  if (memory != MPI_WIN_NULL) {
    MPI_Win_unlock_all(memory);
    if (const int error = MPI_Win_free(&memory)) return noted(error);
  }
  return initialised_here ? noted(MPI_Finalize()) : 0;
}

void abort(int code) { MPI_Abort(MPI_COMM_WORLD, code); }
void leave(int code) { _exit(code); }

#ifdef OPEN_MPI
#define LAMINA_TEXT_(x) #x
#define LAMINA_TEXT(x) LAMINA_TEXT_(x)
constexpr const char* kBuiltWith =
    "Open MPI " LAMINA_TEXT(OMPI_MAJOR_VERSION) "." LAMINA_TEXT(OMPI_MINOR_VERSION) "." LAMINA_TEXT(OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION)
constexpr const char* kBuiltWith = "MPICH " MPICH_VERSION;
#else
constexpr const char* kBuiltWith = "MPI";
#endif

}  // namespace
}  // namespace lamina::distributed

extern "C" __attribute__((visibility("default"))) const LaminaMpi* lamina_mpi() {
  using namespace lamina::distributed;
  static const LaminaMpi table = {kLaminaMpiVersion, kBuiltWith, start,  library, exchange, all_gather,
                                  broadcast,         barrier,    sum,    share,   test,     send_control,
                                  receive_control,   why,        finish, abort,   leave};
  return &table;
}
