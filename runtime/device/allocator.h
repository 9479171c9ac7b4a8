// Allocator: the memory of one CPU device. Freed blocks are kept by size class and given out again, up to a bound.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "runtime/core/mutex.h"

namespace lamina {

class Allocator {
 public:
  // `limit`: bytes that may be in use or cached at once.
  Allocator(std::string device, size_t limit);
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  void* allocate(size_t bytes);         // 64-byte aligned, uninitialised; throws out_of_memory with asked, free and cached
  void free(void* data, size_t bytes);  // with the bytes that were asked for

  struct Usage {
    size_t in_use = 0, cached = 0, limit = 0;
  };
  Usage usage();
  void trim();                       // gives the cached blocks back to the system
  Mutex& mutex() { return mutex_; }  // held over a fork

  static size_t class_of(size_t bytes);
  static size_t class_bytes(size_t index);

 private:
  void trim_locked();
  const std::string device_;
  const size_t limit_, cache_limit_;
  Mutex mutex_;
  std::vector<std::vector<void*>> cache_;  // by size class
  size_t in_use_ = 0, cached_ = 0;
};

}  // namespace lamina
