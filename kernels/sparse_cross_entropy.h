// Softmax cross entropy with integer labels: losses[i] = log(sum(exp(logits[i]))) - logits[i][labels[i]], and the probabilities.
// A label outside 0..n-1 throws index before anything is written. f16 and bf16 are computed in float.
#pragma once
#include "runtime/core/error.h"
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels {
inline Error label_out_of_range(int64_t label, int64_t classes, int64_t place, const char* consequence = "") {
  return Error(ErrorKind::index, {.what = cat("label ", label, " is out of range for ", classes, classes == 1 ? " class" : " classes"),
                                  .where = cat("sparse_cross_entropy, labels[", place, "]"),
                                  .why = (classes ? cat("labels are from 0 to ", classes - 1) : "there are no classes") + consequence,
                                  .fix = "correct the labels, or give the model as many outputs as there are classes"});
}
}  // namespace lamina::kernels

namespace lamina::kernels::cpu {

// logits [...,n], labels [...] of any integer type, losses [...], probabilities [...,n]: all contiguous.
template <class T>
void sparse_cross_entropy(Stream&, const View& logits, const View& labels, const View& losses, const View& probabilities);

// Throws for the first bad label among labels[first .. first + count).
void check_labels(const View& labels, int64_t first, int64_t count, int64_t classes);
// Rows first .. first + rows of the whole; the pointers are those of row 0. The labels have been checked.
void sparse_cross_entropy_rows(const float* logits, const View& labels, int64_t first, int64_t rows, int64_t n, float* losses,
                               float* probabilities);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
// Labels are checked by the kernel: a bad one gives the loss NaN, and the stream's next wait throws.
template <class T>
void sparse_cross_entropy(Stream&, const View& logits, const View& labels, const View& losses, const View& probabilities);
}  // namespace lamina::kernels::cuda
