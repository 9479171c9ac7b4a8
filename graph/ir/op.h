// OpDef: everything the system knows about one op, in one object. Defined in graph/ops, one file per op.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/ir/attrs.h"
#include "kernels/section/table.h"
#include "runtime/device/kernel.h"

namespace lamina::ir {

class Graph;
using GraphRef = std::shared_ptr<const Graph>;

// One result of one node of a Graph.
struct Value {
  int node = -1;
  int result = 0;
  bool valid() const { return node >= 0; }
  auto operator<=>(const Value&) const = default;
};

// What a node does besides computing its results. Effects on one resource happen in program order.
enum class Effect : uint8_t {
  none,
  read,   // of the resource attrs name
  write,  // of the resource attrs name
  host,   // print, assert
};

struct InferCall {
  const AttrsBase& attrs;
  std::span<const TensorType> in;
  std::span<const GraphRef> regions;
};

// Transforms of whole graphs that ops with regions need. They lie above the ops, so whoever calls vjp or batch brings them.
struct RegionTransforms {
  // From a region's inputs, then one cotangent per output of floating dtype, to one gradient per input marked as wanted (zeros where none
  // flows).
  GraphRef (*gradient)(const Graph& region, std::span<const uint8_t> wanted) = nullptr;
  // The region for a stack of `size` models: inputs marked have the model axis in front. batched_outputs says which outputs must have it
  // when it is called, and which have it afterwards.
  GraphRef (*batch)(const Graph& region, std::span<const uint8_t> batched_inputs, Dim size,
                    std::vector<uint8_t>& batched_outputs) = nullptr;
};

struct VjpCall {
  Graph& graph;
  const AttrsBase& attrs;
  std::span<const Value> inputs;
  std::span<const Value> results;
  std::span<const Value> cotangents;  // one per result; not valid: zero
  std::span<const GraphRef> regions;
  const RegionTransforms* transforms = nullptr;
};

// A value under vmap: when `batched`, its axis 0 is the model axis.
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

struct KernelRequest {
  const AttrsBase& attrs;
  std::span<const TensorType> in, out;  // concrete
  std::span<const GraphRef> regions;
};

// One step for a section, its operands numbered as the node's: inputs from 0, then results.
struct SectionStep {
  section::Step step;
  std::vector<section::Operand> operands;       // ins, then outs
  std::vector<kernels::ElementwiseCode> codes;  // step.code and code2 index these
  double flops = 0;
};

struct OpDef {
  const char* name;  // printed, saved, and the Python and C++ name
  int inputs = 1;    // how many; -1: any number, checked by infer
  AttrsRef (*parse_attrs)(const char* op, const AttrText&) = Attrs<NoAttrs>::parse;
  // The only shape rule: builds nodes, checks them after every pass and on load. Throws Errors that begin with the op's name.
  std::vector<TensorType> (*infer)(const InferCall&) = nullptr;
  // One value per input; a value that is not valid means no gradient flows there.
  std::vector<Value> (*vjp)(const VjpCall&) = nullptr;
  std::vector<Batched> (*batch)(const BatchCall&) = nullptr;
  // Chooses the kernel for these dtypes and shapes; an empty Kernel: not supported, lower reports it.
  Kernel (*cpu)(const KernelRequest&) = nullptr;
  Kernel (*cuda)(const KernelRequest&) = nullptr;
  // The node as a step of a section; false: this one cannot be.
  bool (*section)(const KernelRequest&, SectionStep&) = nullptr;
  // The same computation from other ops: used where a device has no kernel, and as the kernel's reference in tests.
  std::vector<Value> (*decompose)(Graph&, const AttrsBase&, std::span<const Value> inputs, std::span<const GraphRef> regions) = nullptr;
  // A result that is its first input seen differently (reshape, transpose, slice): fills the view and returns true. No kernel runs.
  bool (*alias)(const AttrsBase&, const View& in, const TensorType& out, View& view, int64_t& element_offset) = nullptr;
  int scalar_op = -1;  // elementwise: the kernels::ScalarOp that it is
  Effect effect = Effect::none;
  bool draws = false;    // its last input is a generator's state; under vmap each model draws numbers of its own
  bool strided = false;  // its kernels accept views that are not contiguous
  // Result i may be written into input in_place[i]'s buffer when nobody else needs that (elementwise: any of equal type).
  bool in_place = false;
  int first_in_place = 0;                                  // the inputs before this one are read in other ways
  section::Partition partition = section::Partition::one;  // as a step
  const char* no_vjp = nullptr;                            // why there is no gradient
  const char* no_batch = nullptr;
  const char* no_cpu = nullptr;
  const char* no_cuda = nullptr;
  const char* doc = "";
};

LAMINA_API std::span<const OpDef* const> all_ops();      // graph/ops/all_ops.cpp
LAMINA_API const OpDef& find_op(std::string_view name);  // throws not_found with the nearest names

}  // namespace lamina::ir
