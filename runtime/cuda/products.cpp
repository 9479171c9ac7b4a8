#include "runtime/cuda/products.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/core/error.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/device/launch_memory.h"

namespace lamina::cuda {
namespace {

constexpr int64_t kMostCalls = 64;                // for a product whose batches are not evenly strided
constexpr uint64_t kMostWorkspace = 32ull << 20;  // workspace for the duration of a launch
constexpr int64_t kMostLength = std::numeric_limits<int32_t>::max();

int type_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return cublaslt::kReal16;
    case DType::bf16: return cublaslt::kRealBf16;
    case DType::f64: return cublaslt::kReal64;
    default: return cublaslt::kReal32;
  }
}

int compute_type(DType dtype, Precision precision) {
  if (dtype == DType::f64) return cublaslt::kCompute64;
  if (dtype == DType::f32 && precision == Precision::tf32) return cublaslt::kCompute32FromTf32;
  if (dtype == DType::f32 && precision == Precision::bf16) return cublaslt::kCompute32FromBf16;
  return cublaslt::kCompute32;
}

// A matrix in memory: row stride `leading`; `turned`: memory holds its transpose.
struct Lying {
  bool turned = false;
  int64_t leading = 0;
};
bool lie(int64_t rows, int64_t columns, int64_t row_step, int64_t column_step, Lying& out) {
  if (columns == 1 || column_step == 1) {
    out = {false, rows == 1 ? columns : row_step};
    if (out.leading >= columns) return true;
  }
  if (rows == 1 || row_step == 1) {
    out = {true, columns == 1 ? rows : column_step};
    return out.leading >= rows;
  }
  return false;
}

struct Batch {
  int64_t count = 1, a = 0, b = 0, bias = 0, c = 0;  // strides in elements
};

// The stride of an operand whose leading axes are the last ones of the result's.
int64_t step_of(const View& v, int trailing, const View& c, int axis) {
  const int own = axis - ((c.rank - 2) - (v.rank - trailing));
  return own >= 0 && v.shape[own] != 1 ? v.strides[own] : 0;
}

// The largest power of two dividing the address, up to what the library asks for.
uint32_t alignment_of(uintptr_t address) { return uint32_t(std::min<uintptr_t>(256, address ? address & (~address + 1) : 256)); }

std::string shape_text(const View& v) {
  std::string out;
  for (int i = 0; i < v.rank; ++i) out += cat(i ? ", " : "", v.shape[i]);
  return cat("[", out, "]");
}

}  // namespace

// The bytes that identify a plan.
struct Products::Key {
  DType dtype = DType::f32;
  int compute = cublaslt::kCompute32;
  Epilogue epilogue = Epilogue::none;
  bool transpose_a = false, transpose_b = false, has_bias = false;
  int64_t rows = 0, columns = 0, depth = 0, leading_a = 0, leading_b = 0;
  Batch batch;
  uint32_t align_a = 256, align_b = 256, align_c = 256, align_bias = 256;
  auto tied() const {
    return std::tie(dtype, compute, epilogue, transpose_a, transpose_b, has_bias, rows, columns, depth, leading_a, leading_b, batch.count,
                    batch.a, batch.b, batch.bias, batch.c, align_a, align_b, align_c, align_bias);
  }
  bool operator<(const Key& other) const { return tied() < other.tied(); }
};

struct Products::Problem {
  Key key;
  const char *a = nullptr, *b = nullptr, *bias = nullptr;
  char* c = nullptr;
  std::vector<Batch> outer;  // batches that need separate calls
  std::string text;          // for errors
};

struct Products::Plan {
  Owned operation, a, b, c;
  cublaslt::Algorithm algorithm{};
  size_t workspace = 0;
  bool serves = false;  // whether the library has an algorithm
};

struct Products::Gpu : PlansOnGpu<Key, Plan> {};

