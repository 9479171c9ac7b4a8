// Each family of kernels against the CPU's on critical shapes: empty, one element, odd lengths, non-multiples of a tile, run or block, and
// long ones. ops_test.cpp covers dtypes and strides.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/argmax.h"
#include "kernels/batched_matmul.h"
#include "kernels/concat.h"
#include "kernels/conv2d.h"
#include "kernels/copy.h"
#include "kernels/cumsum.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/gather.h"
#include "kernels/max_pool2d.h"
#include "kernels/one_hot.h"
#include "kernels/pad_slice.h"
#include "kernels/random.h"
#include "kernels/reduce.h"
#include "kernels/report.h"
#include "kernels/scatter.h"
#include "kernels/softmax.h"
#include "kernels/sort.h"
#include "kernels/sparse_cross_entropy.h"
#include "runtime/core/error.h"
#include "tests/emulated/emulated.h"
#include "tests/emulated/emulated_backend.h"
#include "tests/kernels/takes.h"

namespace lamina::tests {
namespace {

using kernels::cuda::Buffer;
using kernels::cuda::in_every_order;

template <class T>
Buffer<T> numbers(int64_t count, uint64_t seed, double low = -2, double high = 2) {
  std::mt19937_64 random(seed);
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) {
    const double v = std::uniform_real_distribution<double>(low, high)(random);
    if constexpr (std::is_integral_v<T>)
      values.push_back(T(std::floor(v)));
    else if constexpr (sizeof(T) == 2)
      values.push_back(T(float(v)));
    else
      values.push_back(T(v));
  }
  return Buffer<T>(values);
}
template <class T>
View view(Buffer<T>& buffer, std::vector<int64_t> shape) {
  View v;
  v.data = buffer.data(), v.dtype = dtype_of<T>(), v.rank = int32_t(shape.size());
  int64_t stride = 1;
  for (int a = v.rank - 1; a >= 0; --a) v.shape[a] = shape[size_t(a)], v.strides[a] = stride, stride *= shape[size_t(a)];
  EXPECT_EQ(stride, int64_t(buffer.size()));
  return v;
}

class EmulatedFamilies : public testing::Test {
 protected:
  ~EmulatedFamilies() override { EXPECT_EQ(EmulatedBackend::one().bytes_in_use(), 0u) << "a kernel has kept its scratch memory"; }
  Stream gpu = EmulatedBackend::one().default_stream({DeviceKind::gpu, 0, 0});
  Stream cpu;

  template <class T>
  static void expect_same(Buffer<T>& got, Buffer<T>& want, double tolerance = 0) {
    double largest = 0;
    for (size_t i = 0; i < want.size(); ++i) largest = std::max(largest, std::abs(double(want[i])));
    for (size_t i = 0; i < want.size(); ++i) {
      if (std::isnan(double(want[i])))  // its sign depends on the compiler's order of operands
        ASSERT_TRUE(std::isnan(double(got[i]))) << "element " << i << " of " << want.size() << ": " << double(got[i]);
      else if (tolerance == 0)
        ASSERT_EQ(std::memcmp(&got[i], &want[i], sizeof(T)), 0)
            << "element " << i << " of " << want.size() << ": " << double(got[i]) << " instead of " << double(want[i]);
      else
        ASSERT_NEAR(double(got[i]), double(want[i]), tolerance * std::max(std::abs(double(want[i])), 0.1 * largest))
            << "element " << i << " of " << want.size();
    }
  }
  // run(GPU or CPU stream, result) must give the same result on both, for every thread order.
  template <class T, class F>
  void compare(int64_t size, double tolerance, F run) {
    Buffer<T> want(static_cast<size_t>(size));
    run(false, want);
    in_every_order([&] {
      Buffer<T> got(static_cast<size_t>(size));
      run(true, got);
      expect_same(got, want, tolerance);
    });
  }
};

#define BOTH(on_gpu, ...) ((on_gpu) ? kernels::cuda::__VA_ARGS__ : kernels::cpu::__VA_ARGS__)
#define STREAM(on_gpu) ((on_gpu) ? gpu : cpu)

TEST_F(EmulatedFamilies, SumsHaveTheBitsOfTheCpuAlongRowsAndColumns) {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {1, 31}, {3, 33}, {5, 1024}, {2, 1025}, {1, 5000}, {31, 2}, {33, 3}, {100, 65}, {0, 4}, {4, 0}})
    for (const uint32_t axes : {1u, 2u, 3u})
      for (const auto op : {section::Reduction::sum, section::Reduction::max, section::Reduction::prod, section::Reduction::mean}) {
        if (op == section::Reduction::max && rows * columns == 0) continue;
        SCOPED_TRACE(cat(rows, " x ", columns, ", axes ", axes, ", op ", int(op)));
        Buffer<float> x =
            numbers<float>(rows * columns, 1, op == section::Reduction::prod ? 0.9 : -2, op == section::Reduction::prod ? 1.1 : 2);
        const int64_t n = axes == 1 ? columns : axes == 2 ? rows : 1;
        compare<float>(n, 0, [&](bool on_gpu, Buffer<float>& y) {
          BOTH(on_gpu, reduce)(STREAM(on_gpu), view(x, {rows, columns}), view(y, {n}), op, axes);
        });
      }
}

