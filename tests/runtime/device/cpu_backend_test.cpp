#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "runtime/core/config.h"
#include "runtime/core/error.h"
#include "runtime/device/backend.h"

namespace lamina {
namespace {

using std::chrono::milliseconds;

struct Work {
  std::atomic<int> order{0};
  int seen[16] = {};
  std::thread::id thread[16];
};
struct Item {
  Work* work;
  int number;
  int sleep = 0;
  bool fail = false;
};
void run_item(const KernelCall& call) {
  const auto& item = *static_cast<const Item*>(call.args);
  if (item.sleep) std::this_thread::sleep_for(milliseconds(item.sleep));
  if (item.fail) throw Error(ErrorKind::index, {.what = "planted", .where = "", .why = "", .fix = ""});
  item.work->thread[item.number] = std::this_thread::get_id();
  item.work->seen[item.number] = ++item.work->order;
}
void launch(Stream& stream, const Item& item) {
  static const Kernel kernel{run_item, nullptr};
  stream.backend->launch(stream, kernel, {stream, &item, {}, {}}, "planted_op");
}

TEST(CpuBackend, HasTheConfiguredDevices) {
  Backend& cpu = cpu_backend();
  EXPECT_EQ(cpu.device_count(), config::cpu_devices());
  EXPECT_EQ(cpu.unavailable_reason(), "");
  EXPECT_GT(cpu.properties({}).memory, 0);
  EXPECT_EQ(cpu.properties({}).threads, config::threads());
  EXPECT_THROW(cpu.default_stream({DeviceKind::cpu, 0, int16_t(config::cpu_devices())}), Error);
}

TEST(CpuBackend, CannotBeSplitAnewOnceAnotherDeviceIsInUse) {
  const int count = config::cpu_devices();
  ASSERT_GT(count, 1);
  (void)cpu_backend().default_stream({DeviceKind::cpu, 0, 1});
  const auto refused = [](int wanted) {
    try {
      split_cpu(wanted);
      return std::string("taken");
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_NE(refused(count + 1).find("cpu:1 is in use"), std::string::npos) << refused(count + 1);
  EXPECT_NE(refused(0).find("from 1 to 1024"), std::string::npos);
  EXPECT_NE(refused(1025).find("from 1 to 1024"), std::string::npos);
  EXPECT_EQ(refused(count), "taken");
  EXPECT_EQ(config::cpu_devices(), count);
}

TEST(CpuBackend, DividesItsMemoryAmongTheDevices) {
  Backend& cpu = cpu_backend();
  const auto limit = [&](int16_t index) {
    Stream stream = cpu.default_stream({DeviceKind::cpu, 0, index});
    try {
      cpu.free(stream, cpu.allocate(stream, size_t{1} << 60), size_t{1} << 60);
    } catch (const Error& e) {
      return e.parts.why.substr(0, e.parts.why.find(" bytes"));
    }
    return std::string("none");
  };
  EXPECT_EQ(limit(1), cat("of ", cpu.properties({}).memory));
  EXPECT_EQ(limit(0), limit(1));
}

TEST(CpuBackend, RunsALaunchOnAnIdleStreamOnTheCallersThread) {
  Stream s = cpu_backend().default_stream({});
  Work w;
  Item item{&w, 0};
  launch(s, item);
  EXPECT_EQ(w.seen[0], 1);
  EXPECT_EQ(w.thread[0], std::this_thread::get_id());
}

TEST(CpuBackend, ThrowsAnInlineErrorFromTheLaunchWithTheInstructionsName) {
  Stream s = cpu_backend().default_stream({});
  Work w;
  Item bad{&w, 0, 0, true};
  try {
    launch(s, bad);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::index);
    EXPECT_EQ(e.parts.where, "instruction planted_op");
  }
  cpu_backend().synchronize(s);  // it is not kept a second time
}

TEST(CpuBackend, RunsCreatedStreamsInOrderOnAnotherThread) {
  Backend& cpu = cpu_backend();
  Stream s = cpu.create_stream({});
  Work w;
  std::vector<Item> items;
  for (int i = 0; i < 10; ++i) items.push_back({&w, i, i == 0 ? 20 : 0});
  for (const Item& item : items) launch(s, item);
  EXPECT_EQ(w.seen[9], 0);  // the first still sleeps
  cpu.synchronize(s);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(w.seen[i], i + 1);
    EXPECT_NE(w.thread[i], std::this_thread::get_id());
  }
  cpu.destroy_stream(s);
}

TEST(CpuBackend, KeepsTheFirstErrorOfAStreamAndThrowsItOnce) {
  Backend& cpu = cpu_backend();
  Stream s = cpu.create_stream({});
  Work w;
  Item good{&w, 0}, bad{&w, 1, 0, true}, after{&w, 2};
  launch(s, good);
  launch(s, bad);
  launch(s, after);
  try {
    cpu.synchronize(s);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.parts.where, "instruction planted_op");
  }
  EXPECT_EQ(w.seen[0], 1);
  EXPECT_EQ(w.seen[2], 0);  // work after a failure was skipped
  cpu.synchronize(s);
  launch(s, after);
  cpu.synchronize(s);
  EXPECT_EQ(w.seen[2], 2);
  cpu.destroy_stream(s);
}

TEST(CpuBackend, WorkAfterAWaitStartsAfterTheEvent) {
  Backend& cpu = cpu_backend();
  Stream a = cpu.create_stream({}), b = cpu.create_stream({}), idle = cpu.default_stream({});
  Event e = cpu.create_event({});
  cpu.wait(b, e);  // never recorded: nothing to wait for
  Work w;
  Item slow{&w, 0, 30}, on_b{&w, 1}, on_default{&w, 2};
  launch(a, slow);
  cpu.record(a, e);
  cpu.wait(b, e);
  launch(b, on_b);
  cpu.wait(idle, e);
  launch(idle, on_default);  // the default stream is busy, so this must be queued
  EXPECT_EQ(w.seen[2], 0);
  for (Stream* s : {&idle, &b, &a}) cpu.synchronize(*s);
  EXPECT_EQ(w.seen[0], 1);
  EXPECT_GT(w.seen[1], 1);
  EXPECT_GT(w.seen[2], 1);
  Item inline_again{&w, 3};
  launch(idle, inline_again);
  EXPECT_EQ(w.thread[3], std::this_thread::get_id());
  cpu.destroy_event(e);
  cpu.destroy_stream(a);
  cpu.destroy_stream(b);
}

TEST(CpuBackend, EventsAfterAnErrorAreReached) {
  Backend& cpu = cpu_backend();
  Stream a = cpu.create_stream({}), b = cpu.create_stream({});
  Event e = cpu.create_event({});
  Work w;
  Item bad{&w, 0, 5, true}, next{&w, 1};
  launch(a, bad);
  cpu.record(a, e);
  cpu.wait(b, e);
  launch(b, next);
  cpu.synchronize(b);
  EXPECT_EQ(w.seen[1], 1);
  EXPECT_THROW(cpu.synchronize(a), Error);
  cpu.destroy_event(e);
  cpu.destroy_stream(a);
  cpu.destroy_stream(b);
}

TEST(CpuBackend, FreesMemoryOnlyAfterTheWorkThatUsesIt) {
  Backend& cpu = cpu_backend();
  Stream s = cpu.create_stream({});
  Work w;
  Item slow{&w, 0, 20};
  void* p = cpu.allocate(s, 4096);
  launch(s, slow);
  cpu.free(s, p, 4096);
  void* other = cpu.allocate(s, 4096);
  EXPECT_NE(other, p);
  cpu.synchronize(s);
  cpu.free(s, other, 4096);
  cpu.destroy_stream(s);
}

TEST(CpuBackend, CopiesInStreamOrder) {
  Backend& cpu = cpu_backend();
  Stream s = cpu.create_stream({});
  int from = 1, to = 0;
  Work w;
  Item slow{&w, 0, 10};
  launch(s, slow);
  cpu.copy(s, &to, &from, sizeof to, CopyKind::within_device);
  EXPECT_EQ(to, 0);
  cpu.synchronize(s);
  EXPECT_EQ(to, 1);
  cpu.destroy_stream(s);
}

TEST(CpuBackend, WorksInAForkedChild) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not support threads in a forked child";
#endif
  Backend& cpu = cpu_backend();
  Stream s = cpu.create_stream({});
  Event e = cpu.create_event({});
  Work w;
  Item slow{&w, 0, 100};
  launch(s, slow);
  cpu.record(s, e);
  const pid_t child = fork();
  if (child == 0) {
    Stream idle = cpu.default_stream({});
    cpu.wait(idle, e);   // does not wait for the parent's work
    cpu.synchronize(s);  // nor for what the parent had queued
    Work mine;
    Item a{&mine, 0}, b{&mine, 1};
    launch(s, a);
    cpu.synchronize(s);
    launch(idle, b);
    void* p = cpu.allocate(idle, 1000);
    cpu.free(idle, p, 1000);
    _exit(mine.seen[0] == 1 && mine.seen[1] == 2 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  cpu.synchronize(s);
  EXPECT_EQ(w.seen[0], 1);
  cpu.destroy_event(e);
  cpu.destroy_stream(s);
}

}  // namespace
}  // namespace lamina
