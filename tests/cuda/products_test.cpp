// Products by cuBLASLt, with a fake library, and the parts of the real one that work without a driver.
#include "runtime/cuda/products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>

#include "kernels/batched_matmul.h"
#include "kernels/dense.h"
#include "runtime/core/error.h"
#include "tests/cuda/fake_cublaslt.h"
#include "tests/cuda/library_fixture.h"
#include "tests/cuda/numbers.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define LAMINA_HAS_CUBLASLT_HEADER 1
#endif

namespace lamina::cuda {
namespace {

constexpr Device kGpu{DeviceKind::gpu, 0, 0};

class CudaProducts : public LibraryFixture<FakeCublasLt> {
 protected:
  void SetUp() override {
    LibraryFixture::SetUp();
    restart();
  }
  void TearDown() override {
    products_.reset();
    LibraryFixture::TearDown();
  }
  void restart(double least = 1) {
    products_ = std::make_unique<Products>([this] { return ++loads_, fake_cublaslt(); }, least);
  }

  template <class T>
  void compare(std::vector<int64_t> a_shape, std::vector<int64_t> b_shape, std::vector<int64_t> c_shape, bool ta, bool tb) {
    SCOPED_TRACE(cat(dtype_of<T>(), " ", testing::PrintToString(a_shape), " ", testing::PrintToString(b_shape), ta ? " a transposed" : "",
                     tb ? " b transposed" : ""));
    const Numbers<T> a(a_shape, 1), b(b_shape, 2), got(c_shape, 3), want(c_shape, 4);
    ASSERT_TRUE(products_->multiply(stream_, a.view(), b.view(), got.view(), ta, tb));
    Stream cpu;
    kernels::cpu::batched_matmul<T>(cpu, a.view(), b.view(), want.view(), ta, tb);
    expect_close(got, want);
    ASSERT_EQ(fake().complaints, std::vector<std::string>{});
  }

  std::unique_ptr<Products> products_;
  int loads_ = 0;
};

std::vector<int64_t> matrix(std::vector<int64_t> batches, int64_t rows, int64_t columns, bool transposed) {
  batches.push_back(transposed ? columns : rows);
  batches.push_back(transposed ? rows : columns);
  return batches;
}

TEST_F(CudaProducts, MatchTheCpuForEveryTransposition) {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{5, 7, 3}, {1, 9, 4}, {6, 1, 5}, {4, 3, 1}, {1, 1, 1}, {33, 18, 20}})
    for (bool ta : {false, true})
      for (bool tb : {false, true}) {
        compare<float>(matrix({}, m, k, ta), matrix({}, k, n, tb), {m, n}, ta, tb);
        compare<double>(matrix({}, m, k, ta), matrix({}, k, n, tb), {m, n}, ta, tb);
        compare<f16>(matrix({}, m, k, ta), matrix({}, k, n, tb), {m, n}, ta, tb);
        compare<bf16>(matrix({}, m, k, ta), matrix({}, k, n, tb), {m, n}, ta, tb);
      }
}

TEST_F(CudaProducts, MatchTheCpuForEveryKindOfBatch) {
  using Shape = std::vector<int64_t>;
  struct Case {
    Shape a, b, c;
    int calls;
  };
  for (const Case& c : std::vector<Case>{{{4}, {4}, {4}, 1},
                                         {{4}, {}, {4}, 1},
                                         {{}, {4}, {4}, 1},
                                         {{1}, {4}, {4}, 1},
                                         {{2, 3}, {2, 3}, {2, 3}, 1},
                                         {{2, 3}, {3}, {2, 3}, 2},
                                         {{2, 3}, {2, 1}, {2, 3}, 1},
                                         {{2, 1}, {1, 3}, {2, 3}, 2},
                                         {{5, 1, 3}, {1, 2, 3}, {5, 2, 3}, 6},
                                         {{2, 3, 1, 1}, {1, 1, 2, 2}, {2, 3, 2, 2}, 4}})
    for (bool ta : {false, true})
      for (bool tb : {false, true}) {
        const int before = fake().products;
        compare<float>(matrix(c.a, 3, 4, ta), matrix(c.b, 4, 5, tb), matrix(c.c, 3, 5, false), ta, tb);
        if (!ta) {
          EXPECT_EQ(fake().products - before, c.calls);
        }
      }
}

