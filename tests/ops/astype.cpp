// astype between all pairs of dtypes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/ops/ops.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

const std::vector<DType> kAny{DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8,
                              DType::i8,  DType::i16, DType::i32, DType::i64,  DType::boolean};

// An integer, wrapped to an integer dtype.
double wrapped(int64_t v, DType to) {
  return with_dtype(to, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      return double(T(uint64_t(v)));
    else
      return 0.0;
  });
}
std::pair<double, double> range(DType d) {
  return with_dtype(d, []<class T>() {
    if constexpr (std::is_integral_v<T>)
      return std::pair{double(std::numeric_limits<T>::min()), double(std::numeric_limits<T>::max())};
    else
      return std::pair{0.0, 0.0};
  });
}

const OpCases kCases{"astype", [] {
                       std::vector<OpCase> cases;
                       for (DType to : kAny) {
                         for (const Shape& shape : {Shape{3, 40}, Shape{}, Shape{0, 2}}) {
                           OpCase c{.name = cat("to ", to, " [", text(shape), "]"),
                                    .in = {{f32(shape), -300, 300}},
                                    .attrs = ir::make_attrs(ops::DTypeAttrs{to})};
                           c.in[0].values = {0,    1,   -1,  0.5, -0.5, 2.75, -2.75, 100,  -100,  127,   128,
                                             -128, 255, 256, 300, -300, 1000, 0.99,  -129, 40000, -40000};
                           c.reference = [to](const std::vector<Tensor>& in) {
                             std::vector<double> out;
                             for (double v : in[0].values()) {
                               if (to == DType::boolean)
                                 out.push_back(v != 0);
                               else if (is_floating(to))
                                 out.push_back(v);
                               else if (is_floating(in[0].type.dtype))
                                 out.push_back(std::trunc(std::clamp(v, range(to).first, range(to).second)));
                               else
                                 out.push_back(wrapped(int64_t(v), to));
                             }
                             return std::vector<std::vector<double>>{out};
                           };
                           c.dtypes = kAny;
                           if (!is_floating(to)) c.no_differences = "it has steps";
                           c.ulps = 0.51;
                           cases.push_back(c);
                         }
                       }
                       OpCase large{.name = "large", .in = {{f32({300, 2000})}}, .attrs = ir::make_attrs(ops::DTypeAttrs{DType::i16})};
                       large.reference = [](const std::vector<Tensor>& in) {
                         std::vector<double> out;
                         for (double v : in[0].values()) out.push_back(std::trunc(v));
                         return std::vector<std::vector<double>>{out};
                       };
                       large.no_differences = "it has steps";
                       cases.push_back(large);
                       return cases;
                     }};

Tensor cast(const Tensor& x, DType to) {
  ir::Graph g;
  g.outputs = {g.add(ops::def::astype, ir::make_attrs(ops::DTypeAttrs{to}), {g.add_input(x.type)})};
  return evaluate(g, {x})[0];
}

TEST(Astype, NanBecomesZeroAndOutOfRangeTheNearestBound) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (DType from : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    const Tensor x = Tensor::from({from, {3}}, {nan, inf, -inf});
    for (DType to : {DType::u8, DType::i8, DType::i16, DType::i32, DType::i64})
      with_dtype(to, [&]<class T>() {
        if constexpr (std::is_integral_v<T>) {
          const Tensor y = cast(x, to);
          EXPECT_EQ(y.data<T>()[0], T(0)) << from << " to " << to;
          EXPECT_EQ(y.data<T>()[1], std::numeric_limits<T>::max()) << from << " to " << to;
          EXPECT_EQ(y.data<T>()[2], std::numeric_limits<T>::min()) << from << " to " << to;
        }
      });
    EXPECT_EQ(cast(x, DType::boolean).values(), (std::vector<double>{1, 1, 1}));
  }
  const Tensor edge = Tensor::of<float>({4}, {2147483520.0f, 2147483648.0f, -2147483648.0f, -2147483904.0f});
  EXPECT_EQ(cast(edge, DType::i32).values(), (std::vector<double>{2147483520, 2147483647, -2147483648.0, -2147483648.0}));
}

TEST(Astype, KeepsEveryBitOfI64) {
  const int64_t v = (int64_t(1) << 53) + 1;
  EXPECT_EQ(cast(Tensor::of<int64_t>({1}, {v}), DType::i64).data<int64_t>()[0], v);
}

}  // namespace
}  // namespace lamina::tests
