// The messages of ops that refuse their inputs: whole texts, compared exactly.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/ops/ops.h"
#include "runtime/core/error.h"
#include "tests/ops/evaluate.h"

namespace lamina {
namespace {

using ir::Graph;
using ir::Value;
using tests::Tensor;

// Builds the op with inputs of these types; returns kind and text of its error.
std::pair<ErrorKind, std::string> refused(const std::vector<std::string>& types,
                                          const std::function<void(Graph&, const std::vector<Value>&)>& build) {
  Graph g;
  std::vector<Value> in;
  for (const std::string& t : types) in.push_back(g.add_input(parse_type(t)));
  try {
    build(g, in);
  } catch (const Error& e) {
    return {e.kind, e.what()};
  }
  return {ErrorKind::internal, "nothing was thrown"};
}

#define EXPECT_REFUSED(kind_, text_, ...)           \
  do {                                              \
    const auto [kind, text] = refused(__VA_ARGS__); \
    EXPECT_EQ(kind, ErrorKind::kind_);              \
    EXPECT_EQ(text, text_);                         \
  } while (false)

TEST(OpErrors, MatmulNamesTheInnerDimensions) {
  EXPECT_REFUSED(invalid_argument,
                 "matmul: f32[2,3] and f32[2,3] do not fit\n"
                 "  why:   the inner dimensions are 3 (columns of a) and 2 (rows of b); they must be equal\n"
                 "  fix:   transpose or reshape one of them",
                 {"f32[2,3]", "f32[2,3]"}, [](Graph& g, auto& in) { ops::matmul(g, in[0], in[1]); });
  EXPECT_REFUSED(invalid_argument,
                 "matmul: f32[2,3] and f32[2,3] do not fit\n"
                 "  why:   the inner dimensions are 2 (columns of a, transposed) and 3 (rows of b, transposed); they must be equal\n"
                 "  fix:   transpose or reshape one of them",
                 {"f32[2,3]", "f32[2,3]"}, [](Graph& g, auto& in) { ops::matmul(g, in[0], in[1], true, true); });
}

TEST(OpErrors, MatmulRefusesOtherOperands) {
  EXPECT_REFUSED(invalid_argument,
                 "matmul: f32[3] is not a matrix\n"
                 "  where: argument 'a'\n"
                 "  why:   both operands have at least 2 dimensions\n"
                 "  fix:   reshape a vector to one row or one column",
                 {"f32[3]", "f32[3,2]"}, [](Graph& g, auto& in) { ops::matmul(g, in[0], in[1]); });
  EXPECT_REFUSED(invalid_argument,
                 "matmul: f32[4,2,3] and f32[5,3,2] do not fit\n"
                 "  why:   of the leading dimensions, dimension 0 is 4 and 5; they must be equal, or one of them 1\n"
                 "  fix:   reshape one of them",
                 {"f32[4,2,3]", "f32[5,3,2]"}, [](Graph& g, auto& in) { ops::matmul(g, in[0], in[1]); });
  EXPECT_REFUSED(type,
                 "matmul: f32[2,3] and f64[3,2] have different dtypes\n"
                 "  why:   tensors are never converted silently\n"
                 "  fix:   convert one of them: lm.astype(x, lm.float64)",
                 {"f32[2,3]", "f64[3,2]"}, [](Graph& g, auto& in) { ops::matmul(g, in[0], in[1]); });
  EXPECT_REFUSED(type,
                 "matmul: bool[2,3] cannot be multiplied\n"
                 "  why:   matmul is defined for floating point, i32 and i64\n"
                 "  fix:   convert both: .astype('int32')",
                 {"bool[2,3]", "bool[3,2]"}, [](Graph& g, auto& in) { ops::matmul(g, in[0], in[1]); });
}

TEST(OpErrors, SoftmaxNamesTheAxisAndTheType) {
  EXPECT_REFUSED(invalid_argument,
                 "softmax: axis 5 is out of range for f32[2,4]\n"
                 "  where: argument 'axis'\n"
                 "  why:   the input has 2 dimensions\n"
                 "  fix:   pass an axis from -2 to 1",
                 {"f32[2,4]"}, [](Graph& g, auto& in) { ops::softmax(g, in[0], 5); });
  EXPECT_REFUSED(type,
                 "softmax: i32[2,4] is not floating point\n"
                 "  why:   softmax is defined for f16, bf16, f32 and f64\n"
                 "  fix:   convert it first: x.astype('float32')",
                 {"i32[2,4]"}, [](Graph& g, auto& in) { ops::softmax(g, in[0], 1); });
  EXPECT_REFUSED(invalid_argument,
                 "log_softmax: axis 0 is out of range for f32[]\n"
                 "  where: argument 'axis'\n"
                 "  why:   the input has 0 dimensions\n"
                 "  fix:   reshape it to at least one dimension: a scalar has no axis",
                 {"f32[]"}, [](Graph& g, auto& in) { ops::log_softmax(g, in[0], 0); });
}

TEST(OpErrors, ReshapeCountsElements) {
  EXPECT_REFUSED(invalid_argument,
                 "reshape: f32[2,3] does not fit the shape [4,2]\n"
                 "  where: argument 'shape'\n"
                 "  why:   the input has 6 elements, the shape 8\n"
                 "  fix:   pass a shape with as many elements, or -1 for one dimension",
                 {"f32[2,3]"}, [](Graph& g, auto& in) { ops::reshape(g, in[0], {4, 2}); });
}

TEST(OpErrors, ShapeOpsSayWhatDoesNotFit) {
  EXPECT_REFUSED(invalid_argument,
                 "transpose: axes [0,0] do not fit f32[2,3]\n"
                 "  where: argument 'axes'\n"
                 "  why:   each axis of the input must be named once, counted from 0\n"
                 "  fix:   pass a permutation of 0 to 1",
                 {"f32[2,3]"}, [](Graph& g, auto& in) { ops::transpose(g, in[0], {0, 0}); });
  EXPECT_REFUSED(invalid_argument,
                 "broadcast_to: f32[2,3] does not broadcast to [3,3]\n"
                 "  where: argument 'shape'\n"
                 "  why:   counted from the last, each dimension of the input must be 1 or equal that of the shape\n"
                 "  fix:   reshape the input so that the dimensions to repeat are 1",
                 {"f32[2,3]"}, [](Graph& g, auto& in) { ops::broadcast_to(g, in[0], {3, 3}); });
  EXPECT_REFUSED(invalid_argument,
                 "concat: f32[2,3] and f32[2,4] do not fit\n"
                 "  why:   all dimensions but axis 0 must be equal\n"
                 "  fix:   reshape or slice one of them",
                 {"f32[2,3]", "f32[2,4]"}, [](Graph& g, auto& in) { ops::concat(g, {in[0], in[1]}, 0); });
  EXPECT_REFUSED(invalid_argument,
                 "slice: a step of 0 goes nowhere\n"
                 "  why:   each step is the distance from one element to the next\n"
                 "  fix:   pass a step other than 0",
                 {"f32[5]"}, [](Graph& g, auto& in) { ops::slice(g, in[0], {0}, {5}, {0}); });
  EXPECT_REFUSED(invalid_argument,
                 "reshape: a result of 9 dimensions is not supported\n"
                 "  why:   a tensor has at most 8 dimensions\n"
                 "  fix:   merge some of them with reshape",
                 {"f32[1]"}, [](Graph& g, auto& in) { ops::reshape(g, in[0], Shape(9, Dim(1))); });
}

TEST(OpErrors, IndicesAndLabelsMustBeIntegers) {
  EXPECT_REFUSED(type,
                 "gather: f32[2] is not an integer tensor\n"
                 "  where: argument 'indices'\n"
                 "  why:   indices are positions, which are whole numbers\n"
                 "  fix:   convert it first: indices.astype('int32')",
                 {"f32[5]", "f32[2]"}, [](Graph& g, auto& in) { ops::gather(g, in[0], in[1], 0); });
  EXPECT_REFUSED(invalid_argument,
                 "sparse_cross_entropy: f32[4,10] and i32[4,10] do not fit\n"
                 "  why:   labels have the logits' shape without the last axis, [4]\n"
                 "  fix:   reshape the labels; one-hot labels are for cross entropy with probabilities",
                 {"f32[4,10]", "i32[4,10]"}, [](Graph& g, auto& in) { ops::sparse_cross_entropy(g, in[0], in[1]); });
}

TEST(OpErrors, DrawsCheckTheirParameters) {
  EXPECT_REFUSED(invalid_argument,
                 "dropout: rate 1 is out of range\n"
                 "  where: argument 'rate'\n"
                 "  why:   it is the part of the elements that is dropped: at least 0 and less than 1\n"
                 "  fix:   pass a rate such as 0.2",
                 {"f32[5]", "i64[2]"}, [](Graph& g, auto& in) { ops::dropout(g, in[0], in[1], 1); });
  EXPECT_REFUSED(invalid_argument,
                 "random_uniform: i32[2] is not the state of a generator\n"
                 "  where: argument 'state'\n"
                 "  why:   a state is i64[2], or i64[...,2] with the leading dimensions of the draw [5]\n"
                 "  fix:   pass {seed, counter} as int64",
                 {"i32[2]"}, [](Graph& g, auto& in) { ops::random_uniform(g, in[0], {DType::f32, {5}}, 0, 1); });
  EXPECT_REFUSED(invalid_argument,
                 "random_normal: mean 0 and deviation -1 do not fit\n"
                 "  where: arguments 'mean' and 'deviation'\n"
                 "  why:   the deviation is not negative\n"
                 "  fix:   pass numbers that f32 holds, their difference too",
                 {"i64[2]"}, [](Graph& g, auto& in) { ops::random_normal(g, in[0], {DType::f32, {5}}, 0, -1); });
}

TEST(OpErrors, DrawsRefuseBoundsOutsideOfTheirDtype) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  for (auto [dtype, low, high] : std::vector<std::tuple<DType, double, double>>{{DType::f32, nan, 1},
                                                                                {DType::f32, 0, inf},
                                                                                {DType::f32, 2, 1},
                                                                                {DType::f16, 0, 1e6},
                                                                                {DType::f16, -60000, 60000},
                                                                                {DType::f64, -1.5e308, 1.5e308},
                                                                                {DType::i32, 0, 1}}) {
    Graph g;
    const Value state = g.add_input(parse_type("i64[2]"));
    EXPECT_THROW(ops::random_uniform(g, state, {dtype, {3}}, low, high), Error) << dtype << " " << low << " " << high;
  }
}

TEST(OpErrors, AssignKeepsDtypeAndShape) {
  EXPECT_REFUSED(invalid_argument,
                 "assign: f32[3] cannot be the value of a variable of f32[2]\n"
                 "  why:   a variable keeps its shape\n"
                 "  fix:   reshape or broadcast the value to [2]",
                 {"f32[3]"}, [](Graph& g, auto& in) { ops::assign(g, g.add_resource({"w", parse_type("f32[2]")}), in[0]); });
  EXPECT_REFUSED(type,
                 "assign: f64[2] cannot be the value of a variable of f32[2]\n"
                 "  why:   a variable keeps its dtype\n"
                 "  fix:   convert the value: .astype('float32')",
                 {"f64[2]"}, [](Graph& g, auto& in) { ops::assign(g, g.add_resource({"w", parse_type("f32[2]")}), in[0]); });
}

TEST(OpErrors, AnUnknownOpNamesTheNearest) {
  try {
    ir::find_op("softmx");
    FAIL() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::not_found);
    EXPECT_EQ(e.parts.what, "there is no op named 'softmx'");
    EXPECT_EQ(e.parts.fix, "did you mean 'softmax'?");
  }
}

