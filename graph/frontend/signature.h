// Signature: what of a call selects its graph. Internal to this folder.
#pragma once
#include <string>
#include <vector>

#include "graph/frontend/function.h"
#include "runtime/core/precision.h"

namespace lamina {

struct Signature {
  uint64_t hash = 0;
  bool by_type = true;  // false: the Function has a signature of its own, and tensors are not looked at
  std::vector<TypeRef> tensors;
  std::vector<Device> tensor_devices;
  std::vector<TypeRef> variables;
  std::vector<Device> variable_devices;
  std::vector<int> aliases;     // per Variable argument: the first one that is the same Variable
  std::vector<Variable> bound;  // Variable arguments that the function also uses directly: for them the graph is about this Variable
  std::vector<int> bound_at;
  std::string statics;
  std::vector<ArgumentPart> arguments;  // in words
  Device device;
  Precision precision = Precision::float32;  // of the matrix products that its trace makes
  uint64_t models = 0;                       // the calls of vmap around it: stacked Variables are seen without the model axis in some

  std::string text(const FunctionOptions& options) const;
  // Why a call with this signature needs another graph than one with `before`, and what would spare it.
  struct Difference {
    std::string cause, fix;
  };
  Difference difference(const Signature& before, const FunctionOptions& options) const;

 private:
  Difference other_argument(const Signature& before) const;
};

// The signature of a call, without copies.
class SignatureView {
 public:
  SignatureView(const Arguments& arguments, const FunctionOptions& options);
  bool matches(const Signature& kept) const;
  // Marks Variable arguments that the graph uses directly too; true when there are new ones. The call then needs a graph of its own.
  bool bind(const ConcreteFunction& graph);
  // Throws signature when the tensors do not fit the Function's own signature.
  void check(const FunctionOptions& options) const;
  Signature keep() const;
  // What is traced with. Open lengths get symbols that no trace around this one has: `depth` is how many there are. Other graphs may have
  // the same ones, since the table of symbols is kept for ever.
  TensorType traced_type(size_t i, const FunctionOptions& options, int depth) const;
  std::vector<Variable> stand_ins() const;  // per Variable argument, what its trace uses

  uint64_t hash = 0;
  Device device;

 private:
  bool is_bound(size_t variable) const;
  void make_hash();

  const Arguments& arguments_;
  bool by_type_ = true;  // the tensors' types are part of the signature
  bool fits_ = true;     // the Function's own signature
  std::vector<int> bound_;
  Precision precision_;
  uint64_t models_;
};

}  // namespace lamina
