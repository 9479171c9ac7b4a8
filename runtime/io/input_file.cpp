#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/core/error.h"
#include "runtime/io/checksum.h"

namespace lamina::io {

namespace {

[[noreturn]] void cannot_open(const std::string& reader, const char* what, const std::string& path, const std::string& why,
                              const std::string& fix) {
  throw Error(ErrorKind::file,
              {.what = cat(reader, ": cannot open the ", what), .where = cat("file '", path, "'"), .why = why, .fix = fix});
}

}  // namespace

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
  (void)posix_fadvise(out.descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);  // a longer readahead
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
  while (!to.empty()) {
    const ssize_t n = pread(descriptor_, to.data(), to.size(), off_t(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) bad(offset, "the file cannot be read", std::strerror(errno), "copy the file again");
    if (n == 0) bad(offset, "the file ends too early", cat(to.size(), " bytes are missing"), "copy the file again");
    to = to.subspan(size_t(n)), offset += uint64_t(n);
  }
}

uint32_t InputFile::read_with_crc(uint64_t offset, std::span<std::byte> to) const {
  return crc32_of_parts(to.size(), [&](size_t begin, size_t size) {
    read(offset + begin, to.subspan(begin, size));
    return to.subspan(begin, size);
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
