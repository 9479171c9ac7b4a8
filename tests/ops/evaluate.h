// The reference interpreter: runs a graph node by node with each op's CPU kernel, without passes, plan or executor.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "graph/ir/graph.h"
#include "runtime/core/view.h"

namespace lamina::tests {

// A row-major tensor in plain memory.
class Tensor {
 public:
  Tensor() : Tensor(TensorType{DType::f32, {}}) {}
  explicit Tensor(TensorType type);  // zeros
  template <class T>
  static Tensor of(Shape shape, const std::vector<T>& values) {
    Tensor t({dtype_of<T>(), std::move(shape)});
    for (size_t i = 0; i < values.size(); ++i) t.template data<T>()[i] = values[i];
    return t;
  }
  // Values of any dtype, converted from double as by astype.
  static Tensor from(TensorType type, const std::vector<double>& values);

  TensorType type;
  int64_t size() const { return size_; }
  template <class T>
  T* data() const {
    return static_cast<T*>(raw());
  }
  void* raw() const { return lines_->data(); }
  size_t byte_count() const { return size_t(size_) * size_of(type.dtype); }
  View view() const { return contiguous_view(raw(), type); }
  double at(int64_t i) const;  // element i in row-major order
  void set(int64_t i, double value);
  std::vector<double> values() const;
  Tensor clone() const;
  bool same_bits(const Tensor& other) const;

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  int64_t size_ = 1;
  std::shared_ptr<std::vector<Line>> lines_;  // shared by copies of the tensor
};

using Resources = std::map<int, Tensor>;  // by index into Graph::resources

// The graph's outputs. Shapes must be concrete (ir::specialize). read and assign nodes access `resources`.
std::vector<Tensor> evaluate(const ir::Graph& g, const std::vector<Tensor>& inputs, Resources* resources = nullptr);
// The results of one node for these inputs, which need not be contiguous.
std::vector<Tensor> run_node(const ir::Node& node, const std::vector<View>& inputs);

// The same graph with f64 for f32: inputs, constants, resources, attributes and regions.
ir::Graph in_f64(const ir::Graph& g);
Tensor in_f64(const Tensor& t);  // f32 becomes f64, other types stay

}  // namespace lamina::tests
