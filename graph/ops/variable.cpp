// read() -> a Variable's value; assign(value) -> nothing, sets the Variable. Program order per Variable.
#include "graph/ops/ops.h"

namespace lamina::ops {
namespace {

std::vector<TensorType> infer_read(const ir::InferCall& call) { return {ir::attrs_of<ir::ResourceAttrs>(call.attrs).type}; }

std::vector<TensorType> infer_assign(const ir::InferCall& call) {
  const TensorType& type = ir::attrs_of<ir::ResourceAttrs>(call.attrs).type;
  const TensorType& value = call.in[0];
  if (value.dtype != type.dtype)
    throw Error(ErrorKind::type, {.what = cat("assign: ", value, " cannot be the value of a variable of ", type),
                                  .where = "",
                                  .why = "a variable keeps its dtype",
                                  .fix = cat("convert the value: .astype('", numpy_name(type.dtype), "')")});
  if (value.shape != type.shape)
    throw Error(ErrorKind::invalid_argument, {.what = cat("assign: ", value, " cannot be the value of a variable of ", type),
                                              .where = "",
                                              .why = "a variable keeps its shape",
                                              .fix = cat("reshape or broadcast the value to [", text(type.shape), "]")});
  return {};
}

constexpr const char* kStacked = "vmap maps the stacked variables themselves and rewrites their reads and writes";

}  // namespace

constinit const ir::OpDef def::read{
    .name = "read",
    .inputs = 0,
    .parse_attrs = ir::Attrs<ir::ResourceAttrs>::parse,
    .infer = infer_read,
    .vjp = [](const ir::VjpCall&) { return std::vector<Value>{}; },
    .effect = ir::Effect::read,
    .no_batch = kStacked,
    .no_cpu = "the planner binds it",
    .no_cuda = "the planner binds it",
    .doc = "the value of a variable",
};

constinit const ir::OpDef def::assign{
    .name = "assign",
    .inputs = 1,
    .parse_attrs = ir::Attrs<ir::ResourceAttrs>::parse,
    .infer = infer_assign,
    .effect = ir::Effect::write,
    .no_vjp = "it has no result",
    .no_batch = kStacked,
    .no_cpu = "the planner binds it",
    .no_cuda = "the planner binds it",
    .doc = "gives a variable a new value of its dtype and shape",
};

}  // namespace lamina::ops
