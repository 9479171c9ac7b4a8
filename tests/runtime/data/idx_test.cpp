#include "runtime/data/idx.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "runtime/core/error.h"
#include "tests/source_file.h"

namespace lamina::data {
namespace {

using Bytes = std::vector<uint8_t>;

template <class T>
void append_big_endian(Bytes& out, T value) {
  uint8_t raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof raw);
  if (std::endian::native == std::endian::little) std::reverse(raw, raw + sizeof raw);
  out.insert(out.end(), raw, raw + sizeof raw);
}

Bytes header(uint8_t type, const std::vector<uint32_t>& shape) {
  Bytes out = {0, 0, type, static_cast<uint8_t>(shape.size())};
  for (const uint32_t d : shape) append_big_endian(out, d);
  return out;
}

template <class T>
Bytes file_of(uint8_t type, const std::vector<uint32_t>& shape, const std::vector<T>& values) {
  Bytes out = header(type, shape);
  for (const T v : values) append_big_endian(out, v);
  return out;
}

Bytes gzipped(const Bytes& plain) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes out(deflateBound(&stream, plain.size()) + 64);
  stream.next_in = const_cast<Bytef*>(plain.data());
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

class Idx : public testing::Test {
 protected:
  Idx() : folder_(std::filesystem::temp_directory_path() / cat("lamina-idx-", getpid())) { std::filesystem::create_directories(folder_); }
  ~Idx() override { std::filesystem::remove_all(folder_); }

  std::string write(const Bytes& bytes) {
    const std::string path = (folder_ / "file").string();
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path;
  }
  // The parts of the error from reading these bytes.
  Error::Parts refused(const Bytes& bytes) { return refused_path(write(bytes)); }
  Error::Parts refused_path(const std::string& path) {
    try {
      const IdxArray array = read_idx(path);
      ADD_FAILURE() << "accepted: " << array.bytes.size() << " bytes";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::file) << e.what();
      EXPECT_EQ(e.parts.where, cat("file '", path, "'"));
      EXPECT_FALSE(e.parts.why.empty() || e.parts.fix.empty()) << e.what();
      return e.parts;
    }
    return {};
  }
  template <class T>
  void expect_reads(uint8_t type, DType dtype, const std::vector<T>& values) {
    const Bytes plain = file_of(type, {2, 3}, values);
    for (const Bytes& bytes : {plain, gzipped(plain)}) {
      const IdxArray array = read_idx(write(bytes));
      EXPECT_EQ(array.dtype, dtype);
      EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3}));
      ASSERT_EQ(array.bytes.size(), values.size() * sizeof(T));
      EXPECT_EQ(std::memcmp(array.bytes.data(), values.data(), array.bytes.size()), 0) << name(dtype);
    }
  }

  std::filesystem::path folder_;
};

TEST_F(Idx, ReadsEveryTypePlainAndGzipped) {
  expect_reads<uint8_t>(0x08, DType::u8, {0, 1, 127, 128, 254, 255});
  expect_reads<int8_t>(0x09, DType::i8, {0, 1, 127, -128, -2, -1});
  expect_reads<int16_t>(0x0B, DType::i16, {0, 1, 258, -32768, 32767, -1});
  expect_reads<int32_t>(0x0C, DType::i32, {0, 1, 16909060, INT32_MIN, INT32_MAX, -1});
  expect_reads<float>(0x0D, DType::f32, {0.0f, -0.0f, 1.5f, -3.25e-30f, 1e38f, INFINITY});
  expect_reads<double>(0x0E, DType::f64, {0.0, -0.0, 1.5, -3.25e-300, 1e308, -INFINITY});
}

TEST_F(Idx, ReadsScalarsAndEmptyArrays) {
  const IdxArray scalar = read_idx(write(file_of<int32_t>(0x0C, {}, {42})));
  EXPECT_TRUE(scalar.shape.empty());
  int32_t value = 0;
  ASSERT_EQ(scalar.bytes.size(), sizeof value);
  std::memcpy(&value, scalar.bytes.data(), sizeof value);
  EXPECT_EQ(value, 42);

  const IdxArray empty = read_idx(write(header(0x0D, {3, 0, 5})));
  EXPECT_EQ(empty.shape, (std::vector<int64_t>{3, 0, 5}));
  EXPECT_TRUE(empty.bytes.empty());
}