TEST_F(EmulatedFamilies, SumsOfMoreThan256PartsHaveTheBitsOfTheCpu) {
  Buffer<float> x = numbers<float>(270'000, 1);
  for (const bool one_row : {false, true}) {
    const int64_t rows = one_row ? 1 : 90'000, columns = 270'000 / rows, n = one_row ? 1 : columns;
    Buffer<float> want(static_cast<size_t>(n)), got(static_cast<size_t>(n));
    BOTH(false, reduce)(STREAM(false), view(x, {rows, columns}), view(want, {n}), section::Reduction::sum, one_row ? 2u : 1u);
    BOTH(true, reduce)(STREAM(true), view(x, {rows, columns}), view(got, {n}), section::Reduction::sum, one_row ? 2u : 1u);
    EXPECT_EQ(got.values(), want.values());
  }
}

TEST_F(EmulatedFamilies, ReductionsOfOtherTypesHaveTheBitsOfTheCpu) {
  Buffer<int8_t> x = numbers<int8_t>(7 * 1500, 2, -100, 100);
  compare<int8_t>(7, 0, [&](bool on_gpu, Buffer<int8_t>& y) {
    BOTH(on_gpu, reduce)(STREAM(on_gpu), view(x, {7, 1500}), view(y, {7}), section::Reduction::sum, 2u);
  });
  Buffer<f16> h = numbers<f16>(70 * 9, 3);
  compare<f16>(9, 0, [&](bool on_gpu, Buffer<f16>& y) {
    BOTH(on_gpu, reduce)(STREAM(on_gpu), view(h, {70, 9}), view(y, {9}), section::Reduction::mean, 1u);
  });
  Buffer<double> d = numbers<double>(40 * 3 * 5, 4);
  compare<double>(3, 0, [&](bool on_gpu, Buffer<double>& y) {
    BOTH(on_gpu, reduce)(STREAM(on_gpu), view(d, {40, 3, 5}), view(y, {3}), section::Reduction::sum, 5u);
  });
}

TEST_F(EmulatedFamilies, SoftmaxesAgree) {
  for (const auto& [outer, n, inner] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                           {0, 4, 1},
                                                                           {3, 10, 1},
                                                                           {20, 33, 1},
                                                                           {2, 100, 3},
                                                                           {2, 5, 40},
                                                                           {1, 1000, 1},
                                                                           {2, 3000, 1},
                                                                           {1, 300, 33},
                                                                           {1, 2100, 35}}) {
    SCOPED_TRACE(cat(outer, " x ", n, " x ", inner));
    Buffer<float> x = numbers<float>(outer * n * inner, 5, -20, 20);
    const std::vector<int64_t> shape{outer, n, inner};
    compare<float>(outer * n * inner, 1e-6,
                   [&](bool on_gpu, Buffer<float>& y) { BOTH(on_gpu, softmax<float>)(STREAM(on_gpu), view(x, shape), view(y, shape), 1); });
    compare<float>(outer * n * inner, 1e-6, [&](bool on_gpu, Buffer<float>& y) {
      BOTH(on_gpu, log_softmax<float>)(STREAM(on_gpu), view(x, shape), view(y, shape), 1);
    });
  }
}

