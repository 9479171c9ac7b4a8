#include "runtime/core/error.h"

#include <gtest/gtest.h>

#include "runtime/core/config.h"
#include "runtime/core/dtype.h"
#include "runtime/core/source_line.h"
#include "runtime/device/device.h"

namespace lamina {
namespace {

TEST(Error, SaysWhatWhereWhyAndFix) {
  Error e(ErrorKind::invalid_argument, {.what = "a", .where = "b", .why = "c", .fix = "d"});
  EXPECT_STREQ(e.what(), "a\n  where: b\n  why:   c\n  fix:   d");
  EXPECT_STREQ(e.at("train.py:4").what(), "a\n  where: b, at train.py:4\n  why:   c\n  fix:   d");
  EXPECT_STREQ(Error(ErrorKind::type, {.what = "a", .where = "", .why = "", .fix = ""}).what(), "a");
}

TEST(Error, UnknownNamesListTheNearestFirst) {
  Error e = unknown_name("op", "sofmax", {"add", "softmax", "relu"});
  EXPECT_EQ(e.kind, ErrorKind::not_found);
  EXPECT_EQ(e.parts.why.substr(0, 18), "there are: softmax");
  EXPECT_EQ(e.parts.fix, "did you mean 'softmax'?");
  EXPECT_EQ(unknown_name("op", "ReLU", {"selu", "relu", "elu"}).parts.fix, "did you mean 'relu'?");
  EXPECT_EQ(unknown_name("loss", "mes", {"mae", "huber", "mse"}).parts.fix, "did you mean 'mse'?");  // swapped letters are one mistake
  EXPECT_EQ(unknown_name("activation", "Leaky_ReLU", {"relu", "leaky_relu"}).parts.fix, "did you mean 'leaky_relu'?");
  EXPECT_EQ(unknown_name("op", "quantum", {"add", "softmax", "relu"}).parts.fix, "use one of these");
}

TEST(Error, NamesOfOtherFrameworksHaveTheirsHere) {
  EXPECT_EQ(unknown_name("initializer", "xavier_uniform", {"he_uniform", "glorot_uniform"}).parts.fix, "did you mean 'glorot_uniform'?");
  EXPECT_EQ(unknown_name("initializer", "lecun_normal", {"he_normal"}).parts.fix, "use one of these");  // near, and another thing
  EXPECT_EQ(unknown_name("activation", "swish", {"relu", "tanh"}).parts.fix, "use one of these");
}

// A name may be a file's, and of any length.
TEST(Error, LongUnknownNamesAreCut) {
  const Error e = unknown_name("op", "softm" + std::string(10'000'000, 'a'), {"add", "softmax", "softmax" + std::string(1000, 'b')});
  EXPECT_LT(e.parts.what.size(), 200u);
  EXPECT_NE(e.parts.what.find("softma"), std::string::npos);
}

TEST(Error, InternalErrorsSayThatTheyAreBugs) {
  try {
    internal_error("x");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::internal);
    EXPECT_NE(std::string(e.what()).find("bug"), std::string::npos);
  }
}

TEST(DType, BothNamesAreParsed) {
  for (DType d : kDTypes) {
    EXPECT_EQ(parse_dtype(name(d)), d);
    EXPECT_EQ(parse_dtype(numpy_name(d)), d);
  }
  EXPECT_THROW(parse_dtype("float31"), Error);
}

TEST(SourceLine, IsTheSameForTheSamePlace) {
  EXPECT_EQ(source_line("a.py", 3), source_line("a.py", 3));
  EXPECT_NE(source_line("a.py", 3), source_line("a.py", 4));
  EXPECT_EQ(text(source_line("a.py", 3)), "a.py:3");
  EXPECT_EQ(text(SourceLine{}), "");
}

TEST(Device, TextReadsBack) {
  for (const char* d : {"cpu:0", "cpu:3", "gpu:1", "null:h100", "null:a100:7"}) EXPECT_EQ(text(parse_device(d)), d);
  EXPECT_EQ(text(parse_device("gpu")), "gpu:0");
  for (const char* bad : {"", "tpu:0", "cpu:x", "cpu:-1", "null", "null:h99", "gpu:0:1"}) EXPECT_THROW(parse_device(bad), Error) << bad;
}

TEST(Config, RefusesAnInstructionSetThatDoesNotExist) {
  std::string before = config::cpu_isa();
  EXPECT_THROW(config::set_cpu_isa("mmx"), Error);
  EXPECT_EQ(config::cpu_isa(), before);
  config::set_cpu_isa("scalar");
  EXPECT_EQ(config::cpu_isa(), "scalar");
  config::set_cpu_isa(before);
  EXPECT_THROW(config::set_threads(0), Error);
}

}  // namespace
}  // namespace lamina
