// Sums of whole arrays on a GPU have the CPU's bits: every dtype, more arrays than one launch takes, trees that are not full.
#include "kernels/cuda/tree_sum.cu"

#include <random>

#include "runtime/dist/tree.h"
#include "tests/emulated/emulated.h"
#include "tests/emulated/emulated_backend.h"

namespace lamina::tests {
namespace {

using kernels::cuda::Buffer;

class EmulatedTreeSum : public testing::Test {
 protected:
  ~EmulatedTreeSum() override { EXPECT_EQ(EmulatedBackend::one().bytes_in_use(), 0u) << "a kernel has kept its scratch memory"; }
  Stream stream = EmulatedBackend::one().default_stream({DeviceKind::gpu, 0, 0});

  // `leaves` arrays, added by the kernel and by the CPU.
  template <class From, class To>
  void compare(int64_t leaves, int64_t count) {
    SCOPED_TRACE(cat(leaves, " arrays of ", dtype_of<From>(), "[", count, "] to ", dtype_of<To>()));
    std::mt19937 random(unsigned(leaves * 7 + count));
    std::vector<distributed::Range> nodes;
    for (int64_t i = 0; i < leaves; ++i) nodes.push_back({i, i + 1});
    const std::vector<uint8_t> joins = distributed::joins_of(nodes, leaves);
    const TreeSum sum{.from = dtype_of<From>(), .to = dtype_of<To>(), .count = count, .joins = joins.data()};
    Buffer<From> data(size_t(leaves * count));
    for (size_t i = 0; i < data.size(); ++i) {
      if constexpr (std::is_integral_v<From>)
        data[i] = From(random());
      else  // of very different sizes, so that each order has other bits
        data[i] = From(std::ldexp(float(random() % 2001) - 1000, int(random() % (sizeof(From) == 2 ? 8 : 24)) - 12));
    }
    std::vector<const void*> arrays;
    for (int64_t i = 0; i < leaves; ++i) arrays.push_back(data.data() + i * count);
    std::vector<To> expected(static_cast<size_t>(count));
    cpu::tree_sum(sum, arrays, expected.data());
    kernels::cuda::in_every_order([&] {
      Buffer<To> result(static_cast<size_t>(count));
      kernels::cuda::tree_sum(stream, sum, arrays, result.data());
      ASSERT_TRUE(count == 0 || std::memcmp(result.data(), expected.data(), expected.size() * sizeof(To)) == 0);
    });
  }
};

TEST_F(EmulatedTreeSum, HasTheBitsOfTheCpuForEveryDtype) {
  for (const int64_t leaves : {1, 2, 3, 8})
    for (const int64_t count : {0, 1, 257}) {
      for (const DType dtype : kDTypes) {
        if (is_complex(dtype)) continue;
        with_dtype(dtype, [&]<class T>() {
          if constexpr (!std::is_same_v<T, bool>) compare<T, T>(leaves, count);
        });
      }
      compare<f16, float>(leaves, count), compare<bf16, float>(leaves, count);
      compare<float, f16>(leaves, count), compare<float, bf16>(leaves, count);
    }
}

TEST_F(EmulatedTreeSum, SeveralLaunchesAddManyArrays) {
  for (const int64_t leaves : {63, 64, 65, 127, 128, 129, 200, 1000}) {
    compare<float, float>(leaves, 33);
    compare<f16, f16>(leaves, 5);
  }
}

TEST_F(EmulatedTreeSum, ResultMayBeOneOfTheArrays) {
  Buffer<float> data({1, 2, 3, 4, 5, 6});
  const void* arrays[] = {data.data(), data.data() + 2, data.data() + 4};
  const uint8_t joins[] = {0, 1, 1};
  kernels::cuda::tree_sum(stream, {.count = 2, .joins = joins}, arrays, data.data() + 2);
  EXPECT_EQ(data.values(), (std::vector<float>{1, 2, 9, 12, 5, 6}));
}

}  // namespace
}  // namespace lamina::tests
