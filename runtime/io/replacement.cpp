#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/core/error.h"
#include "runtime/core/mutex.h"
#include "runtime/io/checksum.h"

namespace lamina::io {
namespace {

constexpr const char* kMade = ".lamina-new-";       // name prefix of uncommitted replacements
constexpr const char* kBefore = ".lamina-before-";  // name prefix of an old directory, if the file system cannot exchange

[[noreturn]] void failed(const std::string& what, const std::string& path, int error,
                         const std::string& fix = "check the path and its permissions: what was there before is unchanged") {
  const bool full = error == ENOSPC || error == EDQUOT;
  throw Error(ErrorKind::file, {.what = what,
                                .where = cat("file '", path, "'"),
                                .why = std::strerror(error),
                                .fix = full ? "make room, or save elsewhere: what was there before is unchanged" : fix});
}

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

std::string without_end_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string name_of(const std::string& path) { return std::filesystem::path(path).filename(); }

// The replacement's lock file or directory, held while its process lives.
int locked(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  if (descriptor >= 0) ::close(descriptor);
  return -1;
}

// Lets one replacement at a time change a directory's entries, of all processes. Not every file system has locks, and a holder may be
// halted: after a minute it goes on without one.
class DirectoryLock {
 public:
  explicit DirectoryLock(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    for (int tries = 0; tries < 60'000 && flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++tries) usleep(1000);
  }
  ~DirectoryLock() {
    if (descriptor_ < 0) return;
    flock(descriptor_, LOCK_UN);  // a process forked meanwhile has the descriptor, too
    ::close(descriptor_);
  }
  DirectoryLock(const DirectoryLock&) = delete;

 private:
  int descriptor_;
};

// Whether "PID-COUNT" may belong to a process that has ended. In a container PIDs recur quickly.
bool may_be_left_over(const char* name) {
  const long pid = std::strtol(name, nullptr, 10);
  return pid == getpid() || (pid > 0 && kill(pid_t(pid), 0) != 0 && errno == ESRCH);
}

// Within this process, nothing is removed between creating and locking.
Mutex& making() {
  static Mutex mutex;
  return mutex;
}

// Removes what ended processes left beside `path`.
void remove_left_over(FileSystem& files, const std::string& parent, const std::string& name) {
  const std::lock_guard one(making());
  DIR* directory = opendir(parent.c_str());
  if (!directory) return;
  const std::string prefix = kMade + name + "-";
  std::vector<std::string> found;
  while (const dirent* entry = readdir(directory))
    if (std::string(entry->d_name).starts_with(prefix) && may_be_left_over(entry->d_name + prefix.size()))
      found.push_back(parent + "/" + entry->d_name);
  closedir(directory);
  for (const std::string& path : found) {
    const int lock = locked(path);
    if (lock < 0) continue;
    files.remove(path);
    ::close(lock);
  }
}

}  // namespace

OutputFile::OutputFile(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {
  if (const int error = files_.create(path_, descriptor_)) failed("the file cannot be made", path_, error);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) files_.close(descriptor_);
}

void OutputFile::write(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    size_t written = 0;
    if (const int error = files_.write(descriptor_, offset, bytes, written)) failed("the file cannot be written", path_, error);
    bytes = bytes.subspan(written), offset += written;
  }
}

uint32_t OutputFile::write_with_crc(uint64_t offset, std::span<const std::byte> bytes) {
  return crc32_of_parts(bytes.size(), [&](size_t begin, size_t size) {
    write(offset + begin, bytes.subspan(begin, size));
    return bytes.subspan(begin, size);
  });
}

void OutputFile::finish() {
  if (const int error = files_.sync(descriptor_)) failed("the file cannot be written through to the disk", path_, error);
  if (const int error = files_.close(std::exchange(descriptor_, -1))) failed("the file cannot be closed", path_, error);
}

Replacement::Replacement(std::string path, bool is_directory, FileSystem& files)
    : files_(files), path_(without_end_slashes(std::move(path))), is_directory_(is_directory) {
  if (path_.empty() || path_.find('\0') != std::string::npos || name_of(path_).empty() || name_of(path_) == "." || name_of(path_) == "..")
    throw Error(ErrorKind::file, {.what = "the path names nothing that can be written",
                                  .where = cat("file '", path_, "'"),
                                  .why = "it is empty, a dot, or has a zero byte in it",
                                  .fix = "pass the name of a new file or folder"});
  parent_ = parent_of(path_);
  struct stat status{};
  if (stat(parent_.c_str(), &status) != 0) {
    const char* what = "the folder that it would lie in cannot be used";
    const int error = errno;
    if (error == ENOENT) failed(what, parent_, error, cat("make the folder first: mkdir -p '", parent_, "'"));
    failed(what, parent_, error);
  }
  if (lstat(path_.c_str(), &status) == 0 && !(is_directory_ ? S_ISDIR(status.st_mode) : S_ISREG(status.st_mode))) {
    const bool link = S_ISLNK(status.st_mode);
    throw Error(ErrorKind::file,
                {.what = cat("there is ",
                             link                      ? "a link"
                             : S_ISDIR(status.st_mode) ? "a folder"
                             : S_ISREG(status.st_mode) ? "a file"
                                                       : "a device, pipe or socket",
                             " where a ", is_directory_ ? "folder" : "file", " would be written"),
                 .where = cat("file '", path_, "'"),
                 .why = link ? "a new file takes the place of the old one; it would be the link's, not that of what it leads to"
                             : "only what is of the same kind is replaced",
                 .fix = link ? "pass what it leads to: os.path.realpath(path)" : "remove it, or pass another path"});
  }
  remove_left_over(files_, parent_, name_of(path_));
  static std::atomic<uint64_t> count{0};
  made_ = cat(parent_, "/", kMade, name_of(path_), "-", getpid(), "-", ++count);
  if (!is_directory_) return;
  const std::lock_guard one(making());
  if (const int error = files_.make_directory(made_)) failed("the folder cannot be made", made_, error);
  lock_ = locked(made_);
}

Replacement::~Replacement() {
  open_.reset();
  if (!committed_) files_.remove(made_);
  if (lock_ >= 0) ::close(lock_);
}

OutputFile& Replacement::file(const std::string& name) {
  if (open_) open_->finish();
  const std::lock_guard one(making());
  open_ = std::make_unique<OutputFile>(files_, is_directory_ ? made_ + "/" + name : made_);
  if (!is_directory_ && lock_ < 0) lock_ = locked(made_);
  return *open_;
}

void Replacement::commit() {
  if (open_) open_->finish();
  open_.reset();
  std::optional<DirectoryLock> alone;  // a file needs none: one call replaces it
  if (is_directory_) {
    if (const int error = files_.sync_directory(made_)) failed("the folder cannot be written through to the disk", made_, error);
    alone.emplace(parent_);
  }
  struct stat status{};
  const bool replaces_directory = is_directory_ && lstat(path_.c_str(), &status) == 0;
  int error = replaces_directory ? files_.exchange(made_, path_) : files_.rename(made_, path_);
  std::string old = replaces_directory ? made_ : "";
  if (error == ENOTSUP && replaces_directory) {
    old = parent_ + "/" + kBefore + name_of(path_);
    files_.remove(old);
    error = files_.rename(path_, old);
    if (!error) {
      error = files_.rename(made_, path_);
      if (error) files_.rename(old, path_);
    }
  }
  if (error) failed("what was written cannot be put in its place", path_, error);
  committed_ = true;
  if (const int unsynced = files_.sync_directory(parent_)) failed("the folder cannot be written through to the disk", parent_, unsynced);
  if (!old.empty()) files_.remove(old);
}

std::string replaced_directory(const std::string& path) {
  const std::string plain = without_end_slashes(path);
  const std::string before = parent_of(plain) + "/" + kBefore + name_of(plain);
  struct stat status{};
  return lstat(plain.c_str(), &status) != 0 && lstat(before.c_str(), &status) == 0 ? before : path;
}

void require_only(const std::string& path, const std::function<bool(const std::string& name)>& is_ours) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(path, none))
    if (const std::string name = entry.path().filename(); !is_ours(name))
      throw Error(ErrorKind::file, {.what = "the folder holds something else",
                                    .where = cat("file '", path, "/", name, "'"),
                                    .why = "the whole folder would be replaced, and this with it",
                                    .fix = "pass the name of a new folder"});
}

}  // namespace lamina::io
