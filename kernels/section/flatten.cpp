#include "kernels/section/flatten.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "kernels/section/access.h"
#include "kernels/section/rank_sums.h"
#include "runtime/core/error.h"

namespace lamina::section {
namespace {

constexpr int kFirstConstantSpace = 1 << 28;

class Flattener {
 public:
  Flattener(const TableWithLoops& table, const std::vector<OperandRange>& ranges, const std::vector<View>& views) : outer_(table) {
    out_.movers.emplace_back();
    for (size_t i = 0; i < ranges.size(); ++i)
      out_.buffers.push_back({.range = ranges[i], .first = ranges[i].begin - range_of(views[i], 0, 0).begin, .view = views[i]});
  }

  Flat run() {
    std::vector<int> same(out_.buffers.size());
    for (size_t i = 0; i < same.size(); ++i) same[i] = int(i);
    out_.table.sums = outer_.sums;
    add_table(outer_, same);
    // Nothing follows: the end of the launch is a barrier too.
    if (last_is(Turn::meet)) drop_turn();
    for (BlockTurn& turn : out_.turns)
      if (turn.target >= 0) {
        const size_t target = std::min(size_t(turn.target), out_.table.steps.size());
        const bool at_turn = target < out_.table.steps.size() && out_.table.steps[target].kind == StepKind::loop;
        turn.target_run = at_turn || target == out_.table.steps.size() ? -1 : out_.run_of[target];
      }
    return std::move(out_);
  }

 private:
  int step_count() const { return int(out_.table.steps.size()); }
  bool last_is(Turn turn) const {
    return !out_.table.steps.empty() && out_.table.steps.back().kind == StepKind::loop && out_.turns.back().turn == turn;
  }

  void add_step(Step step, int64_t copied = 0, std::string name = "") {
    out_.table.steps.push_back(step);
    out_.names.push_back(std::move(name));
    out_.run_of.push_back(int(out_.turns.size()));
    out_.copied.push_back(copied);
    out_.announced.emplace_back();
  }
  int operand(int buffer) {
    out_.table.operands.push_back({.buffer = buffer});
    return int(out_.table.operands.size()) - 1;
  }
  // Adds a turn and returns its number. A barrier directly before a barrier is dropped, and jumps to it are redirected here.
  int add_turn(BlockTurn turn) {
    if (turn.barrier && last_is(Turn::meet)) drop_turn();
    if (out_.table.steps.empty()) turn.barrier = 0;
    Step step;
    step.kind = StepKind::loop;
    step.code = int(out_.turns.size());
    add_step(step);
    out_.turns.push_back(turn);
    return step.code;
  }
  void drop_turn() {
    out_.turns.pop_back();
    out_.table.steps.pop_back(), out_.names.pop_back(), out_.run_of.pop_back(), out_.copied.pop_back(), out_.announced.pop_back();
  }
  BlockTurn& turn(int number) { return out_.turns[size_t(number)]; }

  // buffers: the table's, as indices into out_.buffers.
  void add_table(const TableWithLoops& table, const std::vector<int>& buffers) {
    const int codes = int(out_.table.codes.size());
    out_.table.codes.insert(out_.table.codes.end(), table.codes.begin(), table.codes.end());
    for (size_t number = 0; number < table.steps.size(); ++number) {
      Step step = table.steps[number];
      std::vector<int> own;  // the step's operands: inputs, then outputs
      for (int i = 0; i < step.ins + step.outs; ++i)
        own.push_back(buffers.at(size_t(table.operands[size_t(i < step.ins ? step.first_in + i : step.first_out + i - step.ins)].buffer)));
      if (step.kind == StepKind::loop || step.kind == StepKind::branch) {
        add_nested(*table.nested.at(size_t(step.code)), own, size_t(step.ins));
        continue;
      }
      if (step.kind == StepKind::all_reduce) {
        add_sum(step, own);
        continue;
      }
      const int first = int(out_.table.operands.size());
      for (int i = 0; i < step.ins + step.outs; ++i) {
        Operand o = table.operands[size_t(i < step.ins ? step.first_in + i : step.first_out + i - step.ins)];
        o.buffer = own[size_t(i)];
        out_.table.operands.push_back(o);
      }
      step.first_in = first, step.first_out = first + step.ins;
      if (step.code >= 0) step.code += codes;
      if (step.code2 >= 0) step.code2 += codes;
      add_step(step, 0, number < table.names.size() ? table.names[number].text() : "");
    }
  }

