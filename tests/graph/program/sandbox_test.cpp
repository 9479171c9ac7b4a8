// A saved program is loaded and run where everything else is forbidden: the kernel ends the process at a new program, a socket, ptrace, or
// a file that is opened to be written.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <vector>

#include "graph/program/module.h"
#include "include/lamina/lamina.h"
#include "tests/runtime/io/scratch.h"

namespace lamina {
namespace {

// Kills this process at what a saved program has no use for.
bool forbid() {
  std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  const auto kill_at = [&](long call) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, uint32_t(call), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  };
  for (const long call :
       {SYS_execve, SYS_execveat, SYS_socket, SYS_connect, SYS_ptrace, SYS_unlinkat, SYS_renameat2, SYS_symlinkat, SYS_linkat})
    kill_at(call);
  // openat whose flags ask for more than reading.
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3));
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_WRONLY | O_RDWR | O_CREAT, 0, 1));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{uint16_t(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// The child's end: 0 all is well, 1 a wrong result, 2 no filter can be set, or a signal.
int status_of_child(const std::function<bool()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    if (!forbid()) _exit(2);
    bool good = false;
    try {
      good = work();
    } catch (...) {
    }
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(Sandbox, AProgramIsLoadedAndRunWithoutWhatItHasNoUseFor) {
  const io::Scratch scratch;
  Module m;
  const Variable w(tensor({1, 2, 3, 4}, {2, 2}), "w");
  m.add("w", w);
  auto f = function([=](Tensor x) { return matmul(x, w); }, FunctionOptions{.name = "f", .argument_names = {"x"}});
  m.add("f", f.concrete(ones({3, 2})));
  m.save(scratch / "m");
  const std::vector<float> expected = f(ones({3, 2})).to_vector<float>();
  const int loads = status_of_child(
      [&] { return Module::load(scratch / "m").call("f", {{"x", ones({3, 2})}}).at("output").to_vector<float>() == expected; });
  if (WIFEXITED(loads) && WEXITSTATUS(loads) == 2) GTEST_SKIP() << "this kernel does not let a process filter its own system calls";
  EXPECT_TRUE(WIFEXITED(loads) && WEXITSTATUS(loads) == 0) << loads;
  // The filter does what it should.
  const int writes = status_of_child([&] { return open((scratch / "new").c_str(), O_CREAT | O_WRONLY, 0600) >= 0; });
  EXPECT_TRUE(WIFSIGNALED(writes)) << writes;
}

}  // namespace
}  // namespace lamina