TEST_F(EmulatedFamilies, CrossEntropyAgreesAndReportsABadLabel) {
  for (const auto& [rows, n] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {20, 10}, {3, 100}, {0, 5}, {2, 2500}}) {
    Buffer<float> x = numbers<float>(rows * n, 6, -5, 5);
    Buffer<int32_t> labels = numbers<int32_t>(rows, 7, 0, double(n));
    for (const bool losses : {true, false})
      compare<float>(losses ? rows : rows * n, 1e-6, [&](bool on_gpu, Buffer<float>& y) {
        Buffer<float> other(size_t(losses ? rows * n : rows));
        BOTH(on_gpu, sparse_cross_entropy<float>)(STREAM(on_gpu), view(x, {rows, n}), view(labels, {rows}),
                                                  view(losses ? y : other, {rows}), view(losses ? other : y, {rows, n}));
      });
  }
  Buffer<float> x = numbers<float>(40, 6), losses(4), p(40);
  Buffer<int64_t> labels{3, 10, 2, 0};
  kernels::cuda::sparse_cross_entropy<float>(gpu, view(x, {4, 10}), view(labels, {4}), view(losses, {4}), view(p, {4, 10}));
  try {
    gpu.backend->synchronize(gpu);
    FAIL() << "a label out of range was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::index);
    EXPECT_EQ(e.parts.what, "label 10 is out of range for 10 classes");
    EXPECT_NE(e.parts.where.find("labels[1]"), std::string::npos) << e.parts.where;
  }
  EXPECT_TRUE(std::isnan(losses[1]) && !std::isnan(losses[2]));
}

TEST_F(EmulatedFamilies, ProductsAgree) {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                   {20, 64, 64},
                                                                   {65, 63, 17},
                                                                   {3, 130, 16},
                                                                   {128, 1, 50},
                                                                   {0, 3, 4},
                                                                   {2, 3, 0},
                                                                   {3, 70, 511},
                                                                   {5, 2, 512},
                                                                   {2, 3, 1030},
                                                                   {1, 1, 4500}})
    for (const int transposes : {0, 1, 2, 3}) {
      SCOPED_TRACE(cat(m, " x ", n, " x ", k, ", transposes ", transposes));
      const bool ta = transposes & 1, tb = transposes & 2;
      Buffer<float> a = numbers<float>(m * k, 8), b = numbers<float>(k * n, 9);
      compare<float>(m * n, 1e-5, [&](bool on_gpu, Buffer<float>& c) {
        BOTH(on_gpu, batched_matmul<float>)(STREAM(on_gpu), view(a, ta ? std::vector{k, m} : std::vector{m, k}),
                                            view(b, tb ? std::vector{n, k} : std::vector{k, n}), view(c, {m, n}), ta, tb,
                                            Precision::float32);
      });
    }
  Buffer<int32_t> a = numbers<int32_t>(3 * 5 * 7, 10, -9, 9), b = numbers<int32_t>(2 * 3 * 7 * 4, 11, -9, 9);
  compare<int32_t>(2 * 3 * 5 * 4, 0, [&](bool on_gpu, Buffer<int32_t>& c) {
    BOTH(on_gpu, batched_matmul<int32_t>)(STREAM(on_gpu), view(a, {3, 5, 7}), view(b, {2, 3, 7, 4}), view(c, {2, 3, 5, 4}), false, false,
                                          Precision::float32);
  });
}

TEST_F(EmulatedFamilies, ConvolutionsAndTheirGradientsAgree) {
  using kernels::cpu::ConvSizes;
  for (const ConvSizes& s :
       {ConvSizes{1, 1, 1, 1, 1, 1, 1, 1, 1}, ConvSizes{2, 9, 7, 4, 5, 4, 6, 3, 2, 2, 2, 1, 1, 1, 1, 2},
        ConvSizes{1, 8, 8, 3, 4, 8, 70, 3, 3, 1, 1, 2, 1, 0, 1, 1}, ConvSizes{0, 4, 4, 2, 4, 4, 2, 1, 1},
        ConvSizes{3, 16, 16, 4, 16, 16, 4, 3, 3, 1, 1, 1, 1, 1, 1, 2}, ConvSizes{1, 3, 3, 64, 3, 3, 2, 3, 3, 1, 1, 1, 1, 1, 1}}) {
    SCOPED_TRACE(cat("images ", s.images, ", channels ", s.channels, ", filters ", s.filters));
    const int64_t nx = s.images * s.height * s.width * s.channels, ny = s.images * s.out_height * s.out_width * s.filters;
    const int64_t nw = s.window_height * s.window_width * (s.channels / s.groups) * s.filters;
    Buffer<float> x = numbers<float>(nx, 12), w = numbers<float>(nw, 13), dy = numbers<float>(ny, 14);
    const View vx = view(x, {nx}), vw = view(w, {nw}), vdy = view(dy, {ny});
    compare<float>(ny, 1e-5, [&](bool on_gpu, Buffer<float>& y) { BOTH(on_gpu, conv2d<float>)(STREAM(on_gpu), vx, vw, view(y, {ny}), s); });
    compare<float>(nx, 1e-5, [&](bool on_gpu, Buffer<float>& y) {
      BOTH(on_gpu, conv2d_grad_input<float>)(STREAM(on_gpu), vdy, vw, view(y, {nx}), s);
    });
    compare<float>(nw, 1e-5, [&](bool on_gpu, Buffer<float>& y) {
      BOTH(on_gpu, conv2d_grad_filter<float>)(STREAM(on_gpu), vx, vdy, view(y, {nw}), s);
    });
  }
}

