#include "graph/ops/checks.h"

#include "runtime/core/common_dtype.h"
#include "runtime/core/view.h"

namespace lamina::ops {

int axis_of(const char* op, int64_t axis, const TensorType& in) {
  int64_t rank = int64_t(in.rank());
  if (axis < -rank || axis >= rank)
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": axis ", axis, " is out of range for ", in),
                                              .where = "argument 'axis'",
                                              .why = cat("the input has ", rank, rank == 1 ? " dimension" : " dimensions"),
                                              .fix = rank ? cat("pass an axis from ", -rank, " to ", rank - 1)
                                                          : "reshape it to at least one dimension: a scalar has no axis"});
  return int(axis < 0 ? axis + rank : axis);
}

void require_floating(const char* op, const TensorType& in) {
  if (!is_floating(in.dtype))
    throw Error(ErrorKind::type, {.what = cat(op, ": ", in, " is not floating point"),
                                  .where = "",
                                  .why = cat(op, " is defined for f16, bf16, f32 and f64"),
                                  .fix = "convert it first: x.astype('float32')"});
}

void require_integer(const char* op, const char* argument, const TensorType& in) {
  if (!is_integer(in.dtype))
    throw Error(ErrorKind::type, {.what = cat(op, ": ", in, " is not an integer tensor"),
                                  .where = cat("argument '", argument, "'"),
                                  .why = cat(argument, " are positions, which are whole numbers"),
                                  .fix = cat("convert it first: ", argument, ".astype('int32')")});
}

void require_common(const char* op, const TensorType& in) {
  if (is_rare(in.dtype))
    throw Error(ErrorKind::type, {.what = cat(op, ": ", in, " is of a dtype that this op does not take within a graph"),
                                  .where = "",
                                  .why = "functions of such tensors make their graphs of ops on int64, or on real and imaginary parts",
                                  .fix = "trace a function that calls lm's functions, or convert it with astype"});
}

void require_numeric(const char* op, const TensorType& in) {
  if (is_complex(in.dtype)) require_common(op, in);
  if (in.dtype == DType::boolean)
    throw Error(ErrorKind::type, {.what = cat(op, ": ", in, " holds no numbers"),
                                  .where = "",
                                  .why = cat(op, " is defined for integers and floating point"),
                                  .fix = "convert it first: x.astype('int32')"});
}

void require_same_dtype(const char* op, const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype)
    throw Error(ErrorKind::type, {.what = cat(op, ": ", a, " and ", b, " have different dtypes"),
                                  .where = "",
                                  .why = "tensors are never converted silently",
                                  .fix = same_dtype_advice(a.dtype, b.dtype)});
}

void require_rank(const char* op, const Shape& result) {
  if (result.size() > kMaxRank)
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": a result of ", result.size(), " dimensions is not supported"),
                                              .where = "",
                                              .why = cat("a tensor has at most ", kMaxRank, " dimensions"),
                                              .fix = "merge some of them with reshape"});
}

void require_state(const char* op, const TensorType& state, const Shape& draw) {
  size_t models = state.rank() ? state.rank() - 1 : 0;
  bool fits = state.dtype == DType::i64 && state.rank() && state.shape.back() == Dim(2) && models <= draw.size();
  for (size_t i = 0; fits && i < models; ++i) fits = state.shape[i] == draw[i];
  if (!fits)
    throw Error(ErrorKind::invalid_argument,
                {.what = cat(op, ": ", state, " is not the state of a generator"),
                 .where = "argument 'state'",
                 .why = cat("a state is i64[2], or i64[...,2] with the leading dimensions of the draw [", text(draw), "]"),
                 .fix = "pass {seed, counter} as int64"});
}

Error does_not_fit(const char* op, const TensorType& a, const TensorType& b, const std::string& why, const std::string& fix) {
  return Error(ErrorKind::invalid_argument, {.what = cat(op, ": ", a, " and ", b, " do not fit"), .where = "", .why = why, .fix = fix});
}

}  // namespace lamina::ops
