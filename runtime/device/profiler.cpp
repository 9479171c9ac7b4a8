#include "runtime/device/profiler.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include "runtime/core/error.h"
#include "runtime/core/settings.h"
#include "runtime/device/nvtx.h"
#include "runtime/device/recording.h"

namespace lamina::profiler {
namespace detail {
constinit std::atomic<int> state{unknown};
}

namespace {

// The functions that tools fill in; others stay null.
constexpr unsigned kMost = 16;
nvtx::Function functions[nvtx::kModules][kMost];
nvtx::Function* tables[nvtx::kModules][kMost + 1];  // each ends with a null

int module_functions(int module, nvtx::Function*** table, unsigned* count) {
  if (module <= 0 || module >= nvtx::kModules) return 0;
  if (table) *table = tables[module];
  if (count) *count = nvtx::kFunctions[module];
  return 1;
}

const void* get_table(uint32_t table) {
  static const nvtx::Callbacks callbacks{sizeof(nvtx::Callbacks), module_functions};
  static const nvtx::VersionInfo version{sizeof(nvtx::VersionInfo), nvtx::kVersion, 0, [](uint32_t) {}};
  if (table == nvtx::kCallbacks) return &callbacks;
  if (table == nvtx::kVersionInfo) return &version;
  return nullptr;
}

// Null while no tool wants it. Read on each use, because a tool may fill it in after it was loaded.
template <class F>
F domain_function(nvtx::DomainFunction number) {
  return reinterpret_cast<F>(std::atomic_ref(functions[nvtx::kDomains][number]).load(std::memory_order_acquire));
}

std::string &path = *new std::string, &failure = *new std::string;  // valid once detail::state is no longer unknown
std::once_flag looked, made_domain;
std::atomic<void*> made{nullptr};

void* domain() {
  if (const auto create = domain_function<nvtx::CreateDomain>(nvtx::kCreateDomain)) {
    std::call_once(made_domain, [&] {
      made.store(create("Lamina"), std::memory_order_release);
      constexpr std::pair<Kind, const char*> kinds[] = {{Kind::function, "function"}, {Kind::instruction, "instruction"},
                                                        {Kind::step, "step"},         {Kind::layer, "layer"},
                                                        {Kind::user, "user"},         {Kind::input, "input"}};
      if (const auto name = domain_function<nvtx::NameCategory>(nvtx::kNameCategory))
        for (auto [kind, text] : kinds) name(made, uint32_t(kind), text);
    });
  }
  return made.load(std::memory_order_acquire);
}

void look_for_tool() {
  const char* named = std::getenv(nvtx::kPathVariable);
  if (!named || !*named) return void(failure = cat(nvtx::kPathVariable, " is not set"));
  if (*named != '/') return void(failure = cat(named, " is no absolute path"));  // relative paths could run code from a foreign folder
  path = named;
  void* library = dlopen(named, RTLD_LAZY);
  if (!library) {
    const char* why = dlerror();
    return void(failure = cat(path, " does not load: ", why ? why : "?"));
  }
  const auto initialize = reinterpret_cast<nvtx::Initialize>(dlsym(library, nvtx::kEntry));
  if (!initialize) {
    dlclose(library);
    return void(failure = cat(path, " has no ", nvtx::kEntry));
  }
  for (int module = 1; module < nvtx::kModules; ++module)
    for (unsigned i = 1; i < nvtx::kFunctions[module]; ++i) tables[module][i] = &functions[module][i];
  if (!initialize(get_table)) failure = cat(path, " does not want this process");  // it stays loaded, because it may have started threads
}

void push(Kind kind, int32_t message_type, const void* message, const int64_t* payload) {
  nvtx::EventAttributes event;
  event.size = sizeof(event);
  event.category = uint32_t(kind);
  event.message_type = message_type;
  if (message_type == nvtx::kMessageRegistered)
    event.message.registered = const_cast<void*>(message);
  else
    event.message.text = static_cast<const char*>(message);
  if (payload) event.payload_type = nvtx::kPayloadInt64, event.payload.integer = *payload;
  if (const auto tool = domain_function<nvtx::RangePush>(nvtx::kRangePush)) tool(domain(), &event);
}

}  // namespace

bool detail::find_tool() {
  std::call_once(looked, [] {
    look_for_tool();
    state.store(failure.empty() ? on : off, std::memory_order_release);
  });
  return state.load(std::memory_order_acquire) == on;
}

std::string status() {
  listening();
  if (!failure.empty()) return cat("no tool listens: ", failure);
  return domain_function<nvtx::RangePush>(nvtx::kRangePush) ? cat("ranges go to ", path)
                                                            : cat(path, " is loaded, and takes no ranges so far");
}

void* Name::registered() const {
  void* known = registered_.load(std::memory_order_acquire);
  const auto keep = domain_function<nvtx::RegisterString>(nvtx::kRegisterString);
  if (known || !keep) return known;
  known = keep(domain(), text_.c_str());  // if two threads do this at once, both handles are valid
  registered_.store(known, std::memory_order_release);
  return known;
}

void push(const Name& name, int64_t payload) {
  if (detail::recording.load(std::memory_order_relaxed)) detail::record_push(name.kind(), name.text(), payload, name.lane());
  void* registered = name.registered();
  push(name.kind(), registered ? nvtx::kMessageRegistered : nvtx::kMessageText, registered ? registered : name.text().c_str(), &payload);
}

void push(Kind kind, std::string_view text) {
  if (detail::recording.load(std::memory_order_relaxed)) detail::record_push(kind, text, -1);
  push(kind, nvtx::kMessageText, std::string(text).c_str(), nullptr);
}

void pop() {
  if (detail::recording.load(std::memory_order_relaxed)) detail::record_pop();
  if (const auto tool = domain_function<nvtx::RangePop>(nvtx::kRangePop)) tool(domain());
}

std::string attached_by() {
  if (!config::text(Setting::resident).empty()) return "LAMINA_RESIDENT=staged";
  for (const char* variable :
       {nvtx::kPathVariable, "CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID", "NV_COMPUTE_PROFILER_PERFWORKS_DIR",
        "NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "NV_SANITIZER_INJECTION_PORT_BASE", "NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN"})
    if (const char* value = std::getenv(variable); value && *value) return cat(variable, " is set");
  std::ifstream process("/proc/self/status");
  for (std::string word; process >> word;)
    if (int tracer = 0; word == "TracerPid:" && process >> tracer && tracer != 0) return cat("process ", tracer, " traces this one");
  return "";
}

}  // namespace lamina::profiler
