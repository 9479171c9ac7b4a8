// Sorting and counting with Thrust for every dtype, against the CPU's kernels.
#include "kernels/cuda/order.cu"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/cumsum.h"
#include "kernels/scatter.h"
#include "kernels/sort.h"
#include "runtime/core/error.h"
#include "tests/emulated/emulated.h"
#include "tests/emulated/emulated_backend.h"

namespace lamina::tests {
namespace {

using kernels::cuda::Buffer;

View view_of(void* data, DType dtype, std::vector<int64_t> shape) {
  View v;
  v.data = data, v.dtype = dtype, v.rank = int32_t(shape.size());
  int64_t stride = 1;
  for (int a = v.rank - 1; a >= 0; --a) v.shape[a] = shape[size_t(a)], v.strides[a] = stride, stride *= shape[size_t(a)];
  return v;
}
template <class T>
View view(Buffer<T>& buffer, std::vector<int64_t> shape) {
  return view_of(buffer.data(), dtype_of<T>(), std::move(shape));
}

// Few distinct numbers; for floating types also both zeros, infinities and several NaNs.
template <class T>
Buffer<T> hard_numbers(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) {
    const int n = int(random() % 23) - 11;
    if constexpr (std::is_integral_v<T>) {
      values.push_back(n == 11 ? std::numeric_limits<T>::max() : n == -11 ? std::numeric_limits<T>::lowest() : T(n));
    } else {
      const double special = n == 11 ? INFINITY : n == -11 ? -INFINITY : n == 10 ? NAN : n == -10 ? -NAN : n == 9 ? -0.0 : double(n) / 4;
      values.push_back(T(compute_t<T>(special)));
    }
  }
  return Buffer<T>(values);
}

// x's shape, and the axis.
struct Sizes {
  std::vector<int64_t> shape;
  int axis;
};
const std::vector<Sizes> kSizes{{{1}, 0},       {{0}, 0},       {{3000}, 0},    {{3, 0}, 1},     {{0, 3}, 1},  {{5, 7}, 0},
                                {{70, 300}, 1}, {{300, 70}, 0}, {{2, 9, 4}, 1}, {{1, 1, 31}, 2}, {{600, 2}, 1}};

class EmulatedOrder : public testing::Test {
 protected:
  ~EmulatedOrder() override { EXPECT_EQ(EmulatedBackend::one().bytes_in_use(), 0u) << "scratch memory was kept"; }
  Stream gpu = EmulatedBackend::one().default_stream({DeviceKind::gpu, 0, 0});
  Stream cpu;

  template <class T>
  static void expect_same(Buffer<T>& got, Buffer<T>& want, const char* what) {
    for (size_t i = 0; i < want.size(); ++i) {
      if constexpr (!std::is_integral_v<T>)
        if (std::isnan(double(want[i]))) {
          ASSERT_TRUE(std::isnan(double(got[i]))) << what << " " << i;
          continue;
        }
      ASSERT_EQ(std::memcmp(&got[i], &want[i], sizeof(T)), 0) << what << " " << i << ": " << double(got[i]) << ", want " << double(want[i]);
    }
  }

