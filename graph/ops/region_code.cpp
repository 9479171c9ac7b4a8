#include "graph/ops/region_code.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "graph/ops/kernel_call.h"
#include "graph/ops/ops.h"
#include "graph/ops/section_step.h"

namespace lamina::ops {
namespace {

using kernels::ElementwiseCode;
using kernels::ScalarOp;

int16_t narrow(size_t number) {
  if (number > size_t(std::numeric_limits<int16_t>::max())) internal_error("an elementwise program has too many registers");
  return int16_t(number);
}

// How an operand of `shape` broadcasts to `full`, seen as rows x n with the first `split` axes as rows.
bool broadcast_of(const std::vector<int64_t>& shape, const std::vector<int64_t>& full, size_t split, section::Broadcast& out) {
  auto length = [&](size_t axis) {
    size_t missing = full.size() - shape.size();
    return axis < missing ? int64_t(1) : shape[axis - missing];
  };
  bool has_rows = true, one_row = true, has_columns = true, one_column = true;
  for (size_t a = 0; a < full.size(); ++a) {
    bool& has = a < split ? has_rows : has_columns;
    bool& one = a < split ? one_row : one_column;
    has = has && length(a) == full[a];
    one = one && length(a) == 1;
  }
  if (has_rows && has_columns)
    out = section::Broadcast::full;
  else if (one_row && one_column)
    out = section::Broadcast::scalar;
  else if (one_row && has_columns)
    out = section::Broadcast::row;
  else if (has_rows && one_column)
    out = section::Broadcast::column;
  else
    return false;
  return true;
}

}  // namespace

ElementwiseCode code_of(const char* op, const ir::Graph& region) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": the region is not elementwise"), .where = "", .why = why, .fix = ""});
  };
  if (region.size() > std::numeric_limits<int16_t>::max()) refuse("it has too many nodes");
  ElementwiseCode code;
  std::vector<std::vector<int16_t>> registers(static_cast<size_t>(region.size()));
  for (Value v : region.inputs) {
    registers[size_t(v.node)] = {narrow(code.inputs.size())};
    code.inputs.push_back(region.type(v).dtype);
  }
  for (int n = 0; n < region.size(); ++n) {
    const ir::Literal* literal = ir::constant_value(region, {n, 0});
    if (!literal) continue;
    const size_t size = size_of(literal->type.dtype);
    for (size_t at = size; literal->bytes && at < literal->bytes->size(); at += size)
      if (std::memcmp(literal->bytes->data(), literal->bytes->data() + at, size) != 0) refuse("a constant holds more than one number");
    const double number = size_of(literal->type.shape) == Dim(0) ? 0 : literal->first();
    const auto same = std::ranges::find_if(code.constants, [&](const auto& one) {  // by bits: 0.0 is not -0.0
      return one.first == literal->type.dtype && std::bit_cast<uint64_t>(one.second) == std::bit_cast<uint64_t>(number);
    });
    registers[size_t(n)] = {narrow(code.inputs.size() + size_t(same - code.constants.begin()))};
    if (same == code.constants.end()) code.constants.emplace_back(literal->type.dtype, number);
  }
  for (int n = 0; n < region.size(); ++n) {
    const ir::Node& node = region[n];
    if (!registers[size_t(n)].empty()) continue;
    if (node.op->scalar_op < 0) refuse(cat("it has a ", node.op->name));
    ElementwiseCode::Instruction in{.op = ScalarOp(node.op->scalar_op), .type = DType::f32, .result = node.types[0].dtype, .a = 0};
    int16_t* operands[] = {&in.a, &in.b, &in.c};
    for (size_t i = 0; i < node.inputs.size(); ++i) *operands[i] = registers[size_t(node.inputs[i].node)].at(size_t(node.inputs[i].result));
    in.type = region.type(node.inputs.back()).dtype;  // `where` has a condition of another type
    registers[size_t(n)] = {narrow(code.inputs.size() + code.constants.size() + code.instructions.size())};
    code.instructions.push_back(in);
  }
  for (Value v : region.outputs) code.outputs.push_back(registers[size_t(v.node)].at(size_t(v.result)));
  return code;
}

