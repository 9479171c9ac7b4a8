#include "runtime/dist/processes.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "runtime/core/error.h"
#include "runtime/dist/launch.h"

namespace lamina::distributed {

RankStatus this_process(int rank) {
  RankStatus out{.rank = rank, .pid = getpid()};
  gethostname(out.host, sizeof out.host - 1);
  std::string place = out.host;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string line;
  if (std::getline(boot, line)) place += line;
  char processes[64] = "";
  if (readlink("/proc/self/ns/pid", processes, sizeof processes - 1) > 0) place += processes;
  out.place = std::hash<std::string>()(place);
  return out;
}

Process process_of(int64_t pid) {
  std::ifstream file(cat("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return {.dead = kill(pid_t(pid), 0) != 0 && errno == ESRCH};
  const size_t name_end = line.rfind(')');
  const char state = name_end != std::string::npos && name_end + 2 < line.size() ? line[name_end + 2] : '?';
  Process out{.dead = state == 'Z' || state == 'X', .stopped = state == 'T'};
  if (out.dead) out.signal = std::atoi(line.c_str() + line.rfind(' ') + 1) & 127;  // the last number is wait()'s status
  return out;
}

std::string death_text(int signal) {
  if (signal == 0) return "its process is gone";
  const char* name = strsignal(signal);
  return cat("signal ", signal, name ? cat(" (", name, ")") : "");
}

std::map<int, int64_t> ranks_beside() {
  std::map<int, int64_t> out;
  std::error_code failed;
  const std::string parent = cat("/proc/", getppid(), "/task");
  for (std::filesystem::directory_iterator thread(parent, failed), end; !failed && thread != end; thread.increment(failed)) {
    std::ifstream children(thread->path() / "children");
    for (int64_t pid = 0; children >> pid;) {
      std::ifstream file(cat("/proc/", pid, "/environ"), std::ios::binary);
      std::map<std::string, std::string> variables;
      for (std::string line; std::getline(file, line, '\0');)
        if (const size_t equals = line.find('='); equals != std::string::npos) variables[line.substr(0, equals)] = line.substr(equals + 1);
      try {
        const Launch launch = launch_of([&](const char* name) {
          const auto found = variables.find(name);
          return found == variables.end() ? std::nullopt : std::optional(found->second);
        });
        if (launch.mpi) out[launch.rank] = pid;
      } catch (const Error&) {  // it is no rank of this job
      }
    }
  }
  return out;
}

}  // namespace lamina::distributed
