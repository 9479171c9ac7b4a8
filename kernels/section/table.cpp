#include "kernels/section/table.h"

#include <algorithm>
#include <iomanip>

#include "kernels/section/access.h"
#include "runtime/core/error.h"

namespace lamina::section {
namespace {

const char* name(Partition p) {
  switch (p) {
    case Partition::rows: return "rows";
    case Partition::tiles: return "tiles";
    case Partition::one: return "one";
    case Partition::models: break;
  }
  return "models";
}
const char* name(Reduction r) {
  switch (r) {
    case Reduction::sum: return "sum";
    case Reduction::mean: return "mean";
    case Reduction::max: return "max";
    case Reduction::min: return "min";
    case Reduction::prod: break;
  }
  return "prod";
}
const char* suffix(Broadcast b) {
  switch (b) {
    case Broadcast::full: return "";
    case Broadcast::row: return ":row";
    case Broadcast::column: return ":column";
    case Broadcast::scalar: break;
  }
  return ":scalar";
}

void print_step(std::ostream& out, const Table& table, const Step& s) {
  out << section::name(s.kind);
  switch (s.kind) {
    case StepKind::dense:
      out << ' ' << section::name(s.activation) << " [" << s.rows << ',' << s.k << "]x[" << s.k << ',' << s.n << ']';
      break;
    case StepKind::dense_grad_input:
      out << ' ' << section::name(s.activation) << " [" << s.rows << ',' << s.n << "]x[" << s.k << ',' << s.n << "]T";
      break;
    case StepKind::dense_update:
      out << " [" << s.rows << ',' << s.k << "]Tx[" << s.rows << ',' << s.n << ']';
      if (s.code >= 0) out << " w: code " << s.code;
      if (s.has_bias) out << " b: code " << s.code2;
      break;
    case StepKind::elementwise: out << " [" << s.rows << ',' << s.n << "] code " << s.code; break;
    case StepKind::reduce: out << ' ' << name(s.reduction) << " [" << s.rows << ',' << s.n << "] to" << suffix(s.reduced); break;
    case StepKind::dropout: out << " [" << s.rows << ',' << s.n << "] rate " << s.scalar; break;
    case StepKind::copy: break;
    case StepKind::all_reduce: out << " over " << table.sums.at(size_t(s.k)).roots.size() << " ranks"; break;
    case StepKind::loop:
    case StepKind::branch: out << ' ' << s.code; break;  // its number
    default: out << " [" << s.rows << ',' << s.n << ']'; break;
  }
  out << ' ' << name(s.partition);
  if (s.owner != 0) out << ' ' << s.owner;
  auto list = [&](const char* label, int first, int count) {
    out << ' ' << label << '=';
    for (int i = 0; i < count; ++i) {
      const Operand& o = table.operands.at(size_t(first + i));
      out << (i ? " %" : "%") << o.buffer << suffix(o.broadcast);
      if (s.partition == Partition::models && o.model_stride == 0) out << ":shared";
    }
  };
  list("in", s.first_in, s.ins);
  list("out", s.first_out, s.outs);
  if (s.replicas != 1) out << " replicas " << s.replicas;
  if (s.barrier_before) out << " | barrier";
}

// The number of equal parts of the operand, one behind the other, that threads share; 0: not shared.
int64_t parts_of(const Step& s, const Access& access) {
  if (s.partition == Partition::models) return access.by_models ? s.replicas : 0;
  return s.partition == Partition::rows && access.by_rows ? s.rows : 0;
}

// Bytes from one part to the next, if so many of these parts count as one; 0: they are no stretch of bytes.
int64_t part_bytes(const Step& s, const OperandRange& range, int64_t parts, int64_t together) {
  const bool follow = range.dense || (together == 1 && range.row_bytes == 0);
  if (s.partition != Partition::rows || follow) return (range.end - range.begin) / parts * together;
  return together == 1 ? range.row_bytes : 0;
}

}  // namespace

bool is_ensemble(const std::vector<Step>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const Step& s) { return is_product(s.kind) && s.partition == Partition::models; });
}

const char* name(StepKind kind) {
  switch (kind) {
    case StepKind::dense: return "dense";
    case StepKind::dense_grad_input: return "dense_grad_input";
    case StepKind::dense_update: return "dense_update";
    case StepKind::elementwise: return "elementwise";
    case StepKind::reduce: return "reduce";
    case StepKind::softmax: return "softmax";
    case StepKind::log_softmax: return "log_softmax";
    case StepKind::sparse_cross_entropy: return "sparse_cross_entropy";
    case StepKind::dropout: return "dropout";
    case StepKind::copy: return "copy";
    case StepKind::all_reduce: return "all_reduce";
    case StepKind::announce: return "announce";
    case StepKind::collect: return "collect";
    case StepKind::loop: return "loop";
    case StepKind::branch: return "branch";
  }
  return "?";
}

const char* name(Activation activation) { return activation == Activation::none ? "none" : row_of(activation).name; }

OperandRange range_of(const View& view, int space, int64_t first) {
  const int64_t element = int64_t(size_of(view.dtype));
  int64_t low = 0, high = 0;  // elements before and after the first one
  for (int i = 0; i < view.rank; ++i) {
    const int64_t reach = (view.shape[i] - 1) * view.strides[i];
    (reach < 0 ? low : high) += reach;
  }
  const int64_t begin = first + low * element;
  return {.space = space,
          .begin = begin,
          .end = view.size() == 0 ? begin : first + (high + 1) * element,
          .row_bytes = view.rank > 0 ? view.strides[0] * element : 0,
          .dense = is_contiguous(view)};
}