namespace {

[[noreturn]] void fail(const CublasLtApi& api, int status, const char* call, const std::string& text) {
  const char* instruction = launching_instruction();
  const ErrorKind kind = status == cublaslt::kNoMemory ? ErrorKind::out_of_memory : ErrorKind::device;
  throw Error(kind, {.what = cat("cuda: ", call, " failed", *instruction ? " in " : "", instruction),
                     .where = text,
                     .why = cat("cuBLASLt says ", api.status_name(status), " (", status, ")"),
                     .fix = "LAMINA_CUBLASLT=never has Lamina's own kernels make all products"});
}
#define LAMINA_LT(call, name, text)                                       \
  do {                                                                    \
    if (const int lt_status = (call)) fail(api, lt_status, (name), text); \
  } while (false)

}  // namespace

Products::Products(std::function<CublasLtApi()> load, double least) : api_(std::move(load)), least_(least) {}
Products::~Products() = default;

size_t Products::plan_count() { return gpus_.plan_count(); }

bool Products::multiply(Stream& stream, const View& a, const View& b, const View& c, bool transpose_a, bool transpose_b, const View* bias,
                        Epilogue epilogue, Precision precision) {
  if (!is_floating(c.dtype) || !is_contiguous(c)) return false;
  Problem problem;
  Key& key = problem.key;
  const int64_t a_rows = a.shape[a.rank - 2], a_columns = a.shape[a.rank - 1], b_rows = b.shape[b.rank - 2],
                b_columns = b.shape[b.rank - 1];
  key.rows = transpose_a ? a_columns : a_rows, key.depth = transpose_a ? a_rows : a_columns, key.columns = transpose_b ? b_rows : b_columns;
  if (double(c.size()) * double(key.depth) < std::max(1.0, least_)) return false;
  Lying left, right;
  if (!lie(a_rows, a_columns, a.strides[a.rank - 2], a.strides[a.rank - 1], left)) return false;
  if (!lie(b_rows, b_columns, b.strides[b.rank - 2], b.strides[b.rank - 1], right)) return false;
  if (epilogue == Epilogue::bias_gradient && (!bias || a.rank != 2 || b.rank != 2)) return false;
  if (bias && bias->shape[bias->rank - 1] != 1 && bias->strides[bias->rank - 1] != 1) return false;
  key.dtype = c.dtype, key.compute = compute_type(c.dtype, precision), key.epilogue = epilogue, key.has_bias = bias != nullptr;
  key.transpose_a = transpose_a != left.turned, key.transpose_b = transpose_b != right.turned;
  key.leading_a = left.leading, key.leading_b = right.leading;

  // Merges leading axes, last first. One matrix b for many of a becomes one product of all their rows; axes with a common stride merge. The
  // longest axis becomes the library's batch, and the others need a call per element.
  std::vector<Batch> batches;
  int64_t step = key.rows * key.columns;
  for (int axis = c.rank - 3; axis >= 0; --axis) {
    const int64_t count = c.shape[axis];
    if (count == 1) continue;
    const Batch batch{count, step_of(a, 2, c, axis), step_of(b, 2, c, axis), bias ? step_of(*bias, 1, c, axis) : 0, step};
    step *= count;
    if (batches.empty() && batch.b == 0 && batch.bias == 0 && !key.transpose_a && batch.a == key.rows * key.leading_a) {
      key.rows *= count;
      continue;
    }
    if (!batches.empty()) {
      Batch& inner = batches.back();
      if (batch.a == inner.a * inner.count && batch.b == inner.b * inner.count && batch.bias == inner.bias * inner.count) {
        inner.count *= count;
        continue;
      }
    }
    batches.push_back(batch);
  }
  if (!batches.empty()) {
    const auto longest = std::max_element(batches.begin(), batches.end(), [](const Batch& x, const Batch& y) { return x.count < y.count; });
    key.batch = *longest;
    batches.erase(longest);
  }
  problem.outer = std::move(batches);
  int64_t calls = 1;
  for (const Batch& batch : problem.outer) calls = batch.count > kMostCalls ? kMostCalls + 1 : calls * batch.count;
  if (calls > kMostCalls) return false;
  for (const int64_t length : {key.rows, key.columns, key.depth, key.leading_a, key.leading_b, key.batch.count})
    if (length > kMostLength) return false;

  const CublasLtApi* api = api_.get();
  if (!api) return false;
  problem.a = a.as<const char>(), problem.b = b.as<const char>(), problem.c = c.as<char>();
  if (bias) problem.bias = bias->as<const char>();
  const uintptr_t size = size_of(c.dtype);
  uintptr_t at[4] = {uintptr_t(problem.a), uintptr_t(problem.b), uintptr_t(problem.c), uintptr_t(problem.bias)};
  for (const Batch& batch : problem.outer)  // over all calls
    at[0] |= uintptr_t(batch.a) * size, at[1] |= uintptr_t(batch.b) * size, at[2] |= uintptr_t(batch.c) * size,
        at[3] |= uintptr_t(batch.bias) * size;
  key.align_a = alignment_of(at[0]), key.align_b = alignment_of(at[1]), key.align_c = alignment_of(at[2]);
  if (bias) key.align_bias = alignment_of(at[3]);
  problem.text = cat(c.dtype, " ", shape_text(a), transpose_a ? " transposed" : "", " x ", shape_text(b), transpose_b ? " transposed" : "",
                     !bias ? "" : (epilogue == Epilogue::bias_gradient ? " and sums " : " + ") + shape_text(*bias));

  Gpu& gpu = gpus_.of(stream.device);
  std::lock_guard lock(gpu.mutex);
  Plan& plan = gpu.plan(key, [&](Plan& made) { make(*api, gpu, problem, made); });
  if (!plan.serves) return false;
  run(*api, gpu, stream, problem, plan);
  return true;
}

