// Launch variables: what they say, and errors for those that are half set or contradict each other.
#include "runtime/dist/launch.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "runtime/core/error.h"
#include "runtime/dist/over_devices.h"
#include "tests/runtime/dist/used_port.h"
#include "tests/source_file.h"

namespace lamina::distributed {
namespace {

using Variables = std::map<std::string, std::string>;

Launch launched(const Variables& variables) {
  return launch_of([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string error_of(const Variables& variables) {
  try {
    launched(variables);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::invalid_argument);
    return e.what();
  }
  return "no error";
}

TEST(LaunchVariables, OfNoLauncherAreOneRank) {
  const Launch l = launched({});
  EXPECT_EQ(l.launcher, "");
  EXPECT_FALSE(l.mpi);
  EXPECT_EQ(l.rank, 0);
  EXPECT_EQ(l.size, 1);
  EXPECT_EQ(l.hint, "");
}

TEST(LaunchVariables, OfOpenMpiSayRankAndSize) {
  const Launch l =
      launched({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"PMIX_RANK", "2"}});
  EXPECT_EQ(l.launcher, "mpirun (Open MPI)");
  EXPECT_TRUE(l.mpi);
  EXPECT_EQ(l.rank, 2);
  EXPECT_EQ(l.size, 4);
  EXPECT_EQ(l.local_rank, 1);
}

TEST(LaunchVariables, OfMpichSayRankAndSize) {
  const Launch l = launched({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}});
  EXPECT_EQ(l.launcher, "mpirun");
  EXPECT_EQ(l.rank, 1);
  EXPECT_EQ(l.size, 2);
  EXPECT_EQ(l.local_rank, 1);
}

TEST(LaunchVariables, OfSrunWithPmixSayRankAndSize) {
  const Launch l =
      launched({{"PMIX_RANK", "3"}, {"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_JOB_ID", "9"}, {"SLURM_LOCALID", "1"}});
  EXPECT_EQ(l.launcher, "srun");
  EXPECT_TRUE(l.mpi && l.size_known);
  EXPECT_EQ(l.rank, 3);
  EXPECT_EQ(l.size, 4);
  EXPECT_EQ(l.local_rank, 1);
}

TEST(LaunchVariables, OfPmixAloneLeaveTheSizeToMpi) {
  const Launch l = launched({{"PMIX_RANK", "3"}});
  EXPECT_TRUE(l.mpi);
  EXPECT_FALSE(l.size_known);
}

// mpirun starts its daemons by srun, so its ranks have that daemon's variables.
TEST(LaunchVariables, OfMpirunInAnAllocationWinOverSlurm) {
  const Launch l =
      launched({{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "8"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  EXPECT_EQ(l.rank, 5);
  EXPECT_EQ(l.size, 8);
}

TEST(LaunchVariables, OfAShellInAnAllocationAreOneRankWithAHint) {
  for (const Variables& v :
       {Variables{{"SLURM_JOB_ID", "9"}, {"SLURM_NTASKS", "4"}}, Variables{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}}) {
    const Launch l = launched(v);
    EXPECT_FALSE(l.mpi);
    EXPECT_EQ(l.size, 1);
    EXPECT_NE(l.hint.find("srun --mpi=pmix"), std::string::npos);
  }
}

TEST(LaunchVariables, OfTorchrunWithOneProcessAreOneRank) { EXPECT_EQ(launched({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).size, 1); }

TEST(LaunchVariables, OfTorchrunSayRankSizeAndMeetingPlace) {
  Variables variables{{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}};
  const Launch l = launched(variables);
  EXPECT_EQ(l.launcher, "torchrun");
  EXPECT_TRUE(l.nccl);
  EXPECT_FALSE(l.mpi);
  EXPECT_EQ(l.rank, 5);
  EXPECT_EQ(l.size, 8);
  EXPECT_EQ(l.local_rank, 1);
  EXPECT_EQ(l.meeting, "10.0.0.1:29501");
  variables["NCCL_COMM_ID"] = "a:7";
  EXPECT_EQ(launched(variables).meeting, "a:7");
}

TEST(LaunchVariables, ErrorsMatchTheirTexts) {
  const std::vector<std::pair<const char*, Variables>> cases = {
      {"a rank without a size", {{"OMPI_COMM_WORLD_RANK", "1"}}},
      {"a size without a rank", {{"PMI_SIZE", "2"}}},
      {"no number", {{"OMPI_COMM_WORLD_RANK", "one"}, {"OMPI_COMM_WORLD_SIZE", "2"}}},
      {"a negative number", {{"PMIX_RANK", "-1"}}},
      {"a number that is too large", {{"PMIX_RANK", "99999999999"}}},
      {"a rank beyond the size", {{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}},
      {"two launchers, two ranks", {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}},
      {"two launchers, two sizes", {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}},
      {"PMIx and mpirun", {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_RANK", "1"}}},
      {"PMI and Slurm", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}},
      {"torchrun inside of mpirun", {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"RANK", "0"}, {"WORLD_SIZE", "4"}}},
      {"torchrun, half set", {{"WORLD_SIZE", "2"}}},
      {"torchrun without its address", {{"RANK", "0"}, {"WORLD_SIZE", "2"}}},
      {"torchrun with a port that has none behind it",
       {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "65535"}}},
      {"srun without MPI", {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}}},
  };
  std::string in_use = "no error", meeting;
  {
    const tests::UsedPort other;
    meeting = other.meeting;
    try {
      require_free_port(meeting);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::device);
      in_use = std::regex_replace(e.what(), std::regex("port [0-9]+"), "port N");
    }
  }
  for (const std::string& free : {meeting, std::string("no_such_host.invalid:1"), std::string("nothing")})
    EXPECT_NO_THROW(require_free_port(free));

  std::string all;
  for (const auto& [name, variables] : cases) all += std::string("== ") + name + "\n" + error_of(variables) + "\n";
  all += "== a port in use\n" + in_use + "\n";
  lamina::tests::expect_text_of_file(all, "tests/errors/launch.txt");
}

}  // namespace
}  // namespace lamina::distributed
