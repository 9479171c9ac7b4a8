#include <algorithm>

#include "kernels/section/access.h"
#include "runtime/core/error.h"

namespace lamina::section {
namespace {

bool contains(const OperandRange& a, const OperandRange& b) { return a.space == b.space && a.begin <= b.begin && b.end <= a.end; }
bool same(const OperandRange& a, const OperandRange& b) { return a.space == b.space && a.begin == b.begin && a.end == b.end; }

class TableValidator {
 public:
  TableValidator(const Table& table, const std::vector<OperandRange>& ranges, int inputs)
      : table_(table), ranges_(ranges), inputs_(inputs), state_(ranges.size()), written_(ranges.size()), earlier_(ranges) {
    for (size_t i = 0; i < ranges.size(); ++i)
      if (int(i) < inputs || ranges[i].holds_value) state_[i] = State::valid;
    for (size_t i = 0; i < ranges.size(); ++i) index_.add(ranges[i], int(i));
  }

  void run() {
    for (number_ = 0; number_ < table_.steps.size(); ++number_) {
      const Step& step = table_.steps[number_];
      check_form(step);
      accesses_of(table_, step, accesses_);
      check_own_overlaps(step);
      check_reads(step);
      check_barrier(step);
      record_writes();
    }
  }

 private:
  enum class State : uint8_t { unwritten, valid, overwritten };

  [[noreturn]] void fail(const std::string& why) const {
    internal_error(cat("section step ", number_, " (", name(table_.steps[number_].kind), ") ", why));
  }
  void require(bool good, const char* why) const {
    if (!good) fail(why);
  }

  const OperandRange& range_of_output(const Step& s, int i) const {
    return ranges_[size_t(table_.operands[size_t(s.first_out + i)].buffer)];
  }

  void check_form(const Step& s) const {
    require(s.ins >= 0 && s.outs >= 0 && s.first_in >= 0 && s.first_out >= 0 &&
                size_t(s.first_in) + size_t(s.ins) <= table_.operands.size() &&
                size_t(s.first_out) + size_t(s.outs) <= table_.operands.size(),
            "names an operand that is not there");
    for (int i = 0; i < s.ins + s.outs; ++i) {
      const Operand& o = table_.operands[size_t(i < s.ins ? s.first_in + i : s.first_out + i - s.ins)];
      require(o.buffer >= 0 && size_t(o.buffer) < ranges_.size(), "names a buffer that is not there");
      require(i < s.ins || o.buffer >= inputs_, "writes an input of the section");
    }
    require(s.rows >= 0 && s.k >= 0 && s.n >= 0, "has a negative size");
    const bool of_leaves = s.kind == StepKind::dense_update && s.partition == Partition::tiles;
    require(s.replicas >= 1 && (s.replicas == 1 || s.partition == Partition::models || of_leaves), "has models that are not shared out");
    require(!of_leaves || s.replicas == 1 || s.replicas <= s.rows, "has more leaves than rows");
    const int gradients = of_leaves ? s.replicas : 1;
    require(s.owner >= 0 && (s.owner == 0 || s.partition == Partition::one), "belongs to one thread and is shared");
    if (s.partition == Partition::models) check_models(s);
    auto counts = [&](int ins, int outs) { require(s.ins == ins && s.outs == outs, "has the wrong number of operands"); };
    auto code = [&](int index, int code_ins) -> int {
      require(index >= 0 && size_t(index) < table_.codes.size(), "names a code that is not there");
      require(int(table_.codes[size_t(index)].inputs.size()) == code_ins, "gives its code the wrong number of inputs");
      return int(table_.codes[size_t(index)].outputs.size());
    };
    switch (s.kind) {
      case StepKind::dense: counts(2 + s.has_bias, 1); break;
      case StepKind::dense_grad_input: counts(2 + s.has_mask, 1); break;
      case StepKind::dense_update: {
        require(s.extras >= 0 && s.ins >= 2 + s.extras, "has the wrong number of operands");
        require(s.partition != Partition::rows, "cannot be shared by rows");
        require(s.code >= 0 || s.extras == 0, "has inputs for a code that is not there");
        require(s.has_bias || s.ins == 2 + s.extras, "has inputs for a bias that is not there");
        int outs = s.code >= 0 ? code(s.code, gradients + s.extras) : 0;
        if (s.has_bias) outs += code(s.code2, gradients + s.ins - 2 - s.extras);
        require(s.outs == outs, "has the wrong number of operands");
        break;
      }
      case StepKind::elementwise: require(code(s.code, s.ins) == s.outs, "has the wrong number of operands"); break;
      case StepKind::reduce:
        counts(1, 1);
        require(s.reduced != Broadcast::full, "reduces nothing");
        require(s.partition != Partition::rows || s.reduced == Broadcast::column, "cannot be shared by rows");
        break;
      case StepKind::softmax:
      case StepKind::log_softmax: counts(1, 1); break;
      case StepKind::copy:
        if (s.outs == 1) return counts(1, 1);
        require(s.ins >= 1 && s.outs == 1 + s.ins, "has the wrong number of operands");
        for (int i = 1; i < s.outs; ++i)
          require(contains(range_of_output(s, 0), range_of_output(s, i)), "copies to a part that is not its result's");
        break;
      case StepKind::sparse_cross_entropy: counts(2, 2); break;
      case StepKind::dropout:
        counts(2, 1);
        require(s.scalar >= 0 && s.scalar < 1, "has a rate that is not in [0, 1)");
        break;
      case StepKind::all_reduce:
        require(s.k >= 0 && size_t(s.k) < table_.sums.size(), "names a sum that is not there");
        counts(int(table_.sums[size_t(s.k)].counts.size()), int(table_.sums[size_t(s.k)].counts.size()));
        require(s.partition == Partition::one, "cannot be shared");
        break;
      case StepKind::loop:
      case StepKind::branch:
        require(s.code >= 0, "has no body");
        require(s.partition == Partition::one, "cannot be shared");
        break;
      default: fail("is of no kind");
    }
  }