ElementwiseCode code_of(ScalarOp op, std::span<const TensorType> in, DType result) {
  ElementwiseCode code;
  for (const TensorType& t : in) code.inputs.push_back(t.dtype);
  code.instructions.push_back({.op = op, .type = in.back().dtype, .result = result, .a = 0, .b = 1, .c = 2});
  if (in.size() < 3) code.instructions[0].c = 0;
  if (in.size() < 2) code.instructions[0].b = 0;
  code.outputs = {narrow(in.size())};
  return code;
}

namespace {
// Wide unsigned integers are only converted, by a kernel of the CPU.
bool has_rare(const ElementwiseCode& code) {
  return std::any_of(code.inputs.begin(), code.inputs.end(), is_rare) ||
         std::any_of(code.instructions.begin(), code.instructions.end(), [](const auto& in) { return is_rare(in.result); });
}
}  // namespace

Kernel elementwise_kernel(On on, ElementwiseCode code) {
  if (on == On::cpu) return bind<kernels::cpu::elementwise>(std::move(code));
  return kernels::cuda::fits(code) && !has_rare(code) ? bind<kernels::cuda::elementwise, On::gpu>(std::move(code)) : Kernel{};
}

bool elementwise_step(const ir::KernelRequest& request, ElementwiseCode code, ir::SectionStep& step) {
  if (has_rare(code)) return false;
  const std::vector<int64_t> full = numbers(request.out[0].shape);
  // Rows are the leading axis, as in every step over a batch, so that threads take the same rows in all steps. If an operand does not fit,
  // the last axis may still serve as columns.
  struct Way {
    size_t split;
    bool by_models;  // the first axis separately: each entry as a model of an ensemble
  };
  std::vector<Way> ways{{full.size() < 2 ? size_t(0) : size_t(1), false}};
  if (full.size() > 2) ways.insert(ways.end(), {{1, true}, {full.size() - 2, true}, {full.size() - 1, false}});
  for (const auto& [split, by_models] : ways) {
    const int64_t models = by_models ? full[0] : 1;
    if (models == 0) continue;
    const std::vector<int64_t> whole(full.begin() + by_models, full.end());
    int64_t rows = 1, n = 1;
    for (size_t a = 0; a < whole.size(); ++a) (a < split ? rows : n) *= whole[a];
    if (std::max({rows, n, by_models ? rows * n : 0}) > std::numeric_limits<int32_t>::max()) return false;
    std::vector<section::Operand> operands;
    bool fits = true;
    for (size_t i = 0; i < request.in.size() && fits; ++i) {
      section::Operand operand{.buffer = int32_t(i)};
      std::vector<int64_t> shape = numbers(request.in[i].shape);
      if (by_models && shape.size() == full.size()) {
        if (shape[0] == models) operand.model_stride = model_stride(request.in[i], whole.size(), models);
        shape.erase(shape.begin());
      }
      fits = broadcast_of(shape, whole, split, operand.broadcast);
      operands.push_back(operand);
    }
    if (!fits) continue;
    for (size_t o = 0; o < request.out.size(); ++o)
      operands.push_back({.buffer = int32_t(request.in.size() + o), .model_stride = by_models ? int32_t(rows * n) : 0});
    section::Step& s = step.step;
    s.kind = section::StepKind::elementwise;
    s.rows = int32_t(rows), s.n = int32_t(n);
    s.code = 0;
    s.ins = int32_t(request.in.size()), s.outs = int32_t(request.out.size()), s.first_out = s.ins;
    s.partition = by_models ? section::Partition::models : split == 1 && rows > 1 ? section::Partition::rows : section::Partition::one;
    s.replicas = int32_t(models);
    step.operands = std::move(operands);
    step.flops = double(rows) * double(n) * double(models) * double(code.instructions.size());
    step.codes = {std::move(code)};
    return true;
  }
  return false;
}

}  // namespace lamina::ops