TEST_F(CudaProducts, ASharedMatrixMakesOneProduct) {
  compare<float>({6, 3, 4}, {4, 5}, {6, 3, 5}, false, false);
  EXPECT_EQ(fake().chosen.back().d.columns, 18u);
  EXPECT_EQ(fake().chosen.back().d.batches, 1);
  compare<float>({2, 6, 3, 4}, {2, 1, 4, 5}, {2, 6, 3, 5}, false, false);  // rows of 6, batches of 2
  EXPECT_EQ(fake().chosen.back().d.columns, 18u);
  EXPECT_EQ(fake().chosen.back().d.batches, 2);
  compare<float>({6, 4, 3}, {4, 5}, {6, 3, 5}, true, false);  // transposed: the rows of one are adjacent
  EXPECT_EQ(fake().chosen.back().d.batches, 6);
}

TEST_F(CudaProducts, AcceptPartsOfLargerMatrices) {
  const Numbers<float> a({9, 8}, 1), b({9, 8}, 2), c({4, 5}, 3), want({4, 5}, 4);
  View left = a.view(), right = b.view();
  left.shape[0] = 4, left.shape[1] = 3, left.data = a.data() + 2;                      // 4 rows of 3
  right.shape[0] = 3, right.shape[1] = 5, right.strides[0] = 1, right.strides[1] = 8;  // a transpose
  ASSERT_TRUE(products_->multiply(stream_, left, right, c.view(), false, false));
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 5; ++j) {
      want.data()[i * 5 + j] = 0;
      for (int k = 0; k < 3; ++k) want.data()[i * 5 + j] += a.data()[i * 8 + k + 2] * b.data()[k + j * 8];
    }
  expect_close(c, want);
  left.strides[1] = 2;  // every other column: an unsupported layout
  EXPECT_FALSE(products_->multiply(stream_, left, right, c.view(), false, false));
}

TEST_F(CudaProducts, AddTheBiasAndTakeTheRelu) {
  struct Case {
    std::vector<int64_t> x, w, bias, y;
  };
  for (const Case& c : std::vector<Case>{{{6, 4}, {4, 5}, {5}, {6, 5}},
                                         {{3, 6, 4}, {3, 4, 5}, {5}, {3, 6, 5}},
                                         {{3, 6, 4}, {3, 4, 5}, {3, 5}, {3, 6, 5}},
                                         {{6, 4}, {3, 4, 5}, {3, 5}, {3, 6, 5}},
                                         {{3, 6, 4}, {4, 5}, {3, 5}, {3, 6, 5}}})
    for (Epilogue epilogue : {Epilogue::none, Epilogue::relu})
      for (bool with_bias : {false, true}) {
        SCOPED_TRACE(cat(testing::PrintToString(c.x), testing::PrintToString(c.w), with_bias ? testing::PrintToString(c.bias) : "",
                         epilogue == Epilogue::relu ? " relu" : ""));
        const Numbers<float> x(c.x, 1), w(c.w, 2), bias(c.bias, 3), got(c.y, 4), want(c.y, 5);
        const View b = bias.view();
        ASSERT_TRUE(products_->multiply(stream_, x.view(), w.view(), got.view(), false, false, with_bias ? &b : nullptr, epilogue));
        Stream cpu;
        kernels::cpu::batched_matmul<float>(cpu, x.view(), w.view(), want.view(), false, false);
        for (int64_t i = 0; i < want.size(); ++i) {
          float& v = want.data()[i];
          if (with_bias) v += bias.data()[c.bias.size() == 2 ? i / 30 * 5 + i % 5 : i % 5];
          if (epilogue == Epilogue::relu) v = std::max(v, 0.0f);
        }
        expect_close(got, want);
      }
}

