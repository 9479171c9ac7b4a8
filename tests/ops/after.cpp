// after(x, y): x, once y has been computed.
#include <gtest/gtest.h>

#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

const OpCases kCases{"after", [] {
                       std::vector<OpCase> cases;
                       for (const Shape& shape : {Shape{3, 4}, Shape{}, Shape{0, 2}}) {
                         OpCase c{.name = cat("[", text(shape), "]"), .in = {{f32(shape)}, {i32({2})}}};
                         c.reference = [](const std::vector<Tensor>& in) { return std::vector<std::vector<double>>{in[0].values()}; };
                         c.dtypes = kAnyDType;
                         c.ulps = 0;
                         cases.push_back(std::move(c));
                       }
                       return cases;
                     }};

}  // namespace
}  // namespace lamina::tests