std::string print(const Table& table) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // a failed allocation must throw, not truncate the text
  for (size_t i = 0; i < table.steps.size(); ++i) {
    out << std::setw(3) << i << ' ';
    print_step(out, table, table.steps[i]);
    out << '\n';
  }
  for (size_t i = 0; i < table.codes.size(); ++i) out << "code " << i << ": " << kernels::print(table.codes[i]) << '\n';
  return out.str();
}

void accesses_of(const Table& table, const Step& s, std::vector<Access>& out) {
  out.clear();
  const int outs = s.kind == StepKind::copy ? 1 : s.outs;
  for (int i = 0; i < s.ins + outs; ++i) {
    const bool write = i >= s.ins;
    const Operand& o = table.operands[size_t(write ? s.first_out + i - s.ins : s.first_in + i)];
    bool by_rows = o.broadcast == Broadcast::full || o.broadcast == Broadcast::column;
    switch (s.kind) {
      case StepKind::dense: by_rows = write || i == 0; break;
      case StepKind::dense_grad_input: by_rows = write || i != 1; break;
      case StepKind::dense_update: by_rows = false; break;
      case StepKind::elementwise: break;
      case StepKind::reduce: by_rows = !write || s.reduced == Broadcast::column; break;
      case StepKind::sparse_cross_entropy: by_rows = true; break;
      case StepKind::dropout: by_rows = write || i == 0; break;
      case StepKind::softmax:
      case StepKind::log_softmax: by_rows = true; break;
      case StepKind::copy: break;
      default: by_rows = false; break;
    }
    out.push_back({o.buffer, write, by_rows, o.model_stride != 0});
  }
}

bool can_fail(const Step& s) { return s.kind == StepKind::sparse_cross_entropy; }

bool writes_state(const std::vector<Access>& accesses, const std::vector<OperandRange>& ranges) {
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& a) { return a.write && ranges[size_t(a.buffer)].is_state; });
}

bool overlap(const OperandRange& a, const OperandRange& b) { return a.space == b.space && a.begin < b.end && b.begin < a.end; }

bool conflict(const Step& a, const Access& of_a, const Step& b, const Access& of_b, const std::vector<OperandRange>& ranges,
              int64_t shares) {
  if (!of_a.write && !of_b.write) return false;
  const OperandRange &x = ranges[size_t(of_a.buffer)], &y = ranges[size_t(of_b.buffer)];
  if (!overlap(x, y)) return false;
  if (a.partition == Partition::one && b.partition == Partition::one && a.owner == b.owner) return false;  // the same thread runs both
  // Row (or model) i of both lies in the i-th of some equal stretches of bytes, and belongs to the same thread.
  const int64_t of_x = parts_of(a, of_a), of_y = parts_of(b, of_b);
  const int64_t parts = of_x == of_y ? of_x : shares;
  if (of_x == 0 || of_y == 0 || parts == 0 || of_x % parts != 0 || of_y % parts != 0) return true;
  const int64_t bytes = part_bytes(a, x, of_x, of_x / parts);
  return bytes == 0 || bytes != part_bytes(b, y, of_y, of_y / parts) ||
         std::max(x.end, y.end) - std::min(x.begin, y.begin) > parts * std::abs(bytes);
}

void EarlierAccesses::add(const Step& step, const Access& access) {
  const OperandRange& range = ranges_[size_t(access.buffer)];
  const bool known = index_.any_overlapping(range, [&](int number) {  // conflicts with the same accesses
    const Earlier& e = list_[size_t(number)];
    const OperandRange& other = ranges_[size_t(e.access.buffer)];
    return other.begin == range.begin && other.end == range.end && other.row_bytes == range.row_bytes && other.dense == range.dense &&
           e.access.write == access.write && e.step->partition == step.partition && e.step->owner == step.owner &&
           parts_of(*e.step, e.access) == parts_of(step, access);
  });
  if (known) return;
  index_.add(range, int(list_.size()));
  list_.push_back({&step, access});
}

const EarlierAccesses::Earlier* EarlierAccesses::conflicting(const Step& step, const Access& access) const {
  const Earlier* found = nullptr;
  index_.any_overlapping(ranges_[size_t(access.buffer)], [&](int number) {
    const Earlier& e = list_[size_t(number)];
    if (conflict(*e.step, e.access, step, access, ranges_)) found = &e;
    return found != nullptr;
  });
  return found;
}

void place_barriers(Table& table, const std::vector<OperandRange>& ranges) {
  EarlierAccesses earlier(ranges);
  std::vector<Access> accesses;
  bool may_stop = false;  // by an error of an earlier step since the last barrier: no state may change behind it
  for (Step& step : table.steps) {
    step.barrier_before = false;
    if (table.threads == 1) continue;
    accesses_of(table, step, accesses);
    step.barrier_before =
        (may_stop && writes_state(accesses, ranges)) ||
        std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) { return earlier.conflicting(step, access); });
    if (step.barrier_before) earlier.clear(), may_stop = false;
    may_stop = may_stop || can_fail(step);
    for (const Access& access : accesses) earlier.add(step, access);
  }
}

}  // namespace lamina::section
