// A section: a sequence of small steps over planned buffers, executed as one kernel. The table is plain data. The CPU interpreter
// (kernels/cpu/section.cpp) and, on a GPU, one resident kernel run the same table.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/elementwise.h"
#include "runtime/core/source_line.h"

namespace lamina::section {

enum class StepKind : uint8_t {
  dense,             // y[r,n] = act(x[r,k] w[k,n] + b[n])           in: x w (b)          out: y
  dense_grad_input,  // dx[r,k] = (dz[r,n] w[k,n]^T) * act'(y[r,k])  in: dz w (y)         out: dx; y as of_input() says
  dense_update,      // dw = x^T dz, db = sum of dz's rows; then codes[code] on (dw, extras...) and codes[code2] on (db, extras...)
                     //                                              in: x dz extras...   out: results of code, then of code2
  elementwise,       // codes[code] over r x n                        in, out: as the code's
  reduce,            // sum, mean, max, min or prod of r x n over rows, columns or both    in: x    out: y
  softmax,           // each row                                      in: x                out: y
  log_softmax,
  sparse_cross_entropy,  // in: logits[r,n] labels[r]            out: losses[r] probabilities[r,n]
  dropout,               // in: x state[2]                                out: y
  copy,                  // in: x (any strides)                           out: y; or in: several, out: y and the part of y that is each
                         // input's. What is in no part is 0; a step writes the parts through y alone
  all_reduce,            // of sums[k]; flatten.h makes the next two of each value        in: roots...    out: sums...
  announce,              // shows the other ranks this one's `extras` roots of value k, of n elements in `rows` chunks    in: roots
  collect,               // waits for the roots of all ranks, and adds them; then codes[code], if any, on (sum, inputs...)
                         //                                              in: the code's   out: sum, or the code's
  loop,                  // in, out: as the node's; its body is Nested
  branch,
};

constexpr bool is_product(StepKind kind) { return kind == StepKind::dense || kind == StepKind::dense_grad_input; }
constexpr bool is_of_ranks(StepKind kind) { return kind == StepKind::announce || kind == StepKind::collect; }

enum class Activation : uint8_t {
  none,
#define ACTIVATION(name, ...) name,
#include "kernels/shared/elementwise_ops.inc"
};
enum class Slope : uint8_t { of_result, of_input };
enum class Parameter : uint8_t { plain, alpha };
struct ActivationRow {
  Activation activation;
  const char* name;
  kernels::ScalarOp op, gradient;
  Slope slope;
  Parameter parameter;
};
// All except none, in the enum's order.
inline constexpr ActivationRow kActivations[] = {
#define ACTIVATION(name, slope, parameter) \
  {Activation::name, #name, kernels::ScalarOp::name, kernels::ScalarOp::name##_grad, Slope::slope, Parameter::parameter},
#include "kernels/shared/elementwise_ops.inc"
};
// Not for none.
constexpr const ActivationRow& row_of(Activation a) { return kActivations[int(a) - 1]; }
// Whether the slope is computed from the activation's input instead of its result; the mask operand is then that input.
constexpr bool of_input(Activation a) { return a != Activation::none && row_of(a).slope == Slope::of_input; }
enum class Reduction : uint8_t { sum, mean, max, min, prod };
enum class Broadcast : uint8_t { full, row, column, scalar };  // shape of an operand of a step over r x n: [r,n], [n], [r,1], [1]

// How a step can be shared among threads (or blocks) without changing any bit of its result.
enum class Partition : uint8_t {
  rows,    // by batch rows; reads only those rows of what earlier `rows` steps wrote
  tiles,   // by tiles of the result; reads everything
  one,     // not shared
  models,  // by models of an ensemble: the whole step, on each model's parts of the operands
};

struct Step {
  StepKind kind = StepKind::copy;
  Activation activation = Activation::none;
  Reduction reduction = Reduction::sum;
  Broadcast reduced = Broadcast::full;  // a reduction's result: row [n], column [r,1], scalar
  Partition partition = Partition::one;
  bool barrier_before = false;     // wait until all threads have finished the steps before
  uint8_t has_bias = 0;            // dense: whether there is a b; dense_update: whether db is needed
  uint8_t has_mask = 0;            // dense_grad_input: whether there is a y
  int32_t rows = 0, k = 0, n = 0;  // dropout: k is the number of its first element among those of the draw
  int32_t code = -1, code2 = -1;   // into Table::codes
  int32_t extras = 0;              // dense_update: how many inputs after x and dz belong to code; announce: this rank's roots
  float scalar = 0;                // dropout: the rate; an activation's alpha
  int32_t first_in = 0, ins = 0;   // into Table::operands
  int32_t first_out = 0, outs = 0;
  int32_t owner = 0;     // Partition::one: the thread that runs it, modulo their number
  int32_t replicas = 1;  // models of an ensemble, whose sizes are those above; of an update shared by tiles: leaves of all rows (leaves.h)
};

struct Operand {
  int32_t buffer = 0;  // index among the instruction's operands: inputs first, then outputs
  Broadcast broadcast = Broadcast::full;
  int32_t model_stride = 0;  // elements from one model's part to the next; 0: shared by all models
};

// An all_reduce in a launch: values of f32, whose roots (runtime/dist/tree.h) each rank writes to its window, memory that all ranks read.
struct RankSum {
  std::string name;  // which the ranks compare
  int64_t shards = 1;
  std::vector<int32_t> roots;   // per rank
  std::vector<uint8_t> joins;   // of the roots of all ranks (kernels/tree_sum.h)
  std::vector<int64_t> counts;  // per value: elements
};
inline constexpr int kSumChunk = 1024;    // elements that are announced at once
inline constexpr int kMostSumRoots = 64;  // of all ranks

class Ways;

struct Table {
  std::vector<Step> steps;
  std::vector<Operand> operands;
  std::vector<kernels::ElementwiseCode> codes;
  std::vector<RankSum> sums;
  std::vector<SourceLine> lines;  // per step: the user's line, which run_section adds to Errors. May be empty.
  int threads = 1;                // that the plan was made for
  double flops = 0;
  std::shared_ptr<Ways> ways;  // on a CPU with several threads; null: shared step by step
};

// Whether models run products of their own, as those of an ensemble do. Else models are the leaves of sums over a batch's shards.
bool is_ensemble(const std::vector<Step>& steps);
LAMINA_API const char* name(StepKind kind);
LAMINA_API const char* name(Activation activation);
LAMINA_API std::string print(const Table& table);
// Memory of an operand, as the planner knows it. Overlapping operands conflict.
struct OperandRange {
  int space = 0;               // operands overlap only within one space; below 0: temporary memory
  int64_t begin = 0, end = 0;  // bytes
  int64_t row_bytes = 0;       // from one entry of the view's leading axis to the next; 0: the entries follow each other
  bool dense = false;          // all of the view's elements do
  bool holds_value = true;     // false for an output that nothing before the section has written
  bool is_inner = false;       // nothing outside of the section uses these values
  bool is_state = false;       // a Variable's, which must not change behind a step that throws
};
// The bytes that a view may touch if its first element is `first` bytes into the space. With negative strides some are before it.
LAMINA_API OperandRange range_of(const View& view, int space, int64_t first);
// Marks the steps that must wait for all threads, from the actual overlaps of reads and writes.
LAMINA_API void place_barriers(Table& table, const std::vector<OperandRange>& ranges);
// Throws an internal error when a step reads unwritten memory, names an operand or code that does not exist, or conflicts with an earlier
// step without a barrier.
LAMINA_API void validate(const Table& table, const std::vector<OperandRange>& ranges, int instruction_inputs);

}  // namespace lamina::section

namespace lamina::kernels::cpu {
// Runs a section. Args of the instruction are the Table.
LAMINA_API void run_section(const KernelCall& call);
// C[m,n] = op(A) op(B) for one matrix, row-major with leading strides; op optionally transposes. Bits do not depend on threads.
template <class T>
void matmul(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, bool transpose_a, const T* b, int64_t ldb, bool transpose_b, T* c,
            int64_t ldc, Device device);
}  // namespace lamina::kernels::cpu
