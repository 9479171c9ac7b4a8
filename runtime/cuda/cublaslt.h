// The part of cuBLASLt's interface that Lamina uses: functions and constants. Declared here so that a build does not need its headers;
// where the headers exist, a test compares them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/cuda/libraries.h"

namespace lamina::cuda {

namespace cublaslt {

// The library defines the sizes of these structures; the algorithm's content is opaque.
struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace_bytes;
  int state;  // a status; the other fields are valid when it is 0
  float waves;
  int reserved[4];
};

inline constexpr int kNotSupported = 15, kNoMemory = 3;                      // cublasStatus_t; 0 is success
inline constexpr int kCompute32 = 68, kCompute64 = 70;                       // cublasComputeType_t: neither allows tf32 or emulation
inline constexpr int kCompute32FromBf16 = 75, kCompute32FromTf32 = 77;       // operands may be rounded to that type; sums are float
inline constexpr int kReal32 = 0, kReal64 = 1, kReal16 = 2, kRealBf16 = 14;  // cudaDataType_t
inline constexpr int32_t kPlain = 0, kTransposed = 1;                        // cublasOperation_t
inline constexpr uint32_t kNoEpilogue = 1, kRelu = 2, kBias = 4;             // cublasLtEpilogue_t; kRelu | kBias: bias first
inline constexpr uint32_t kBiasGradientOfFirst = 256;  // sums of the first operand along the product's depth, written to the bias pointer
inline constexpr int kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasPointer = 8,
                     kBiasBatchStride = 10;              // cublasLtMatmulDescAttributes_t
inline constexpr int kBatchCount = 5, kBatchStride = 6;  // cublasLtMatrixLayoutAttribute_t
inline constexpr int kMostWorkspace = 1, kReductions = 3, kAlignmentA = 5, kAlignmentB = 6, kAlignmentC = 7,
                     kAlignmentD = 8;                // ...PreferenceAttributes_t
inline constexpr uint32_t kReduceInComputeType = 2;  // cublasLtReductionScheme_t

}  // namespace cublaslt

// Functions return cublasStatus_t.
struct CublasLtApi {
  int (*create)(void** handle);
  int (*destroy)(void* handle);
  int (*operation_create)(void** operation, int compute, int scale_type);
  int (*operation_destroy)(void* operation);
  int (*operation_set)(void* operation, int attribute, const void* value, size_t bytes);
  int (*layout_create)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading);
  int (*layout_destroy)(void* layout);
  int (*layout_set)(void* layout, int attribute, const void* value, size_t bytes);
  int (*preference_create)(void** preference);
  int (*preference_destroy)(void* preference);
  int (*preference_set)(void* preference, int attribute, const void* value, size_t bytes);
  int (*heuristic)(void* handle, void* operation, void* a, void* b, void* c, void* d, void* preference, int wanted,
                   cublaslt::Heuristic* results, int* found);
  int (*matmul)(void* handle, void* operation, const void* alpha, const void* a, void* layout_a, const void* b, void* layout_b,
                const void* beta, const void* c, void* layout_c, void* d, void* layout_d, const cublaslt::Algorithm* algorithm,
                void* workspace, size_t workspace_bytes, void* stream);
  const char* (*status_name)(int status);
};
// Throws device, with every path that was tried, when the library is missing.
CublasLtApi load_cublaslt(const Loader& loader);

}  // namespace lamina::cuda
