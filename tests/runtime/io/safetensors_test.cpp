#include "runtime/io/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "runtime/core/error.h"
#include "tests/runtime/io/scratch.h"

namespace lamina::io {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void put(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

void save(const std::string& path, std::vector<NamedBytes> tensors, const Metadata& metadata = {}) {
  Replacement made(path, false);
  write_safetensors(made.file(), std::move(tensors), metadata);
  made.commit();
}

// Opens a file and reads everything in it.
std::map<std::string, std::string> load(const std::string& path) {
  const Safetensors file(InputFile::open(path, "load"));
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : file.metadata()) out[key] = value;
  for (const Safetensors::Entry& e : file.entries()) {
    std::string bytes(e.size, '\0');
    file.read(e, std::as_writable_bytes(std::span(bytes)));
    out[e.name + " " + text(e.type)] = bytes;
  }
  return out;
}

std::span<const std::byte> view(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

TEST(Safetensors, EveryDTypeComesBack) {
  const Scratch scratch;
  std::vector<std::string> data;
  for (DType d : kDTypes) {
    data.push_back(std::string(6 * size_of(d), '\1'));
    std::iota(data.back().begin(), data.back().end(), 1);
    if (d == DType::boolean) data.back() = std::string("\0\1\1\0\0\1", 6);
  }
  std::vector<NamedBytes> tensors;
  std::map<std::string, std::string> wanted{{"made by", "a test"}, {"empty f32[2,0,3]", ""}, {"one f64[]", std::string(8, 'x')}};
  for (size_t i = 0; i < data.size(); ++i) {
    tensors.push_back({name(kDTypes[i]), {kDTypes[i], {2, 3}}, view(data[i])});
    wanted[std::string(name(kDTypes[i])) + " " + text(tensors[i].type)] = data[i];
  }
  const std::string one(8, 'x');
  tensors.push_back({"empty", {DType::f32, {2, 0, 3}}, {}});
  tensors.push_back({"one", {DType::f64, {}}, view(one)});
  save(scratch / "a", tensors, {{"made by", "a test"}});
  EXPECT_EQ(load(scratch / "a"), wanted);
  std::reverse(tensors.begin(), tensors.end());
  save(scratch / "b", tensors, {{"made by", "a test"}});
  EXPECT_EQ(bytes_of(scratch / "a"), bytes_of(scratch / "b"));
  const Safetensors file(InputFile::open(scratch / "a", "load"));
  for (const Safetensors::Entry& e : file.entries()) EXPECT_EQ(e.begin % size_of(e.type.dtype), 0u) << e.name;
}

TEST(Safetensors, NamesThatCannotBeSavedAreRefused) {
  const Scratch scratch;
  const TensorType empty{DType::f32, {0}};
  EXPECT_THROW(save(scratch / "a", {{"x", empty, {}}, {"x", empty, {}}}), Error);
  EXPECT_THROW(save(scratch / "a", {{"__metadata__", empty, {}}}), Error);
  EXPECT_THROW(save(scratch / "a", {{"\xff", empty, {}}}), Error);
  EXPECT_THROW(save(scratch / "a", {}, {{"lamina", "x"}}), Error);
  EXPECT_FALSE(std::filesystem::exists(scratch / "a"));
}

std::string file_of(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

struct Hostile {
  std::string bytes, why;
};

std::vector<Hostile> hostile_files() {
  const std::string four(4, 'x');
  auto huge = [](uint64_t length, const std::string& rest) { return std::string(reinterpret_cast<const char*>(&length), 8) + rest; };
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100'000; ++i) deep += "[";
  auto tensor = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return "{\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}";
  };
  return {
      {"", "it has 0 bytes"},
      {"1234567", "it has 7 bytes"},
      {huge(1, ""), "its header would take 1 bytes"},
      {huge(uint64_t(-1), "{}"), "its header would take 18446744073709551615 bytes"},
      {huge(uint64_t{1} << 40, "{}"), "its header would take"},
      {file_of(""), "does not begin with {"},
      {file_of(" {}"), "does not begin with {"},
      {file_of("[]"), "does not begin with {"},
      {file_of("{"), "not JSON"},
      {file_of("{}x"), "not JSON"},
      {file_of("{} {}"), "not JSON"},
      {file_of("{\"\xff\":1}"), "not JSON"},
      {file_of(deep), "an array stands where none belongs"},
      {file_of("{\"a\":1}"), "a number stands where none belongs"},
      {file_of("{\"a\":null}"), "null stands in it"},
      {file_of("{\"a\":true}"), "a bool stands in it"},
      {file_of("{\"a\":\"x\"}"), "a text stands where none belongs"},
      {file_of("{\"a\":{}}"), "lacks its dtype"},
      {file_of("{\"a\":{\"dtype\":\"F32\"}}"), "lacks its shape"},
      {file_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}"), "lacks its data_offsets"},
      {file_of("{\"a\":{\"dtype\":{},\"shape\":[]}}"), "an object stands where none belongs"},
      {file_of("{\"a\":{\"dtype\":[],\"shape\":[]}}"), "an array stands where none belongs"},
      {file_of("{\"a\":{\"extra\":1}}"), "unknown key 'extra'"},
      {file_of("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}"), "has 'dtype' twice"},
      {file_of("{\"__metadata__\":{\"k\":1}}"), "a number stands where none belongs"},
      {file_of("{\"__metadata__\":{\"k\":{}}}"), "an object stands where none belongs"},
      {file_of("{\"__metadata__\":{\"k\":\"a\",\"k\":\"b\"}}"), "has 'k' twice"},
      {file_of("{\"__metadata__\":{},\"__metadata__\":{}}"), "'__metadata__' stands twice"},
      {file_of("{\"__metadata__\":[]}"), "an array stands where none belongs"},
      {file_of("{\"" + std::string(5000, 'n') + "\":{}}"), "a name has 5000 bytes"},
      {file_of(tensor("F32", "[1]", "[0,4]").substr(0, 30)), "not JSON"},
      {file_of(tensor("F8_E4M3", "[4]", "[0,4]"), four), "no tensors of dtype F8_E4M3"},
      {file_of(tensor("f32", "[1]", "[0,4]"), four), "no tensors of dtype f32"},
      {file_of(tensor("F32", "[1]", "[0]"), four), "not within the file"},
      {file_of(tensor("F32", "[1]", "[0,4,8]"), four), "not within the file"},
      {file_of(tensor("F32", "[1]", "[4,0]"), four), "not within the file"},
      {file_of(tensor("F32", "[1]", "[0,8]"), four), "not within the file"},
      {file_of(tensor("F32", "[1]", "[0,18446744073709551615]"), four), "not within the file"},
      {file_of(tensor("F32", "[1]", "[0,18446744073709551616]"), four), "a number that is not whole, or too large"},
      {file_of(tensor("F32", "[1]", "[-4,0]"), four), "a negative number"},
      {file_of(tensor("F32", "[-1]", "[0,4]"), four), "a negative number"},
      {file_of(tensor("F32", "[1.0]", "[0,4]"), four), "not whole"},
      {file_of(tensor("F32", "[NaN]", "[0,4]"), four), "not JSON"},
      {file_of(tensor("F32", "[2]", "[0,4]"), four), "make 8 bytes, its data_offsets 4"},
      {file_of(tensor("F32", "[]", "[0,0]")), "make 4 bytes, its data_offsets 0"},
      {file_of(tensor("F32", "[4611686018427387904,4]", "[0,0]")), "more elements than can be counted"},
      {file_of(tensor("F32", "[9223372036854775808]", "[0,0]")), "more elements than can be counted"},
      {file_of(tensor("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]"), "x"), "more than 16 dimensions"},
      {file_of(tensor("U8", "[[1]]", "[0,1]"), "x"), "an array stands where none belongs"},
      {file_of(tensor("U8", "[2]", "[2,4]"), four), "there is a gap"},
      {file_of(tensor("U8", "[3]", "[0,3]"), four), "the file has"},
      {file_of(
           "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
           four),
       "they overlap"},
      {file_of(
           "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
           four),
       "'a' stands twice"},
      {file_of(
           "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
           four),
       "there is a gap"},
      {file_of(tensor("BOOL", "[1]", "[0,1]"), "\2"), "a bool is 0 or 1"},
      {file_of("{\"__metadata__\":{\"lamina\":\"00000000\"},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "x"),
       "it has no checksum"},
      {file_of("{\"__metadata__\":{\"lamina\":\"zero\"}}"), "differ from their checksum"},
      {file_of("{\"__metadata__\":{\"checksum:a\":\"00000000\"}}"), "a checksum of no tensor"},
  };
}

TEST(Safetensors, HostileFilesAreErrorsWithAPosition) {
  const Scratch scratch;
  for (const Hostile& hostile : hostile_files()) {
    put(scratch / "x", hostile.bytes);
    try {
      load(scratch / "x");
      ADD_FAILURE() << "accepted, should say: " << hostile.why;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::file);
      EXPECT_NE(error.parts.why.find(hostile.why), std::string::npos) << error.what() << "\nshould say: " << hostile.why;
      EXPECT_NE(error.parts.where.find("/x', byte "), std::string::npos) << error.parts.where;
      EXPECT_FALSE(error.parts.fix.empty());
    }
  }
}

TEST(Safetensors, OnlyRegularFilesAreAccepted) {
  const Scratch scratch;
  save(scratch / "a", {});
  std::filesystem::create_symlink(scratch / "a", scratch / "link");
  EXPECT_EQ(mkfifo((scratch / "pipe").c_str(), 0600), 0);
  for (const std::string& path :
       {scratch / "link", scratch / "pipe", scratch / "none", scratch / ".", std::string("a\0b", 3), std::string("/dev/zero")})
    EXPECT_THROW(InputFile::open(path, "load"), Error) << path;
  EXPECT_EQ(InputFile::open(scratch / "link", "load", true).size(), bytes_of(scratch / "a").size());
}

TEST(Safetensors, EveryFlippedBitIsDetected) {
  const Scratch scratch;
  const std::string x = "some weights of a model.", y("\0\1\1\0", 4);
  save(scratch / "a", {{"layer/x", {DType::f32, {2, 3}}, view(x)}, {"y", {DType::boolean, {4}}, view(y)}}, {{"step", "12"}});
  const std::string good = bytes_of(scratch / "a");
  size_t unseen = 0;
  for (size_t i = 0; i < good.size() * 8; ++i) {
    std::string bad = good;
    bad[i / 8] = char(bad[i / 8] ^ (1 << i % 8));
    put(scratch / "x", bad);
    try {
      load(scratch / "x");
      ++unseen;
      ADD_FAILURE() << "bit " << i % 8 << " of byte " << i / 8 << " '" << good[i / 8] << "'";
    } catch (const Error&) {
    }
  }
  EXPECT_EQ(unseen, 0u);
  for (size_t length = 0; length < good.size(); ++length) {
    put(scratch / "x", good.substr(0, length));
    EXPECT_THROW(load(scratch / "x"), Error) << length;
  }
}

TEST(Safetensors, AFileThatShrinksWhileItIsReadIsAnError) {
  const Scratch scratch;
  const std::string x(24, 'x');
  save(scratch / "a", {{"x", {DType::f32, {6}}, view(x)}});
  const Safetensors file(InputFile::open(scratch / "a", "load"));
  std::filesystem::resize_file(scratch / "a", file.entries()[0].begin + 4);
  std::string to(24, '\0');
  EXPECT_THROW(file.read(file.entries()[0], std::as_writable_bytes(std::span(to))), Error);
}

}  // namespace
}  // namespace lamina::io
