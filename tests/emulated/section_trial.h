// Runs a program's sections on memory of their own: by the CPU interpreter and, emulated, by GPU blocks.
#pragma once
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "graph/compile/compile.h"
#include "graph/passes/pipeline.h"
#include "kernels/section/block_section.h"
#include "kernels/section/flatten.h"
#include "runtime/device/backend.h"
#include "runtime/exec/program.h"
#include "tests/emulated/emulated.h"
#include "tests/emulated/networks.h"
#include "tests/emulated/races.h"

namespace lamina::tests {

// One section of a program with its own memory. It can be run repeatedly from the same values.
class Trial {
 public:
  explicit Trial(std::shared_ptr<const exec::Program> program, int instruction = 0, int classes = 10)
      : program_(std::move(program)), of_(program_->instructions[size_t(instruction)]) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<const exec::Slot*> first(program_->storages.size());
    for (const exec::Slot& s : program_->slots)
      if (!first[size_t(s.storage)]) first[size_t(s.storage)] = &s;
    for (size_t i = 0; i < program_->storages.size(); ++i) {
      const exec::Storage& storage = program_->storages[i];
      const int64_t bytes = storage.kind == exec::StorageKind::arena ? program_->arena_bytes[size_t(storage.index)] : storage.bytes;
      std::vector<char> values(size_t(bytes), char(0xff));  // unwritten memory is NaN
      if (storage.kind == exec::StorageKind::constant) {
        std::memcpy(values.data(), program_->constants[size_t(storage.index)]->data(), values.size());
      } else if (first[i] && (storage.kind == exec::StorageKind::input || storage.kind == exec::StorageKind::variable)) {
        // Weights and inputs have both signs; squares kept by an optimizer must not be negative.
        const std::string name = storage.kind == exec::StorageKind::variable ? program_->variables[size_t(storage.index)].name : "x/w";
        const bool is_signed = name.ends_with("/w") || name.ends_with("/b") || name.ends_with("kernel") || name.ends_with("bias");
        if (first[i]->view.dtype == DType::f32)
          for (size_t k = 0; k + 4 <= values.size(); k += 4) {
            float v = 0.15f * normal(random);
            if (!is_signed) v = std::fabs(v);
            std::memcpy(values.data() + k, &v, 4);
          }
        if (first[i]->view.dtype == DType::i64)
          for (size_t k = 0; k + 8 <= values.size(); k += 8) {
            const int64_t v = int64_t(random() % unsigned(classes));
            std::memcpy(values.data() + k, &v, 8);
          }
      }
      start_.push_back(std::move(values));
    }
    arena_ = -1;
    for (size_t i = 0; i < program_->storages.size(); ++i)
      if (program_->storages[i].kind == exec::StorageKind::arena && arena_ < 0) arena_ = int(i);
    restart();
  }

  const section::TableWithLoops& table() const { return *shared_table(); }
  // Start values, in place of random ones.
  void start_with(exec::StorageKind kind, int index, const void* bytes) {
    for (size_t i = 0; i < start_.size(); ++i)
      if (program_->storages[i].kind == kind && program_->storages[i].index == index)
        std::memcpy(start_[i].data(), bytes, start_[i].size());
    restart();
  }
  void run_cpu() {
    restart();
    Stream stream = cpu_backend().default_stream({});
    of_.kernel.run({stream, of_.kernel.args.get(), pointers(0), pointers(1)});
  }
  std::unique_ptr<section::BlockSection> plan(int blocks) const {
    auto s = std::make_unique<section::BlockSection>();
    s->table = shared_table();
    s->plan = section::plan_blocks(table(), ranges(), views_, blocks);
    return s;
  }
  // The same, with the stacked inputs of the section's first scan on the host.
  std::unique_ptr<section::BlockSection> plan_with_infeed(int blocks, int chunk) const {
    auto with = std::make_shared<section::TableWithLoops>(table());
    auto scan = std::make_shared<section::Nested>(*with->nested.at(0));
    scan->infeed.chunk = chunk;
    const auto step = std::find_if(with->steps.begin(), with->steps.end(),
                                   [](const section::Step& s) { return s.kind == section::StepKind::loop && s.code == 0; });
    std::set<int32_t> inputs;
    for (const section::InnerBuffer& b : scan->programs[0].buffers)
      if (b.slice != 0 && b.operand < step->ins) inputs.insert(b.operand);
    scan->infeed.inputs.assign(inputs.begin(), inputs.end());
    with->nested[0] = std::move(scan);
    auto s = std::make_unique<section::BlockSection>();
    s->plan = section::plan_blocks(*with, ranges(), views_, blocks);
    s->table = std::move(with);
    return s;
  }
  section::Flat flat() const { return flat(table()); }
  section::Flat flat(const section::TableWithLoops& table) const { return section::flatten(table, ranges(), views_); }
  void run_blocks(const section::BlockSection& s) {
    restart();
    go_on(s);
  }
  // From the values that the last run has left.
  void go_on(const section::BlockSection& s, Stream stream = cpu_backend().default_stream({})) {
    section::block_runner()->run({stream, &s, pointers(0), pointers(1)});
  }
  // Variables and outputs, number by number.
  std::vector<std::vector<float>> results() const {
    std::vector<std::vector<float>> out;
    for (size_t i = 0; i < program_->storages.size(); ++i) {
      const exec::StorageKind kind = program_->storages[i].kind;
      if (kind != exec::StorageKind::variable && kind != exec::StorageKind::output) continue;
      out.push_back(floats_of(i));
    }
    return out;
  }
  std::vector<float> variable(int resource) const { return result(exec::StorageKind::variable, resource); }
  std::vector<float> output(int number) const { return result(exec::StorageKind::output, number); }