  template <class T>
  void sorts_agree() {
    for (const Sizes& s : kSizes)
      for (const bool descending : {false, true}) {
        std::vector<int64_t> shape = s.shape;
        SCOPED_TRACE(cat(name(dtype_of<T>()), " ", shape.size(), "-d, axis ", s.axis, " of ", shape[size_t(s.axis)],
                         descending ? ", descending" : ""));
        int64_t count = 1;
        for (int64_t n : shape) count *= n;
        Buffer<T> x = hard_numbers<T>(count, 7), want(static_cast<size_t>(count)), got(static_cast<size_t>(count));
        Buffer<int64_t> want_places(static_cast<size_t>(count)), places(static_cast<size_t>(count));
        kernels::cpu::sort<T>(cpu, view(x, shape), view(want, shape), s.axis, descending);
        kernels::cuda::sort<T>(gpu, view(x, shape), view(got, shape), s.axis, descending);
        expect_same(got, want, "sort");
        kernels::cpu::argsort<T>(cpu, view(x, shape), view(want_places, shape), s.axis, descending);
        kernels::cuda::argsort<T>(gpu, view(x, shape), view(places, shape), s.axis, descending);
        expect_same(places, want_places, "argsort");
      }
  }
  template <class T>
  void groups_agree() {
    for (const auto& [rows, n] : std::vector<std::array<int64_t, 2>>{{1, 1}, {1, 2500}, {40, 300}, {3, 0}, {0, 3}}) {
      SCOPED_TRACE(cat(name(dtype_of<T>()), " ", rows, " x ", n));
      const size_t all = size_t(rows * n);
      Buffer<T> x = hard_numbers<T>(rows * n, 8);
      Buffer<int64_t> want[3] = {Buffer<int64_t>(all), Buffer<int64_t>(all), Buffer<int64_t>(all)}, want_count(static_cast<size_t>(rows));
      Buffer<int64_t> got[3] = {Buffer<int64_t>(all), Buffer<int64_t>(all), Buffer<int64_t>(all)}, got_count(static_cast<size_t>(rows));
      const std::vector<int64_t> shape{rows, n};
      kernels::cpu::unique<T>(cpu, view(x, shape), view(want[0], shape), view(want[1], shape), view(want[2], shape),
                              view(want_count, {rows}));
      kernels::cuda::unique<T>(gpu, view(x, shape), view(got[0], shape), view(got[1], shape), view(got[2], shape), view(got_count, {rows}));
      for (int i = 0; i < 3; ++i) expect_same(got[i], want[i], i == 0 ? "first" : i == 1 ? "which" : "counts");
      expect_same(got_count, want_count, "count");
      for (const int64_t k : {int64_t(0), n / 9, n}) {
        Buffer<T> values(static_cast<size_t>(rows * k)), want_values(static_cast<size_t>(rows * k));
        Buffer<int64_t> places(static_cast<size_t>(rows * k)), want_places(static_cast<size_t>(rows * k));
        kernels::cpu::top_k<T>(cpu, view(x, shape), view(want_values, {rows, k}), view(want_places, {rows, k}));
        kernels::cuda::top_k<T>(gpu, view(x, shape), view(values, {rows, k}), view(places, {rows, k}));
        expect_same(values, want_values, "top_k");
        expect_same(places, want_places, "places of top_k");
      }
    }
  }
};

TEST_F(EmulatedOrder, SortsOfEveryTypeAndAxisAgree) {
  sorts_agree<uint8_t>(), sorts_agree<int8_t>(), sorts_agree<int16_t>(), sorts_agree<int32_t>(), sorts_agree<int64_t>();
  sorts_agree<f16>(), sorts_agree<bf16>(), sorts_agree<float>(), sorts_agree<double>();
}

TEST_F(EmulatedOrder, GroupsOfEveryTypeAgree) {
  groups_agree<uint8_t>(), groups_agree<int8_t>(), groups_agree<int16_t>(), groups_agree<int32_t>(), groups_agree<int64_t>();
  groups_agree<f16>(), groups_agree<bf16>(), groups_agree<float>(), groups_agree<double>();
}

TEST_F(EmulatedOrder, RunningSumsOfIntegersWrapAsOnTheCpu) {
  for (const bool exclusive : {false, true}) {
    Buffer<int8_t> x = hard_numbers<int8_t>(3 * 5000, 9), want(3 * 5000), got(3 * 5000);
    kernels::cpu::cumsum(cpu, view(x, {3, 5000}), view(want, {3, 5000}), 1, true, exclusive);
    kernels::cuda::cumsum(gpu, view(x, {3, 5000}), view(got, {3, 5000}), 1, true, exclusive);
    expect_same(got, want, "i8");
    Buffer<int64_t> wide = hard_numbers<int64_t>(60 * 7, 10), want_wide(60 * 7), got_wide(60 * 7);
    kernels::cpu::cumsum(cpu, view(wide, {60, 7}), view(want_wide, {60, 7}), 0, false, exclusive);
    kernels::cuda::cumsum(gpu, view(wide, {60, 7}), view(got_wide, {60, 7}), 0, false, exclusive);
    expect_same(got_wide, want_wide, "i64");
    Buffer<uint8_t> flags = hard_numbers<uint8_t>(900, 11);
    for (size_t i = 0; i < 900; ++i) flags[i] &= 1;
    Buffer<int64_t> want_counts(900), counts(900);
    const View in = view_of(flags.data(), DType::boolean, {900});
    kernels::cpu::cumsum(cpu, in, view(want_counts, {900}), 0, false, exclusive);
    kernels::cuda::cumsum(gpu, in, view(counts, {900}), 0, false, exclusive);
    expect_same(counts, want_counts, "bool");
  }
}

// The number of launches must not grow with the length.
TEST_F(EmulatedOrder, LongRowsTakeFewLaunches) {
  const int64_t n = 1 << 17;
  Buffer<int32_t> x = hard_numbers<int32_t>(n, 12);
  Buffer<int64_t> places(static_cast<size_t>(n)), want(static_cast<size_t>(n));
  const int64_t before = kernels::cuda::emulation::counts().launches;
  kernels::cuda::argsort<int32_t>(gpu, view(x, {n}), view(places, {n}), 0, false);
  EXPECT_LE(kernels::cuda::emulation::counts().launches - before, 2);
  kernels::cpu::argsort<int32_t>(cpu, view(x, {n}), view(want, {n}), 0, false);
  expect_same(places, want, "argsort");
}

// Counts requests, and fails the last one.
class FullBackend final : public WithoutStreams {
 public:
  int asked = 0, most = 1 << 30;
  void* allocate(Stream& stream, size_t bytes) override {
    if (++asked > most) throw Error(ErrorKind::out_of_memory, {.what = "full", .where = "", .why = "", .fix = ""});
    return own.allocate(stream, bytes);
  }
  void free(Stream& stream, void* data, size_t bytes) override { own.free(stream, data, bytes); }
  const char* name() const override { return "full"; }
  int device_count() override { return 1; }
  std::string unavailable_reason() override { return ""; }
  DeviceProperties properties(Device device) override { return own.properties(device); }
  void synchronize(Stream& stream) override { own.synchronize(stream); }
  void copy(Stream& stream, void* to, const void* from, size_t bytes, CopyKind kind) override { own.copy(stream, to, from, bytes, kind); }
  void launch(Stream& stream, const Kernel& kernel, const KernelCall& call, const char* name) override {
    own.launch(stream, kernel, call, name);
  }

 private:
  EmulatedBackend& own = EmulatedBackend::one();
};

// Scratch comes from the stream, so that recorded launches keep it and failures are errors as everywhere.
TEST_F(EmulatedOrder, ThrustAllocatesFromTheStream) {
  Buffer<float> x = hard_numbers<float>(1000, 13), y(1000);
  FullBackend full;
  Stream stream = full.default_stream(gpu.device);
  kernels::cuda::sort<float>(stream, view(x, {1000}), view(y, {1000}), 0, false);
  const int own = 2;  // keys and places
  ASSERT_GT(full.asked, own);
  for (full.most = full.asked - 1; full.most >= own; --full.most) {
    full.asked = 0;
    try {
      kernels::cuda::sort<float>(stream, view(x, {1000}), view(y, {1000}), 0, false);
      ADD_FAILURE() << "there was no memory";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::out_of_memory);
    }
    EXPECT_EQ(EmulatedBackend::one().bytes_in_use(), 0u);
  }
}

}  // namespace
}  // namespace lamina::tests
