// Windows of a fake NCCL: memory, and what ranks have registered.
#pragma once
#include <cstdlib>
#include <map>

namespace lamina::cuda {

struct FakeWindows {
  struct Window {
    void* communicator = nullptr;
    int number = 0;  // of the communicator
    void* data = nullptr;
    size_t bytes = 0;
  };
  std::map<void*, size_t> memory;
  std::map<void*, Window> registered;
  int made = 0;
  bool reach = true;  // ranks reach each other's memory

  void reset() {
    registered.clear();
    for (const auto& [data, bytes] : memory) std::free(data);
    memory.clear();
    made = 0, reach = true;
  }
};

}  // namespace lamina::cuda