  void add_sum(const Step& step, const std::vector<int>& own) {
    int first = 0;  // of its values
    for (int32_t s = 0; s < step.k; ++s) first += int(outer_.sums[size_t(s)].counts.size());
    for (const StepKind kind : {StepKind::announce, StepKind::collect})
      for (int i = 0; i < step.ins; ++i) {
        const View& roots = out_.buffers[size_t(own[size_t(i)])].view;
        const int64_t count = outer_.sums[size_t(step.k)].counts[size_t(i)];
        Step part{.kind = kind, .partition = Partition::tiles, .rows = chunks_of(count), .k = first + i, .n = int32_t(count)};
        if (kind == StepKind::announce) {
          part.ins = 1, part.extras = int32_t(roots.shape[0]);
          part.first_in = part.first_out = operand(own[size_t(i)]);
        } else {
          part.outs = 1, part.first_in = part.first_out = operand(own[size_t(step.ins + i)]);
        }
        add_step(part);
      }
  }

  void add_nested(const Nested& nested, const std::vector<int>& own, size_t ins) {
    const size_t carried = nested.carried_bytes.size();
    for (size_t i = 0; i < carried; ++i) add_copy(own[i], own[ins + i], nested.carried_bytes[i]);
    if (nested.kind == Nested::Kind::branch) return add_branch(nested, own);
    const int loop = out_.loops++;
    if (nested.kind == Nested::Kind::while_loop) {
      add_turn({.turn = Turn::loop, .loop = loop, .limit = nested.limit});
      const int condition = step_count();
      add_program(nested.programs[0], own, loop, false);
      const int test = add_turn({.turn = Turn::test, .loop = loop, .operand = operand(own.back()), .result = operand(own[ins + carried])});
      add_program(nested.programs[1], own, loop, false);
      add_turn({.turn = Turn::again, .always = 1, .loop = loop, .target = condition});
      turn(test).target = step_count();
      add_turn({.turn = Turn::meet});
      return;
    }
    BlockTurn scan{.turn = Turn::scan, .loop = loop, .limit = nested.limit, .first_tail = int32_t(out_.tails.size())};
    if (nested.count >= 0) {
      scan.operand = operand(own[size_t(nested.count)]);
      for (size_t i = 0; i < nested.stacked_bytes.size(); ++i)
        if (nested.stacked_bytes[i] > 0)
          out_.tails.push_back({.operand = operand(own[ins + carried + i]), .bytes = nested.stacked_bytes[i]});
    }
    scan.tails = int32_t(out_.tails.size()) - scan.first_tail;
    const bool from_host = nested.infeed.chunk > 0;
    if (from_host) plan_infeed(nested, own);
    const int begin = add_turn(scan), body = step_count();
    add_program(nested.programs[0], own, loop, nested.reverse, nested.infeed);
    const int again = add_turn({.turn = Turn::again, .infeed = from_host, .loop = loop, .target = body});
    turn(begin).target = turn_step(again);
  }
  // Concatenates the rings of stacked inputs that stay on the host.
  void plan_infeed(const Nested& nested, const std::vector<int>& own) {
    constexpr int64_t alignment = 256;
    const bool fits = out_.infeed.chunk == 0 && !nested.reverse && nested.count < 0 && nested.limit >= 0 &&
                      nested.limit <= std::numeric_limits<int32_t>::max();
    if (!fits) internal_error("slices come from the host for a loop that cannot wait for them");
    out_.infeed.chunk = nested.infeed.chunk, out_.infeed.slices = nested.limit;
    for (const int32_t input : nested.infeed.inputs) {
      int64_t slice = 0;
      for (const InnerBuffer& b : nested.programs[0].buffers)
        if (b.operand == input) slice = b.slice;
      if (slice == 0) continue;  // nothing reads it
      out_.infeed.stacks.push_back({.buffer = own.at(size_t(input)), .slice = slice, .at = out_.infeed.bytes});
      out_.infeed.bytes += (2 * nested.infeed.chunk * slice + alignment - 1) / alignment * alignment;
    }
  }
  void add_branch(const Nested& nested, const std::vector<int>& own) {
    const int branch = add_turn({.turn = Turn::branch, .operand = operand(own[0])});
    add_program(nested.programs[0], own, -1, false);
    const int leave = add_turn({.turn = Turn::leave, .barrier = 0});
    turn(branch).target = step_count();
    add_program(nested.programs[1], own, -1, false);
    turn(leave).target = add_meet();
  }
  int add_meet() { return turn_step(add_turn({.turn = Turn::meet})); }
  int turn_step(int number) const {
    for (int i = step_count(); i-- > 0;)
      if (out_.table.steps[size_t(i)].kind == StepKind::loop && out_.table.steps[size_t(i)].code == number) return i;
    internal_error("a turn that no step is");
  }