void Products::make(const CublasLtApi& api, Gpu& gpu, const Problem& problem, Plan& plan) {
  if (!gpu.handle.get()) {
    void* handle = nullptr;
    LAMINA_LT(api.create(&handle), "cublasLtCreate", problem.text);
    gpu.handle = Owned(handle, api.destroy);
  }
  const Key& key = problem.key;
  const int type = type_of(key.dtype);
  const bool wide = key.dtype == DType::f64;
  const auto set = [&](auto function, void* object, int attribute, auto value, const char* name) {
    LAMINA_LT(function(object, attribute, &value, sizeof value), name, problem.text);
  };
  void* made = nullptr;
  LAMINA_LT(api.operation_create(&made, key.compute, wide ? cublaslt::kReal64 : cublaslt::kReal32), "cublasLtMatmulDescCreate",
            problem.text);
  plan.operation = Owned(made, api.operation_destroy);
  const auto set_operation = [&](int attribute, auto value) {
    set(api.operation_set, made, attribute, value, "cublasLtMatmulDescSetAttribute");
  };
  set_operation(cublaslt::kTransposeA, key.transpose_b ? cublaslt::kTransposed : cublaslt::kPlain);  // our b is its first operand
  set_operation(cublaslt::kTransposeB, key.transpose_a ? cublaslt::kTransposed : cublaslt::kPlain);
  const uint32_t after = key.epilogue == Epilogue::bias_gradient
                             ? cublaslt::kBiasGradientOfFirst
                             : (key.epilogue == Epilogue::relu ? cublaslt::kRelu : 0) | (key.has_bias ? cublaslt::kBias : 0);
  set_operation(cublaslt::kEpilogue, after ? after : cublaslt::kNoEpilogue);
  if (key.has_bias) {
    set_operation(cublaslt::kBiasPointer,
                  reinterpret_cast<const void*>(uintptr_t(key.align_bias)));  // the heuristic checks its alignment
    if (key.batch.count > 1) set_operation(cublaslt::kBiasBatchStride, key.batch.bias);
  }
  const auto layout = [&](uint64_t rows, uint64_t columns, int64_t leading, int64_t stride) {
    void* layout = nullptr;
    LAMINA_LT(api.layout_create(&layout, type, rows, columns, leading), "cublasLtMatrixLayoutCreate", problem.text);
    Owned owned(layout, api.layout_destroy);
    if (key.batch.count > 1) {
      set(api.layout_set, layout, cublaslt::kBatchCount, int32_t(key.batch.count), "cublasLtMatrixLayoutSetAttribute");
      set(api.layout_set, layout, cublaslt::kBatchStride, stride, "cublasLtMatrixLayoutSetAttribute");
    }
    return owned;
  };
  const uint64_t m = uint64_t(key.columns), n = uint64_t(key.rows), k = uint64_t(key.depth);
  plan.b = key.transpose_b ? layout(k, m, key.leading_b, key.batch.b) : layout(m, k, key.leading_b, key.batch.b);
  plan.a = key.transpose_a ? layout(n, k, key.leading_a, key.batch.a) : layout(k, n, key.leading_a, key.batch.a);
  plan.c = layout(m, n, key.columns, key.batch.c);

  void* wanted = nullptr;
  LAMINA_LT(api.preference_create(&wanted), "cublasLtMatmulPreferenceCreate", problem.text);
  const Owned preference(wanted, api.preference_destroy);
  const auto set_preference = [&](int attribute, auto value) {
    set(api.preference_set, wanted, attribute, value, "cublasLtMatmulPreferenceSetAttribute");
  };
  set_preference(cublaslt::kMostWorkspace, kMostWorkspace);
  set_preference(cublaslt::kAlignmentA, key.align_b);
  set_preference(cublaslt::kAlignmentB, key.align_a);
  set_preference(cublaslt::kAlignmentC, key.align_c);
  set_preference(cublaslt::kAlignmentD, key.align_c);
  // Partial results of a long sum must not be rounded to half types.
  if (size_of(key.dtype) == 2) set_preference(cublaslt::kReductions, cublaslt::kReduceInComputeType);

  cublaslt::Heuristic result{};
  int found = 0;
  const int answer = api.heuristic(gpu.handle.get(), plan.operation.get(), plan.b.get(), plan.a.get(), plan.c.get(), plan.c.get(), wanted,
                                   1, &result, &found);
  if (answer != cublaslt::kNotSupported) LAMINA_LT(answer, "cublasLtMatmulAlgoGetHeuristic", problem.text);
  plan.serves = answer == 0 && found > 0 && result.state == 0;
  plan.algorithm = result.algorithm, plan.workspace = plan.serves ? result.workspace_bytes : 0;
}

