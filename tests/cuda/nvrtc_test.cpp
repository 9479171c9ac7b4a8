// Kernels that are compiled while the program runs. NVRTC needs no driver; where it is missing these tests are skipped.
#include "runtime/cuda/nvrtc.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kernels/elementwise_source.h"
#include "runtime/core/error.h"
#include "tests/kernels/takes.h"

namespace lamina::cuda {
namespace {

using kernels::Access;
using kernels::ElementwiseCode;
using kernels::ElementwiseLayout;
using kernels::ScalarOp;

class Nvrtc : public testing::Test {
 protected:
  void SetUp() override {
    try {
      api_ = &nvrtc_api();
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
    folder_ = std::filesystem::temp_directory_path() / cat("lamina_nvrtc_", getpid());
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Source source(const ElementwiseCode& code, const ElementwiseLayout& layout) {
    Source out{elementwise_name(code), elementwise_source(code, layout, elementwise_name(code)), {}};
    for (const auto& [name, text] : kernels::shared_headers()) out.headers.push_back({name, text});
    return out;
  }
  const NvrtcApi* api_ = nullptr;
  std::filesystem::path folder_;
};

constexpr DType kComputed[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::u8, DType::boolean};

// Every operation that takes this type, one after the other, as one kernel: operands in a row, one element for all, and strided.
ElementwiseCode every_operation(DType type) {
  ElementwiseCode code;
  code.inputs = {type, type, DType::boolean};
  code.constants = {{type, 2}};
  for (int op = 0; op < kernels::kScalarOps; ++op) {
    const auto o = ScalarOp(op);
    if (!tests::takes(o, type) || o == ScalarOp::cast) continue;
    const DType result = gives_bool(o) ? DType::boolean : type;
    const bool where = o == ScalarOp::where;
    code.instructions.push_back(
        {.op = o, .type = type, .result = result, .a = int16_t(where ? 2 : 0), .b = int16_t(where ? 0 : 1), .c = int16_t(where ? 1 : 3)});
    code.outputs = {int16_t(3 + code.instructions.size())};
  }
  for (DType to : kDTypes) code.instructions.push_back({.op = ScalarOp::cast, .type = type, .result = to, .a = 0, .b = 0, .c = 0});
  for (size_t i = 0; i < code.instructions.size() && code.outputs.size() < 8; i += 1 + code.instructions.size() / 7)
    code.outputs.push_back(int16_t(4 + i));
  return code;
}

TEST_F(Nvrtc, CompilesEveryOperationOfEveryTypeForEachArchitecture) {
  for (const int architecture : {80, 90, 100})
    for (const DType type : kComputed) {
      if (architecture != 90 && type != DType::f32) continue;
      SCOPED_TRACE(cat("sm_", architecture, ", ", type));
      const ElementwiseCode code = every_operation(type);
      const ElementwiseLayout layout{
          .in = {Access::linear, Access::repeated, Access::strided}, .out = std::vector(code.outputs.size(), Access::linear), .rank = 2};
      EXPECT_TRUE(compile_cubin(*api_, source(code, layout), architecture)
                      .starts_with("\x7f"
                                   "ELF"));
    }
}

TEST_F(Nvrtc, KeepsWhatItCompiledAndCompilesNothingTheSecondTime) {
  ElementwiseCode code;
  code.inputs = {DType::f32, DType::f32};
  code.instructions = {{.op = ScalarOp::add, .type = DType::f32, .result = DType::f32, .a = 0, .b = 1, .c = 0},
                       {.op = ScalarOp::relu, .type = DType::f32, .result = DType::f32, .a = 2, .b = 0, .c = 0}};
  code.outputs = {3};
  const Source s = source(code, {.in = {Access::linear, Access::repeated}, .out = {Access::linear}});
  EXPECT_EQ(s.name, "fused_add_relu");
  const std::string first = cached_cubin(*api_, s, 90, folder_.string());
  NvrtcApi none = *api_;
  none.create = [](void**, const char*, const char*, int, const char* const*, const char* const*) {
    ADD_FAILURE() << "it compiles again";
    return 1;
  };
  EXPECT_EQ(cached_cubin(none, s, 90, folder_.string()), first);
  int sources = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path().extension() == ".cu") ++sources;
    if (entry.path().extension() == ".cubin") std::ofstream(entry.path(), std::ios::binary | std::ios::app) << "damaged";
  }
  EXPECT_EQ(sources, 1) << "the source lies beside the code";
  EXPECT_NE(first.find(folder_.string()), std::string::npos) << "line numbers are of that file";
  EXPECT_NE(first.find("fused_add_relu-"), std::string::npos);
  EXPECT_EQ(cached_cubin(*api_, s, 90, folder_.string()), first) << "a damaged entry is made anew";
}

TEST_F(Nvrtc, SaysWhatTheCompilerSays) {
  try {
    compile_cubin(*api_, {"broken", "extern \"C\" __global__ void broken() { nothing_of_this_name(); }", {}}, 90);
    FAIL() << "it compiles";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::device);
    EXPECT_NE(e.parts.why.find("nothing_of_this_name"), std::string::npos) << e.parts.why;
  }
}

}  // namespace

// Each function fails in turn: a typed error, and the program object is given back.
TEST(NvrtcFaults, BecomeErrorsAndLeakNothing) {
  static int fails, calls, alive;
  alive = 0;
  const auto call = [](int which) { return ++calls, which == fails ? 4 : 0; };
  static const auto answer = call;
  const NvrtcApi api{.version = [](int* major, int* minor) { return *major = 13, *minor = 0, answer(0); },
                     .create =
                         [](void** p, const char*, const char*, int, const char* const*, const char* const*) {
                           if (answer(1)) return 4;
                           *p = &alive, ++alive;
                           return 0;
                         },
                     .destroy = [](void** p) { return *p = nullptr, --alive, 0; },
                     .compile = [](void*, int, const char* const*) { return answer(2); },
                     .log_size = [](void*, size_t* n) { return *n = 0, 0; },
                     .log = [](void*, char*) { return 0; },
                     .cubin_size = [](void*, size_t* n) { return *n = 4, answer(3); },
                     .cubin = [](void*, char* code) { return std::copy_n("code", 4, code), answer(4); },
                     .error_text = [](int) { return "planted"; }};
  for (fails = 0; fails <= 4; ++fails) {
    const std::string folder = (std::filesystem::temp_directory_path() / cat("lamina_faults_", getpid(), "_", fails)).string();
    try {
      cached_cubin(api, {"k", "text", {}}, 90, folder);
      ADD_FAILURE() << "no error from call " << fails;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::device);
      EXPECT_NE(e.parts.why.find("planted"), std::string::npos);
    }
    EXPECT_EQ(alive, 0) << "call " << fails;
    std::filesystem::remove_all(folder);
  }
  fails = -1;
  EXPECT_EQ(cached_cubin(api, {"k", "text", {}}, 90, ""), "code");
  EXPECT_EQ(alive, 0);
}

}  // namespace lamina::cuda
