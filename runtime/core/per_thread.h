// PerThread: an object for each thread that uses it. It ends with its thread, and may be used until the process is gone: a static object's
// destructor, an atexit handler or a thread_local object that asks for it after its end gets a new one.
#pragma once
#include <cxxabi.h>

#include <utility>

extern "C" void* __dso_handle __attribute__((visibility("hidden")));  // of the library that the code is in, by the C++ ABI

namespace lamina {

// Tag: the class that the object is for, where several are of one type.
template <class T, class Tag = T>
class PerThread {
 public:
  static T& get() {
    if (!own_) [[unlikely]] {
      own_ = new T;
      abi::__cxa_thread_atexit([](void*) { delete std::exchange(own_, nullptr); }, nullptr, &__dso_handle);
    }
    return *own_;
  }

 private:
  static inline thread_local constinit T* own_ = nullptr;
};

}  // namespace lamina
