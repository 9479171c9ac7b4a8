#include "runtime/cuda/compiled_kernels.h"

#include "runtime/core/error.h"

namespace lamina::cuda {

void CompiledKernels::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
}

cudaKernel_t CompiledKernels::find(Device device, int architecture, const std::string& key, const std::function<Source()>& make) {
  std::lock_guard lock(mutex_);
  Entry& entry = entries_[{architecture, key}];
  if (!entry.code.empty()) {
    const auto [place, is_new] = entry.kernels.try_emplace(device.index, nullptr);
    if (!is_new) return place->second;
    cudaLibrary_t library = nullptr;  // stays loaded as long as the process
    cudaKernel_t kernel = nullptr;
    cudaError_t status = api_.library_load(&library, entry.code.data());
    if (status == cudaSuccess) {
      status = api_.library_kernel(&kernel, library, entry.name.c_str());
      if (status != cudaSuccess) api_.library_unload(library);
    }
    if (status == cudaSuccess) return place->second = kernel;
    api_.take_last_error();
    entry.failure = cat("the driver does not load it: ", api_.error_name(status));
    return nullptr;
  }
  if (entry.queued || ++entry.asked < 2) return nullptr;
  entry.queued = true;
  Source source = make();
  entry.name = source.name;
  work_.push_back({&entry, std::move(source), architecture});
  if (!worker_.joinable()) worker_ = std::thread([this] { serve(); });
  changed_.notify_all();
  return nullptr;
}

void CompiledKernels::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !work_.empty(); });
    if (stop_) return;
    const Work work = std::move(work_.front());
    work_.pop_front();
    busy_ = true;
    lock.unlock();
    std::string code, failure;
    try {
      code = compile_(work.source, work.architecture);
    } catch (const std::exception& e) {
      failure = e.what();
    }
    lock.lock();
    work.entry->code = std::move(code);
    work.entry->failure = std::move(failure);
    busy_ = false;
    if (!work.entry->code.empty()) ++version_;
    changed_.notify_all();
  }
}

void CompiledKernels::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return work_.empty() && !busy_; });
}

std::string CompiledKernels::why_missing(const std::string& key) {
  std::lock_guard lock(mutex_);
  for (const auto& [where, entry] : entries_)
    if (where.second == key && !entry.failure.empty()) return entry.failure;
  return "";
}

}  // namespace lamina::cuda