TEST_F(EmulatedFamilies, SortsOfEveryLengthAgree) {
  for (const int64_t n : {1, 2, 3, 31, 257, 1023, 1024, 1025, 2100})
    for (const bool descending : {false, true}) {
      SCOPED_TRACE(cat(n, descending ? " descending" : " ascending"));
      Buffer<float> x = numbers<float>(2 * n, 15, -4, 4);
      for (int64_t i = 0; i < 2 * n; ++i) x[size_t(i)] = std::round(x[size_t(i)]);  // many ties, both zeros
      if (n > 3) x[1] = std::nanf(""), x[size_t(n - 1)] = -INFINITY;
      compare<float>(2 * n, 0, [&](bool on_gpu, Buffer<float>& y) {
        BOTH(on_gpu, sort<float>)(STREAM(on_gpu), view(x, {2, n}), view(y, {2, n}), 1, descending);
      });
      compare<int64_t>(2 * n, 0, [&](bool on_gpu, Buffer<int64_t>& y) {
        BOTH(on_gpu, argsort<float>)(STREAM(on_gpu), view(x, {2, n}), view(y, {2, n}), 1, descending);
      });
    }
}

TEST_F(EmulatedFamilies, UniqueTopKAndSearchesAgree) {
  for (const int64_t n : {1, 5, 300, 1100}) {
    SCOPED_TRACE(n);
    Buffer<int32_t> x = numbers<int32_t>(3 * n, 16, 0, double(n) / 3 + 1);
    for (const int result : {0, 1, 2, 3})
      compare<int64_t>(result == 3 ? 3 : 3 * n, 0, [&](bool on_gpu, Buffer<int64_t>& y) {
        Buffer<int64_t> a(size_t(3 * n)), b(size_t(3 * n)), c(size_t(3 * n)), d(3);
        BOTH(on_gpu, unique<int32_t>)(STREAM(on_gpu), view(x, {3, n}), view(result == 0 ? y : a, {3, n}), view(result == 1 ? y : b, {3, n}),
                                      view(result == 2 ? y : c, {3, n}), view(result == 3 ? y : d, {3}));
      });
    const int64_t k = (n + 1) / 2;
    compare<int64_t>(3 * k, 0, [&](bool on_gpu, Buffer<int64_t>& y) {
      Buffer<int32_t> values(size_t(3 * k));
      BOTH(on_gpu, top_k<int32_t>)(STREAM(on_gpu), view(x, {3, n}), view(values, {3, k}), view(y, {3, k}));
    });
    Buffer<int32_t> sorted(size_t(3 * n));
    kernels::cpu::sort<int32_t>(cpu, view(x, {3, n}), view(sorted, {3, n}), 1, false);
    compare<int64_t>(3 * n, 0, [&](bool on_gpu, Buffer<int64_t>& y) {
      BOTH(on_gpu, searchsorted<int32_t>)(STREAM(on_gpu), view(sorted, {3, n}), view(x, {3, n}), view(y, {3, n}), n % 2 == 1);
    });
  }
}