  void check_models(const Step& s) const {
    switch (s.kind) {
      case StepKind::dense:
      case StepKind::dense_grad_input:
      case StepKind::dense_update:
      case StepKind::elementwise:
      case StepKind::reduce:
      case StepKind::softmax:
      case StepKind::log_softmax:
      case StepKind::dropout: break;
      default: fail("cannot be shared by models");
    }
    for (int i = 0; i < s.ins + s.outs; ++i) {
      const Operand& o = table_.operands[size_t(i < s.ins ? s.first_in + i : s.first_out + i - s.ins)];
      require(o.model_stride >= 0 && (i < s.ins || s.replicas == 1 || o.model_stride > 0), "writes one place for all models");
    }
  }

  // A result may share an input's memory only if each element is read before it is written, by the same thread.
  void check_own_overlaps(const Step& s) const {
    for (size_t o = size_t(s.ins); o < accesses_.size(); ++o) {
      const OperandRange& out = ranges_[size_t(accesses_[o].buffer)];
      for (size_t i = 0; i < accesses_.size(); ++i) {
        const OperandRange& other = ranges_[size_t(accesses_[i].buffer)];
        if (i == o || !overlap(out, other)) continue;
        bool may = i < size_t(s.ins) && same(out, other);
        switch (s.kind) {
          case StepKind::elementwise:
          case StepKind::softmax:
          case StepKind::log_softmax: break;
          case StepKind::dense_update: may = may && i >= 2; break;
          case StepKind::dropout: may = may && i == 0; break;
          default: may = false; break;
        }
        if (!may)
          fail(cat("writes %", accesses_[o].buffer, " over %", accesses_[i].buffer, ", which it also ",
                   i < size_t(s.ins) ? "reads" : "writes"));
      }
    }
  }

  void check_reads(const Step& s) const {
    for (int i = 0; i < s.ins; ++i) {
      const int buffer = accesses_[size_t(i)].buffer;
      const OperandRange& range = ranges_[size_t(buffer)];
      if (range.begin >= range.end || state_[size_t(buffer)] == State::valid) continue;
      if (state_[size_t(buffer)] == State::overwritten) fail(cat("reads %", buffer, " after an earlier step overwrote it"));
      if (!covered(range)) fail(cat("reads %", buffer, ", which nobody wrote"));
    }
  }
  // A view of bytes written under other buffer numbers: every byte must have been written.
  bool covered(const OperandRange& range) const {
    std::vector<std::pair<int64_t, int64_t>> parts;
    index_.any_overlapping(range, [&](int other) {
      if (state_[size_t(other)] == State::valid) parts.emplace_back(ranges_[size_t(other)].begin, ranges_[size_t(other)].end);
      return false;
    });
    std::sort(parts.begin(), parts.end());
    int64_t reached = range.begin;
    for (auto [begin, end] : parts)
      if (begin <= reached) reached = std::max(reached, end);
    return reached >= range.end;
  }

  void check_barrier(const Step& step) {
    if (table_.threads == 1) return;
    if (step.barrier_before) earlier_.clear();
    for (const Access& b : accesses_)
      if (const EarlierAccesses::Earlier* a = earlier_.conflicting(step, b))
        fail(cat("needs a barrier before it: step ", a->step - table_.steps.data(), a->access.write ? " writes %" : " reads %",
                 a->access.buffer, ", it ", b.write ? "writes %" : "reads %", b.buffer));
    for (const Access& b : accesses_) earlier_.add(step, b);
  }

  // A buffer never written under its own number is an input or a view of other buffers, so its bytes may change.
  void record_writes() {
    for (const Access& access : accesses_) {
      if (!access.write) continue;
      const OperandRange& range = ranges_[size_t(access.buffer)];
      index_.any_overlapping(range, [&](int other) {
        if (other != access.buffer && written_[size_t(other)]) state_[size_t(other)] = State::overwritten;
        return false;
      });
    }
    for (const Access& access : accesses_)
      if (access.write) state_[size_t(access.buffer)] = State::valid, written_[size_t(access.buffer)] = true;
  }

  const Table& table_;
  const std::vector<OperandRange>& ranges_;
  const int inputs_;
  std::vector<State> state_;
  std::vector<char> written_;  // by a step of this section
  RangeIndex index_;           // of all buffers
  EarlierAccesses earlier_;    // since the last barrier
  std::vector<Access> accesses_;
  size_t number_ = 0;
};

}  // namespace

void validate(const Table& table, const std::vector<OperandRange>& ranges, int instruction_inputs) {
  if (table.threads < 1) internal_error(cat("a section for ", table.threads, " threads"));
  TableValidator(table, ranges, instruction_inputs).run();
}

}  // namespace lamina::section
