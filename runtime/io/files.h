// Files as a program reads and writes them: every failure is an Error of kind file, nothing is followed out of its folder, and a directory
// is replaced at one instant.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/export.h"

namespace lamina::io {

// A regular file that is open for reading. It may be read from several threads at once.
class LAMINA_API InputFile {
 public:
  // `reader` begins the texts of errors: "load". A symbolic link at the end of the path is refused, unless follow_link.
  static InputFile open(const std::string& path, const std::string& reader, bool follow_link = false);
  InputFile(InputFile&& other) noexcept;
  ~InputFile();

  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  // All of `to`, from this offset on; throws when the file has become shorter.
  void read(uint64_t offset, std::span<std::byte> to) const;
  std::string text(uint64_t most) const;  // the whole file, of at most so many bytes
  // Throws what is wrong at an offset of this file.
  [[noreturn]] void bad(uint64_t offset, const std::string& what, const std::string& why, const std::string& fix) const;

 private:
  InputFile() = default;
  std::string path_, reader_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// The calls that change a file system. Each returns 0 or an errno; tests let them fail, or forget what was not synced.
class LAMINA_API FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int create(const std::string& path, int& descriptor) = 0;  // a file that did not exist
  virtual int write(int descriptor, std::span<const std::byte> bytes, size_t& written) = 0;
  virtual int sync(int descriptor) = 0;
  virtual int close(int descriptor) = 0;
  virtual int make_directory(const std::string& path) = 0;
  virtual int sync_directory(const std::string& path) = 0;
  virtual int rename(const std::string& from, const std::string& to) = 0;    // a file that is there is replaced
  virtual int exchange(const std::string& one, const std::string& two) = 0;  // at one instant; ENOTSUP where a file system cannot
  virtual int remove(const std::string& path) = 0;                           // a directory with all that is in it
  static FileSystem& real();
};

// A file that is written from its beginning to its end. What was written stays only after finish().
class LAMINA_API OutputFile {
 public:
  OutputFile(FileSystem& files, std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  void write(std::span<const std::byte> bytes);
  void write(const std::string& text) { write(std::as_bytes(std::span(text))); }
  void finish();  // written through to the disk

 private:
  FileSystem& files_;
  std::string path_;
  int descriptor_ = -1;
};

// Replaces a file or a directory: what is written lies beside it until commit(), which puts it in its place at one instant. When the
// process or the machine ends before, the old one is there as it was; what such an end left behind is removed by the next replacement.
class LAMINA_API Replacement {
 public:
  Replacement(std::string path, bool is_directory, FileSystem& files = FileSystem::real());
  ~Replacement();  // without commit(): nothing has changed
  Replacement(const Replacement&) = delete;
  // A file inside of the new directory, or the new file itself with no name. One at a time.
  OutputFile& file(const std::string& name = "");
  void commit();

 private:
  FileSystem& files_;
  std::string path_, parent_, made_;
  bool is_directory_, committed_ = false;
  int lock_ = -1;
  std::unique_ptr<OutputFile> open_;
};

// What to open for a directory that Replacement wrote: the path itself, or, where a file system cannot exchange two directories and the
// process ended between two renames, the old one beside it.
LAMINA_API std::string replaced_directory(const std::string& path);

}  // namespace lamina::io
