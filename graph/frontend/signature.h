// Signature: the parts of a call that select its graph. Internal to this folder.
#pragma once
#include <string>
#include <vector>

#include "graph/frontend/function.h"
#include "runtime/core/precision.h"

namespace lamina {

struct Signature {
  uint64_t hash = 0;
  bool by_type = true;  // false: the Function has an input signature, and tensors do not select
  std::vector<TypeRef> tensors;
  std::vector<Device> tensor_devices;
  std::vector<Strength> strengths;  // of the tensors
  std::vector<TypeRef> variables;
  std::vector<Device> variable_devices;
  std::vector<int> aliases;     // per Variable argument: the first argument that is the same Variable
  std::vector<Variable> bound;  // Variable arguments that the function also captures: the graph is then specific to them
  std::vector<int> bound_at;
  std::string statics;
  std::vector<ArgumentPart> arguments;  // in words
  Device device;
  Precision precision = Precision::float32;  // of matrix products
  int choice = 0;                            // under lm.device("auto"): the number of devices to choose from
  uint64_t models = 0;                       // vmap calls around it, which hide the model axis of stacked Variables
  uint64_t ranks = 0;                        // Arguments::ranks of what its graph was traced for

  std::string text(const FunctionOptions& options) const;
  // Why a call with this signature needs another graph than `before`, and how to avoid it.
  struct Difference {
    std::string cause, fix;
  };
  Difference difference(const Signature& before, const FunctionOptions& options) const;

 private:
  Difference other_argument(const Signature& before) const;
};

// The signature of a call, as views without copies.
class SignatureView {
 public:
  SignatureView(const Arguments& arguments, const FunctionOptions& options);
  bool matches(const Signature& kept) const;
  // Marks Variable arguments that the graph also captures. Returns true if new ones were found: the call then needs a graph of its own.
  bool bind(const ConcreteFunction& graph);
  // Throws signature when the tensors do not fit the Function's input signature.
  void check(const FunctionOptions& options) const;
  Signature keep() const;
  // The type to trace with. Open lengths become symbols that no enclosing trace uses; `depth` is the number of enclosing traces. Unrelated
  // graphs share symbols, because the table of symbols never shrinks.
  TensorType traced_type(size_t i, const FunctionOptions& options, int depth) const;
  std::vector<Variable> stand_ins() const;  // per Variable argument, its stand-in for the trace

  uint64_t hash = 0;
  Device device;
  int choice = 0;  // as Signature::choice

 private:
  bool is_bound(size_t variable) const;
  void make_hash();

  const Arguments& arguments_;
  bool by_type_ = true;  // whether tensor types are part of the signature
  bool fits_ = true;     // whether the tensors fit the Function's input signature
  std::vector<int> bound_;
  Precision precision_;
  uint64_t models_;
};

}  // namespace lamina
