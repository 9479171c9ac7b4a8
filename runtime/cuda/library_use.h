// What the callers of NVIDIA's libraries have in common.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/core/error.h"
#include "runtime/device/backend.h"

namespace lamina::cuda {

// Work of fewer multiply-adds is left to our own kernels, whose launch needs no plan. Not measured: there was no card to measure on.
inline constexpr double kLeastMultiplyAdds = 4 << 20;
// What `variable` of the environment says instead: a number, "always" or "never"; "" for the above. Throws invalid_argument for what is
// none of these.
double least_multiply_adds(const char* variable, const std::string& setting);

// A library's table, loaded when it is first asked for, and only once.
template <class Api>
class LazyApi {
 public:
  explicit LazyApi(std::function<Api()> load) : load_(std::move(load)) {}
  // Null when the library is missing.
  const Api* get() {
    std::lock_guard lock(mutex_);
    if (!asked_) {
      asked_ = true;
      try {
        api_ = std::make_unique<const Api>(load_());
      } catch (const Error& e) {
        missing_ = cat(e.parts.what, ": ", e.parts.why, ". ", e.parts.fix);
      }
    }
    return api_.get();
  }
  // "" when it is there, or nothing has asked for it.
  std::string why_missing() {
    std::lock_guard lock(mutex_);
    return missing_;
  }

 private:
  const std::function<Api()> load_;
  std::mutex mutex_;
  bool asked_ = false;
  std::string missing_;
  std::unique_ptr<const Api> api_;
};

// What one of a library's create functions made.
class Owned {
 public:
  Owned() = default;
  Owned(void* made, int (*destroy)(void*)) : made_(made), destroy_(destroy) {}
  Owned(Owned&& other) noexcept : made_(std::exchange(other.made_, nullptr)), destroy_(other.destroy_) {}
  Owned& operator=(Owned&& other) noexcept { return std::swap(made_, other.made_), std::swap(destroy_, other.destroy_), *this; }
  ~Owned() {
    if (made_) destroy_(made_);
  }
  void* get() const { return made_; }

 private:
  void* made_ = nullptr;
  int (*destroy_)(void*) = nullptr;
};

// Device memory for the length of a launch, given back in the stream's order.
class Workspace {
 public:
  Workspace(Stream& stream, size_t bytes)
      : stream_(stream), bytes_(bytes), data_(bytes ? stream.backend->allocate(stream, bytes) : nullptr) {}
  ~Workspace() {
    if (data_) stream_.backend->free(stream_, data_, bytes_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  Stream& stream_;
  size_t bytes_;
  void* data_;
};

}  // namespace lamina::cuda