// dw = x^T dz with the bias's gradient, for plain and transposed x and dz.
TEST_F(CudaProducts, SumTheBiasGradientBesideTheWeights) {
  const Numbers<float> x({6, 4}, 1), dz({6, 5}, 2), turned({5, 6}, 2), dw({4, 5}, 3), db({5}, 4), want({4, 5}, 5);
  for (int i = 0; i < 30; ++i) turned.data()[i % 5 * 6 + i / 5] = dz.data()[i];
  View dz_by_columns = turned.view();
  std::swap(dz_by_columns.shape[0], dz_by_columns.shape[1]), std::swap(dz_by_columns.strides[0], dz_by_columns.strides[1]);
  Stream cpu;
  kernels::cpu::batched_matmul<float>(cpu, x.view(), dz.view(), want.view(), true, false);
  const View sums = db.view();
  for (const View& second : {dz.view(), dz_by_columns}) {
    std::fill_n(db.data(), 5, NAN), std::fill_n(dw.data(), 20, NAN);
    ASSERT_TRUE(products_->multiply(stream_, x.view(), second, dw.view(), true, false, &sums, Epilogue::bias_gradient));
    expect_close(dw, want);
    for (int j = 0; j < 5; ++j) {
      float sum = 0;
      for (int i = 0; i < 6; ++i) sum += dz.data()[i * 5 + j];
      EXPECT_NEAR(db.data()[j], sum, 1e-5);
    }
  }
  const Numbers<float> stacked({2, 6, 4}, 1), more({2, 6, 5}, 2), both({2, 4, 5}, 3);
  EXPECT_FALSE(products_->multiply(stream_, stacked.view(), more.view(), both.view(), true, false, &sums, Epilogue::bias_gradient));
}

TEST_F(CudaProducts, SmallOrIntegerUseOwnKernel) {
  restart(5 * 7 * 3 + 1);
  const Numbers<float> a({5, 3}, 1), b({3, 7}, 2), c({5, 7}, 3);
  EXPECT_FALSE(products_->multiply(stream_, a.view(), b.view(), c.view(), false, false));
  EXPECT_EQ(loads_, 0) << "the library is half a gigabyte";
  restart(5 * 7 * 3);
  EXPECT_TRUE(products_->multiply(stream_, a.view(), b.view(), c.view(), false, false));
  restart(1);
  const Numbers<int32_t> i({5, 3}, 1), j({3, 7}, 2), k({5, 7}, 3);
  EXPECT_FALSE(products_->multiply(stream_, i.view(), j.view(), k.view(), false, false));
  const Numbers<float> none({5, 0}, 1), nothing({0, 7}, 2);  // empty sums are 0
  EXPECT_FALSE(products_->multiply(stream_, none.view(), nothing.view(), c.view(), false, false));
}

TEST_F(CudaProducts, TheSettingIsANumberAlwaysOrNever) {
  const auto with = [](const char* value) {
    setenv("LAMINA_CUBLASLT", value, 1);
    return least_multiply_adds(Setting::cublaslt);
  };
  EXPECT_EQ(with(""), kLeastMultiplyAdds);
  EXPECT_EQ(with("1e6"), 1e6);
  EXPECT_EQ(with("always"), 1);
  EXPECT_TRUE(std::isinf(with("never")));
  for (const char* wrong : {"often", "12x", "-1", "nan"}) EXPECT_THROW(with(wrong), Error) << wrong;
  unsetenv("LAMINA_CUBLASLT");
}

