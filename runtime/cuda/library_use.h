// Helpers for using NVIDIA's libraries.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "runtime/core/dtype.h"
#include "runtime/core/error.h"
#include "runtime/core/mutex.h"
#include "runtime/device/device.h"
#include "runtime/device/library_work.h"

namespace lamina::cuda {

// A library's table, loaded once, on first use.
template <class Api>
class LazyApi {
 public:
  explicit LazyApi(std::function<Api()> load) : load_(std::move(load)) {}
  // Null if the library is missing.
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
  // "" if the library is there or was never needed.
  std::string why_missing() {
    std::lock_guard lock(mutex_);
    return missing_;
  }

 private:
  const std::function<Api()> load_;
  Mutex mutex_;
  bool asked_ = false;
  std::string missing_;
  std::unique_ptr<const Api> api_;
};

// Owns what a library's create function returned.
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

inline constexpr size_t kMostPlans = 512;  // per device; the least recently used is dropped first

// A library's state on one device: its handle, and a plan per key.
template <class Key, class Plan>
class PlansOnGpu {
 public:
  Mutex mutex;  // held while a plan is found and used, since a handle may hold the current call's stream
  Owned handle;

  // make(plan) fills in a missing plan.
  template <class F>
  Plan& plan(const Key& key, F&& make) {
    auto found = plans_.find(key);
    if (found == plans_.end()) {
      Kept made;
      make(made.plan);
      if (plans_.size() >= kMostPlans)
        plans_.erase(
            std::min_element(plans_.begin(), plans_.end(), [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
      found = plans_.emplace(key, std::move(made)).first;
    }
    found->second.used = ++clock_;
    return found->second.plan;
  }
  size_t plan_count() const { return plans_.size(); }

 private:
  struct Kept {
    Plan plan;
    uint64_t used = 0;
  };
  std::map<Key, Kept> plans_;
  uint64_t clock_ = 0;
};

// A Gpu, which is a PlansOnGpu, for each device in use.
template <class Gpu>
class PerDevice {
 public:
  Gpu& of(Device device) {
    std::lock_guard lock(mutex_);
    std::unique_ptr<Gpu>& gpu = gpus_[device.index];
    if (!gpu) gpu = std::make_unique<Gpu>();
    return *gpu;
  }
  size_t plan_count() {
    std::lock_guard lock(mutex_);
    size_t count = 0;
    for (const auto& [index, gpu] : gpus_) {
      std::lock_guard of_gpu(gpu->mutex);
      count += gpu->plan_count();
    }
    return count;
  }

 private:
  Mutex mutex_;
  std::map<int, std::unique_ptr<Gpu>> gpus_;
};

// The factors 1 and 0 in `result = 1 * product + 0 * result`, in the type that the library expects.
struct Factors {
  explicit Factors(DType dtype) : is_double(dtype == DType::f64) {}
  const void* one() const { return is_double ? static_cast<const void*>(&one64) : &one32; }
  const void* zero() const { return is_double ? static_cast<const void*>(&zero64) : &zero32; }
  const bool is_double;
  const double one64 = 1, zero64 = 0;
  const float one32 = 1, zero32 = 0;
};

}  // namespace lamina::cuda