TEST_F(EmulatedFamilies, GathersAndScattersAgree) {
  for (const kernels::cpu::GatherSizes s :
       {kernels::cpu::GatherSizes{1, 1, 1, 1, 1}, {2, 3, 5, 7, 11}, {1, 1, 50, 33, 300}, {1, 2, 4, 1, 0}, {3, 1, 6, 0, 2}}) {
    SCOPED_TRACE(cat(s.batch, " ", s.outer, " ", s.length, " ", s.inner, " ", s.count));
    const int64_t whole = s.batch * s.outer * s.length * s.inner, picked = s.batch * s.outer * s.count * s.inner;
    Buffer<float> x = numbers<float>(whole, 17), updates = numbers<float>(picked, 18);
    Buffer<int16_t> indices = numbers<int16_t>(s.batch * s.count, 19, -double(s.length), double(s.length));
    compare<float>(picked, 0, [&](bool on_gpu, Buffer<float>& y) {
      BOTH(on_gpu, gather<uint32_t>)(STREAM(on_gpu), view(x, {whole}), view(indices, {s.batch * s.count}), view(y, {picked}), s);
    });
    compare<float>(whole, 0, [&](bool on_gpu, Buffer<float>& y) {
      BOTH(on_gpu, scatter_add<float>)(STREAM(on_gpu), view(updates, {picked}), view(indices, {s.batch * s.count}), view(y, {whole}), s);
    });
    if (s.outer == 1)
      for (const auto mode : {kernels::ScatterMode::mul, kernels::ScatterMode::max})
        compare<float>(whole, 0, [&](bool on_gpu, Buffer<float>& y) {
          BOTH(on_gpu, scatter_combine<float>)(STREAM(on_gpu), view(updates, {picked}), view(indices, {s.batch * s.count}),
                                               view(x, {whole}), view(y, {whole}), s, mode);
        });
  }
}

TEST_F(EmulatedFamilies, ReportAnIndexOutOfRange) {
  Buffer<int32_t> x{1, 2, 3}, y(2);
  Buffer<int64_t> indices{0, 3};
  kernels::cuda::gather<uint32_t>(gpu, view(x, {3}), view(indices, {2}), view(y, {2}), {1, 1, 3, 1, 2});
  try {
    gpu.backend->synchronize(gpu);
    FAIL() << "an index out of range was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.parts.what, "gather: index 3 is out of range for an axis of length 3");
    EXPECT_NE(e.parts.where.find("indices[1]"), std::string::npos);
  }
  EXPECT_EQ(y.values(), (std::vector<int32_t>{1, 0}));
}

TEST_F(EmulatedFamilies, CountingAndScanningAgree) {
  for (const auto& [outer, n, inner] :
       std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {3, 7, 5}, {1, 1025, 1}, {2, 2100, 2}, {4, 0, 2}, {1, 17000, 1}})
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(cat(outer, " x ", n, " x ", inner));
      Buffer<int32_t> x = numbers<int32_t>(outer * n * inner, 20, -9, 9);
      compare<int32_t>(outer * n * inner, 0, [&](bool on_gpu, Buffer<int32_t>& y) {
        BOTH(on_gpu, cumsum)(STREAM(on_gpu), view(x, {outer, n, inner}), view(y, {outer, n, inner}), 1, reverse, reverse);
      });
      Buffer<float> f = numbers<float>(outer * n * inner, 21);
      compare<float>(outer * n * inner, 1e-5, [&](bool on_gpu, Buffer<float>& y) {
        BOTH(on_gpu, cumsum)(STREAM(on_gpu), view(f, {outer, n, inner}), view(y, {outer, n, inner}), 1, reverse, false);
      });
      if (n)
        compare<int64_t>(outer * inner, 0, [&](bool on_gpu, Buffer<int64_t>& y) {
          BOTH(on_gpu, argmax)(STREAM(on_gpu), view(x, {outer, n, inner}), view(y, {outer, inner}), 1);
        });
    }
  for (const int64_t n : {1, 255, 256, 257, 1000}) {
    Buffer<uint8_t> x(static_cast<size_t>(2 * n));
    for (int64_t i = 0; i < 2 * n; ++i) x[size_t(i)] = (i * 7919 + i / 3) % 3 == 0;
    for (const bool places : {true, false})
      compare<int64_t>(places ? 2 * n : 2, 0, [&](bool on_gpu, Buffer<int64_t>& y) {
        Buffer<int64_t> other(size_t(places ? 2 : 2 * n));
        BOTH(on_gpu, nonzero)(STREAM(on_gpu), view(x, {2, n}), view(places ? y : other, {2, n}), view(places ? other : y, {2}));
      });
  }
}

