// lamina_mpi_tests: what tests/python/test_mpi.py runs under mpirun.
//   suite                     the conformance suite
//   planted                   whether MPI_Allreduce, put in the place of the tree, gives the tree's bits
//   time COUNT REPEATS        microseconds of a sum in the tree and by MPI_Allreduce
//   fault PHASE ACTION RANK   that rank does something bad: before MPI starts, in a collective, between steps, or while ranks leave
//   end                       how many control messages nobody has received when MPI ends, where each rank receives them late
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "runtime/dist/collectives.h"
#include "runtime/dist/mpi_table.h"
#include "runtime/dist/world.h"
#include "tests/runtime/dist/conformance.h"

extern "C" const LaminaMpi* lamina_mpi();

namespace lamina::distributed::tests {
namespace {

using Clock = std::chrono::steady_clock;

int suite() {
  Communicator& c = world();
  int wrong = 0;
  for (const Case& one : conformance_cases()) {
    const std::string text = one.run(c);
    if (!text.empty()) std::printf("rank %d: %s: %s\n", c.rank(), one.name, text.c_str()), ++wrong;
  }
  if (c.rank() == 0) std::printf("%zu cases on %d ranks\n", conformance_cases().size(), c.size());
  return wrong ? 1 : 0;
}

// This rank's own part of the tree, as far as it is one: what a program would give to MPI_Allreduce.
std::vector<float> own_sum(Communicator& c, int64_t count, int64_t shards) {
  const std::vector<char> leaves = own_leaves(c, DType::f32, count, shards);
  std::vector<std::vector<float>> parts(size_t(leaves_of(c, shards).size()), std::vector<float>(size_t(count)));
  for (size_t i = 0; i < parts.size(); ++i) std::memcpy(parts[i].data(), leaves.data() + i * size_t(count) * 4, size_t(count) * 4);
  for (size_t width = 1; width < parts.size(); width *= 2)
    for (size_t i = 0; i + width < parts.size(); i += 2 * width)
      for (size_t k = 0; k < size_t(count); ++k) parts[i][k] += parts[i + width][k];
  return parts[0];
}

int planted() {
  Communicator& c = world();
  constexpr int64_t kCount = 100000;
  std::vector<float> own = own_sum(c, kCount, 8), all(own.size());
  MPI_Allreduce(own.data(), all.data(), int(kCount), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  const bool same = !std::memcmp(all.data(), expected_sum(DType::f32, kCount, 8).data(), size_t(kCount) * 4);
  if (c.rank() == 0) std::printf("MPI_Allreduce on %d ranks: %s\n", c.size(), same ? "the same bits" : "other bits");
  return 0;
}

int measure(int64_t count, int repeats) {
  Communicator& c = world();
  std::vector<float> own(size_t(count), 1.0f), all(own.size());
  const auto median = [&](auto call) {
    std::vector<double> times;
    for (int i = 0; i < repeats; ++i) {
      MPI_Barrier(MPI_COMM_WORLD);
      const auto start = Clock::now();
      call();
      times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  };
  const double tree = median([&] { all_reduce(c, DType::f32, own.data(), all.data(), count); });
  const double mpi = median([&] { MPI_Allreduce(own.data(), all.data(), int(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
  if (c.rank() == 0)
    std::printf("%lld floats on %d ranks: tree %.0f us, MPI_Allreduce %.0f us\n", static_cast<long long>(count), c.size(), tree, mpi);
  return 0;
}

void act(const std::string& action) {
  std::printf("acts at %.3f\n", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  std::fflush(stdout);
  if (action == "kill") kill(getpid(), SIGKILL);
  if (action == "stop") kill(getpid(), SIGSTOP), std::this_thread::sleep_for(std::chrono::milliseconds(100));  // stops a moment later
  if (action == "crash") kill(getpid(), SIGSEGV);
  if (action == "leave") _exit(0);
  if (action == "terminate") kill(getpid(), SIGTERM);
  if (action == "throw") throw std::runtime_error("a planted exception");
  if (action == "return") std::exit(0);
  while (action == "stall") std::this_thread::sleep_for(std::chrono::seconds(1));
}

// The plug-in's control messages, counted or held up.
LaminaMpi control = *lamina_mpi();
std::vector<int> sent, received;
std::string at_the_end;  // what this rank does in place of its first message after the last collective
Communicator* own = nullptr;

int send_counted(int to, const void* data, size_t bytes, int* gone) {
  const bool last = own && own->record().last().op == Op::end;
  if (last && at_the_end == "mute" && to == own->size() - 1) return act(at_the_end), *gone = 1, 0;
  if (last && !at_the_end.empty()) act(at_the_end);
  const int error = lamina_mpi()->send_control(to, data, bytes, gone);
  if (*gone) ++sent[size_t(to)];
  return error;
}
int receive_late(void* data, size_t room, size_t* bytes, int* from) {
  constexpr std::chrono::milliseconds kLate{300}, kOpen{30};
  *bytes = 0;
  if (Clock::now().time_since_epoch() % kLate > kOpen) return 0;
  const int error = lamina_mpi()->receive_control(data, room, bytes, from);
  if (*bytes) ++received[size_t(*from)];
  return error;
}
int finish_counted() {
  std::vector<int> to_this(sent.size());
  MPI_Alltoall(sent.data(), 1, MPI_INT, to_this.data(), 1, MPI_INT, MPI_COMM_WORLD);
  int lost = 0, all = 0;
  for (size_t r = 0; r < sent.size(); ++r) lost += to_this[r] - received[r], all += to_this[r];
  std::printf("%d of %d control messages are not received\n", lost, all);
  std::fflush(stdout);
  return lamina_mpi()->finish();
}
void count_messages(int ranks) {
  sent.resize(size_t(ranks)), received.resize(size_t(ranks));
  control.send_control = send_counted;
  provide_mpi(&control);
}

int end_late() {
  count_messages(launch().size);
  control.receive_control = receive_late;
  control.finish = finish_counted;
  Communicator& c = world();
  std::this_thread::sleep_for(std::chrono::milliseconds(1000 + 100 * c.rank()));
  return 0;
}

int fault(const std::string& phase, const std::string& action, int guilty) {
  const int before = launch().rank;
  std::printf("pid %d\n", getpid());
  std::fflush(stdout);
  if (phase == "init" && before == guilty) act(action);
  if (phase == "end" && before == guilty) at_the_end = action;
  if (phase == "end") count_messages(launch().size);
  Communicator& c = world();
  own = &c;
  std::vector<float> ones(1000, 1.0f), all(1000);
  for (int step = 0; step < (phase == "end" ? 4 : 1000); ++step) {
    set_step(step);
    all_reduce(c, DType::f32, ones.data(), all.data(), 1000, {.tensor = "grad/w", .line = "train.py:9"});
    if (phase != "end" && step == 3 && c.rank() == guilty) {
      if (phase == "collective") std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the others are in the next one
      act(action);
    }
    if (phase == "steps" && step >= 3) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return 0;
}

}  // namespace
}  // namespace lamina::distributed::tests

int main(int count, char** words) {
  using namespace lamina::distributed;
  const auto word = [&](int i) { return std::string(i < count ? words[i] : ""); };
  provide_mpi(lamina_mpi());
  try {
    if (word(1) == "suite") return tests::suite();
    if (word(1) == "planted") return tests::planted();
    if (word(1) == "time") return tests::measure(std::atoll(word(2).c_str()), std::atoi(word(3).c_str()));
    if (word(1) == "fault") return tests::fault(word(2), word(3), std::atoi(word(4).c_str()));
    if (word(1) == "end") return tests::end_late();
    std::fprintf(stderr, "usage: lamina_mpi_tests suite | planted | time COUNT REPEATS | fault PHASE ACTION RANK | end\n");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %d: %s\n", launch().rank, e.what());
    fail(e.what());
  }
  return 1;
}
