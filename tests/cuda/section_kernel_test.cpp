// The compiled kernel of a section: when a launch takes it, and what NVRTC makes of the sources. NVRTC needs no driver; where it is missing
// those tests are skipped.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <regex>
#include <set>

#include "graph/compile/compile.h"
#include "graph/passes/pipeline.h"
#include "kernels/cuda/section_compiled.h"
#include "runtime/exec/program.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/graph/hundred_layers.h"
#include "tests/source_file.h"

namespace lamina::kernels::cuda {
namespace {

using lamina::cuda::CompiledKernels;
using lamina::cuda::FakeCuda;
using lamina::cuda::NvrtcApi;
using section::BlockSection;

std::shared_ptr<const BlockSection> planned(const tests::HundredLayers::Options& options, const char* device = "null:h100") {
  const auto program =
      compile::compile(passes::optimize(tests::hundred_layers(options).graph).graph,
                       {.device = parse_device(device), .input_devices = {}, .variable_devices = {}, .sections = true, .threads = 0});
  return std::static_pointer_cast<const BlockSection>(program->instructions.at(0).kernel.args);
}

class SectionKernel : public testing::Test {
 protected:
  SectionKernel() { FakeCuda::reset(); }
  ~SectionKernel() override { FakeCuda::reset(); }
  void ask(CompiledKernels& kernels, Wanted wanted = Wanted::whichever) { look_for_compiled(kernels, wanted, 90, *section_, place_); }