  void add_copy(int from, int to, int64_t bytes) {
    if (bytes == 0) return;
    Step step;
    step.kind = StepKind::copy;
    step.partition = Partition::tiles;
    step.rows = 1, step.n = 1;
    step.ins = step.outs = 1;
    step.first_in = operand(from), step.first_out = operand(to);
    add_step(step, bytes);
  }

  void add_program(const InnerProgram& program, const std::vector<int>& own, int loop, bool reverse, const Infeed& infeed = {}) {
    std::vector<int> buffers;
    for (const InnerBuffer& b : program.buffers) {
      FlatBuffer flat{.range = {}, .first = 0, .view = b.view};
      int space = 0;
      if (b.operand < 0) {
        flat.constant = static_cast<char*>(b.view.data);
        space = constant_spaces_.try_emplace(flat.constant, kFirstConstantSpace + int(constant_spaces_.size())).first->second;
      } else {
        const FlatBuffer& in = out_.buffers[size_t(own.at(size_t(b.operand)))];
        flat.constant = in.constant;
        space = in.range.space;
        flat.first = in.first + b.offset;
        const bool from_host = std::find(infeed.inputs.begin(), infeed.inputs.end(), b.operand) != infeed.inputs.end();
        flat.mover = b.slice == 0 ? in.mover : mover(in.mover, loop, b.slice, reverse, from_host ? 2 * infeed.chunk : 0);
      }
      flat.range = range_of(b.view, space, flat.first);
      buffers.push_back(int(out_.buffers.size()));
      out_.buffers.push_back(flat);
    }
    add_table(*program.table, buffers);
  }
  int mover(int parent, int loop, int64_t slice, bool reverse, int ring) {
    const auto [it, is_new] = movers_.try_emplace({parent, loop, slice, ring}, int(out_.movers.size()));
    if (is_new) out_.movers.push_back({.parent = parent, .loop = loop, .slice = slice, .reverse = reverse, .ring = ring});
    return it->second;
  }