// tf32 and bf16 have a compute type, 3xtf32 has none; other dtypes keep theirs.
TEST_F(CudaProducts, TakeTheComputeTypeOfThePrecision) {
  const Numbers<float> a({5, 40}, 1), b({40, 8}, 2), c({5, 8}, 3), want({5, 8}, 4);
  Stream cpu;
  kernels::cpu::batched_matmul<float>(cpu, a.view(), b.view(), want.view(), false, false);
  struct Case {
    Precision precision;
    int compute;
    double least, most;  // the largest error, relative to the largest result
  };
  for (const Case& one : {Case{Precision::float32, 68, 0, 1e-6},
                          {Precision::tf32, 77, 1e-5, 1e-3},
                          {Precision::tf32x3, 68, 0, 1e-6},
                          {Precision::bf16, 75, 1e-4, 1e-2}}) {
    SCOPED_TRACE(name(one.precision));
    ASSERT_TRUE(products_->multiply(stream_, a.view(), b.view(), c.view(), false, false, nullptr, Epilogue::none, one.precision));
    EXPECT_EQ(fake().computes.back(), one.compute);
    double error = 0, size = 0;
    for (int i = 0; i < 40; ++i) {
      error = std::max(error, std::fabs(double(c.data()[i]) - double(want.data()[i])));
      size = std::max(size, std::fabs(double(want.data()[i])));
    }
    EXPECT_GE(error, one.least * size);
    EXPECT_LE(error, one.most * size);
  }
  EXPECT_EQ(products_->plan_count(), 3u) << "float32 and 3xtf32 share one";
  const Numbers<double> d({5, 8}, 1), e({8, 8}, 2), f({5, 8}, 3);
  ASSERT_TRUE(products_->multiply(stream_, d.view(), e.view(), f.view(), false, false, nullptr, Epilogue::none, Precision::tf32));
  EXPECT_EQ(fake().computes.back(), 70);
  const Numbers<f16> g({5, 8}, 1), h({8, 8}, 2), i({5, 8}, 3);
  ASSERT_TRUE(products_->multiply(stream_, g.view(), h.view(), i.view(), false, false, nullptr, Epilogue::none, Precision::bf16));
  EXPECT_EQ(fake().computes.back(), 68);
  EXPECT_EQ(fake().complaints, std::vector<std::string>{});
}

TEST_F(CudaProducts, ArePlannedOncePerShapeTypeEpilogueAndAlignment) {
  const Numbers<float> a({5, 8}, 1), b({8, 8}, 2), c({5, 8}, 3), bias({8}, 4), other({8}, 5), shifted({8, 8}, 6, 1);
  const View v = bias.view(), w = other.view();
  auto plans_after = [&](auto call) {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(call());
    EXPECT_EQ(fake().count("cublasLtMatmulAlgoGetHeuristic"), int(products_->plan_count()));
    return products_->plan_count();
  };
  EXPECT_EQ(plans_after([&] { return products_->multiply(stream_, a.view(), b.view(), c.view(), false, false); }), 1u);
  EXPECT_EQ(plans_after([&] { return products_->multiply(stream_, a.view(), b.view(), c.view(), false, true); }), 2u);
  EXPECT_EQ(plans_after([&] { return products_->multiply(stream_, a.view(), b.view(), c.view(), false, false, nullptr, Epilogue::relu); }),
            3u);
  EXPECT_EQ(plans_after([&] { return products_->multiply(stream_, a.view(), b.view(), c.view(), false, false, &v); }), 4u);
  EXPECT_EQ(plans_after([&] { return products_->multiply(stream_, a.view(), b.view(), c.view(), false, false, &w); }), 4u);
  EXPECT_EQ(plans_after([&] { return products_->multiply(stream_, a.view(), shifted.view(), c.view(), false, false); }), 5u);
  EXPECT_EQ(fake().chosen.back().preference.alignment[0], 4u);
  EXPECT_EQ(fake().chosen.back().preference.alignment[1], 256u);
  EXPECT_EQ(fake().count("cublasLtCreate"), 1);
  Stream second = backend_->create_stream(kGpu);
  EXPECT_EQ(plans_after([&] { return products_->multiply(second, a.view(), b.view(), c.view(), false, false); }), 5u);
  EXPECT_EQ(fake().streams.back(), second.native);
  backend_->destroy_stream(second);
}

