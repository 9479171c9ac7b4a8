// Sequential: layers one after another.
#pragma once
#include <memory>
#include <vector>

#include "graph/nn/layer.h"

namespace lamina::nn {

class LAMINA_API Sequential : public Layer {
 public:
  // An Input in front makes the weights at once; so must be all the layers that it is given with. add() more later: they are built when
  // called.
  explicit Sequential(std::vector<std::shared_ptr<Layer>> layers = {}, std::string name = "sequential");
  Tensor call(const Tensor& x, bool training) override;
};

}  // namespace lamina::nn
