// Convolution and pooling of images.
#include "graph/export_c/rules.h"
#include "graph/ops/ops.h"

namespace lamina::c_text {

std::vector<Rule> image_rules() { return {}; }

}  // namespace lamina::c_text
