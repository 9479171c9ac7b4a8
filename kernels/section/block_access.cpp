#include "kernels/section/block_access.h"

#include <algorithm>

namespace lamina::section {
namespace {

using Span = Share<int64_t>;

class Part {
 public:
  Part(const BlockPlaces& places, const BlockStep& step, int block, std::vector<BlockAccess>& out)
      : places_(places), s_(step), part_(block - step.first_block), out_(out) {
    const bool by_models = s_.partition == Partition::models;
    models_ = by_models ? share<int64_t>(s_.replicas, part_ / s_.neighbours, parts_of(s_)) : Span{0, 1};
    rows_ = by_models || s_.partition == Partition::one ? Span{0, s_.rows} : share<int64_t>(s_.rows, part_, s_.blocks);
  }

  void run() {
    if (models_.empty()) return;
    switch (s_.kind) {
      case StepKind::dense: return product(s_.k, s_.n);
      case StepKind::dense_grad_input: return product(s_.n, s_.k);
      case StepKind::dense_update: return update();
      case StepKind::elementwise: return elementwise();
      case StepKind::reduce: return reduce();
      case StepKind::softmax:
      case StepKind::log_softmax: read(0, rows_of(s_.n)); return write(0, rows_of(s_.n));
      case StepKind::sparse_cross_entropy:
        read(0, rows_of(s_.n)), read(1, rows_);
        write(0, rows_);
        return write(1, rows_of(s_.n));
      case StepKind::dropout:
        read(0, rows_of(s_.n));
        if (!rows_of(s_.n).empty()) read(1, {0, 2}, true);
        return write(0, rows_of(s_.n));
      case StepKind::copy: return copy();
      case StepKind::announce:
        for (int64_t root = 0; root < s_.extras; ++root) read(0, {root * s_.n + chunks().begin, root * s_.n + chunks().end});
        return;
      case StepKind::collect:
        for (int i = 0; i < s_.ins; ++i) read_broadcast(i, chunks(), s_.n);
        for (int i = 0; i < s_.outs; ++i) write(i, chunks());
        return;
      default: return;
    }
  }

 private:
  Span chunks() const { return {rows_.begin * kSumChunk, std::min<int64_t>(rows_.end * kSumChunk, s_.n)}; }
  Span rows_of(int64_t width) const { return {rows_.begin * width, rows_.end * width}; }

  // elements: per model
  void add(int operand, Span elements, bool writes, bool ahead = false, bool shared = false) {
    if (elements.empty()) return;
    const BlockOperand& o = places_.operands[operand];
    const int64_t last = (models_.end - 1) * o.model_stride;
    const Span all =
        s_.partition == Partition::models ? Span{elements.begin + models_.begin * o.model_stride, elements.end + last} : elements;
    out_.push_back({operand, all.begin * o.element_bytes, all.end * o.element_bytes, writes, ahead, shared});
  }
  void read(int i, Span elements, bool ahead = false) { add(s_.first_in + i, elements, false, ahead); }
  void write(int i, Span elements) { add(s_.first_out + i, elements, true); }

  // The bytes of a program's operand for elements [begin, end) of a matrix with n columns.
  void read_broadcast(int i, Span of, int64_t n, bool ahead = false) {
    if (of.empty()) return;
    switch (places_.operands[s_.first_in + i].broadcast) {
      case Broadcast::full: return read(i, of, ahead);
      case Broadcast::row:
        return read(i, of.size() < n && of.begin / n == (of.end - 1) / n ? Span{of.begin % n, (of.end - 1) % n + 1} : Span{0, n}, ahead);
      case Broadcast::column: return read(i, {of.begin / n, (of.end - 1) / n + 1}, ahead);
      case Broadcast::scalar: return read(i, {0, 1}, ahead);
    }
  }

  void product(int64_t inner, int64_t outer) {
    const bool gradient = s_.kind == StepKind::dense_grad_input;
    if (rows_.empty() || outer == 0) return;
    read(0, rows_of(inner));
    read(1, {0, int64_t(s_.k) * s_.n}, true);
    if (!gradient && s_.has_bias) read(2, {0, s_.n}, true);
    if (gradient && s_.has_mask) read(2, rows_of(outer), true);
    write(0, rows_of(outer));
  }

