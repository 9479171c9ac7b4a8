// The steps of sections on the CPU.
#include <algorithm>
#include <cstring>

#include "kernels/copy.h"
#include "kernels/cpu/section_thread.h"
#include "kernels/dropout.h"
#include "kernels/reduce.h"
#include "kernels/softmax.h"
#include "kernels/sparse_cross_entropy.h"
#include "runtime/core/error.h"

namespace lamina::kernels::cpu {

Range SectionThread::share(int64_t count, int thread, int threads) { return {count * thread / threads, count * (thread + 1) / threads}; }

Range SectionThread::columns(int64_t n, int thread, int threads) const {
  const int64_t panel = tiles_.panel_f32;
  Range r = share((n + panel - 1) / panel, thread, threads);
  return {std::min(n, r.begin * panel), std::min(n, r.end * panel)};
}

void SectionThread::run_models(const Step& s, int thread, int threads) {
  const Range mine = share(s.replicas, thread, threads);
  struct Back {
    int64_t& model;
    ~Back() { model = 0; }
  } back{model_};
  for (model_ = mine.begin; model_ < mine.end; ++model_) run_step(s, Partition::one, 0, 1, {0, s.rows});
}

void SectionThread::run_step(const Step& s, int thread, int threads) {
  if (s.partition == Partition::models)
    run_models(s, thread, threads);
  else
    run_step(s, s.partition, thread, threads, share(s.rows, thread, threads));
}

void SectionThread::run_step(const Step& s, Partition partition, int thread, int threads, Range rows) {
  const Range all{0, s.rows};
  if (partition == Partition::one) {
    if (thread != s.owner % threads) return;
    thread = 0, threads = 1, rows = all;
  }
  const bool by_rows = partition != Partition::tiles;
  switch (s.kind) {
    case StepKind::dense:
      dense(tiles_, in<const float>(s, 0), in<const float>(s, 1), s.has_bias ? in<const float>(s, 2) : nullptr, out<float>(s, 0),
            by_rows ? rows : all, by_rows || threads == 1 ? Range{0, s.n} : columns(s.n, thread, threads), s.k, s.n, s.activation, s.scalar,
            next_weights(s));
      break;
    case StepKind::dense_grad_input:
      dense_grad_input(tiles_, in<const float>(s, 0), in<const float>(s, 1), s.has_mask ? in<const float>(s, 2) : nullptr, out<float>(s, 0),
                       by_rows ? rows : all, by_rows || threads == 1 ? Range{0, s.k} : columns(s.k, thread, threads), s.k, s.n,
                       s.activation, s.scalar, next_transposed_weights(s));
      break;
    case StepKind::dense_update: run_update(s, thread, threads); break;
    case StepKind::elementwise: run_elementwise(s, thread, threads, rows); break;
    case StepKind::reduce:
      if (s.reduced == Broadcast::column)
        reduce_matrix(s.reduction, s.reduced, in<const float>(s, 0) + rows.begin * s.n, out<float>(s, 0) + rows.begin, rows.size(), s.n);
      else if (thread == 0)
        reduce_matrix(s.reduction, s.reduced, in<const float>(s, 0), out<float>(s, 0), s.rows, s.n);
      break;
    case StepKind::softmax:
      softmax_rows(in<const float>(s, 0) + rows.begin * s.n, out<float>(s, 0) + rows.begin * s.n, rows.size(), s.n);
      break;
    case StepKind::log_softmax:
      log_softmax_rows(in<const float>(s, 0) + rows.begin * s.n, out<float>(s, 0) + rows.begin * s.n, rows.size(), s.n);
      break;
    case StepKind::sparse_cross_entropy: {
      View labels = view(s.first_in + 1);
      labels.data = in<char>(s, 1);
      check_labels(labels, rows.begin, rows.size(), s.n);
      sparse_cross_entropy_rows(in<const float>(s, 0), labels, rows.begin, rows.size(), s.n, out<float>(s, 0), out<float>(s, 1));
      break;
    }
    case StepKind::dropout:
      dropout_run(in<const float>(s, 0) + rows.begin * s.n, in<const int64_t>(s, 1), s.scalar, out<float>(s, 0) + rows.begin * s.n,
                  s.k + rows.begin * s.n, rows.size() * s.n);
      break;
    case StepKind::copy: run_copy(s, thread, threads); break;
    case StepKind::loop:
    case StepKind::branch: run_nested(s); break;
    case StepKind::all_reduce:
    case StepKind::announce:
    case StepKind::collect: internal_error("a section sums over ranks on GPUs alone");
  }
}

const float* SectionThread::next_weights(const Step& s) const {
  const Step* next = &s + 1;
  return next != table_.steps.data() + table_.steps.size() && next->kind == StepKind::dense && next->n == s.n && next->k >= s.k
             ? in<const float>(*next, 1)
             : nullptr;
}

const float* SectionThread::next_transposed_weights(const Step& s) const {
  const Step *next = &s + 1, *end = table_.steps.data() + table_.steps.size();
  while (next != end && next->kind == StepKind::dense_update) ++next;
  return next != end && next->kind == StepKind::dense_grad_input && int64_t(next->k) * next->n >= int64_t(s.k) * s.n
             ? in<const float>(*next, 1)
             : nullptr;
}

bool SectionThread::run_pair(int32_t first, int32_t second) {
  const Step &g = table_.steps[size_t(first)], &u = table_.steps[size_t(second)];
  if (run_.names || g.kind != StepKind::dense_grad_input || u.kind != StepKind::dense_update || g.rows != 1 || u.rows != 1 ||
      g.replicas != 1 || u.replicas != 1 || u.code < 0 || g.k != u.k || g.n != u.n)
    return false;
  const ElementwiseCode& code = table_.codes[size_t(u.code)];
  if (code.outputs.size() != 1) return false;
  CodeOperand extras[kMostOperands], result;
  gather(u.first_in + 2, u.extras, extras);
  gather(u.first_out, 1, &result);
  const auto descent = descent_of(code, extras);
  if (!descent || extras[descent->w].broadcast != Broadcast::full || result.data != extras[descent->w].data) return false;
  float* w = reinterpret_cast<float*>(result.data);
  const float* dz = in<const float>(g, 0);
  if (in<const float>(g, 1) != w || in<const float>(u, 1) != dz) return false;
  dense_row_backward(tiles_, in<const float>(u, 0), dz, w, g.has_mask ? in<const float>(g, 2) : nullptr, out<float>(g, 0), g.k, g.n,
                     g.activation, g.scalar, descent->rate);
  run_bias_update(u);
  return true;
}

void SectionThread::run_update(const Step& s, int thread, int threads) {
  CodeOperand ins[kMostOperands], outs[kMostOperands];
  if (s.code >= 0) {
    gather_update(s, ins, outs);
    update_weights(tiles_, update_operands(s), table_.codes[size_t(s.code)], ins, outs,
                   threads == 1 ? Range{0, s.k} : share(s.k, thread, threads));
  }
  if (thread == threads - 1) run_bias_update(s);  // the last thread's share of rows is never the largest
}

void SectionThread::run_bias_update(const Step& s) {
  if (!s.has_bias) return;
  CodeOperand ins[kMostOperands], outs[kMostOperands];
  gather_bias_update(s, ins, outs);
  update_bias(tiles_, update_operands(s), table_.codes[size_t(s.code2)], ins, outs);
}

void SectionThread::add_to_sums(const Step& s, Range rows, float* sums, bool is_last) {
  const UpdateOperands u = update_operands(s);
  float* blocks = sums + (s.code >= 0 ? u.k * u.n : 0);
  add_dense_gradients(tiles_, u.x, u.dz, rows, u.k, u.n, s.code >= 0 ? sums : nullptr, s.has_bias ? blocks : nullptr);
  if (!is_last) return;
  CodeOperand ins[kMostOperands], outs[kMostOperands];
  if (s.code >= 0) {
    gather_update(s, ins, outs);
    update_by(tiles_, sums, table_.codes[size_t(s.code)], ins, outs, {0, u.k * u.n}, u.n);
  }
  if (!s.has_bias) return;
  float* db = thread_scratch(Scratch::strip, u.n);
  add_bias_blocks(tiles_, blocks, u.rows, u.n, db);
  gather_bias_update(s, ins, outs);
  update_by(tiles_, db, table_.codes[size_t(s.code2)], ins, outs, {0, u.n}, u.n);
}

int SectionThread::weight_results(const Step& s) const { return s.code >= 0 ? int(table_.codes[size_t(s.code)].outputs.size()) : 0; }

void SectionThread::gather_update(const Step& s, CodeOperand* ins, CodeOperand* outs) const {
  gather(s.first_in + 2, s.extras, ins);
  gather(s.first_out, weight_results(s), outs);
}

void SectionThread::gather_bias_update(const Step& s, CodeOperand* ins, CodeOperand* outs) const {
  gather(s.first_in + 2 + s.extras, s.ins - 2 - s.extras, ins);
  gather(s.first_out + weight_results(s), s.outs - weight_results(s), outs);
}

UpdateOperands SectionThread::update_operands(const Step& s) const {
  return {.x = in<const float>(s, 0),
          .dz = in<const float>(s, 1),
          .rows = s.rows,
          .k = s.k,
          .n = s.n,
          .leaves = s.partition == Partition::tiles ? s.replicas : 1};
}

void SectionThread::run_elementwise(const Step& s, int thread, int threads, Range rows) {
  CodeOperand ins[kMostOperands], outs[kMostOperands];
  gather(s.first_in, s.ins, ins);
  gather(s.first_out, s.outs, outs);
  const ElementwiseCode& code = table_.codes[size_t(s.code)];
  if (s.partition == Partition::tiles && threads > 1 && is_flat(ins, s.ins)) {
    constexpr int64_t grain = 64;
    const int64_t size = int64_t(s.rows) * s.n;
    const Range r = share((size + grain - 1) / grain, thread, threads);
    run_code(code, ins, outs, {std::min(size, r.begin * grain), std::min(size, r.end * grain)}, s.n);
  } else {
    run_code(code, ins, outs, {rows.begin * s.n, rows.end * s.n}, s.n);
  }
}

void SectionThread::run_copy(const Step& s, int thread, int threads) {
  if (s.outs > 1) {
    if (thread == 0) copy_to_parts(s);
    return;
  }
  View x = view(s.first_in), y = view(s.first_out);
  if (threads > 1) {
    if (y.rank == 0 || x.rank != y.rank) {
      if (thread != 0) return;
    } else {
      const Range r = share(y.shape[0], thread, threads);
      for (View* v : {&x, &y}) {
        v->data = static_cast<char*>(v->data) + r.begin * v->strides[0] * int64_t(size_of(v->dtype));
        v->shape[0] = r.size();
      }
    }
  }
  if (y.size() > 0) copy_elements(x, y);
}

void SectionThread::copy_to_parts(const Step& s) {
  const View& whole = view(s.first_out);
  int64_t rest = whole.size();
  for (int i = 1; i < s.outs; ++i) rest -= view(s.first_out + i).size();
  if (rest > 0) std::memset(whole.data, 0, size_t(whole.size()) * size_of(whole.dtype));  // all dtypes: 0 is all bits 0
  for (int i = 0; i < s.ins; ++i)
    if (const View& part = view(s.first_out + 1 + i); part.size() > 0) copy_elements(view(s.first_in + i), part);
}

void SectionThread::gather(int first, int count, CodeOperand* to) const {
  if (count >= kMostOperands) internal_error(cat("a section step has ", count, " operands"));
  for (int i = 0; i < count; ++i) {
    const Operand& o = table_.operands[size_t(first + i)];
    to[i] = {data_[o.buffer], o.broadcast};
    if (model_ > 0) to[i].data += model_ * o.model_stride * int64_t(size_of(view(first + i).dtype));
  }
}

}  // namespace lamina::kernels::cpu
