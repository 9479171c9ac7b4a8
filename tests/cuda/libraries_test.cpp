#include "runtime/cuda/libraries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>

#include "runtime/core/error.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/nccl.h"
#include "runtime/device/package_folders.h"

namespace lamina::cuda {
namespace {

int some_function() { return 0; }

struct FakeLoader {
  std::vector<std::string> asked;
  std::string there;  // the only path that opens
  std::string lacks;  // a function that the library lacks
  Loader loader() {
    return {.open = [this](const std::string& path) -> void* { return asked.push_back(path), path == there ? this : nullptr; },
            .symbol = [this](void*, const char* name) { return name == lacks ? nullptr : reinterpret_cast<void*>(&some_function); },
            .error = [] { return std::string("no such file"); },
            .folders = [] { return std::vector<std::string>{"/first", "/second"}; }};
  }
};

TEST(CudaLibraries, AreSearchedInOrderUntilOneOpens) {
  FakeLoader fake{.there = std::string("/first/") + cublaslt_name().file};
  const OpenLibrary found = open_library(cublaslt_name(), fake.loader());
  EXPECT_EQ(found.handle, &fake);
  EXPECT_EQ(fake.asked, (std::vector<std::string>{cublaslt_name().file, fake.there}));
}

TEST(CudaLibraries, AreNeverSearchedInTheWorkingDirectory) {
  const std::filesystem::path before = std::filesystem::current_path(), folder = std::filesystem::temp_directory_path() / "lamina_foreign";
  for (const char* inside : {"lib64", "lib/python3.11/site-packages/nvidia/x/lib"}) std::filesystem::create_directories(folder / inside);
  std::filesystem::current_path(folder);
  for (const char* value : {"", ".", "lib64", "./"}) {
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "LAMINA_CUDA_LIBRARIES"}) setenv(variable, value, 1);
    for (const std::string& where : system_loader().folders()) {
      EXPECT_EQ(where.front(), '/') << where;
      EXPECT_EQ(where.find("lamina_foreign"), std::string::npos) << where;
    }
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "LAMINA_CUDA_LIBRARIES"}) unsetenv(variable);
  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
}

// pip's packages of the running interpreter, whether or not its environment is activated.
TEST(CudaLibraries, AreSearchedInTheInterpretersSitePackages) {
  namespace fs = std::filesystem;
  const fs::path site = fs::temp_directory_path() / "lamina_site", before = fs::current_path();
  fs::create_directories(site / "nvidia/cudnn/lib");
  fs::create_directories(site / "here/nvidia/cudnn/lib");
  fs::current_path(site);
  set_package_folders({"here", "", ".", site.string(), "/there/is/none"});
  const std::vector<std::string> folders = system_loader().folders();
  set_package_folders({});
  fs::current_path(before);
  EXPECT_EQ(std::count(folders.begin(), folders.end(), (site / "nvidia/cudnn/lib").string()), 1);
  for (const std::string& folder : folders) EXPECT_EQ(folder.find("here"), std::string::npos) << "a relative folder was taken: " << folder;
  fs::remove_all(site);
}

TEST(CudaLibraries, ListEveryPathThatWasTriedWhenOneIsMissing) {
  FakeLoader fake;
  try {
    load_cublaslt(fake.loader());
    FAIL() << "it was found";
  } catch (const Error& e) {
    const std::string file = cublaslt_name().file;
    EXPECT_EQ(e.kind, ErrorKind::device);
    EXPECT_EQ(e.parts.what, "cuda: cuBLASLt is missing");
    EXPECT_EQ(e.parts.why, cat("tried ", file, ": no such file; /first/", file, ": no such file; /second/", file, ": no such file"));
    EXPECT_EQ(e.parts.fix, "pip install nvidia-cublas, or name its folder in LAMINA_CUDA_LIBRARIES");
  }
}

const std::set<std::string> of_windows{"ncclMemAlloc", "ncclMemFree", "ncclCommWindowRegister", "ncclCommWindowDeregister",
                                       "ncclGetPeerDevicePointer"};

// Each library without one of its functions in turn, as in an old version.
TEST(CudaLibraries, SayWhichFunctionIsMissing) {
  const std::pair<const LibraryName&, std::function<void(const Loader&)>> libraries[] = {
      {cublaslt_name(), [](const Loader& l) { load_cublaslt(l); }},
      {cudnn_name(), [](const Loader& l) { load_cudnn(l); }},
      {nccl_name(), [](const Loader& l) { load_nccl(l); }}};
  for (const auto& [name, load] : libraries) {
    std::vector<std::string> functions;
    FakeLoader all{.there = name.file};
    Loader noting = all.loader();
    noting.symbol = [&](void*, const char* function) { return functions.push_back(function), reinterpret_cast<void*>(&some_function); };
    load(noting);
    EXPECT_GE(functions.size(), 9u);
    for (const std::string& function : functions) {
      if (function == name.symbol && std::count(functions.begin(), functions.end(), function) == 1) continue;  // only queried for the path
      if (of_windows.contains(function)) continue;
      FakeLoader fake{.there = name.file, .lacks = function};
      try {
        load(fake.loader());
        ADD_FAILURE() << function << " was not missed";
      } catch (const Error& e) {
        EXPECT_EQ(e.kind, ErrorKind::device);
        EXPECT_EQ(e.parts.what, cat("cuda: ", name.name, " has no function ", function));
        EXPECT_EQ(e.parts.fix, fix_for(name));
      }
    }
  }
}

// They came with NCCL 2.29. Without one of them ranks exchange sums as before.
TEST(CudaLibraries, NcclWithoutAFunctionOfWindowsHasNone) {
  FakeLoader all{.there = nccl_name().file};
  Loader loader = all.loader();
  const auto pointer = [&](const std::string& lacks) {
    loader.symbol = [lacks](void*, const char* function) { return function == lacks ? nullptr : reinterpret_cast<void*>(&some_function); };
    return load_nccl(loader).peer_pointer;
  };
  EXPECT_NE(pointer(""), nullptr);
  for (const std::string& function : of_windows) EXPECT_EQ(pointer(function), nullptr) << function;
}

// doctor's report of a library: its version, or nothing if it has none or fails to report it.
TEST(CudaLibraries, ReportTheirVersion) {
  static int nccl = 0, status = 0;
  const auto version = [&](const char* lacks) {
    FakeLoader fake{.there = "libnccl.so.2", .lacks = lacks};
    Loader loader = fake.loader();
    loader.symbol = [lacks](void*, const char* name) {
      int (*ask)(int*) = [](int* v) { return *v = nccl, status; };
      return name == std::string(lacks) ? nullptr : reinterpret_cast<void*>(ask);
    };
    const LibraryReport report = library_reports(loader).back();
    EXPECT_EQ(report.name, "NCCL");
    EXPECT_NE(report.found, "");
    EXPECT_FALSE(report.required);
    return report.version;
  };
  nccl = 22809;
  EXPECT_EQ(version(""), "2.28.9");
  nccl = 2804;  // version numbering before 2.9
  EXPECT_EQ(version(""), "2.8.4");
  EXPECT_EQ(version("ncclGetVersion"), "") << "it is too old to have it";
  for (status = 1; status < 8; ++status) EXPECT_EQ(version(""), "") << "ncclResult_t " << status;
  status = 0;
}

TEST(CudaLibraries, ReportsNameTheFileAndTheFix) {
  FakeLoader fake;
  const std::vector<LibraryReport> reports = library_reports(fake.loader());
  ASSERT_EQ(reports.size(), 4u);
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