 private:
  std::shared_ptr<const section::TableWithLoops> shared_table() const {
    if (program_->devices[0].kind == DeviceKind::cpu) return std::static_pointer_cast<const section::TableWithLoops>(of_.kernel.args);
    return static_cast<const section::BlockSection*>(of_.kernel.args.get())->table;
  }
  std::vector<float> floats_of(size_t storage) const {
    std::vector<float> values(memory_[storage]->size() / 4);
    std::memcpy(values.data(), memory_[storage]->data(), values.size() * 4);
    return values;
  }
  std::vector<float> result(exec::StorageKind kind, int index) const {
    for (size_t i = 0; i < program_->storages.size(); ++i)
      if (program_->storages[i].kind == kind && program_->storages[i].index == index) return floats_of(i);
    return {};
  }
  std::vector<section::OperandRange> ranges() const {
    std::vector<section::OperandRange> out;
    for (size_t i = 0; i < views_.size(); ++i) {
      const int64_t begin = static_cast<const char*>(views_[i].data) - memory_[size_t(space_of_[i])]->data();
      out.push_back(section::range_of(views_[i], space_of_[i], begin));
    }
    return out;
  }
  void restart() {
    if (memory_.empty())
      for (const auto& values : start_) memory_.push_back(std::make_unique<kernels::cuda::Buffer<char>>(values));
    for (size_t i = 0; i < start_.size(); ++i)
      if (!start_[i].empty()) std::memcpy(memory_[i]->data(), start_[i].data(), start_[i].size());
    if (!views_.empty()) return;
    for (const auto* list : {&of_.inputs, &of_.outputs})
      for (int number : *list) {
        const exec::Slot& slot = program_->slots[size_t(number)];
        const exec::Storage& storage = program_->storages[size_t(slot.storage)];
        View v = slot.view;
        // A device's arena is a single block of memory.
        v.data = storage.kind == exec::StorageKind::arena ? memory_[size_t(arena_)]->data() + storage.offset + slot.offset
                                                          : memory_[size_t(slot.storage)]->data() + slot.offset;
        views_.push_back(v);
        space_of_.push_back(storage.kind == exec::StorageKind::arena ? arena_ : slot.storage);
      }
    for (const View& v : views_) pointers_.push_back(&v);
  }
  std::span<const View* const> pointers(int which) const {
    const std::span<const View* const> all(pointers_);
    return which == 0 ? all.first(of_.inputs.size()) : all.subspan(of_.inputs.size());
  }

  std::shared_ptr<const exec::Program> program_;
  const exec::Instruction& of_;
  int arena_ = -1;
  std::vector<std::vector<char>> start_;
  std::vector<std::unique_ptr<kernels::cuda::Buffer<char>>> memory_;
  std::vector<View> views_;
  std::vector<int> space_of_;  // which memory block
  std::vector<const View*> pointers_;
};

inline std::shared_ptr<const exec::Program> program_of(const ir::Graph& g) {
  return compile::compile(passes::optimize(g).graph,
                          {.device = parse_device("cpu:0"), .input_devices = {}, .variable_devices = {}, .sections = true, .threads = 1});
}

// The largest difference, per tensor relative to its largest number. All numbers must be finite.
inline double difference(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    double high = 1e-30, most = 0;
    for (size_t k = 0; k < a[i].size(); ++k) {
      if (std::memcmp(&a[i][k], &b[i][k], 4) == 0) continue;
      if (!std::isfinite(a[i][k]) || !std::isfinite(b[i][k])) return 1e30;
      most = std::max(most, std::fabs(double(a[i][k]) - double(b[i][k])));
    }
    for (float v : a[i]) high = std::max(high, std::fabs(double(v)));
    worst = std::max(worst, most / high);
  }
  return worst;
}

// Expects the blocks' results to equal the CPU's within the tolerance.
inline void expect_same_within(Trial& trial, int blocks, double tolerance = 2e-6) {
  trial.run_cpu();
  const auto want = trial.results();
  const auto plan = trial.plan(blocks);
  auto run = [&] {
    trial.run_blocks(*plan);
    EXPECT_LE(difference(want, trial.results()), tolerance) << section::print(plan->plan);
  };
  if (kernels::cuda::races_are_checked())
    run();  // the result does not depend on the order
  else
    kernels::cuda::in_every_order(run);
}
inline void expect_same(Trial& trial, const std::vector<int>& grids, double tolerance = 2e-6) {
  for (int blocks : grids) expect_same_within(trial, blocks, tolerance);
}

// The same in a single thread order, for slow cases.
inline void expect_close(Trial& trial, int blocks, double tolerance) {
  trial.run_cpu();
  const auto want = trial.results();
  const auto plan = trial.plan(blocks);
  trial.run_blocks(*plan);
  EXPECT_LE(difference(want, trial.results()), tolerance);
}

// A training step of small_net().
inline std::shared_ptr<const exec::Program> small_program(std::shared_ptr<optim::Optimizer> optimizer) {
  const Tensor x = tensor(std::vector<float>(size_t(10 * 40), 0.5f), {10, 40}), y = tensor(std::vector<float>(60, 1.0f), {10, 6});
  auto step = small_net(std::move(optimizer));
  return program_of(step.concrete(x, y).graph());
}

}  // namespace lamina::tests
