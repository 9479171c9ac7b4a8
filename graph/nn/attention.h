// MultiHeadAttention. Vaswani et al. 2017, "Attention Is All You Need". Weights as Keras's.
#pragma once
#include <array>
#include <utility>

#include "graph/nn/layer.h"
#include "graph/nn/weight.h"

namespace lamina::nn {

struct AttentionOptions {
  int64_t value_dim = 0;    // of each head; 0: key_dim
  int64_t output_size = 0;  // 0: the query's width
  double dropout = 0;       // of the weights, in training
  bool use_bias = true;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
  DType dtype = DType::f32;
  std::string name = "multi_head_attention";
};

// query [n, q, d], value [n, k, e] -> [n, q, output_size]: each head projects query, key and value, and adds up the values with weights
// softmax(query . key / sqrt(key_dim)). The kernels are [d, heads, key_dim], [e, heads, key_dim], [e, heads, value_dim] and
// [heads, value_dim, output_size]. As an ordinary layer it attends to its own input.
class LAMINA_API MultiHeadAttention : public Layer {
 public:
  MultiHeadAttention(int64_t heads, int64_t key_dim, AttentionOptions options = {});
  struct Attended {
    Tensor output;   // [n, q, output_size]
    Tensor weights;  // [n, heads, q, k]
  };
  // key: by default the value. mask: bool that broadcasts to [n, q, k] or [n, heads, q, k], true where a query may look, or undefined.
  // causal: a query looks at keys up to its own place only.
  Attended attend(const Tensor& query, const Tensor& value, const Tensor& key, const Tensor& mask, bool causal, bool training) const;
  Tensor call(const Tensor& x, bool training) override;
  void build(const TensorType& input) override { build_for_both(input, input, input); }
  void build_for_both(const TensorType& query, const TensorType& value, const TensorType& key);

  const AttentionOptions& options() const { return options_; }
  // Kernel and bias of query, key, value and output; the biases are empty without use_bias.
  const Weight& kernel(size_t part) const { return kernels_.at(part); }
  const Weight& bias(size_t part) const { return biases_.at(part); }

 private:
  Tensor heads_of(const Tensor& x, size_t part, int64_t size) const;
  int64_t heads_, key_dim_, value_dim_;
  AttentionOptions options_;
  std::array<Weight, 4> kernels_, biases_;
};

}  // namespace lamina::nn
