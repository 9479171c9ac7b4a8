#include "runtime/cuda/nccl.h"

#include <type_traits>

#include "runtime/core/error.h"

namespace lamina::cuda {

std::string nccl::version_text(int version) {
  const int major = version < 10000 ? 1000 : 10000;  // 2804 was 2.8.4
  return cat(version / major, ".", version % major / 100, ".", version % 100);
}

NcclApi load_nccl(const Loader& loader) {
  const LibraryName& name = nccl_name();
  void* library = require_library(name, loader);
  NcclApi api{};
  require_symbol(name, loader, library, "ncclGetVersion", api.version);
  require_symbol(name, loader, library, "ncclGetUniqueId", api.unique_id);
  require_symbol(name, loader, library, "ncclCommInitRankConfig", api.init_rank);
  require_symbol(name, loader, library, "ncclCommFinalize", api.finalize);
  require_symbol(name, loader, library, "ncclCommDestroy", api.destroy);
  require_symbol(name, loader, library, "ncclCommAbort", api.abort);
  require_symbol(name, loader, library, "ncclCommGetAsyncError", api.async_error);
  require_symbol(name, loader, library, "ncclGroupStart", api.group_start);
  require_symbol(name, loader, library, "ncclGroupEnd", api.group_end);
  require_symbol(name, loader, library, "ncclSend", api.send);
  require_symbol(name, loader, library, "ncclRecv", api.receive);
  require_symbol(name, loader, library, "ncclBroadcast", api.broadcast);
  require_symbol(name, loader, library, "ncclAllGather", api.all_gather);
  require_symbol(name, loader, library, "ncclAllReduce", api.all_reduce);
  require_symbol(name, loader, library, "ncclGetErrorString", api.status_text);
  require_symbol(name, loader, library, "ncclGetLastError", api.last_error);
  const auto find = [&](const char* symbol, auto*& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(loader.symbol(library, symbol));
    return function != nullptr;
  };
  if (!(find("ncclGetPeerDevicePointer", api.peer_pointer) && find("ncclMemAlloc", api.mem_alloc) && find("ncclMemFree", api.mem_free) &&
        find("ncclCommWindowRegister", api.register_window) && find("ncclCommWindowDeregister", api.deregister_window)))
    api.peer_pointer = nullptr;
  return api;
}

}  // namespace lamina::cuda
