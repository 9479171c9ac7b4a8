#include "runtime/data/idx.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/core/error.h"
#include "runtime/core/view.h"

namespace lamina::data {
namespace {

constexpr size_t kPiece = size_t{1} << 20;  // bytes per read
constexpr uint64_t kBestRatio = 1032;       // the maximum of deflate
constexpr uint64_t kUsualRatio = 100;       // limit for files larger than kHarmless when unpacked; images and labels reach up to 20
constexpr uint64_t kHarmless = uint64_t{64} << 20;

struct Closer {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

[[noreturn]] void bad(const std::string& path, const std::string& what, const std::string& why, const std::string& fix) {
  throw Error(ErrorKind::file, {.what = cat("read_idx: ", what), .where = cat("file '", path, "'"), .why = why, .fix = fix});
}

class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {
    struct stat status{};
    if (path_.find('\0') != std::string::npos) bad(path_, "cannot open the file", "its name has a zero byte in it", "check the path");
    if (stat(path_.c_str(), &status) != 0) bad(path_, "cannot open the file", std::strerror(errno), "check the path");
    if (!S_ISREG(status.st_mode)) {
      bad(path_, "cannot open the file", S_ISDIR(status.st_mode) ? "it is a directory" : "it is not a regular file",
          "pass the path of an IDX file");
    }
    file_.reset(gzopen(path_.c_str(), "rb"));
    size_ = static_cast<uint64_t>(status.st_size);
    if (!file_)
      bad(path_, "cannot open the file", errno ? std::strerror(errno) : "there is no memory for it", "check the file's permissions");
  }

  // Reads up to `size` bytes; fewer only at the end of the file.
  size_t read(void* to, size_t size) {
    size_t done = 0;
    while (done < size) {
      const auto piece = static_cast<unsigned>(std::min(size - done, kPiece));
      const int n = gzread(file_.get(), static_cast<char*>(to) + done, piece);
      int code = Z_OK;
      const char* message = gzerror(file_.get(), &code);
      // zlib reports gzipped data that ends early as Z_BUF_ERROR.
      if (n < 0 || code == Z_BUF_ERROR) {
        bad(path_, "the file cannot be unpacked",
            code == Z_BUF_ERROR ? "the gzipped data stops in the middle"
            : code == Z_ERRNO   ? std::strerror(errno)
                                : cat("zlib says: ", message),
            "copy or download the file again");
      }
      if (n == 0) break;
      taken_ += static_cast<uint64_t>(n);
      done += static_cast<size_t>(n);
    }
    return done;
  }

  // Upper bound of the remaining bytes; known after the first read.
  uint64_t most() const { return gzdirect(file_.get()) ? size_ - std::min(size_, taken_) : size_ * kBestRatio; }
  // Total limit of bytes read: a small packed file must not fill the memory.
  uint64_t budget() const { return gzdirect(file_.get()) ? size_ : std::max(kHarmless, size_ * kUsualRatio); }

 private:
  std::string path_;
  std::unique_ptr<gzFile_s, Closer> file_;
  uint64_t size_ = 0, taken_ = 0;
};

std::optional<DType> type_of(uint8_t code) {
  switch (code) {
    case 0x08: return DType::u8;
    case 0x09: return DType::i8;
    case 0x0B: return DType::i16;
    case 0x0C: return DType::i32;
    case 0x0D: return DType::f32;
    case 0x0E: return DType::f64;
    default: return std::nullopt;
  }
}

void to_host_order(std::vector<std::byte>& bytes, size_t size) {
  if (size == 1 || std::endian::native == std::endian::big) return;
  for (size_t i = 0; i < bytes.size(); i += size) std::reverse(bytes.data() + i, bytes.data() + i + size);
}

}  // namespace

IdxArray read_idx(const std::string& path) {
  Reader reader(path);
  uint8_t magic[4];
  const size_t got = reader.read(magic, sizeof magic);
  if (got < sizeof magic) {
    bad(path, cat("the file has ", got, " bytes, too few for an IDX file"), "an IDX file begins with 4 bytes: 0, 0, type, rank",
        "copy or download the file again");
  }
  const std::optional<DType> dtype = type_of(magic[2]);
  if (magic[0] != 0 || magic[1] != 0 || !dtype) {
    bad(path, "this is not an IDX file",
        cat("it begins with ", int{magic[0]}, ", ", int{magic[1]}, ", ", int{magic[2]},
            "; an IDX file begins with 0, 0 and a type among 8 (u8), 9 (i8), "
            "11 (i16), 12 (i32), 13 (f32), 14 (f64)"),
        "pass an IDX file, plain or gzipped");
  }
  const int rank = magic[3];
  if (rank > kMaxRank) {
    bad(path, cat("rank ", rank, " is too large"), cat("a tensor has at most ", kMaxRank, " dimensions"),
        "reshape the data before writing the file");
  }

  IdxArray array{.dtype = *dtype, .shape = {}, .bytes = {}};
  uint64_t total = size_of(*dtype);
  bool overflow = false, empty = false;
  for (int i = 0; i < rank; ++i) {
    uint8_t d[4];
    if (reader.read(d, sizeof d) < sizeof d) {
      bad(path, "the file ends in its header", cat("it declares ", rank, " dimensions, but dimension ", i, " is cut off"),
          "copy or download the file again");
    }
    const uint64_t size = uint64_t{d[0]} << 24 | uint64_t{d[1]} << 16 | uint64_t{d[2]} << 8 | d[3];
    array.shape.push_back(static_cast<int64_t>(size));
    empty = empty || size == 0;
    overflow = __builtin_mul_overflow(total, std::max<uint64_t>(size, 1), &total) || overflow;
  }
  overflow = overflow || total > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (overflow) {
    std::string sizes;
    for (const int64_t size : array.shape) sizes += cat(sizes.empty() ? "" : " x ", size);
    bad(path, "the declared size is too large", cat(sizes, " elements of ", size_of(*dtype), " bytes are more than can be addressed"),
        "the header is damaged: copy or download the file again");
  }
  if (empty) total = 0;

  const auto too_short = [&](uint64_t has) {
    bad(path, "the file is too short", cat("its header declares ", total, " bytes of elements, it has ", has),
        "copy or download the file again");
  };
  // Memory is reserved only for what such a file can hold, and touched only for data that has arrived.
  if (total > reader.most()) too_short(reader.most());
  if (total > reader.budget()) {
    bad(path, "the file unpacks to too much",
        cat("its header declares ", total, " bytes of elements, packed more than ", kUsualRatio, " to 1"),
        "if that is right, unpack it with gunzip first");
  }
  try {
    array.bytes.reserve(static_cast<size_t>(total));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::out_of_memory, {.what = cat("read_idx: no memory for ", total, " bytes"),
                                           .where = cat("file '", path, "'"),
                                           .why = "the system refused the allocation",
                                           .fix = "free memory, or split the file"});
  }
  while (array.bytes.size() < total) {
    const size_t before = array.bytes.size(), piece = static_cast<size_t>(std::min<uint64_t>(total - before, kPiece));
    array.bytes.resize(before + piece);
    const size_t n = reader.read(array.bytes.data() + before, piece);
    if (n < piece) too_short(before + n);
  }
  std::byte extra;
  if (reader.read(&extra, 1) != 0) {
    bad(path, "the file is too long", cat("its header declares ", total, " bytes of elements, and more bytes follow"),
        "cut the file, or correct the dimensions in its header");
  }
  to_host_order(array.bytes, size_of(*dtype));
  return array;
}

}  // namespace lamina::data