TEST_F(EmulatedFamilies, DrawsHaveTheBitsOfTheCpu) {
  Buffer<int64_t> state{42, 7, 43, 0};
  for (const int64_t n : {1, 3, 4, 5, 1023, 2051}) {
    SCOPED_TRACE(n);
    compare<float>(2 * n, 0, [&](bool on_gpu, Buffer<float>& y) {
      BOTH(on_gpu, random_uniform<float>)(STREAM(on_gpu), view(state, {2, 2}), view(y, {2, n}), -1.0, 3.0);
    });
    compare<double>(2 * n, 0, [&](bool on_gpu, Buffer<double>& y) {
      BOTH(on_gpu, random_uniform<double>)(STREAM(on_gpu), view(state, {2, 2}), view(y, {2, n}), -1.0, 3.0);
    });
    compare<int32_t>(2 * n, 0, [&](bool on_gpu, Buffer<int32_t>& y) {
      BOTH(on_gpu, random_integers<int32_t>)(STREAM(on_gpu), view(state, {2, 2}), view(y, {2, n}), int64_t(-5), int64_t(17));
    });
    compare<float>(2 * n, 1e-5, [&](bool on_gpu, Buffer<float>& y) {
      BOTH(on_gpu, random_normal<float>)(STREAM(on_gpu), view(state, {2, 2}), view(y, {2, n}), 1.0, 2.0);
    });
    compare<float>(2 * n, 1e-6, [&](bool on_gpu, Buffer<float>& y) {
      BOTH(on_gpu, random_truncated_normal<float>)(STREAM(on_gpu), view(state, {2, 2}), view(y, {2, n}), 0.0, 1.0, -2.0, 2.0);
    });
    Buffer<float> x = numbers<float>(2 * n, 22);
    compare<float>(2 * n, 0, [&](bool on_gpu, Buffer<float>& y) {
      BOTH(on_gpu, dropout<float>)(STREAM(on_gpu), view(x, {2, n}), view(state, {2, 2}), view(y, {2, n}), 0.3f, 0);
    });
    for (const int64_t first : {1, 4, 6})
      compare<float>(2 * n, 0, [&](bool on_gpu, Buffer<float>& y) {
        BOTH(on_gpu, dropout<float>)(STREAM(on_gpu), view(x, {2, n}), view(state, {2, 2}), view(y, {2, n}), 0.3f, first);
      });
  }
}

TEST_F(EmulatedFamilies, CopiesOfAnyStridesAgree) {
  for (const auto& [a, b, c] : std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {2, 33, 65}, {3, 8, 9}, {1, 100, 31}, {0, 3, 3}}) {
    SCOPED_TRACE(cat(a, " ", b, " ", c));
    Buffer<float> x = numbers<float>(a * b * c, 23);
    View turned = view(x, {a, c, b});
    std::swap(turned.shape[1], turned.shape[2]), std::swap(turned.strides[1], turned.strides[2]);
    compare<float>(a * b * c, 0, [&](bool on_gpu, Buffer<float>& y) {
      if (on_gpu)
        kernels::cuda::copy_elements(gpu, turned, view(y, {a, b, c}));
      else
        kernels::cpu::copy_elements(turned, view(y, {a, b, c}));
    });
    const auto joined = [](View pairs) {  // elements of 16 bytes
      pairs.dtype = DType::c128;
      --pairs.rank;
      for (int i = 0; i < pairs.rank; ++i) pairs.strides[i] /= 2;
      return pairs;
    };
    Buffer<double> pairs = numbers<double>(2 * a * b * c, 24);
    View complex = joined(view(pairs, {a, c, b, 2}));
    std::swap(complex.shape[1], complex.shape[2]), std::swap(complex.strides[1], complex.strides[2]);
    compare<double>(2 * a * b * c, 0, [&](bool on_gpu, Buffer<double>& y) {
      const View out = joined(view(y, {a, b, c, 2}));
      on_gpu ? kernels::cuda::copy_elements(gpu, complex, out) : kernels::cpu::copy_elements(complex, out);
    });
    compare<float>(a * (b + 2) * c, 0, [&](bool on_gpu, Buffer<float>& y) {
      View out = view(y, {a, b + 2, c}), place = out;
      place.shape[1] = b;
      BOTH(on_gpu, pad_slice)(STREAM(on_gpu), turned, out, place, c);
    });
  }
}

