// File access with Errors of kind file. Symbolic links are not followed out of a folder, and directories are replaced atomically.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/export.h"

namespace lamina::io {

// A regular file open for reading. Thread-safe.
class LAMINA_API InputFile {
 public:
  // `reader` begins error messages: "load". A symbolic link at the end of the path is refused, unless follow_link.
  static InputFile open(const std::string& path, const std::string& reader, bool follow_link = false);
  InputFile(InputFile&& other) noexcept;
  ~InputFile();

  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  // Fills `to` from this offset; throws if the file is shorter.
  void read(uint64_t offset, std::span<std::byte> to) const;
  uint32_t read_with_crc(uint64_t offset, std::span<std::byte> to) const;  // returns the bytes' CRC-32
  std::string text(uint64_t most) const;                                   // the whole file; throws above `most` bytes
  // Throws an error about an offset of this file.
  [[noreturn]] void bad(uint64_t offset, const std::string& what, const std::string& why, const std::string& fix) const;

 private:
  friend class InputDirectory;
  InputFile() = default;
  static InputFile open_at(int directory, const std::string& name, const std::string& path, const std::string& reader, bool follow_link);
  std::string path_, reader_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// A directory open for reading. All its files are of one moment, even if another directory takes its place.
class LAMINA_API InputDirectory {
 public:
  InputDirectory(const std::string& path, std::string reader);
  ~InputDirectory();
  InputDirectory(const InputDirectory&) = delete;
  // A regular file right in it. Throws file for any other name, and for a link.
  InputFile file(const std::string& name) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_, reader_;
  int descriptor_ = -1;
};

// The system calls that change a file system. Each returns 0 or an errno. Tests make them fail, or drop unsynced data.
class LAMINA_API FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int create(const std::string& path, int& descriptor) = 0;  // the file must not exist
  virtual int write(int descriptor, uint64_t offset, std::span<const std::byte> bytes, size_t& written) = 0;
  virtual int sync(int descriptor) = 0;
  virtual int close(int descriptor) = 0;
  virtual int make_directory(const std::string& path) = 0;
  virtual int sync_directory(const std::string& path) = 0;
  virtual int rename(const std::string& from, const std::string& to) = 0;    // replaces an existing file
  virtual int exchange(const std::string& one, const std::string& two) = 0;  // atomic; ENOTSUP if the file system cannot
  virtual int remove(const std::string& path) = 0;                           // a directory with all its contents
  static FileSystem& real();
};

// A new file. Its content is kept only after finish().
class LAMINA_API OutputFile {
 public:
  OutputFile(FileSystem& files, std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  void write(uint64_t offset, std::span<const std::byte> bytes);
  void write(const std::string& text) { write(0, std::as_bytes(std::span(text))); }
  uint32_t write_with_crc(uint64_t offset, std::span<const std::byte> bytes);  // returns the bytes' CRC-32
  void finish();                                                               // syncs to disk

 private:
  FileSystem& files_;
  std::string path_;
  int descriptor_ = -1;
};

// Replaces a file or a directory atomically: writes beside it until commit(). If the process or the machine stops earlier, the old one is
// unchanged; the next replacement removes what was left behind.
class LAMINA_API Replacement {
 public:
  Replacement(std::string path, bool is_directory, FileSystem& files = FileSystem::real());
  ~Replacement();  // without commit(): changes nothing
  Replacement(const Replacement&) = delete;
  // A file in the new directory, or with no name the new file itself. One at a time.
  OutputFile& file(const std::string& name = "");
  void commit();

 private:
  FileSystem& files_;
  std::string path_, parent_, made_;
  bool is_directory_, committed_ = false;
  int lock_ = -1;
  std::unique_ptr<OutputFile> open_;
};

// The path to open for a directory written by Replacement: the path itself, or the old directory beside it, if the file system cannot
// exchange directories and the process ended between two renames.
LAMINA_API std::string replaced_directory(const std::string& path);

// Throws file if the directory at `path` is there and holds something that is not ours: replacing the directory would delete it.
LAMINA_API void require_only(const std::string& path, const std::function<bool(const std::string& name)>& is_ours);

}  // namespace lamina::io
