#include "graph/nn/sequential.h"

#include <utility>

#include "graph/nn/shape_layers.h"

namespace lamina::nn {

Sequential::Sequential(std::vector<std::shared_ptr<Layer>> layers, std::string name) : Layer(std::move(name)) {
  for (auto& layer : layers) add(layer);
  if (layers.empty()) return;
  if (auto* input = dynamic_cast<Input*>(layers.front().get())) build_for(input->batch_type());
}

Tensor Sequential::call(const Tensor& x, bool) {
  Tensor h = x;
  for (auto& layer : layers()) h = (*layer)(Operand(h, call_site()));
  return h;
}

}  // namespace lamina::nn