void Products::run(const CublasLtApi& api, Gpu& gpu, Stream& stream, const Problem& problem, Plan& plan) {
  const Key& key = problem.key;
  const LaunchMemory workspace(stream, plan.workspace);
  const Factors factors(key.dtype);
  const int64_t size = int64_t(size_of(key.dtype));
  std::vector<int64_t> index(problem.outer.size(), 0);
  while (true) {
    Batch at{};  // position of this call's matrices
    for (size_t i = 0; i < index.size(); ++i) {
      const Batch& batch = problem.outer[i];
      at.a += index[i] * batch.a, at.b += index[i] * batch.b, at.bias += index[i] * batch.bias, at.c += index[i] * batch.c;
    }
    if (key.has_bias) {
      const void* bias = problem.bias + at.bias * size;
      LAMINA_LT(api.operation_set(plan.operation.get(), cublaslt::kBiasPointer, &bias, sizeof bias), "cublasLtMatmulDescSetAttribute",
                problem.text);
    }
    char* c = problem.c + at.c * size;
    LAMINA_LT(api.matmul(gpu.handle.get(), plan.operation.get(), factors.one(), problem.b + at.b * size, plan.b.get(),
                         problem.a + at.a * size, plan.a.get(), factors.zero(), c, plan.c.get(), c, plan.c.get(), &plan.algorithm,
                         workspace.data(), workspace.bytes(), stream.native),
              "cublasLtMatmul", problem.text);
    size_t next = 0;
    while (next < index.size() && ++index[next] == problem.outer[next].count) index[next++] = 0;
    if (next == index.size()) break;
  }
}

}  // namespace lamina::cuda
