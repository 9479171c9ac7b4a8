#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/core/config.h"
#include "runtime/core/error.h"
#include "runtime/device/thread_pool.h"
#include "runtime/io/files.h"

namespace lamina::io {

namespace {

[[noreturn]] void cannot_open(const std::string& reader, const char* what, const std::string& path, const std::string& why,
                              const std::string& fix) {
  throw Error(ErrorKind::file,
              {.what = cat(reader, ": cannot open the ", what), .where = cat("file '", path, "'"), .why = why, .fix = fix});
}

constexpr size_t kPart = size_t{4} << 20;  // bytes

// work(part, begin, end) for the parts of `bytes`, on several threads where there are several parts.
template <class Work>
void in_parts(size_t bytes, Work&& work) {
  const size_t parts = (bytes + kPart - 1) / kPart;
  std::atomic<size_t> next{0};
  auto job = [&] {
    for (size_t part; (part = next++) < parts;) work(part, part * kPart, std::min(bytes, (part + 1) * kPart));
  };
  if (parts < 2) return job();
  const int threads = int(std::min(parts, size_t(config::threads())));
  ThreadPool::of(Device{}).run(threads, [](void* f, int, int, ThreadPool::Barrier&) { (*static_cast<decltype(job)*>(f))(); }, &job);
}

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes, uint32_t before) {
  std::vector<uint32_t> of_parts((bytes.size() + kPart - 1) / kPart);
  in_parts(bytes.size(), [&](size_t part, size_t begin, size_t end) {
    of_parts[part] = uint32_t(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()) + begin, end - begin));
  });
  for (size_t part = 0; part < of_parts.size(); ++part)
    before = uint32_t(crc32_combine(before, of_parts[part], z_off_t(std::min(kPart, bytes.size() - part * kPart))));
  return before;
}

InputFile InputFile::open(const std::string& path, const std::string& reader, bool follow_link) {
  return open_at(AT_FDCWD, path, path, reader, follow_link);
}

InputFile InputFile::open_at(int directory, const std::string& name, const std::string& path, const std::string& reader, bool follow_link) {
  auto refuse = [&](const std::string& why, const std::string& fix) { cannot_open(reader, "file", path, why, fix); };
  if (path.find('\0') != std::string::npos) refuse("its name has a zero byte in it", "check the path");
  InputFile out;
  out.path_ = path;
  out.reader_ = reader;
  do {
    // Without O_NONBLOCK, opening a named pipe would block.
    out.descriptor_ = openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follow_link ? 0 : O_NOFOLLOW));
  } while (out.descriptor_ < 0 && errno == EINTR);
  if (out.descriptor_ < 0) {
    if (errno == ELOOP) refuse("it is a symbolic link", "pass the file that it leads to");
    refuse(std::strerror(errno), "check the path");
  }
  struct stat status{};
  if (fstat(out.descriptor_, &status) != 0) refuse(std::strerror(errno), "check the path");
  if (!S_ISREG(status.st_mode)) refuse(S_ISDIR(status.st_mode) ? "it is a directory" : "it is not a regular file", "check the path");
  out.size_ = uint64_t(status.st_size);
  return out;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      reader_(std::move(other.reader_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputDirectory::InputDirectory(const std::string& path, std::string reader) : path_(replaced_directory(path)), reader_(std::move(reader)) {
  if (path.find('\0') != std::string::npos) cannot_open(reader_, "folder", path, "its name has a zero byte in it", "check the path");
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (descriptor_ < 0) cannot_open(reader_, "folder", path, std::strerror(errno), "check the path");
}

InputDirectory::~InputDirectory() { ::close(descriptor_); }

InputFile InputDirectory::file(const std::string& name) const {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
    cannot_open(reader_, "file", path_ + "/" + name, "it is not the name of a file in this folder", "save it again");
  return InputFile::open_at(descriptor_, name, path_ + "/" + name, reader_, false);
}

void InputFile::read(uint64_t offset, std::span<std::byte> to) const {
  in_parts(to.size(), [&](size_t, size_t at, size_t end) {
    while (at < end) {
      const ssize_t n = pread(descriptor_, to.data() + at, end - at, off_t(offset + at));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) bad(offset + at, "the file cannot be read", std::strerror(errno), "copy the file again");
      if (n == 0) bad(offset + at, "the file ends too early", cat(end - at, " bytes are missing"), "copy the file again");
      at += size_t(n);
    }
  });
}

std::string InputFile::text(uint64_t most) const {
  if (size_ > most) bad(0, cat("the file has ", size_, " bytes"), cat("at most ", most, " are read"), "check that it is the right file");
  std::string out(size_, '\0');
  read(0, std::as_writable_bytes(std::span(out)));
  return out;
}

void InputFile::bad(uint64_t offset, const std::string& what, const std::string& why, const std::string& fix) const {
  throw Error(ErrorKind::file,
              {.what = cat(reader_, ": ", what), .where = cat("file '", path_, "', byte ", offset), .why = why, .fix = fix});
}

}  // namespace lamina::io
