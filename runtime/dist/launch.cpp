#include "runtime/dist/launch.h"

#include <charconv>
#include <cstdlib>

#include "runtime/core/error.h"

namespace lamina::distributed {
namespace {

[[noreturn]] void bad(const std::string& what, const std::string& why, const std::string& fix) {
  throw Error(ErrorKind::invalid_argument, {.what = "launch: " + what, .where = "the environment", .why = why, .fix = fix});
}

// The variables of one launcher.
class Variables {
 public:
  Variables(const Environment& environment, Launch& out) : environment_(environment), out_(out) {}

  std::optional<int> number(const char* name, bool list = true) {
    const std::optional<std::string> text = environment_(name);
    if (!text || text->empty()) return std::nullopt;
    int value = 0;
    const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (code != std::errc() || end != text->data() + text->size() || value < 0)
      bad(cat(name, "=", *text, " is not a whole number from 0"), "it says which of the job's ranks this process is, or how many there are",
          "start the program by mpirun, srun or python -m lamina launch, which set it");
    if (list) out_.variables.push_back(cat(name, "=", value));
    return value;
  }

  struct Place {
    int rank = 0, size = 1;
  };
  // Both or neither; the rank is below the size.
  std::optional<Place> pair(const char* rank_name, const char* size_name) {
    const std::optional<int> rank = number(rank_name), size = number(size_name);
    if (!rank && !size) return std::nullopt;
    if (!rank || !size)
      bad(cat(rank ? rank_name : size_name, " is set without ", rank ? size_name : rank_name), "a launcher sets both",
          cat("unset ", rank ? rank_name : size_name, ", or start the program by its launcher"));
    if (*rank >= *size)
      bad(cat(rank_name, "=", *rank, " and ", size_name, "=", *size), cat("ranks are 0 to ", size_name, " - 1"),
          "start the program by its launcher, and set neither yourself");
    return Place{*rank, *size};
  }

 private:
  const Environment& environment_;
  Launch& out_;
};

void require_same(const char* one, int a, const char* other, int b, const char* what) {
  if (a != b)
    bad(cat(one, " and ", other, " contradict each other: ", what, " ", a, " and ", b), "they are set by two launchers, or by hand",
        "start the program by one launcher, and unset the variables of the other");
}

// Ranks without MPI meet at MASTER_ADDR, at the port behind MASTER_PORT, at which torchrun itself listens; or where NCCL_COMM_ID says.
std::string meeting_place(const Environment& get) {
  if (const std::string given = get("NCCL_COMM_ID").value_or(""); !given.empty()) return given;
  const std::string host = get("MASTER_ADDR").value_or(""), text = get("MASTER_PORT").value_or("");
  int port = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (host.empty() || code != std::errc() || end != text.data() + text.size() || port < 1 || port > 65534)
    bad(cat("MASTER_ADDR is '", host, "' and MASTER_PORT is '", text, "'"), "torchrun sets them to a host and a port up to 65534",
        "start the program by torchrun, mpirun, srun --mpi=pmix or python -m lamina launch, or unset RANK and WORLD_SIZE");
  return cat(host, ":", port + 1);
}

}  // namespace

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

Launch launch_of(const Environment& get) {
  Launch out;
  Variables group(get, out);
  const auto open_mpi = group.pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  const auto pmi = group.pair("PMI_RANK", "PMI_SIZE");
  const auto pmix = group.number("PMIX_RANK");
  const auto torch = group.pair("RANK", "WORLD_SIZE");
  const auto slurm_rank = group.number("SLURM_PROCID"), slurm_tasks = group.number("SLURM_STEP_NUM_TASKS");
  const bool in_slurm = slurm_rank || get("SLURM_JOB_ID").value_or("") != "";

  if (open_mpi && pmi) {
    require_same("OMPI_COMM_WORLD_RANK", open_mpi->rank, "PMI_RANK", pmi->rank, "ranks");
    require_same("OMPI_COMM_WORLD_SIZE", open_mpi->size, "PMI_SIZE", pmi->size, "sizes");
  }
  if (pmix && open_mpi) require_same("OMPI_COMM_WORLD_RANK", open_mpi->rank, "PMIX_RANK", *pmix, "ranks");
  if (pmix && pmi) require_same("PMI_RANK", pmi->rank, "PMIX_RANK", *pmix, "ranks");

  if (const auto place = open_mpi ? open_mpi : pmi) {
    out.mpi = true;
    out.rank = place->rank, out.size = place->size;
  } else if (pmix) {
    out.mpi = true;
    out.rank = *pmix;
    out.size_known = false;
    if (slurm_rank && slurm_tasks) out.size = *slurm_tasks, out.size_known = true;
  }
  // mpirun inside of an allocation starts its daemons by srun, whose variables its ranks inherit: they count only without mpirun's own.
  if (out.mpi && !open_mpi && slurm_rank && slurm_tasks && *slurm_tasks == out.size)
    require_same(pmi ? "PMI_RANK" : "PMIX_RANK", out.rank, "SLURM_PROCID", *slurm_rank, "ranks");
  if (out.mpi && torch) {
    require_same(open_mpi ? "OMPI_COMM_WORLD_RANK" : pmi ? "PMI_RANK" : "PMIX_RANK", out.rank, "RANK", torch->rank, "ranks");
    if (out.size_known)
      require_same(open_mpi ? "OMPI_COMM_WORLD_SIZE"
                   : pmi    ? "PMI_SIZE"
                            : "SLURM_STEP_NUM_TASKS",
                   out.size, "WORLD_SIZE", torch->size, "sizes");
  }
  if (out.mpi) {
    out.launcher = open_mpi ? "mpirun (Open MPI)" : in_slurm ? "srun" : "mpirun";
    for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
      if (const auto local = group.number(name)) {
        out.local_rank = *local;
        break;
      }
    return out;
  }
  if (torch && torch->size > 1) {
    out.nccl = true;
    out.launcher = "torchrun";
    out.rank = torch->rank, out.size = torch->size;
    out.local_rank = group.number("LOCAL_RANK").value_or(torch->rank);
    out.meeting = meeting_place(get);
    return out;
  }
  if (slurm_tasks && *slurm_tasks > 1)
    bad(cat("srun has started ", *slurm_tasks, " tasks without MPI"), "each would be a world of one rank, and all would train the same",
        "start it by srun --mpi=pmix, or --mpi=pmi2 where MPI is MPICH");
  if (in_slurm) {
    out.launcher = "Slurm, without srun";
    out.hint = "this is a shell inside of a Slurm allocation, so there is one rank; srun --mpi=pmix starts one for each task";
  }
  return out;
}

}  // namespace lamina::distributed
