#include "graph/functions/growing_list.h"

#include <algorithm>

#include "graph/frontend/trace.h"
#include "graph/functions/indexing.h"

namespace lamina::list {

Tensor buffer(const TensorType& element, CallSite at) {
  Trace* trace = Trace::current();
  if (!trace || !trace->takes_lengths)
    throw Error(ErrorKind::invalid_argument,
                {.what = "a list that grows in a loop is made inside of another loop or branch on tensors, of vmap or of a checkpoint",
                 .where = text(at.line()),
                 .why = "its length is found before the whole graph runs, so it belongs to the function itself",
                 .fix = "make the list before, or reduce it to a tensor; or append once in each iteration over a tensor of known length"});
  Shape shape{Dim::symbol(cat("list_", trace->graph.size()))};  // unique in this graph; the table of symbols never shrinks
  shape.insert(shape.end(), element.shape.begin(), element.shape.end());
  return zeros(shape, element.dtype);
}

namespace {

void check_buffer(const Tensor& buffer, CallSite at) {
  if (!buffer.shape().empty()) return;
  throw Error(ErrorKind::invalid_argument, {.what = cat("a list that grows in a loop is kept in a scalar ", buffer.type()),
                                            .where = text(at.line()),
                                            .why = "its elements lie along the first axis",
                                            .fix = "make the list by appending to a Python list in a function that is traced"});
}

}  // namespace

Tensor set(const Tensor& buffer, const Tensor& position, const Tensor& value, CallSite at) {
  check_buffer(buffer, at);
  const TensorType element{buffer.dtype(), Shape(buffer.shape().begin() + 1, buffer.shape().end())};
  if (!(value.type() == element))
    throw Error(value.dtype() == element.dtype ? ErrorKind::invalid_argument : ErrorKind::type,
                {.what = cat("append: the list has elements of ", element, ", this one is ", value.type()),
                 .where = text(at.line()),
                 .why = "what a list collects in a loop of the graph is stacked: all elements have one dtype and shape",
                 .fix = value.dtype() == element.dtype ? "reshape or pad it, or use a list for each shape"
                                                       : cat("convert it: lm.astype(x, lm.", numpy_name(element.dtype), ")")});
  return lamina::at(Operand(buffer, at), {IndexPart{IndexPart::Kind::tensor, 0, {}, {}, {}, position}}).set(Operand(value, at));
}

void close(const Tensor& buffer, const Tensor& count) {
  check_buffer(buffer, CallSite());
  Trace* trace = Trace::current();
  const Dim length = buffer.shape()[0];
  if (!trace || length.known()) return;
  const std::string symbol = cat(length);
  if (std::any_of(trace->lengths.begin(), trace->lengths.end(), [&](const Trace::Length& l) { return l.symbol == symbol; }))
    internal_error("a list was closed twice");
  trace->lengths.push_back({symbol, trace->value_of(count)});
}

}  // namespace lamina::list