TEST(OpErrors, AnUnknownActivationNamesTheKnown) {
  section::Activation a;
  try {
    section::parse_attr("rely", a);
    FAIL() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.parts.what, "there is no activation named 'rely'");
    EXPECT_EQ(e.parts.why.find("there are: relu, "), 0u);
    for (const section::ActivationRow& row : section::kActivations) EXPECT_NE(e.parts.why.find(row.name), std::string::npos) << row.name;
    EXPECT_EQ(e.parts.fix, "did you mean 'relu'?");
  }
}

// --- at run time ---

std::pair<ErrorKind, std::string> refused_running(const Graph& g, const std::vector<Tensor>& in) {
  try {
    tests::evaluate(g, in);
  } catch (const Error& e) {
    return {e.kind, e.what()};
  }
  return {ErrorKind::internal, "nothing was thrown"};
}

TEST(OpErrors, ALabelOutOfRangeIsAnIndexError) {
  for (int64_t label : {7, -1, 5}) {
    Graph g;
    Value logits = g.add_input(parse_type("f32[3,5]")), labels = g.add_input(parse_type("i64[3]"));
    g.outputs = {ops::sparse_cross_entropy(g, logits, labels)};
    const auto [kind, text] = refused_running(g, {Tensor(parse_type("f32[3,5]")), Tensor::of<int64_t>({3}, {0, label, 9})});
    EXPECT_EQ(kind, ErrorKind::index);
    EXPECT_EQ(text, cat("label ", label,
                        " is out of range for 5 classes\n"
                        "  where: sparse_cross_entropy, labels[1]\n"
                        "  why:   labels are from 0 to 4\n"
                        "  fix:   correct the labels, or give the model as many outputs as there are classes"));
  }
}

