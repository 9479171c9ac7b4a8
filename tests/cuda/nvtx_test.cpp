// runtime/device/nvtx.h against NVIDIA's header, and the capture range against a fake cudart.
#include "runtime/device/nvtx.h"

#include <gtest/gtest.h>

#include "runtime/cuda/capture_range.h"
#include "tests/cuda/fake_cuda.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define LAMINA_HAS_NVTX 1
#endif

namespace lamina {
namespace {

TEST(Nvtx, NumbersAndLayoutsAreThoseOfNvidiasHeader) {
#ifndef LAMINA_HAS_NVTX
  GTEST_SKIP() << "there is no nvtx3/nvToolsExt.h beside this nvcc";
#else
  EXPECT_EQ(nvtx::kVersion, NVTX_VERSION);
  EXPECT_EQ(sizeof(nvtx::EventAttributes), sizeof(nvtxEventAttributes_t));
#define EXPECT_SAME_PLACE(ours, theirs) EXPECT_EQ(offsetof(nvtx::EventAttributes, ours), offsetof(nvtxEventAttributes_t, theirs))
  EXPECT_SAME_PLACE(size, size);
  EXPECT_SAME_PLACE(category, category);
  EXPECT_SAME_PLACE(color_type, colorType);
  EXPECT_SAME_PLACE(color, color);
  EXPECT_SAME_PLACE(payload_type, payloadType);
  EXPECT_SAME_PLACE(payload, payload);
  EXPECT_SAME_PLACE(message_type, messageType);
  EXPECT_SAME_PLACE(message, message);
#undef EXPECT_SAME_PLACE
  EXPECT_EQ(nvtx::kPayloadInt64, NVTX_PAYLOAD_TYPE_INT64);
  EXPECT_EQ(nvtx::kMessageText, NVTX_MESSAGE_TYPE_ASCII);
  EXPECT_EQ(nvtx::kMessageRegistered, NVTX_MESSAGE_TYPE_REGISTERED);

  EXPECT_EQ(nvtx::kModules, NVTX_CB_MODULE_SIZE);
  EXPECT_EQ(nvtx::kDomains, NVTX_CB_MODULE_CORE2);
  const unsigned functions[] = {
      0, NVTX_CBID_CORE_SIZE, NVTX_CBID_CUDA_SIZE, NVTX_CBID_OPENCL_SIZE, NVTX_CBID_CUDART_SIZE, NVTX_CBID_CORE2_SIZE, NVTX_CBID_SYNC_SIZE};
  for (int module = 0; module < nvtx::kModules; ++module) EXPECT_EQ(nvtx::kFunctions[module], functions[module]) << module;
  EXPECT_EQ(int(nvtx::kRangePush), NVTX_CBID_CORE2_DomainRangePushEx);
  EXPECT_EQ(int(nvtx::kRangePop), NVTX_CBID_CORE2_DomainRangePop);
  EXPECT_EQ(int(nvtx::kNameCategory), NVTX_CBID_CORE2_DomainNameCategoryA);
  EXPECT_EQ(int(nvtx::kRegisterString), NVTX_CBID_CORE2_DomainRegisterStringA);
  EXPECT_EQ(int(nvtx::kCreateDomain), NVTX_CBID_CORE2_DomainCreateA);

  EXPECT_EQ(int(nvtx::kCallbacks), NVTX_ETID_CALLBACKS);
  EXPECT_EQ(int(nvtx::kVersionInfo), NVTX_ETID_VERSIONINFO);
  EXPECT_EQ(sizeof(nvtx::Callbacks), sizeof(NvtxExportTableCallbacks));
  EXPECT_EQ(offsetof(nvtx::Callbacks, functions), offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));
  EXPECT_EQ(sizeof(nvtx::VersionInfo), sizeof(NvtxExportTableVersionInfo));
  EXPECT_EQ(offsetof(nvtx::VersionInfo, version), offsetof(NvtxExportTableVersionInfo, version));
  EXPECT_EQ(offsetof(nvtx::VersionInfo, set_tool_version), offsetof(NvtxExportTableVersionInfo, SetInjectionNvtxVersion));
#endif
}

TEST(CaptureRange, StartsAndStopsTheProfilerAndSaysWhatCudaRefuses) {
  cuda::FakeCuda::reset();
  cuda::capture_range(cuda::fake_api(), true);
  cuda::capture_range(cuda::fake_api(), false);
  EXPECT_EQ(cuda::FakeCuda::now().calls, (std::vector<std::string>{"profiler_start", "profiler_stop"}));
  cuda::FakeCuda::now().fail["profiler_start"] = cudaErrorProfilerDisabled;
  try {
    cuda::capture_range(cuda::fake_api(), true);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::device);
    EXPECT_NE(std::string(e.what()).find("start the profiler"), std::string::npos) << e.what();
  }
  cuda::FakeCuda::reset();
}

}  // namespace
}  // namespace lamina
