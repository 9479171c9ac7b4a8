// Allocator: the memory of one CPU device. Freed blocks are cached by size class, up to a limit, and reused.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "runtime/core/mutex.h"

namespace lamina {

class Allocator {
 public:
  // `limit`: maximum of bytes in use plus bytes cached.
  Allocator(std::string device, size_t limit);
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  void* allocate(size_t bytes);         // 64-byte aligned, uninitialised; throws out_of_memory with requested, free and cached bytes
  void free(void* data, size_t bytes);  // `bytes` as requested

  struct Usage {
    size_t in_use = 0, cached = 0, limit = 0;
  };
  Usage usage();
  void set_limit(size_t limit);
  void trim();                       // frees the cached blocks
  Mutex& mutex() { return mutex_; }  // held during a fork

  static size_t class_of(size_t bytes);
  static size_t class_bytes(size_t index);

 private:
  void trim_locked();
  const std::string device_;
  size_t limit_, cache_limit_;
  Mutex mutex_;
  std::vector<std::vector<void*>> cache_;  // by size class
  size_t in_use_ = 0, cached_ = 0;
};

}  // namespace lamina