  const TableWithLoops& outer_;
  Flat out_;
  std::map<std::tuple<int, int, int64_t, int>, int> movers_;
  std::map<char*, int> constant_spaces_;
};

void add_needs(const TableWithLoops& table, Needs& needs) {
  needs.steps += int64_t(table.steps.size());
  for (const auto& nested : table.nested) needs += needs_of(*nested);
}

// Whether one of the steps writes what the other touches; perhaps, if memory moves with loops.
bool depend(const Flat& flat, const std::vector<Access>& a, const std::vector<Access>& b) {
  for (const Access& x : a)
    for (const Access& y : b) {
      const FlatBuffer &of_x = flat.buffers[size_t(x.buffer)], &of_y = flat.buffers[size_t(y.buffer)];
      const bool may_meet = overlap(of_x.range, of_y.range) || (of_x.mover != of_y.mover && of_x.range.space == of_y.range.space);
      if ((x.write || y.write) && may_meet) return true;
    }
  return false;
}

// Puts steps, numbered as they are, into another order.
void reorder(Flat& flat, const std::vector<size_t>& order) {
  const auto permute = [&](auto& values) {
    if (values.empty()) return;
    const auto before = values;
    for (size_t i = 0; i < order.size(); ++i) values[i] = before[order[i]];
  };
  permute(flat.table.steps), permute(flat.names), permute(flat.copied), permute(flat.announced);
}

// An ensemble's models belong to one block each, products and updates: an update goes behind the steps that do not depend on it, so that
// products follow each other (chains.h).
void put_off_updates(Flat& flat) {
  std::vector<Step>& steps = flat.table.steps;
  const auto is_late = [](const Step& s) { return s.kind == StepKind::dense_update && s.partition == Partition::models; };
  if (!is_ensemble(steps) || std::none_of(steps.begin(), steps.end(), is_late)) return;
  std::vector<std::vector<Access>> accesses(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) accesses_of(flat.table, steps[i], accesses[i]);
  std::vector<size_t> order;
  for (size_t i = 0; i < steps.size();) {
    std::vector<size_t> late;  // of this run
    for (; i < steps.size() && steps[i].kind != StepKind::loop; ++i) {
      if (is_late(steps[i])) {
        late.push_back(i);
        continue;
      }
      const auto last = std::find_if(late.rbegin(), late.rend(), [&](size_t u) { return depend(flat, accesses[u], accesses[i]); });
      order.insert(order.end(), late.begin(), last.base());
      late.erase(late.begin(), last.base());
      order.push_back(i);
    }
    order.insert(order.end(), late.begin(), late.end());
    if (i < steps.size()) order.push_back(i++);
  }
  reorder(flat, order);
}

bool announces_up_to(const Flat& flat, size_t step, int32_t value) {
  const auto is = [&](int32_t announced) { return announced >= 0 && announced <= value; };
  const Step& s = flat.table.steps[step];
  return s.kind == StepKind::announce ? is(s.k) : is(flat.announced[step].weights) || is(flat.announced[step].bias);
}

// Ranks tell each other what they have as early as they can: right behind the step that makes it. They wait for each other behind so much
// later work that the others' values are there, and never before they have announced all values up to that one (rank_sums.h).
void spread_sums(Flat& flat) {
  constexpr int64_t work_ahead = 32;  // parts of updates and sums: best of 0 to 128 for 100 layers on 2 to 8 ranks, as modelled
  const std::vector<Step>& steps = flat.table.steps;
  if (flat.table.sums.empty()) return;
  std::vector<std::vector<Access>> accesses(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) accesses_of(flat.table, steps[i], accesses[i]);
  const auto may_pass = [&](size_t i, size_t other) {
    return steps[other].kind != StepKind::loop && !depend(flat, accesses[other], accesses[i]);
  };
  std::vector<size_t> order(steps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Takes a step out, finds its place from there, and puts it before that one.
  const auto move = [&](size_t i, const auto& find) {
    const auto at = std::find(order.begin(), order.end(), i);
    const size_t from = size_t(at - order.begin());
    order.erase(at);
    order.insert(order.begin() + ptrdiff_t(find(from)), i);
  };
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i].kind == StepKind::announce)
      move(i, [&](size_t to) {
        while (to > 0 && may_pass(i, order[to - 1])) --to;
        return to;
      });
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i].kind == StepKind::collect)
      move(i, [&](size_t to) {
        while (to > 0 && may_pass(i, order[to - 1]) && !announces_up_to(flat, order[to - 1], steps[i].k)) --to;
        for (int64_t work = 0; work < work_ahead && to < order.size() && may_pass(i, order[to]); ++to)
          if (const Step& s = steps[order[to]]; s.kind == StepKind::dense_update || is_of_ranks(s.kind)) work += blocks_worth(s);
        return to;
      });
  reorder(flat, order);
}