TEST_F(EmulatedFamilies, NumbersThatAreNotFiniteAreReportedWithTheWordsOfTheCpu) {
  const auto error_of = [&](bool on_gpu, Buffer<float>& x) -> std::string {
    Buffer<float> y(x.size());
    const View in = view(x, {2, 1500}), out = view(y, {2, 1500});
    try {
      BOTH(on_gpu, check_numerics<float>)(STREAM(on_gpu), in, out, "the loss\nof today");
      if (on_gpu) gpu.backend->synchronize(gpu);
    } catch (const Error& e) {
      return e.parts.what + ": " + e.parts.why;
    }
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], x[i]) << i;
    return "";
  };
  Buffer<float> x = numbers<float>(3000, 27);
  for (const bool on_gpu : {false, true}) EXPECT_EQ(error_of(on_gpu, x), "");
  x[1700] = -std::numeric_limits<float>::infinity(), x[1701] = std::nanf(""), x[2900] = std::nanf("");
  for (const bool on_gpu : {false, true})
    EXPECT_EQ(error_of(on_gpu, x),
              "check_numerics: the loss\nof today: 2 NaN and 1 infinite of 3000 elements, the first at [1, 200]: -inf");
}

TEST_F(EmulatedFamilies, PoolsAndPositionsAgree) {
  using kernels::cpu::PoolSizes;
  for (const PoolSizes& s :
       {PoolSizes{1, 1, 1, 1, 1, 1}, PoolSizes{2, 7, 9, 3, 4, 4, 3, 2, 2, 2, 1, 0}, PoolSizes{0, 4, 4, 2, 2, 2, 2, 2, 2, 2}}) {
    const int64_t nx = s.images * s.height * s.width * s.channels, ny = s.images * s.out_height * s.out_width * s.channels;
    Buffer<float> x = numbers<float>(nx, 24);
    if (nx > 4) x[3] = std::nanf("");
    compare<float>(ny, 0, [&](bool on_gpu, Buffer<float>& y) {
      Buffer<int64_t> index(static_cast<size_t>(ny));
      BOTH(on_gpu, max_pool2d<float>)(STREAM(on_gpu), view(x, {nx}), view(y, {ny}), view(index, {ny}), s);
    });
    compare<int64_t>(ny, 0, [&](bool on_gpu, Buffer<int64_t>& index) {
      Buffer<float> y(static_cast<size_t>(ny));
      BOTH(on_gpu, max_pool2d<float>)(STREAM(on_gpu), view(x, {nx}), view(y, {ny}), view(index, {ny}), s);
    });
    Buffer<float> y(static_cast<size_t>(ny)), dy = numbers<float>(ny, 25);
    Buffer<int64_t> index(static_cast<size_t>(ny));
    kernels::cpu::max_pool2d<float>(cpu, view(x, {nx}), view(y, {ny}), view(index, {ny}), s);
    compare<float>(nx, 0, [&](bool on_gpu, Buffer<float>& dx) {
      BOTH(on_gpu, max_pool2d_grad<float>)(STREAM(on_gpu), view(dy, {ny}), view(index, {ny}), view(dx, {nx}), s);
    });
  }
  Buffer<int32_t> labels{0, 4, -1, 2, 7};
  compare<float>(25, 0,
                 [&](bool on_gpu, Buffer<float>& y) { BOTH(on_gpu, one_hot<float>)(STREAM(on_gpu), view(labels, {5}), view(y, {5, 5})); });
  compare<f16>(3 * 70 * 2, 0, [&](bool on_gpu, Buffer<f16>& y) { BOTH(on_gpu, iota<f16>)(STREAM(on_gpu), view(y, {3, 70, 2}), 1); });
}