  void update() {
    const bool by_models = s_.partition == Partition::models;
    const int neighbour = part_ % s_.neighbours;
    const int part = by_models ? neighbour : part_ / s_.neighbours, parts = by_models ? s_.neighbours : parts_of(s_);
    const Share<int> own = by_models ? Share<int>{0, s_.n} : update_columns(s_, neighbour);
    const Span rows = share<int64_t>(s_.k, part, parts), columns{own.begin, own.end};
    int results = 0;
    if (s_.code >= 0) {
      results = s_.announces >= 0 ? 0 : places_.codes[s_.code + 3];
      if (!rows.empty() && !columns.empty()) read(0, {0, int64_t(s_.rows) * s_.k}), read(1, {0, int64_t(s_.rows) * s_.n});
      // Rows that are whole are one stretch of bytes.
      const int64_t step = own.size() < s_.n ? 1 : std::max<int64_t>(rows.size(), 1);
      for (int64_t row = rows.begin; row < rows.end; row += step) {
        const Span elements{row * s_.n + columns.begin, (row + step - 1) * s_.n + columns.end};
        for (int i = 0; i < s_.extras; ++i) read_broadcast(2 + i, elements, s_.n);
        for (int i = 0; i < results; ++i) write(i, elements);
      }
    }
    if (!s_.has_bias || part != parts - 1) return;
    const bool by_columns = s_.code >= 0 && !rows.empty() && s_.n > 1 && s_.rows > 0;
    if (!by_columns && columns.begin > 0) return;
    const Span of_bias = by_columns ? columns : Span{0, s_.n};
    read(1, {0, int64_t(s_.rows) * s_.n});
    for (int i = 2 + s_.extras; i < s_.ins; ++i)
      read(i, places_.operands[s_.first_in + i].broadcast == Broadcast::scalar ? Span{0, 1} : of_bias);
    for (int i = results; i < s_.outs; ++i) write(i, of_bias);
  }

  void elementwise() {
    const Span mine = s_.partition == Partition::tiles ? share(int64_t(s_.rows) * s_.n, part_, s_.blocks) : rows_of(s_.n);
    for (int i = 0; i < s_.ins; ++i) read_broadcast(i, mine, s_.n, i > 0);
    for (int i = 0; i < s_.outs; ++i) write(i, mine);
  }

  void reduce() {
    if (s_.reduced == Broadcast::column) {
      read(0, rows_of(s_.n));
      return write(0, rows_);
    }
    if (s_.partition != Partition::models && part_ != 0) return;
    read(0, {0, int64_t(s_.rows) * s_.n});
    write(0, {0, s_.reduced == Broadcast::scalar ? 1 : s_.n});
  }

  BlockAccess rows_of_copy(const BlockCopy& c, int operand, const int64_t* strides, bool write) const {
    const int64_t first = rows_.begin * strides[0], last = (rows_.end - 1) * strides[0];
    Span all{std::min(first, last), std::max(first, last) + 1};
    for (int a = 1; a < c.rank; ++a) (strides[a] < 0 ? all.begin : all.end) += (c.shape[a] - 1) * strides[a];
    return of_copy(c, operand, all, write);
  }
  // A part of the result begins where its first element is, which is the last one in memory if a step is negative.
  static BlockAccess of_copy(const BlockCopy& c, int operand, Span elements, bool write) {
    const int64_t from = write ? c.offset : 0;
    return {operand, from + elements.begin * c.element_bytes, from + elements.end * c.element_bytes, write, false, false};
  }
  static Span reach(const BlockCopy& c, const int64_t* strides) {
    Span all{0, 1};
    for (int a = 0; a < c.rank; ++a) (strides[a] < 0 ? all.begin : all.end) += (c.shape[a] - 1) * strides[a];
    return all;
  }
  // Into parts of the result, of which it writes all rows.
  void copies() {
    if (rows_.empty()) return;
    for (int i = 0; i < s_.ins; ++i) {
      const BlockCopy& c = places_.copies[s_.copy + i];
      if (s_.partition == Partition::rows) {
        out_.push_back(rows_of_copy(c, s_.first_in + i, c.from, false));
        continue;
      }
      out_.push_back(of_copy(c, s_.first_in + i, reach(c, c.from), false));
    }
    write(0, rows_of(s_.n));
  }
  // Rows, and the parts of a dense copy, are disjoint; for other copies each part counts as touching everything.
  void copy() {
    const BlockCopy& c = places_.copies[s_.copy];
    if (s_.ins > 1 || s_.zeroed) return copies();
    if (s_.partition == Partition::rows) {
      if (rows_.empty()) return;
      out_.push_back(rows_of_copy(c, s_.first_in, c.from, false));
      return out_.push_back(rows_of_copy(c, s_.first_out, c.to, true));
    }
    int64_t size = 1;
    bool dense = true;
    for (int a = c.rank; a-- > 0; size *= c.shape[a]) dense = dense && (c.shape[a] == 1 || (c.from[a] == size && c.to[a] == size));
    const Span mine = share(size, part_, s_.blocks);
    if (mine.empty()) return;
    const Span from = dense ? mine : reach(c, c.from), to = dense ? mine : reach(c, c.to);
    out_.push_back(of_copy(c, s_.first_in, from, false));
    out_.push_back(of_copy(c, s_.first_out, to, true));
    out_.back().shared = !dense;
  }

  const BlockPlaces& places_;
  const BlockStep& s_;
  const int part_;
  Span models_, rows_;
  std::vector<BlockAccess>& out_;
};

}  // namespace

void accesses_of(const BlockPlaces& places, const BlockStep& step, int block, std::vector<BlockAccess>& out) {
  out.clear();
  Part(places, step, block, out).run();
}

}  // namespace lamina::section