TEST_F(Idx, ReadsTheDigitsOfTheExamples) {
  const std::string folder = tests::source_file("examples/data/");
  const IdxArray images = read_idx(folder + "digits-images-idx3-ubyte.gz"), labels = read_idx(folder + "digits-labels-idx1-ubyte.gz");
  EXPECT_EQ(images.shape, (std::vector<int64_t>{5000, 28, 28}));
  EXPECT_EQ(labels.shape, (std::vector<int64_t>{5000}));
  for (size_t i = 0; i < 5000; ++i) ASSERT_EQ(static_cast<size_t>(labels.bytes[i]), i / 500);
}

TEST_F(Idx, ReadsMoreThanOnePieceAcrossGzipMembers) {
  std::vector<int16_t> values(3'000'001);
  std::mt19937 random(7);
  for (int16_t& v : values) v = static_cast<int16_t>(random());
  const Bytes plain = file_of(0x0B, {3'000'001}, values);
  const Bytes first(plain.begin(), plain.begin() + 1'234'567), second(plain.begin() + 1'234'567, plain.end());
  Bytes members = gzipped(first);
  const Bytes rest = gzipped(second);
  members.insert(members.end(), rest.begin(), rest.end());
  for (const Bytes& bytes : {plain, members}) {
    const IdxArray array = read_idx(write(bytes));
    ASSERT_EQ(array.bytes.size(), values.size() * 2);
    EXPECT_EQ(std::memcmp(array.bytes.data(), values.data(), array.bytes.size()), 0);
  }
}

TEST_F(Idx, RefusesEveryTruncation) {
  const Bytes plain = file_of<int16_t>(0x0B, {2, 3}, {1, 2, 3, 4, 5, 6});
  for (size_t n = 0; n < plain.size(); ++n) refused(Bytes(plain.begin(), plain.begin() + static_cast<ptrdiff_t>(n)));
  const Bytes packed = gzipped(plain);
  for (size_t n = 0; n < packed.size(); ++n) refused(Bytes(packed.begin(), packed.begin() + static_cast<ptrdiff_t>(n)));
}

TEST_F(Idx, TruncationErrorsSayHowMuchIsThere) {
  Bytes bytes = file_of<int16_t>(0x0B, {2, 3}, {1, 2, 3, 4, 5, 6});
  bytes.resize(bytes.size() - 5);
  const Error::Parts parts = refused(bytes);
  EXPECT_EQ(parts.what, "read_idx: the file is too short");
  EXPECT_EQ(parts.why, "its header declares 12 bytes of elements, it has 7");
}

TEST_F(Idx, RefusesTrailingBytes) {
  Bytes bytes = file_of<uint8_t>(0x08, {3}, {1, 2, 3});
  bytes.push_back(0);
  EXPECT_EQ(refused(bytes).what, "read_idx: the file is too long");
  EXPECT_EQ(refused(gzipped(bytes)).what, "read_idx: the file is too long");
}

TEST_F(Idx, RefusesForeignFiles) {
  for (const uint8_t type : {0x00, 0x07, 0x0A, 0x0F, 0x80, 0xFF})
    EXPECT_EQ(refused(header(type, {})).what, "read_idx: this is not an IDX file");
  const std::string text = "label,pixel0,pixel1";
  EXPECT_EQ(refused(Bytes(text.begin(), text.end())).what, "read_idx: this is not an IDX file");
  EXPECT_EQ(refused({0, 1, 8, 1, 0, 0, 0, 0}).what, "read_idx: this is not an IDX file");
  EXPECT_EQ(refused({}).what, "read_idx: the file has 0 bytes, too few for an IDX file");
  EXPECT_EQ(refused(header(0x08, std::vector<uint32_t>(9, 1))).what, "read_idx: rank 9 is too large");
  EXPECT_EQ(refused(header(0x08, std::vector<uint32_t>(255, 1))).what, "read_idx: rank 255 is too large");
}

TEST_F(Idx, RefusesSizesThatOverflow) {
  EXPECT_EQ(refused(header(0x0E, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF})).what, "read_idx: the declared size is too large");
  EXPECT_EQ(refused(header(0x08, {1u << 31, 1u << 31, 4, 1})).what,
            "read_idx: the declared size is too large");                                                       // 2^64 would wrap to 0
  EXPECT_EQ(refused(header(0x08, {1u << 31, 1u << 31, 2})).what, "read_idx: the declared size is too large");  // 2^63: negative without one
  EXPECT_EQ(refused(header(0x0E, {0, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF})).what, "read_idx: the declared size is too large");
}

// Peak memory in bytes since the last reset; Linux resets it when 5 is written to clear_refs.
bool reset_peak() { return static_cast<bool>(std::ofstream("/proc/self/clear_refs") << 5 << std::flush); }
int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

