// Recurrent layers: SimpleRNN, LSTM and GRU, each one scan over the steps of a sequence; Bidirectional. Formulas and weights are Keras's.
#pragma once
#include <vector>

#include "graph/nn/activation.h"
#include "graph/nn/layer.h"
#include "graph/nn/weight.h"

namespace lamina::nn {

struct RecurrentOptions {
  Activation activation = "tanh";
  Activation recurrent_activation = "sigmoid";  // of the gates; SimpleRNN has none
  bool use_bias = true;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer recurrent_initializer = "orthogonal";
  Initializer bias_initializer = "zeros";
  bool unit_forget_bias = true;   // LSTM: the forget gate's bias begins at 1
  bool reset_after = true;        // GRU: the reset gate multiplies the product with the state, which then has a bias of its own
  bool return_sequences = false;  // call() gives the outputs of all steps [n, t, units], else those of the last one [n, units]
  bool go_backwards = false;      // reads from the last step to the first; call() gives outputs in that order
  DType dtype = DType::f32;
  std::string name = "rnn";
};

// x [n, t, c] -> [n, units] or [n, t, units]. kernel [c, g units], recurrent_kernel [units, g units], bias [g units], with g gates in the
// order: SimpleRNN none (g = 1), LSTM input, forget, candidate, output (g = 4), GRU update, reset, candidate (g = 3; bias [2, g units] with
// reset_after). Throws invalid_argument for other shapes, type for another dtype.
class LAMINA_API Recurrent : public Layer {
 public:
  enum class Kind : uint8_t { simple, lstm, gru };
  Recurrent(Kind kind, int64_t units, RecurrentOptions options);

  struct Result {
    Tensor sequence;            // [n, t, units], in the order of x; undefined unless asked for
    std::vector<Tensor> state;  // after the last step read: h [n, units]; an LSTM's h and c
  };
  // mask: bool [n, t] or undefined; where it is false, the state stays as it is, and is the output. state: the first one, by default zeros.
  Result run(const Tensor& x, const Tensor& mask, const std::vector<Tensor>& state, bool sequence) const;
  Tensor call(const Tensor& x, bool training) override;
  void build(const TensorType& input) override;

  int64_t units() const { return units_; }
  const RecurrentOptions& options() const { return options_; }
  const Variable& kernel() const { return *kernel_; }  // after the first call
  const Variable& recurrent_kernel() const { return *recurrent_kernel_; }
  const std::optional<Variable>& bias() const { return bias_.if_made(); }

 private:
  Tensor check(const Tensor& x, const Tensor& mask, const std::vector<Tensor>& state) const;
  int64_t gates() const { return kind_ == Kind::simple ? 1 : kind_ == Kind::lstm ? 4 : 3; }
  Kind kind_;
  int64_t units_;
  RecurrentOptions options_;
  Weight kernel_, recurrent_kernel_, bias_;
};
struct LAMINA_API SimpleRNN : Recurrent {
  explicit SimpleRNN(int64_t units, RecurrentOptions options = {.name = "simple_rnn"})
      : Recurrent(Kind::simple, units, std::move(options)) {}
};
struct LAMINA_API LSTM : Recurrent {
  explicit LSTM(int64_t units, RecurrentOptions options = {.name = "lstm"}) : Recurrent(Kind::lstm, units, std::move(options)) {}
};
struct LAMINA_API GRU : Recurrent {
  explicit GRU(int64_t units, RecurrentOptions options = {.name = "gru"}) : Recurrent(Kind::gru, units, std::move(options)) {}
};

// Two layers over one sequence, one of them backwards, and their outputs joined: side by side [..., 2 units], or added, multiplied or
// averaged. Throws invalid_argument unless exactly one goes backwards and both return the same.
class LAMINA_API Bidirectional : public Layer {
 public:
  enum class Merge : uint8_t { concat, sum, mul, ave };
  Bidirectional(std::shared_ptr<Recurrent> forward, std::shared_ptr<Recurrent> backward, Merge merge = Merge::concat,
                std::string name = "bidirectional");
  Tensor call(const Tensor& x, bool training) override;

 private:
  std::shared_ptr<Recurrent> forward_, backward_;
  Merge merge_;
};

}  // namespace lamina::nn
