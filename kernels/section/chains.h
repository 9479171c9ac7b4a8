// Chains: steps that a block runs as one, each on the result of the one before (kernels/cuda/section_chain.h): products, and what lies
// between them element by element, if it is on a short list (LinkKind). Weights, biases, masks and other operands are read ahead of their
// step, at any time after the chain began, but behind the step's own waits. If a chain is early, its first step's waits are for nothing but
// its rows and its result, and the weights and operands of all its steps are read before them. A block with more rows or models than it
// takes at once runs the whole chain for the first of them before the next.
#pragma once
#include <vector>

#include "kernels/section/flatten.h"

namespace lamina::section {

struct LinkOf {
  LinkKind kind = LinkKind::none;
  Activation activation = Activation::none;
};
LinkOf link_of(const Table& table, const Step& step);

// Elements of a row of the link's result.
inline int width_behind(const BlockStep& s) { return s.kind == StepKind::dense_grad_input ? s.k : s.n; }
// Whether the second step's first input is the first one's result, for each block the few rows that its counterpart has made.
bool hands_rows(const Flat& flat, const BlockStep& from, const BlockStep& to);
// Why the step cannot be the next of the chain; null if it can. steps, waits: of the plan; chain: numbers of its steps so far.
const char* why_not_next(const Flat& flat, const BlockStep* steps, const BlockWait* waits, const std::vector<int>& chain, int number);

}  // namespace lamina::section
