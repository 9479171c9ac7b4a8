// Sequential: layers one after another.
#pragma once
#include <memory>
#include <vector>

#include "graph/nn/layer.h"

namespace lamina::nn {

class LAMINA_API Sequential : public Layer {
 public:
  // With an Input in front, the weights of all given layers are made at once. Layers from add() are built when called.
  explicit Sequential(std::vector<std::shared_ptr<Layer>> layers = {}, std::string name = "sequential");
  Tensor call(const Tensor& x, bool training) override;
};

}  // namespace lamina::nn