TEST_F(CudaProducts, DropTheLeastRecentlyUsedPlans) {
  const Numbers<float> kept({1, 1}, 1), kept_result({1, 1}, 2);
  auto keep = [&] { return products_->multiply(stream_, kept.view(), kept.view(), kept_result.view(), false, false); };
  for (int64_t rows = 2; rows < int64_t(kMostPlans) + 20; ++rows) {
    ASSERT_TRUE(keep());
    const Numbers<float> a({rows, 1}, 1), b({1, 1}, 2), c({rows, 1}, 3);
    ASSERT_TRUE(products_->multiply(stream_, a.view(), b.view(), c.view(), false, false));
  }
  EXPECT_EQ(products_->plan_count(), kMostPlans);
  const int planned = fake().count("cublasLtMatmulAlgoGetHeuristic");
  ASSERT_TRUE(keep());
  EXPECT_EQ(fake().count("cublasLtMatmulAlgoGetHeuristic"), planned);
  EXPECT_EQ(fake().layouts.size(), 3 * kMostPlans);
}

TEST_F(CudaProducts, MissingLibraryUsesOwnKernel) {
  products_ = std::make_unique<Products>(
      [this]() -> CublasLtApi {
        ++loads_;
        throw Error(ErrorKind::device,
                    {.what = "cuda: cuBLASLt is missing", .where = "", .why = "tried a, b", .fix = "pip install nvidia-cublas"});
      },
      1);
  EXPECT_EQ(products_->why_missing(), "");
  const Numbers<float> a({5, 3}, 1), b({3, 7}, 2), c({5, 7}, 3);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(products_->multiply(stream_, a.view(), b.view(), c.view(), false, false));
  EXPECT_EQ(loads_, 1);
  EXPECT_EQ(products_->why_missing(), "cuda: cuBLASLt is missing: tried a, b. pip install nvidia-cublas");
}

TEST_F(CudaProducts, NoAlgorithmUsesOwnKernel) {
  const Numbers<float> a({5, 3}, 1), b({3, 7}, 2), c({5, 7}, 3), d({6, 3}, 1), e({6, 7}, 1);
  fake().algorithms = 0;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(products_->multiply(stream_, a.view(), b.view(), c.view(), false, false));
  fake().fail["cublasLtMatmulAlgoGetHeuristic"] = cublaslt::kNotSupported;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(products_->multiply(stream_, d.view(), b.view(), e.view(), false, false));
  EXPECT_EQ(fake().count("cublasLtMatmulAlgoGetHeuristic"), 2);
  EXPECT_EQ(fake().products, 0);
}

TEST_F(CudaProducts, FailedCallIsNamedAndCanBeRetried) {
  const Numbers<float> x({2, 6, 4}, 1), w({2, 4, 5}, 2), bias({5}, 3), y({2, 6, 5}, 4);
  const View b = bias.view();
  for (const char* name : {"cublasLtCreate", "cublasLtMatmulDescCreate", "cublasLtMatmulDescSetAttribute", "cublasLtMatrixLayoutCreate",
                           "cublasLtMatrixLayoutSetAttribute", "cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceSetAttribute",
                           "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul"}) {
    SCOPED_TRACE(name);
    restart();
    fake().workspace = 4096;
    fake().fail[name] = 14;
    struct Call {
      Products* products;
      const Numbers<float>*x, *w, *y;
      const View* bias;
    } call{products_.get(), &x, &w, &y, &b};
    const Kernel kernel{[](const KernelCall& k) {
                          const Call& c = *static_cast<const Call*>(k.args);
                          EXPECT_TRUE(c.products->multiply(k.stream, c.x->view(), c.w->view(), c.y->view(), false, false, c.bias));
                        },
                        std::shared_ptr<const void>(&call, [](const void*) {})};
    auto launch = [&] { backend_->launch(stream_, kernel, {stream_, &call, {}, {}}, "dense_relu"); };
    try {
      launch();
      FAIL() << "it went well";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::device);
      EXPECT_EQ(e.parts.what, cat("cuda: ", name, " failed in dense_relu"));
      EXPECT_EQ(e.parts.where, "f32 [2, 6, 4] x [2, 4, 5] + [5]");
      EXPECT_EQ(e.parts.why, "cuBLASLt says CUBLAS_STATUS_INTERNAL_ERROR (14)");
      EXPECT_NE(e.parts.fix.find("LAMINA_CUBLASLT=never"), std::string::npos);
    }
    const size_t planned = name == std::string("cublasLtMatmul") ? 1 : 0;
    EXPECT_EQ(products_->plan_count(), planned);
    EXPECT_EQ(fake().alive(), (name == std::string("cublasLtCreate") ? 0 : 1) + 4 * planned)
        << "what a failed plan had made is still there";
    EXPECT_EQ(FakeCuda::now().used, 0u);
    fake().fail.clear();
    launch();
    EXPECT_EQ(FakeCuda::now().used, 0u);
  }
}

