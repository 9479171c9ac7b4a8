// Without a GPU, with or without CUDA in the build: queries return a reason, and uses are errors, not crashes.
#include <gtest/gtest.h>

#include "runtime/core/error.h"
#include "runtime/device/backend.h"

namespace lamina {
namespace {

class GpuAbsence : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_backend().device_count() > 0) GTEST_SKIP() << "this machine has a GPU";
  }
  static constexpr Device gpu{.kind = DeviceKind::gpu, .model = 0, .index = 0};
};

TEST_F(GpuAbsence, HasAReason) {
  const std::string reason = cuda_backend().unavailable_reason();
  EXPECT_TRUE(reason.starts_with(LAMINA_HAS_CUDA ? "the" : "Lamina was built without CUDA")) << reason;
}

TEST_F(GpuAbsence, RefusesTheDeviceWithThatReason) {
  try {
    cuda_backend().default_stream(gpu);
    FAIL() << "there is a stream";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::device);
    EXPECT_EQ(e.parts.what, "there is no device gpu:0");
    EXPECT_EQ(e.parts.why, cuda_backend().unavailable_reason());
  }
}

}  // namespace
}  // namespace lamina
