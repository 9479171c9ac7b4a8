// A temporary folder for one test, removed with its contents.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

namespace lamina::io {

class Scratch {
 public:
  explicit Scratch(const std::filesystem::path& in = std::filesystem::temp_directory_path()) {
    std::string pattern = in / "lamina-io-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  // A folder in memory, where there is one: for tests that write much and ask nothing of the disk.
  static std::filesystem::path memory() {
    return std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace lamina::io