TEST_F(CudaProducts, TakeTheirWorkspaceFromTheDevicesAllocator) {
  const Numbers<float> a({5, 3}, 1), b({3, 7}, 2), c({5, 7}, 3);
  fake().workspace = 4096;
  ASSERT_TRUE(products_->multiply(stream_, a.view(), b.view(), c.view(), false, false));
  const std::vector<std::string>& calls = FakeCuda::now().calls;
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "allocate_from_pool 4096"), 1);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "free_to_pool"), 1);
  FakeCuda::now().memory = 100;
  try {
    products_->multiply(stream_, a.view(), b.view(), c.view(), false, false);
    FAIL() << "there is no memory for it";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::out_of_memory);
  }
  FakeCuda::now().memory = 1 << 20;
  EXPECT_TRUE(products_->multiply(stream_, a.view(), b.view(), c.view(), false, false));
}

TEST_F(CudaProducts, ThreadsKeepTheirOwnBias) {
  const Numbers<float> x({4, 3}, 1), w({3, 5}, 2), plain({4, 5}, 3);
  ASSERT_TRUE(products_->multiply(stream_, x.view(), w.view(), plain.view(), false, false));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const Numbers<float> bias({5}, 10 + uint64_t(t)), y({4, 5}, 4);
      const View b = bias.view();
      Stream stream = stream_;
      for (int i = 0; i < 200; ++i) {
        wrong += !products_->multiply(stream, x.view(), w.view(), y.view(), false, false, &b);
        for (int64_t e = 0; e < 20; ++e) wrong += std::abs(y.data()[e] - (plain.data()[e] + bias.data()[e % 5])) > 1e-5f;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(CudaProductsNumbers, MatchTheLibrarysHeader) {
#if LAMINA_HAS_CUBLASLT_HEADER
  static_assert(cublaslt::kNotSupported == CUBLAS_STATUS_NOT_SUPPORTED && cublaslt::kNoMemory == CUBLAS_STATUS_ALLOC_FAILED &&
                cublaslt::kCompute32 == CUBLAS_COMPUTE_32F && cublaslt::kCompute64 == CUBLAS_COMPUTE_64F &&
                cublaslt::kCompute32FromBf16 == CUBLAS_COMPUTE_32F_FAST_16BF &&
                cublaslt::kCompute32FromTf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
  static_assert(cublaslt::kReal32 == CUDA_R_32F && cublaslt::kReal64 == CUDA_R_64F && cublaslt::kReal16 == CUDA_R_16F &&
                cublaslt::kRealBf16 == CUDA_R_16BF);
  static_assert(cublaslt::kPlain == CUBLAS_OP_N && cublaslt::kTransposed == CUBLAS_OP_T &&
                cublaslt::kNoEpilogue == CUBLASLT_EPILOGUE_DEFAULT && cublaslt::kRelu == CUBLASLT_EPILOGUE_RELU &&
                cublaslt::kBias == CUBLASLT_EPILOGUE_BIAS && (cublaslt::kRelu | cublaslt::kBias) == CUBLASLT_EPILOGUE_RELU_BIAS &&
                cublaslt::kBiasGradientOfFirst == CUBLASLT_EPILOGUE_BGRADA);
  static_assert(cublaslt::kTransposeA == CUBLASLT_MATMUL_DESC_TRANSA && cublaslt::kTransposeB == CUBLASLT_MATMUL_DESC_TRANSB &&
                cublaslt::kEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE && cublaslt::kBiasPointer == CUBLASLT_MATMUL_DESC_BIAS_POINTER &&
                cublaslt::kBiasBatchStride == CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE);
  static_assert(cublaslt::kBatchCount == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT &&
                cublaslt::kBatchStride == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  static_assert(cublaslt::kMostWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES &&
                cublaslt::kReductions == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK &&
                cublaslt::kAlignmentA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
                cublaslt::kAlignmentB == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES &&
                cublaslt::kAlignmentC == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES &&
                cublaslt::kAlignmentD == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES &&
                cublaslt::kReduceInComputeType == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  static_assert(sizeof(cublaslt::Algorithm) == sizeof(cublasLtMatmulAlgo_t) &&
                sizeof(cublaslt::Heuristic) == sizeof(cublasLtMatmulHeuristicResult_t) &&
                offsetof(cublaslt::Heuristic, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) &&
                offsetof(cublaslt::Heuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
#else
  GTEST_SKIP() << "there is no cublasLt.h to compare with";
#endif
}

// The real library's descriptors need no driver: it accepts every attribute that we set, with our sizes.
TEST_F(CudaProducts, RealLibraryAcceptsTheAttributes) {
  CublasLtApi real{};
  try {
    real = load_cublaslt(system_loader());
  } catch (const Error& e) {
    GTEST_SKIP() << e.what();
  }
  const double wrong_size = 1;
  void* operation = nullptr;
  ASSERT_EQ(real.operation_create(&operation, cublaslt::kCompute32, cublaslt::kReal32), 0);
  EXPECT_NE(real.operation_set(operation, cublaslt::kEpilogue, &wrong_size, sizeof wrong_size), 0) << "it takes anything";
  EXPECT_EQ(real.operation_destroy(operation), 0);

  CublasLtApi api = real;
  api.create = [](void** handle) { return *handle = &FakeCublasLt::now(), 0; };
  api.destroy = [](void*) { return 0; };
  api.heuristic = [](void*, void*, void*, void*, void*, void*, void*, int, cublaslt::Heuristic* result, int* found) {
    return *result = {}, *found = 1, 0;
  };
  api.matmul = [](void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*, void*,
                  const cublaslt::Algorithm*, void*, size_t, void*) { return ++FakeCublasLt::now().products, 0; };
  products_ = std::make_unique<Products>([&] { return api; }, 1);
  const Numbers<f16> x({2, 6, 4}, 1), w({2, 4, 5}, 2), bias({2, 5}, 3), y({2, 6, 5}, 4);
  const Numbers<double> a({6, 4}, 1), b({4, 5}, 2), c({6, 5}, 4);
  const View v = bias.view();
  EXPECT_TRUE(products_->multiply(stream_, x.view(), w.view(), y.view(), false, false, &v, Epilogue::relu));
  EXPECT_TRUE(products_->multiply(stream_, a.view(), b.view(), c.view(), false, false));
  EXPECT_EQ(fake().products, 2);

  // Without a GPU its first own call fails: an error, not a crash.
  void* handle = nullptr;
  if (real.create(&handle) == 0) {
    real.destroy(handle);
    return;
  }
  products_ = std::make_unique<Products>([&] { return real; }, 1);
  try {
    products_->multiply(stream_, a.view(), b.view(), c.view(), false, false);
    FAIL() << "there is no GPU";
  } catch (const Error& e) {
    EXPECT_NE(e.parts.what.find("cuda: cublasLtCreate failed"), std::string::npos) << e.what();
    EXPECT_NE(e.parts.why.find("CUBLAS_STATUS_"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace lamina::cuda
