#include "runtime/core/limits.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "graph/frontend/factories.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/control_flow.h"
#include "graph/functions/op_functions.h"
#include "runtime/core/error.h"
#include "runtime/device/backend.h"
#include "runtime/device/buffer.h"

namespace lamina {
namespace {

constexpr Device kCpu{.kind = DeviceKind::cpu, .model = 0, .index = 0};

std::string error_of(ErrorKind kind, const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(Limits, EndALoopThatNeverEnds) {
  auto forever = function(
      [](Tensor x) { return while_loop([&](Tensor n) { return n < x; }, [](Tensor n) { return n * 1.0; }, zeros({}, DType::f64)); });
  {
    const Limits limits({.seconds = 0.05});
    EXPECT_NE(error_of(ErrorKind::time_limit, [&] { forever(ones({}, DType::f64)); }).find("0.05 seconds"), std::string::npos);
  }
  EXPECT_EQ(forever(zeros({}, DType::f64)).item<double>(), 0.0);  // usable, and without limits, again
}

TEST(Limits, CountMemoryThatIsHeld) {
  const Limits limits({.bytes = 4096});
  {
    const Buffer kept(kCpu, 3000);
    error_of(ErrorKind::out_of_memory, [] { Buffer(kCpu, 1097); });
    Buffer(kCpu, 1096);
    Buffer(kCpu, 1096);  // the first is no longer held
  }
  Buffer(kCpu, 4096);
}

TEST(Limits, OfAnInnerScopeDoNotExceedThoseOfAnOuterOne) {
  const Limits outer({.seconds = 0, .bytes = 100});
  const Limits inner({.seconds = 1000, .bytes = 1000});
  error_of(ErrorKind::time_limit, [] { check_time_limit(); });
  error_of(ErrorKind::out_of_memory, [] { Buffer(kCpu, 101); });
  Buffer(kCpu, 100);
}

TEST(Limits, HoldForBuffersThatAnotherThreadFrees) {
  const Limits limits({.bytes = 100});
  for (int i = 0; i < 3; ++i) {
    auto buffer = std::make_unique<Buffer>(kCpu, 100);
    std::thread([&] { buffer.reset(); }).join();
  }
}

TEST(Limits, AreOfOneThread) {
  const Limits limits({.seconds = 0, .bytes = 0});
  std::thread([] {
    check_time_limit();
    Buffer(kCpu, 1);
  }).join();
}

TEST(Limits, HoldForTasksOfOtherStreams) {
  Backend& backend = cpu_backend();
  Stream stream = backend.create_stream(kCpu);
  const Kernel kernel{[](const KernelCall&) { Buffer(kCpu, 101); }, nullptr};
  {
    const Limits limits({.bytes = 100});
    backend.launch(stream, kernel, {stream, nullptr, {}, {}, {}}, "large");
    error_of(ErrorKind::out_of_memory, [&] { backend.synchronize(stream); });
  }
  backend.launch(stream, kernel, {stream, nullptr, {}, {}, {}}, "large");
  backend.synchronize(stream);
  backend.destroy_stream(stream);
}

TEST(Limits, RefuseWhatIsNoLimit) {
  error_of(ErrorKind::invalid_argument, [] { Limits({.seconds = -1}); });
  error_of(ErrorKind::invalid_argument, [] { Limits({.seconds = std::numeric_limits<double>::quiet_NaN()}); });
  error_of(ErrorKind::invalid_argument, [] { Limits({.bytes = -2}); });
}

}  // namespace
}  // namespace lamina