// A copy with as many rows as others are shared by is shared by rows too, so that no block waits for a slice of columns. Its result's rows
// must be apart.
void share_copies(Flat& flat) {
  std::set<int64_t> shared;
  for (const Step& s : flat.table.steps)
    if (s.partition == Partition::rows) shared.insert(s.rows);
  for (size_t i = 0; i < flat.table.steps.size(); ++i) {
    Step& s = flat.table.steps[i];
    if (s.kind != StepKind::copy || flat.copied[i] > 0) continue;
    const auto buffer = [&](int operand) -> const FlatBuffer& { return flat.buffers[size_t(flat.table.operands[size_t(operand)].buffer)]; };
    const FlatBuffer& y = buffer(s.first_out);
    if (y.view.rank == 0 || !shared.contains(y.view.shape[0])) continue;
    const int64_t rows = y.view.shape[0], n = y.view.size() / rows, bytes = std::abs(y.range.row_bytes);
    bool keeps = n <= std::numeric_limits<int32_t>::max() && y.range.end - y.range.begin <= rows * bytes;
    for (int k = 0; k < s.ins; ++k) keeps = keeps && buffer(s.first_in + k).view.rank == y.view.rank;
    for (int k = 1; k < s.outs; ++k) {
      const View& part = buffer(s.first_out + k).view;
      keeps = keeps && part.shape[0] == rows && part.strides[0] == y.view.strides[0];
    }
    if (!keeps) continue;
    for (int k = 0; k < s.ins; ++k)
      if (buffer(s.first_in + k).range.row_bytes == 0) flat.table.operands[size_t(s.first_in + k)].broadcast = Broadcast::row;
    s.partition = Partition::rows, s.rows = int32_t(rows), s.n = int32_t(n);
  }
}

}  // namespace

Flat flatten(const TableWithLoops& table, const std::vector<OperandRange>& ranges, const std::vector<View>& views) {
  Flat out = Flattener(table, ranges, views).run();
  put_off_updates(out);
  join_sums(out);
  spread_sums(out);
  share_copies(out);
  return out;
}

Needs& Needs::operator+=(const Needs& other) {
  turns += other.turns, movers += other.movers, loops += other.loops, constants += other.constants, steps += other.steps;
  return *this;
}

Needs needs_of(const Nested& nested) {
  Needs out;
  out.turns = nested.kind == Nested::Kind::scan ? 2 : nested.kind == Nested::Kind::while_loop ? 4 : 3;
  out.loops = nested.kind != Nested::Kind::branch;
  out.steps = int64_t(nested.carried_bytes.size()) + out.turns;
  for (const InnerProgram& program : nested.programs) {
    std::set<int> moving;
    for (const InnerBuffer& b : program.buffers) {
      if (b.slice != 0) moving.insert(b.operand);
      out.constants += b.operand < 0;
    }
    out.movers += int(moving.size());
    add_needs(*program.table, out);
  }
  return out;
}

const char* why_too_much(const Needs& needs) {
  constexpr int64_t most_steps = 20'000;
  if (needs.loops > kMostLoops) return "more than 32 loops in one section";
  if (needs.turns > kMostTurns) return "more loops and branches than one section can have";
  if (needs.movers >= kMostMovers) return "more than 127 stacked values of loops in one section";
  if (needs.constants > kMostBases / 2) return "more than 500 constants inside of loops and branches";
  if (needs.steps > most_steps) return "more than 20,000 steps inside of loops and branches";
  return nullptr;
}

double most_seconds(const TableWithLoops& table) {
  constexpr double step_seconds = 2e-6, turn_seconds = 3e-6, flops_per_second = 20e9;
  double out = double(table.steps.size()) * step_seconds + table.flops / flops_per_second;
  for (const auto& nested : table.nested) {
    double once = turn_seconds;
    for (const InnerProgram& program : nested->programs) once += turn_seconds + most_seconds(*program.table);
    if (nested->kind == Nested::Kind::branch)
      out += once;
    else
      out += nested->limit < 0 ? std::numeric_limits<double>::infinity() : double(nested->limit) * once;
  }
  return out;
}

std::string describe(const Nested& nested) {
  switch (nested.kind) {
    case Nested::Kind::branch: return "branch";
    case Nested::Kind::while_loop: return nested.limit < 0 ? "while_loop" : cat("while_loop of at most ", nested.limit, " iterations");
    case Nested::Kind::scan: break;
  }
  return cat("scan of ", nested.count >= 0 ? "at most " : "", nested.limit, " iterations", nested.reverse ? ", the last one first" : "",
             nested.infeed.chunk > 0
                 ? cat(", ", nested.infeed.inputs.size(), nested.infeed.inputs.size() == 1 ? " stacked value" : " stacked values",
                       " from the host, ", nested.infeed.chunk, " slices at a time")
                 : "");
}

}  // namespace lamina::section
