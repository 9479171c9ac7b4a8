// A tool for NVTX_INJECTION64_PATH that writes every range to the file LAMINA_NVTX_RECORD, a line each, with fields separated by tabs:
//   domain HANDLE NAME     register HANDLE TEXT     category NUMBER NAME     push THREAD DOMAIN CATEGORY PAYLOAD TEXT     pop THREAD DOMAIN
// PAYLOAD is "-" if there is none; the TEXT of a registered message is looked up by its handle, an unknown handle is "?".
// LAMINA_NVTX_REFUSE: it ignores the process.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/device/nvtx.h"

namespace {

using namespace lamina::nvtx;

std::mutex mutex;
std::FILE* file = nullptr;
std::vector<std::string> texts;  // by handle, from 1

size_t thread_number() {
  static std::vector<std::thread::id> seen;
  for (size_t i = 0; i < seen.size(); ++i)
    if (seen[i] == std::this_thread::get_id()) return i;
  seen.push_back(std::this_thread::get_id());
  return seen.size() - 1;
}
size_t number(const void* handle) { return reinterpret_cast<size_t>(handle); }

void* create_domain(const char* name) {
  std::lock_guard lock(mutex);
  std::fprintf(file, "domain\t7\t%s\n", name);
  std::fflush(file);
  return reinterpret_cast<void*>(size_t{7});
}

void name_category(void*, uint32_t category, const char* name) {
  std::lock_guard lock(mutex);
  std::fprintf(file, "category\t%u\t%s\n", category, name);
  std::fflush(file);
}

void* register_string(void*, const char* text) {
  std::lock_guard lock(mutex);
  texts.emplace_back(text);
  std::fprintf(file, "register\t%zu\t%s\n", texts.size(), text);
  std::fflush(file);
  return reinterpret_cast<void*>(texts.size());
}

int push(void* domain, const EventAttributes* event) {
  std::lock_guard lock(mutex);
  std::string text = "?";
  if (event->message_type == kMessageText)
    text = event->message.text;
  else if (const size_t handle = number(event->message.registered); event->message_type == kMessageRegistered && handle - 1 < texts.size())
    text = texts[handle - 1];
  const std::string payload = event->payload_type == kPayloadInt64 ? std::to_string(event->payload.integer) : "-";
  std::fprintf(file, "push\t%zu\t%zu\t%u\t%s\t%s\n", thread_number(), number(domain), event->category, payload.c_str(), text.c_str());
  std::fflush(file);
  return 0;
}

int pop(void* domain) {
  std::lock_guard lock(mutex);
  std::fprintf(file, "pop\t%zu\t%zu\n", thread_number(), number(domain));
  std::fflush(file);
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(GetTable get) {
  const char* path = std::getenv("LAMINA_NVTX_RECORD");
  if (!path || std::getenv("LAMINA_NVTX_REFUSE")) return 0;
  const auto* callbacks = static_cast<const Callbacks*>(get(kCallbacks));
  const auto* version = static_cast<const VersionInfo*>(get(kVersionInfo));
  Function** table = nullptr;
  unsigned count = 0;
  if (!callbacks || callbacks->size < sizeof(Callbacks) || !version || version->version != kVersion) return 0;
  // Like NVIDIA's tools, this one asks for every module.
  for (int module = 1; module < kModules; ++module)
    if (!callbacks->functions(module, &table, &count) || count < kFunctions[module]) return 0;
  if (!callbacks->functions(kDomains, &table, &count) || !(file = std::fopen(path, "w"))) return 0;
  *table[kCreateDomain] = reinterpret_cast<Function>(create_domain);
  *table[kNameCategory] = reinterpret_cast<Function>(name_category);
  *table[kRegisterString] = reinterpret_cast<Function>(register_string);
  *table[kRangePush] = reinterpret_cast<Function>(push);
  *table[kRangePop] = reinterpret_cast<Function>(pop);
  return 1;
}