TEST_F(EmulatedFamilies, EveryScalarOperationHasTheBitsOfTheCpu) {
  constexpr int64_t rows = 3, n = 41;
  const auto check = [&]<class T>(T) {
    constexpr DType type = dtype_of<T>();
    Buffer<T> x = numbers<T>(rows * n, 30, type == DType::boolean ? 0 : -3, type == DType::boolean ? 2 : 3), y = numbers<T>(n, 31, 0, 2);
    if constexpr (std::is_floating_point_v<T>)
      x[0] = T(NAN), x[1] = T(INFINITY), x[2] = T(-INFINITY), x[3] = T(-0.0), x[4] = T(1e30), x[5] = T(1e-30);
    Buffer<uint8_t> mask = numbers<uint8_t>(rows * n, 32, 0, 2);
    View of_mask = view(mask, {rows, n});
    of_mask.dtype = DType::boolean;
    const auto run = [&]<class R>(R, kernels::ScalarOp op, DType result) {
      kernels::ElementwiseCode code;
      const bool where = op == kernels::ScalarOp::where;
      code.inputs = {type, type, DType::boolean};
      code.constants = {{type, 1}};
      code.instructions = {{.op = op,
                            .type = type,
                            .result = result,
                            .a = int16_t(where ? 2 : 0),
                            .b = int16_t(where ? 0 : 1),
                            .c = int16_t(where ? 1 : 3)}};
      code.outputs = {4};
      const View vx = view(x, {rows, n}), vy = view(y, {n});
      const std::vector<const View*> in{&vx, &vy, &of_mask};
      SCOPED_TRACE(cat(kernels::name(op), " of ", type, " to ", result));
      compare<R>(rows * n, 0, [&](bool on_gpu, Buffer<R>& out) {
        View vout = view(out, {rows, n});
        vout.dtype = result;
        const std::vector<const View*> to{&vout};
        BOTH(on_gpu, elementwise)(STREAM(on_gpu), in, to, code);
      });
    };
    for (int op = 0; op < kernels::kScalarOps; ++op) {
      const auto o = kernels::ScalarOp(op);
      if (!takes(o, type) || o == kernels::ScalarOp::cast) continue;
      if (kernels::gives_bool(o))
        run(uint8_t(), o, DType::boolean);
      else
        run(T(), o, type);
      if (HasFailure()) return;
    }
    run(uint8_t(), kernels::ScalarOp::cast, DType::boolean);
    run(int8_t(), kernels::ScalarOp::cast, DType::i8);
    run(int64_t(), kernels::ScalarOp::cast, DType::i64);
    run(f16(), kernels::ScalarOp::cast, DType::f16);
    run(double(), kernels::ScalarOp::cast, DType::f64);
  };
  check(float());
  check(double());
  check(f16());
  check(bf16());
  check(uint8_t());
  check(int16_t());
  check(int64_t());
}

TEST_F(EmulatedFamilies, ProgramsOverBroadcastAndTransposedOperandsAgree) {
  for (const auto& [a, b] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {0, 3}, {7, 13}, {300, 3}}) {
    SCOPED_TRACE(cat(a, " x ", b));
    Buffer<float> x = numbers<float>(a * b, 33), row = numbers<float>(b, 34), one = numbers<float>(1, 35);
    View turned = view(x, {b, a});  // a x b, column by column
    std::swap(turned.shape[0], turned.shape[1]), std::swap(turned.strides[0], turned.strides[1]);
    const View vrow = view(row, {b}), vone = view(one, {1, 1});
    const std::vector<const View*> in{&turned, &vrow, &vone};
    using kernels::ScalarOp;
    kernels::ElementwiseCode code;
    code.inputs = {DType::f32, DType::f32, DType::f32};
    code.constants = {{DType::f32, 0.5}};
    code.instructions = {{.op = ScalarOp::add, .type = DType::f32, .result = DType::f32, .a = 0, .b = 1, .c = 0},
                         {.op = ScalarOp::tanh, .type = DType::f32, .result = DType::f32, .a = 4, .b = 0, .c = 0},
                         {.op = ScalarOp::clip, .type = DType::f32, .result = DType::f32, .a = 5, .b = 2, .c = 3},
                         {.op = ScalarOp::mul, .type = DType::f32, .result = DType::f32, .a = 6, .b = 5, .c = 0}};
    code.outputs = {7, 5};
    for (const bool first : {true, false})
      compare<float>(a * b, 0, [&](bool on_gpu, Buffer<float>& y) {
        Buffer<float> other(static_cast<size_t>(a * b));
        const View vy = view(first ? y : other, {a, b}), vother = view(first ? other : y, {a, b});
        const std::vector<const View*> to{&vy, &vother};
        BOTH(on_gpu, elementwise)(STREAM(on_gpu), in, to, code);
      });
  }
}

}  // namespace
}  // namespace lamina::tests