  std::shared_ptr<const BlockSection> section_ = planned({.layers = 2, .width = 16});
  BlockSection::OnDevice place_{.stream = {.backend = nullptr, .device = parse_device("gpu:0"), .native = nullptr}};
  std::atomic<int> compiled_{0};
  CompiledKernels::Compile compile_ = [this](const lamina::cuda::Source& source, int) {
    ++compiled_;
    EXPECT_TRUE(source.name.starts_with("section_")) << source.name;
    EXPECT_NE(source.text.find(source.name + "("), std::string::npos) << "the kernel has the source's name";
    return std::string("code");
  };
};

TEST_F(SectionKernel, IsMadeBehindTheFirstLaunchAndTakenWhenItIsReady) {
  CompiledKernels kernels(lamina::cuda::fake_api(), compile_);
  ask(kernels);
  kernels.wait();
  EXPECT_EQ(compiled_, 0) << "what runs once is not compiled";
  EXPECT_EQ(place_.compiled, nullptr);
  EXPECT_EQ(section_->which_kernel(), "the interpreter, until the compiled kernel is ready");
  ask(kernels);
  EXPECT_EQ(place_.compiled, nullptr) << "nobody waits for it";
  kernels.wait();
  ask(kernels);
  EXPECT_NE(place_.compiled, nullptr);
  EXPECT_EQ(compiled_, 1);
  EXPECT_EQ(section_->which_kernel(), cat("the compiled kernel ", section::compiled_name(section_->plan)));
}

TEST_F(SectionKernel, IsDoneWithoutWhereItDoesNotCompile) {
  CompiledKernels kernels(lamina::cuda::fake_api(), [this](const lamina::cuda::Source&, int) -> std::string {
    ++compiled_;
    throw std::runtime_error("it does not compile");
  });
  for (int i = 0; i < 4; ++i) {
    ask(kernels);
    kernels.wait();
  }
  EXPECT_TRUE(place_.interpreted);
  EXPECT_EQ(place_.compiled, nullptr);
  EXPECT_EQ(compiled_, 1);
  EXPECT_EQ(section_->which_kernel(), "the interpreter: it does not compile");
}

TEST_F(SectionKernel, IsDoneWithoutWhereTheDriverRefusesIt) {
  CompiledKernels kernels(lamina::cuda::fake_api(), compile_);
  FakeCuda::now().fail["library_load"] = cudaErrorNoKernelImageForDevice;
  for (int i = 0; i < 4; ++i) {
    ask(kernels);
    kernels.wait();
  }
  EXPECT_TRUE(place_.interpreted);
  EXPECT_NE(section_->which_kernel().find("cudaErrorNoKernelImageForDevice"), std::string::npos) << section_->which_kernel();
}

TEST_F(SectionKernel, IsWhatTheEnvironmentSays) {
  CompiledKernels kernels(lamina::cuda::fake_api(), compile_);
  ask(kernels, wanted_of("compile"));
  EXPECT_NE(place_.compiled, nullptr) << "the first launch waits for it";
  place_.compiled = nullptr;
  ask(kernels, wanted_of("interpret"));
  EXPECT_TRUE(place_.interpreted);
  EXPECT_EQ(section_->which_kernel(), "the interpreter: LAMINA_SECTION=interpret");
  EXPECT_EQ(wanted_of(""), Wanted::whichever);
  EXPECT_THROW(wanted_of("fast"), Error);
}

TEST_F(SectionKernel, IsNotMadeOfMoreFormsThanAreWorthIt) {
  BlockSection many;
  many.plan = section_->plan;
  many.plan.steps.back().form = section::kMostForms;
  CompiledKernels kernels(lamina::cuda::fake_api(), compile_);
  look_for_compiled(kernels, Wanted::compiled, 90, many, place_);
  EXPECT_TRUE(place_.interpreted);
  EXPECT_EQ(many.which_kernel(), cat("the interpreter: it has more than ", section::kMostForms, " kinds of steps"));
}

// A hundred equal layers are one body each way, and the source is no longer than that of ten.
TEST(SectionSource, HasOneBodyForEqualLayers) {
  const auto forms = [](const BlockSection& s) {
    std::set<int> all;
    for (const section::BlockStep& step : s.plan.steps) all.insert(step.form);
    return all;
  };
  const auto ten = planned({.layers = 10}), hundred = planned({});
  EXPECT_EQ(forms(*ten).size(), forms(*hundred).size());
  EXPECT_LE(forms(*hundred).size(), 20u);
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  EXPECT_EQ(lines(section::compiled_source(ten->plan)), lines(section::compiled_source(hundred->plan)));
  EXPECT_NE(section::compiled_source(hundred->plan).find("// dense of 20 rows, 64 -> 64, relu; steps "), std::string::npos);
}

TEST(SectionSource, NumbersFormsInTheTableOfTheDeviceToo) {
  const auto s = planned({.layers = 3});
  const auto* in_bytes = reinterpret_cast<const section::BlockStep*>(s->plan.bytes.data());
  for (size_t i = 0; i < s->plan.steps.size(); ++i) EXPECT_EQ(in_bytes[i].form, s->plan.steps[i].form) << i;
}

class SectionSourceByNvrtc : public testing::Test {
 protected:
  void SetUp() override {
    try {
      api_ = &lamina::cuda::nvrtc_api();
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
  }
  // What ptxas says of the kernel; "" where it does not compile, which is a failure.
  std::string log_of(const std::string& text, int architecture) const {
    std::vector<const char*> names, headers;
    for (const auto& [name, header] : section::section_headers()) names.push_back(name.c_str()), headers.push_back(header.c_str());
    void* program = nullptr;
    if (api_->create(&program, text.c_str(), "section.cu", int(names.size()), headers.data(), names.data()) != 0) return "";
    const std::string target = cat("--gpu-architecture=sm_", architecture, architecture == 90 ? "a" : "");
    const char* options[] = {target.c_str(),      "--std=c++20", "--fmad=false", "-lineinfo", "--device-as-default-execution-space",
                             "--ptxas-options=-v"};
    const int result = api_->compile(program, int(std::size(options)), options);
    size_t bytes = 0;
    api_->log_size(program, &bytes);
    std::string log(bytes, '\0');
    api_->log(program, log.data());
    api_->destroy(&program);
    if (result == 0) return log;
    ADD_FAILURE() << target << ": " << log << "\n" << text;
    return "";
  }
  void expect_within_limits(const std::string& text, int architecture) const {
    const std::string log = log_of(text, architecture);
    if (log.empty()) return;
    const auto number = [&](const char* regex) {
      std::smatch found;
      return std::regex_search(log, found, std::regex(regex)) ? std::stoi(found[1]) : -1;
    };
    const int registers = number("Used (\\d+) registers"), stack = number("(\\d+) bytes stack frame"),
              stores = number("(\\d+) bytes spill stores"), loads = number("(\\d+) bytes spill loads");
    EXPECT_GT(registers, 0) << log;
    EXPECT_LE(registers, 255);
    EXPECT_EQ(stores, 0) << log;
    EXPECT_EQ(loads, 0) << log;
    EXPECT_LE(stack, 256) << log;
  }
  const NvrtcApi* api_ = nullptr;
};

TEST_F(SectionSourceByNvrtc, OfAForwardPassCompilesWithoutSpills) {
  const auto s = planned({.layers = 3, .width = 16, .train = false});
  expect_within_limits(section::compiled_source(s->plan), 90);
}

TEST_F(SectionSourceByNvrtc, OfTheBenchmarkCompilesForEachArchitecture) {
  if (!std::getenv("LAMINA_TEST_LONG")) GTEST_SKIP() << "takes a minute for each architecture; --long does it";
  const auto s = planned({});
  for (int architecture : {80, 90, 100}) expect_within_limits(section::compiled_source(s->plan), architecture);
}

// Those that lamina_emulated has left where it compiled them for the host.
TEST_F(SectionSourceByNvrtc, OfEveryEmulatedTestCompilesForEachArchitecture) {
  if (!std::getenv("LAMINA_TEST_LONG")) GTEST_SKIP() << "takes minutes; --long does it";
  std::vector<std::filesystem::path> sources;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(LAMINA_HOST_SECTIONS, none))
    if (entry.path().extension() == ".cu") sources.push_back(entry.path());
  if (sources.empty()) GTEST_SKIP() << "lamina_emulated has not run: there is nothing in " << LAMINA_HOST_SECTIONS;
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i; (i = next++) < 3 * sources.size();) {
      std::ifstream file(sources[i / 3]);
      SCOPED_TRACE(sources[i / 3].string());
      expect_within_limits(std::string((std::istreambuf_iterator<char>(file)), {}), std::array{80, 90, 100}[i % 3]);
    }
  };
  auto other = std::async(std::launch::async, work);
  work();
  other.get();
}

}  // namespace
}  // namespace lamina::kernels::cuda
