// OpDef: all properties of one op in one object. Defined in graph/ops, one file per op.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/ir/attrs.h"
#include "kernels/section/table.h"
#include "runtime/device/kernel.h"

namespace lamina::ir {

class Graph;
struct OpDef;
using GraphRef = std::shared_ptr<const Graph>;

// One result of one node of a Graph.
struct Value {
  int node = -1;
  int result = 0;
  bool valid() const { return node >= 0; }
  auto operator<=>(const Value&) const = default;
};

// What a node does besides computing its results. Effects on one resource keep program order.
enum class Effect : uint8_t {
  none,
  read,   // of the resource named by attrs
  write,  // of the resource named by attrs
  host,   // print, assert
  ranks,  // a collective: all ranks run these in one order
};

struct InferCall {
  const AttrsBase& attrs;
  std::span<const TensorType> in;
  std::span<const GraphRef> regions;
};

// Transforms of whole graphs that ops with regions need. They are defined in a higher layer, so the caller of vjp or batch passes them in.
struct RegionTransforms {
  // Inputs: the region's, then one cotangent per floating-point output. Outputs: one gradient per input in `wanted` (zeros where none
  // flows).
  GraphRef (*gradient)(const Graph& region, std::span<const uint8_t> wanted) = nullptr;
  // The region for a stack of `size` models; marked inputs have the model axis in front. On entry batched_outputs says which outputs must
  // have the model axis, on return which have it.
  GraphRef (*batch)(const Graph& region, std::span<const uint8_t> batched_inputs, Dim size,
                    std::vector<uint8_t>& batched_outputs) = nullptr;
};

struct VjpCall {
  Graph& graph;
  const AttrsBase& attrs;
  std::span<const Value> inputs;
  std::span<const Value> results;
  std::span<const Value> cotangents;  // one per result; invalid: zero
  std::span<const GraphRef> regions;
  const RegionTransforms* transforms = nullptr;
};

// A value under vmap. If `batched`, axis 0 is the model axis.
struct Batched {
  Value value;
  bool batched = false;
};
struct BatchCall {
  Graph& graph;
  const AttrsBase& attrs;
  std::span<const Batched> inputs;  // at least one is batched, unless the op draws
  Dim size;                         // of the model axis
  std::span<const GraphRef> regions;
  const RegionTransforms* transforms = nullptr;
};

// How a value lies on the ranks of data_parallel: whole on each of them, or cut along an axis into the ranks' rows of the batch.
struct Cut {
  int axis = -1;     // -1: every rank has all of it
  int64_t each = 1;  // entries of the axis per row of the batch, one after the other
  bool whole() const { return axis < 0; }
  auto operator<=>(const Cut&) const = default;
};
// A node on a whole batch whose inputs lie on the ranks as `cuts` says.
struct RowsCall {
  const AttrsBase& attrs;
  std::span<const TensorType> in, out;  // of the whole batch, concrete
  std::span<const Cut> cuts;
  int64_t rows = 1;  // of the batch
  bool few = false;  // fewer rows than shards: some shards have none
  Cut wanted = {};   // if all inputs are whole: how the result is wanted
};
// How the node computes results of some rows from those rows.
struct RowsRule {
  std::vector<Cut> in, out;  // per input, how the node needs it; per result, how it then lies
  enum class Leaves : uint8_t {
    none,
    added,    // each shard computes a leaf by itself, and the leaves are added in the fixed tree: results are whole
    reduced,  // the same, but the leaves, stacked along axis 0, are reduced by the node's own op
  } leaves = Leaves::none;
  bool of_all = false;                                             // the node needs all rows, and each rank keeps its own of the results
  const OpDef* op = nullptr;                                       // in place of the node's, for a leaf
  double divisor = 1;                                              // of the sum of all leaves
  std::function<AttrsRef(int64_t first, int64_t end)> attrs = {};  // for these rows of the batch; empty: the node's own
};

struct KernelRequest {
  const AttrsBase& attrs;
  std::span<const TensorType> in, out;  // concrete
  std::span<const GraphRef> regions;
};

// A node as one step of a section. Operands are numbered as the node's: inputs from 0, then results.
struct SectionStep {
  section::Step step;
  std::vector<section::Operand> operands;       // inputs, then outputs
  std::vector<kernels::ElementwiseCode> codes;  // step.code and code2 are indices into these
  double flops = 0;
  // Of a copy into parts of its result, per input: the part, from so many elements behind the result's first. They are further outputs.
  struct Part {
    View view;
    int64_t offset = 0;
  };
  std::vector<Part> parts = {};
  std::optional<section::RankSum> sum = {};  // of an all_reduce
};

struct OpDef {
  const char* name;  // printed, saved, and used in Python and C++
  int inputs = 1;    // how many; -1: any number, checked by infer
  int regions = 0;   // how many graphs a node has
  AttrsRef (*parse_attrs)(const char* op, const AttrText&) = Attrs<NoAttrs>::parse;
  // The op's only shape rule. It types new nodes and checks them after every pass and on load. Throws Errors that begin with the op's name.
  std::vector<TensorType> (*infer)(const InferCall&) = nullptr;
  // One gradient per input; an invalid value means that no gradient flows there.
  std::vector<Value> (*vjp)(const VjpCall&) = nullptr;
  std::vector<Batched> (*batch)(const BatchCall&) = nullptr;
  // How data_parallel cuts it by rows. Empty, or no rule: it mixes rows, which are gathered before it.
  std::optional<RowsRule> (*rows)(const RowsCall&) = nullptr;
  // Chooses the kernel for these dtypes and shapes. An empty Kernel means not supported; lowering reports it.
  Kernel (*cpu)(const KernelRequest&) = nullptr;
  Kernel (*cuda)(const KernelRequest&) = nullptr;
  // Makes the node a step of a section; false if it cannot be one.
  bool (*section)(const KernelRequest&, SectionStep&) = nullptr;
  // The same computation by other ops: used where a device has no kernel, and as the kernel's reference in tests.
  std::vector<Value> (*decompose)(Graph&, const AttrsBase&, std::span<const Value> inputs, std::span<const GraphRef> regions) = nullptr;
  // For ops whose result is a view of the first input (reshape, transpose, slice): fills in the view and returns true. No kernel runs.
  bool (*alias)(const AttrsBase&, const View& in, const TensorType& out, View& view, int64_t& element_offset) = nullptr;
  int scalar_op = -1;  // elementwise ops: their kernels::ScalarOp
  Effect effect = Effect::none;
  bool can_fail = false;  // its kernel throws for some values: an index out of range, a matrix that is singular
  bool draws = false;     // the last input is a generator's state; under vmap each model draws its own numbers
  bool strided = false;   // kernels accept views that are not contiguous
  // Result i may reuse the buffer of input in_place[i] if that has no other use (elementwise: any input of equal type).
  bool in_place = false;
  int first_in_place = 0;                                  // inputs before this one cannot be reused
  section::Partition partition = section::Partition::one;  // how the step divides its work
  const char* no_vjp = nullptr;                            // why there is no gradient
  const char* no_batch = nullptr;
  const char* no_cpu = nullptr;
  const char* no_cuda = nullptr;
  const char* doc = "";
};

LAMINA_API std::span<const OpDef* const> all_ops();      // graph/ops/all_ops.cpp
LAMINA_API const OpDef& find_op(std::string_view name);  // throws not_found with the nearest names

}  // namespace lamina::ir