TEST_F(Idx, ALargeHeaderCostsNoMemory) {
  // Two sizes that a file of this length cannot hold, and one that it could if the gzipped data were complete.
  Bytes half = gzipped(file_of(0x08, {64u << 20}, Bytes(1 << 20)));
  half.resize(half.size() + (64 << 10));
  if (!reset_peak()) GTEST_SKIP() << "the peak of memory cannot be reset here";
  const int64_t before = peak_memory();
  for (const Bytes& bytes : {header(0x08, {1u << 31, 1u << 30}), gzipped(header(0x0E, {1u << 30, 1u << 10})), half}) {
    EXPECT_EQ(refused(bytes).what, "read_idx: the file is too short");
  }
  EXPECT_LT(peak_memory() - before, 32 << 20);
}

TEST_F(Idx, StopsAtTheDeclaredSizeOfAGzipBomb) {
  const std::string path = (folder_ / "bomb").string();
  gzFile file = gzopen(path.c_str(), "wb1");
  const Bytes start = header(0x08, {1000}), zeros(1 << 20);
  gzwrite(file, start.data(), static_cast<unsigned>(start.size()));
  for (int i = 0; i < 256; ++i) gzwrite(file, zeros.data(), static_cast<unsigned>(zeros.size()));
  gzclose(file);
  if (!reset_peak()) GTEST_SKIP() << "the peak of memory cannot be reset here";
  const int64_t before = peak_memory();
  EXPECT_EQ(refused_path(path).what, "read_idx: the file is too long");
  EXPECT_LT(peak_memory() - before, 8 << 20);
}

TEST_F(Idx, RefusesASmallFileThatWouldFillTheMemory) {
  const std::string path = (folder_ / "bomb").string();
  gzFile file = gzopen(path.c_str(), "wb9");
  const Bytes start = header(0x08, {256u << 20}), zeros(1 << 20);
  gzwrite(file, start.data(), static_cast<unsigned>(start.size()));
  for (int i = 0; i < 256; ++i) gzwrite(file, zeros.data(), static_cast<unsigned>(zeros.size()));
  gzclose(file);
  if (!reset_peak()) GTEST_SKIP() << "the peak of memory cannot be reset here";
  const int64_t before = peak_memory();
  EXPECT_EQ(refused_path(path).what, "read_idx: the file unpacks to too much");
  EXPECT_LT(peak_memory() - before, 8 << 20);
}

TEST_F(Idx, RefusesDamagedGzip) {
  const Bytes packed = gzipped(file_of<int16_t>(0x0B, {2, 3}, {1, 2, 3, 4, 5, 6}));
  Bytes crc = packed;
  crc[crc.size() - 6] ^= 1;
  EXPECT_EQ(refused(crc).what, "read_idx: the file cannot be unpacked");
  Bytes method = packed;
  method[2] = 9;
  EXPECT_EQ(refused(method).what, "read_idx: the file cannot be unpacked");
}

TEST_F(Idx, RefusesPathsThatAreNotFiles) {
  EXPECT_EQ(refused_path((folder_ / "absent").string()).why, "No such file or directory");
  EXPECT_EQ(refused_path(folder_.string()).why, "it is a directory");
  EXPECT_EQ(refused_path("").why, "No such file or directory");
  EXPECT_EQ(refused_path("/dev/zero").why, "it is not a regular file");
  EXPECT_EQ(refused_path(std::string("a\0b", 3)).why, "its name has a zero byte in it");
}

// Whatever the header declares, the result is an array of that size or a file error.
TEST_F(Idx, EveryMutatedFileIsReadOrAnError) {
  const Bytes plain = file_of<float>(0x0D, {2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Bytes packed = gzipped(plain);
  int accepted = 0;
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    std::mt19937 random(seed);
    Bytes bytes = seed % 2 ? packed : plain;
    const size_t reach = seed % 2 || seed % 3 == 0 ? bytes.size() : 16;  // mostly changes the header
    for (uint32_t i = 0, changes = 1 + random() % 3; i < changes; ++i) bytes[random() % reach] = static_cast<uint8_t>(random());
    if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 8));
    try {
      const IdxArray array = read_idx(write(bytes));
      size_t size = size_of(array.dtype);
      for (const int64_t d : array.shape) size *= static_cast<size_t>(d);
      ASSERT_EQ(array.bytes.size(), size) << "seed " << seed;
      ++accepted;
    } catch (const Error& e) {
      ASSERT_EQ(e.kind, ErrorKind::file) << "seed " << seed << ": " << e.what();
    }
  }
  EXPECT_GT(accepted, 0);  // some change only an element
}

}  // namespace
}  // namespace lamina::data
