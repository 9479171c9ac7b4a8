#include "tests/kernels/cpu/section_builder.h"

#include <cstring>

#include "kernels/section/stages.h"

namespace lamina::section {

using kernels::ElementwiseCode;
using kernels::ScalarOp;

int SectionBuilder::input(std::vector<float> values) {
  const int buffer = output(int64_t(values.size()));
  set(buffer, values);
  inputs = buffer + 1;
  return buffer;
}
int SectionBuilder::input_integers(std::vector<int64_t> values) {
  const int buffer = output(int64_t(values.size()) * 2);
  Memory& m = memories_[size_t(memory_of_[size_t(buffer)])];
  m.dtype = DType::i64;
  m.count = int64_t(values.size());
  std::memcpy(m.bytes.data(), values.data(), values.size() * sizeof(int64_t));
  inputs = buffer + 1;
  return buffer;
}
int SectionBuilder::output(int64_t count) {
  const int memory = int(memories_.size());
  memories_.push_back({std::vector<char>(size_t(count) * sizeof(float)), DType::f32, count});
  memory_of_.push_back(memory);
  ranges.push_back({.space = memory, .begin = 0, .end = count * int64_t(sizeof(float)), .holds_value = false});
  return int(ranges.size()) - 1;
}
int SectionBuilder::inner(int64_t count) {
  const int buffer = output(count);
  ranges.back().is_inner = true;
  return buffer;
}
int SectionBuilder::alias(int buffer) {
  memory_of_.push_back(memory_of_[size_t(buffer)]);
  ranges.push_back(ranges[size_t(buffer)]);
  ranges.back().holds_value = true;
  return int(ranges.size()) - 1;
}

Step& SectionBuilder::add(StepKind kind, Partition partition, int32_t rows, int32_t k, int32_t n, std::vector<Operand> ins,
                          std::vector<Operand> outs) {
  Step s;
  s.kind = kind, s.partition = partition, s.rows = rows, s.k = k, s.n = n;
  s.first_in = int32_t(table.operands.size()), s.ins = int32_t(ins.size());
  table.operands.insert(table.operands.end(), ins.begin(), ins.end());
  s.first_out = int32_t(table.operands.size()), s.outs = int32_t(outs.size());
  table.operands.insert(table.operands.end(), outs.begin(), outs.end());
  table.steps.push_back(s);
  return table.steps.back();
}

int SectionBuilder::code(ElementwiseCode code) {
  table.codes.push_back(std::move(code));
  return int(table.codes.size()) - 1;
}

void SectionBuilder::finish(int threads) {
  table.threads = threads;
  table.flops = 1e12;  // enough for any number of threads
  place_barriers(table, ranges);
  validate(table, ranges, inputs);
  place_ways(table, ranges, 0);
}

void SectionBuilder::run() {
  std::vector<View> views;
  for (int memory : memory_of_) {
    Memory& m = memories_[size_t(memory)];
    views.push_back(contiguous_view(m.bytes.data(), {m.dtype, {m.count}}));
  }
  std::vector<const View*> all;
  for (const View& v : views) all.push_back(&v);
  Stream stream = cpu_backend().default_stream({});
  kernels::cpu::run_section({stream, &table, std::span(all).first(size_t(inputs)), std::span(all).subspan(size_t(inputs))});
}

std::vector<float> SectionBuilder::values(int buffer) const {
  const Memory& m = memories_[size_t(memory_of_[size_t(buffer)])];
  std::vector<float> v(static_cast<size_t>(m.count));
  std::memcpy(v.data(), m.bytes.data(), v.size() * sizeof(float));
  return v;
}
void SectionBuilder::set(int buffer, const std::vector<float>& values) {
  std::memcpy(memories_[size_t(memory_of_[size_t(buffer)])].bytes.data(), values.data(), values.size() * sizeof(float));
}

namespace {
constexpr DType f32 = DType::f32;
}
ElementwiseCode descent_code(bool rate_first) {
  return {.inputs = {f32, f32, f32},
          .constants = {},
          .instructions = {{ScalarOp::mul, f32, f32, int16_t(rate_first ? 2 : 0), int16_t(rate_first ? 0 : 2)},
                           {ScalarOp::sub, f32, f32, 1, 3}},
          .outputs = {4}};
}
ElementwiseCode momentum_code() {
  return {.inputs = {f32, f32, f32, f32},
          .constants = {{f32, 0.9}},
          .instructions = {{ScalarOp::mul, f32, f32, 4, 2},
                           {ScalarOp::add, f32, f32, 5, 0},
                           {ScalarOp::mul, f32, f32, 3, 6},
                           {ScalarOp::sub, f32, f32, 1, 7}},
          .outputs = {8, 6}};
}
ElementwiseCode unary_code(ScalarOp op) { return {.inputs = {f32}, .constants = {}, .instructions = {{op, f32, f32, 0}}, .outputs = {1}}; }
ElementwiseCode binary_code(ScalarOp op) {
  return {.inputs = {f32, f32}, .constants = {}, .instructions = {{op, f32, f32, 0, 1}}, .outputs = {2}};
}
ElementwiseCode identity_code() { return {.inputs = {f32}, .constants = {}, .instructions = {}, .outputs = {0}}; }

}  // namespace lamina::section
