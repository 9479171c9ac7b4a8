#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "runtime/io/files.h"

namespace lamina::io {
namespace {

constexpr ssize_t kWorthStarting = ssize_t{1} << 20;  // bytes

int result(int returned) { return returned < 0 ? errno : 0; }

int open_retrying(const std::string& path, int flags, mode_t mode = 0) {
  int descriptor;
  do descriptor = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

class RealFileSystem final : public FileSystem {
 public:
  int create(const std::string& path, int& descriptor) override {
    descriptor = open_retrying(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    return result(descriptor);
  }
  int write(int descriptor, uint64_t offset, std::span<const std::byte> bytes, size_t& written) override {
    ssize_t n;
    do n = pwrite(descriptor, bytes.data(), bytes.size(), off_t(offset));
    while (n < 0 && errno == EINTR);
    // The disk starts on large parts before sync() waits for it. Where it cannot, sync() does all of it.
    if (n >= kWorthStarting) (void)sync_file_range(descriptor, off_t(offset), n, SYNC_FILE_RANGE_WRITE);
    written = n < 0 ? 0 : size_t(n);
    return n < 0 ? errno : 0;
  }
  int sync(int descriptor) override {
    int done;
    do done = fsync(descriptor);
    while (done < 0 && errno == EINTR);
    return result(done);
  }
  int close(int descriptor) override { return result(::close(descriptor)); }
  int make_directory(const std::string& path) override { return result(mkdir(path.c_str(), 0777)); }
  int sync_directory(const std::string& path) override {
    const int descriptor = open_retrying(path, O_RDONLY | O_DIRECTORY);
    if (descriptor < 0) return errno;
    const int failed = sync(descriptor);
    ::close(descriptor);
    return failed == EINVAL ? 0 : failed;  // some file systems cannot sync directories
  }
  int rename(const std::string& from, const std::string& to) override { return result(::rename(from.c_str(), to.c_str())); }
  int exchange(const std::string& one, const std::string& two) override {
    if (renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, two.c_str(), RENAME_EXCHANGE) == 0) return 0;
    return errno == EINVAL || errno == ENOSYS ? ENOTSUP : errno;
  }
  int remove(const std::string& path) override {
    std::error_code failed;
    std::filesystem::remove_all(path, failed);
    return failed.value();
  }
};

}  // namespace

FileSystem& FileSystem::real() {
  static RealFileSystem& real = *new RealFileSystem;
  return real;
}

}  // namespace lamina::io
