// NVTX 3 as tools see it: the process loads the library named by NVTX_INJECTION64_PATH and tells it where its function pointers are. This
// is the process's side of that binary interface, as far as Lamina uses it. It replaces NVIDIA's header so that builds without the CUDA
// toolkit have ranges too; tests/cuda/nvtx_test.cpp compares it with the header where there is one.
#pragma once
#include <cstddef>
#include <cstdint>

namespace lamina::nvtx {

constexpr uint16_t kVersion = 3;
constexpr const char* kPathVariable = "NVTX_INJECTION64_PATH";
constexpr const char* kEntry = "InitializeInjectionNvtx2";

constexpr int32_t kPayloadInt64 = 2;  // EventAttributes::payload_type
constexpr int32_t kMessageText = 1;   // EventAttributes::message_type
constexpr int32_t kMessageRegistered = 3;

struct EventAttributes {
  uint16_t version = kVersion;
  uint16_t size = 0;
  uint32_t category = 0;
  int32_t color_type = 0;
  uint32_t color = 0;
  int32_t payload_type = 0;
  int32_t reserved = 0;
  union {
    int64_t integer;
    double number;
  } payload = {0};
  int32_t message_type = 0;
  union {
    const char* text;
    void* registered;
  } message = {nullptr};
};

using Function = void (*)();

// The functions by module and number. A tool overwrites those that it wants, possibly in modules that Lamina never calls.
constexpr int kModules = 7, kDomains = 5;                            // none, core, CUDA, OpenCL, CUDA runtime, domains, synchronization
constexpr unsigned kFunctions[kModules] = {0, 16, 9, 15, 7, 16, 7};  // including the unused number 0
enum DomainFunction : unsigned { kRangePush = 4, kRangePop = 5, kNameCategory = 8, kRegisterString = 10, kCreateDomain = 12 };

using RangePush = int (*)(void* domain, const EventAttributes* attributes);
using RangePop = int (*)(void* domain);
using NameCategory = void (*)(void* domain, uint32_t category, const char* name);
using RegisterString = void* (*)(void* domain, const char* text);
using CreateDomain = void* (*)(const char* name);

// A tool gets a function that returns tables by number.
enum Table : uint32_t { kCallbacks = 1, kVersionInfo = 3 };
struct Callbacks {
  size_t size;
  int (*functions)(int module, Function*** table, unsigned* count);  // 0: there is no such module
};
struct VersionInfo {
  size_t size;
  uint32_t version;
  uint32_t reserved;
  void (*set_tool_version)(uint32_t version);
};
using GetTable = const void* (*)(uint32_t table);
using Initialize = int (*)(GetTable get);  // kEntry; 0: the tool ignores this process

}  // namespace lamina::nvtx
