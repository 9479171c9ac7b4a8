// to_device: returns its input. tests/graph/frontend/to_device_test.cpp tests the device.
#include <gtest/gtest.h>

#include "tests/ops/index.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

const OpCases kCases{"to_device", [] {
                       std::vector<OpCase> cases;
                       for (const Shape& shape : {Shape{3, 4}, Shape{}, Shape{0, 2}}) {
                         OpCase c{.name = cat("[", text(shape), "]"), .in = {{f32(shape)}}};
                         c.reference = [](const std::vector<Tensor>& in) { return std::vector<std::vector<double>>{in[0].values()}; };
                         c.dtypes = kAnyDType;
                         c.ulps = 0;
                         cases.push_back(std::move(c));
                       }
                       return cases;
                     }};

}  // namespace
}  // namespace lamina::tests
