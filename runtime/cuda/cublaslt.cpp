#include "runtime/cuda/cublaslt.h"

namespace lamina::cuda {

CublasLtApi load_cublaslt(const Loader& loader) {
  const LibraryName& name = cublaslt_name();
  void* library = require_library(name, loader);
  CublasLtApi api{};
  require_symbol(name, loader, library, "cublasLtCreate", api.create);
  require_symbol(name, loader, library, "cublasLtDestroy", api.destroy);
  require_symbol(name, loader, library, "cublasLtMatmulDescCreate", api.operation_create);
  require_symbol(name, loader, library, "cublasLtMatmulDescDestroy", api.operation_destroy);
  require_symbol(name, loader, library, "cublasLtMatmulDescSetAttribute", api.operation_set);
  require_symbol(name, loader, library, "cublasLtMatrixLayoutCreate", api.layout_create);
  require_symbol(name, loader, library, "cublasLtMatrixLayoutDestroy", api.layout_destroy);
  require_symbol(name, loader, library, "cublasLtMatrixLayoutSetAttribute", api.layout_set);
  require_symbol(name, loader, library, "cublasLtMatmulPreferenceCreate", api.preference_create);
  require_symbol(name, loader, library, "cublasLtMatmulPreferenceDestroy", api.preference_destroy);
  require_symbol(name, loader, library, "cublasLtMatmulPreferenceSetAttribute", api.preference_set);
  require_symbol(name, loader, library, "cublasLtMatmulAlgoGetHeuristic", api.heuristic);
  require_symbol(name, loader, library, "cublasLtMatmul", api.matmul);
  require_symbol(name, loader, library, "cublasLtGetStatusName", api.status_name);
  return api;
}

}  // namespace lamina::cuda
