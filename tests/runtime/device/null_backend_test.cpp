#include <gtest/gtest.h>

#include "runtime/core/error.h"
#include "runtime/device/backend.h"

namespace lamina {
namespace {

TEST(NullBackend, RecordsEveryCallAndRunsNothing) {
  Backend& null = null_backend();
  take_null_record();
  Device device = parse_device("null:h100:3");
  Stream s = null.default_stream(device), extra = null.create_stream(device);
  Event e = null.create_event(device);
  void* p = null.allocate(s, 4096);
  Kernel kernel{[](const KernelCall&) { FAIL() << "a kernel ran"; }, nullptr};
  null.launch(s, kernel, {s, nullptr, {}, {}}, "dense");
  int host = 5;
  null.copy(s, p, &host, 4, CopyKind::to_device);
  null.copy(s, &host, p, 4, CopyKind::to_host);
  EXPECT_EQ(host, 0);
  null.free(s, p, 4096);
  auto record = take_null_record();
  ASSERT_EQ(record.size(), 7u);
  EXPECT_TRUE(record[0].starts_with("create stream ") && record[0].ends_with(" on null:h100:3")) << record[0];
  EXPECT_EQ(record[2], "allocate 4096 bytes on null:h100:3");
  EXPECT_EQ(record[3], "launch dense on null:h100:3");
  EXPECT_EQ(record[4], "copy 4 bytes to null:h100:3");
  EXPECT_EQ(record[5], "copy 4 bytes from null:h100:3");
  EXPECT_EQ(record[6], "free 4096 bytes on null:h100:3");
  null.record(s, e);
  null.wait(extra, e);
  null.synchronize(s);
  null.destroy_event(e);
  null.destroy_stream(extra);
  record = take_null_record();
  ASSERT_EQ(record.size(), 5u);
  EXPECT_TRUE(record[0].starts_with("record event ") && record[1].starts_with("wait for event ") &&
              record[1].find(" on stream ") != std::string::npos);
  EXPECT_EQ(record[2], "synchronize null:h100:3");
  EXPECT_TRUE(take_null_record().empty());
}

TEST(NullBackend, PretendsToBeEachModel) {
  for (const DeviceProperties& model : null_models()) {
    Device device = parse_device("null:" + model.name);
    EXPECT_EQ(null_backend().properties(device).memory, model.memory);
    EXPECT_EQ(null_backend().properties(device).compute_capability, model.compute_capability);
  }
  EXPECT_GT(null_backend().device_count(), 1000);
}

TEST(NullBackend, EnforcesTheMemoryLimit) {
  Device device = parse_device("null:rtx4090:7");
  Stream s = null_backend().default_stream(device);
  const size_t most = size_t(null_backend().properties(device).memory);
  void* p = null_backend().allocate(s, most - 1000);
  try {
    null_backend().allocate(s, 100000);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::out_of_memory);
    EXPECT_EQ(e.parts.what, "out of memory on null:rtx4090:7: asked for 100000 bytes");
  }
  EXPECT_THROW(null_backend().allocate(s, SIZE_MAX), Error);
  null_backend().free(s, p, most - 1000);
  void* again = null_backend().allocate(s, most);
  EXPECT_NE(again, p);  // addresses are never reused
  null_backend().free(s, again, most);
  take_null_record();
}

}  // namespace
}  // namespace lamina