TEST(OpErrors, AnIndexOutOfRangeIsAnIndexError) {
  for (int32_t index : {5, -6}) {
    Graph g;
    Value x = g.add_input(parse_type("f32[5,2]")), indices = g.add_input(parse_type("i32[2]"));
    g.outputs = {ops::gather(g, x, indices, 0)};
    const auto [kind, text] = refused_running(g, {Tensor(parse_type("f32[5,2]")), Tensor::of<int32_t>({2}, {-5, index})});
    EXPECT_EQ(kind, ErrorKind::index);
    EXPECT_EQ(text, cat("gather: index ", index,
                        " is out of range for an axis of length 5\n"
                        "  where: indices[1]\n"
                        "  why:   indices are from -5 to 4\n"
                        "  fix:   correct the indices"));
  }
  Graph g;
  Value updates = g.add_input(parse_type("f32[1]")), indices = g.add_input(parse_type("i32[1]"));
  g.outputs = {ops::scatter_add(g, updates, indices, {0}, 0)};
  const auto [kind, text] = refused_running(g, {Tensor(parse_type("f32[1]")), Tensor::of<int32_t>({1}, {0})});
  EXPECT_EQ(kind, ErrorKind::index);
  EXPECT_EQ(text,
            "scatter_add: index 0 is out of range for an axis of length 0\n  where: indices[0]\n  why:   the axis has no elements\n  fix:  "
            " correct the indices");
}

}  // namespace
}  // namespace lamina
