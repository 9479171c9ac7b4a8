#include "runtime/cuda/libraries.h"

#include <gtest/gtest.h>

#include "runtime/core/error.h"
#include "runtime/cuda/nvrtc.h"

namespace lamina::cuda {
namespace {

int some_function() { return 0; }

struct FakeLoader {
  std::vector<std::string> asked;
  std::string there;          // the only path that opens
  std::string lacks;          // a function that the library does not have
  Loader loader() {
    return {.open = [this](const std::string& path) -> void* { return asked.push_back(path), path == there ? this : nullptr; },
            .symbol = [this](void*, const char* name) { return name == lacks ? nullptr : reinterpret_cast<void*>(&some_function); },
            .error = [] { return std::string("no such file"); },
            .folders = [] { return std::vector<std::string>{"/first", "/second"}; }};
  }
};

TEST(CudaLibraries, AreLookedForInOrderAndOnlyUntilOneOpens) {
  FakeLoader fake{.there = std::string("/first/") + nvrtc_name().file};
  const OpenLibrary found = open_library(nvrtc_name(), fake.loader());
  EXPECT_EQ(found.handle, &fake);
  EXPECT_EQ(fake.asked, (std::vector<std::string>{nvrtc_name().file, fake.there}));
}

TEST(CudaLibraries, ListEveryPathThatWasTriedWhenOneIsMissing) {
  FakeLoader fake;
  try {
    load_nvrtc(fake.loader());
    FAIL() << "it was found";
  } catch (const Error& e) {
    const std::string file = nvrtc_name().file;
    EXPECT_EQ(e.kind, ErrorKind::device);
    EXPECT_EQ(e.parts.what, "cuda: NVRTC is missing");
    EXPECT_EQ(e.parts.why, cat("tried ", file, ": no such file; /first/", file, ": no such file; /second/", file, ": no such file"));
    EXPECT_EQ(e.parts.fix, "pip install nvidia-cuda-nvrtc, or name its folder in LAMINA_CUDA_LIBRARIES");
  }
}

TEST(CudaLibraries, SayWhichFunctionIsMissing) {
  FakeLoader fake{.there = nvrtc_name().file, .lacks = "nvrtcGetCUBIN"};
  try {
    load_nvrtc(fake.loader());
    FAIL() << "it was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.parts.what, "cuda: NVRTC has no function nvrtcGetCUBIN");
  }
}

TEST(CudaLibraries, ReportsSayWhatIsWantedAndWhatBringsIt) {
  FakeLoader fake;
  const std::vector<LibraryReport> reports = library_reports(fake.loader());
  ASSERT_EQ(reports.size(), 5u);
  EXPECT_EQ(reports[0].name, "NVIDIA driver");
  EXPECT_TRUE(reports[0].required);
  for (const LibraryReport& r : reports) {
    EXPECT_EQ(r.found, "") << r.name;
    EXPECT_NE(r.why.find("/second/" + r.wanted), std::string::npos) << r.why;
    EXPECT_FALSE(r.fix.empty()) << r.name;
  }
}

}  // namespace
}  // namespace lamina::cuda
