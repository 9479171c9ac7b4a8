// Shape functions beyond reshape and transpose: cutting, joining, repeating, padding, triangles and diagonals. All are built from views and
// a few ops, so gradients and vmap follow. Names, defaults and errors are NumPy's unless a line says otherwise; negative axes count from
// the end.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

#include "graph/functions/op_functions.h"

namespace lamina {

// --- cutting ---
// `sections` equal parts along an axis. They must divide its length.
LAMINA_API std::vector<Tensor> split(const Operand& x, int64_t sections, int axis = 0);
// Parts of these lengths, which must add up to the axis's length; one may be -1: it is inferred.
LAMINA_API std::vector<Tensor> split_sizes(const Operand& x, const std::vector<int64_t>& sizes, int axis = 0);
// The diagonal of two axes as a new last axis: element i is x[..., i, i + offset].
LAMINA_API Tensor diagonal(const Operand& x, int64_t offset = 0, int axis1 = 0, int axis2 = 1);

// --- order ---
LAMINA_API Tensor flip(const Operand& x, const AxesOrAll& axes = {});
// Moves elements by `shift` along the axis, cyclically. Without axes: over the flattened tensor.
LAMINA_API Tensor roll(const Operand& x, int64_t shift);
LAMINA_API Tensor roll(const Operand& x, const std::vector<int64_t>& shifts, const Axes& axes);
// Adds axes of length 1 at these positions of the result.
LAMINA_API Tensor expand_dims(const Operand& x, const Axes& axes);
LAMINA_API Tensor moveaxis(const Operand& x, const Axes& from, const Axes& to);
LAMINA_API Tensor swapaxes(const Operand& x, int a, int b);

// --- more elements ---
// Repeats x repeats[i] times along axis i. With fewer repeats than axes they apply to the last axes; with more, x gets axes in front.
LAMINA_API Tensor tile(const Operand& x, const std::vector<int64_t>& repeats);
// Repeats each element along an axis: [a,b] twice -> [a,a,b,b].
LAMINA_API Tensor repeat(const Operand& x, int64_t repeats, int axis);
// Repeats element i along the axis repeats[i] times.
LAMINA_API Tensor repeat(const Operand& x, const std::vector<int64_t>& repeats, int axis);
enum class PadMode : uint8_t {
  constant,
  edge,       // repeats the last element
  reflect,    // mirrored without the last element: b c | a b c | b a
  symmetric,  // mirrored with the last element: b a | a b c | c b
  wrap,       // cyclic: b c | a b c | a b
};
LAMINA_API PadMode parse_pad_mode(std::string_view name);  // throws not_found
// widths[i]: number of elements added before and after axis i. `value` fills in mode constant.
LAMINA_API Tensor pad(const Operand& x, const std::vector<std::pair<int64_t, int64_t>>& widths, PadMode mode = PadMode::constant,
                      const Operand& value = 0);

// --- matrices: of the last two axes ---
LAMINA_API Tensor tril(const Operand& x, int64_t diagonal = 0);  // zero where column > row + diagonal
LAMINA_API Tensor triu(const Operand& x, int64_t diagonal = 0);  // zero where column < row + diagonal
LAMINA_API Tensor eye(int64_t rows, int64_t columns = -1, int64_t diagonal = 0, DType dtype = DType::f32);  // columns -1: square
// A vector: the square matrix with it on a diagonal. A matrix: its diagonal.
LAMINA_API Tensor diag(const Operand& x, int64_t diagonal = 0);

// --- factories ---
LAMINA_API Tensor full_like(const Operand& x, const Operand& value);
LAMINA_API Tensor full_like(const Operand& x, const Operand& value, DType dtype);
// `count` evenly spaced numbers from start to stop inclusive; without the end, the last is one step before stop.
LAMINA_API Tensor linspace(double start, double stop, int64_t count = 50, bool end = true, DType dtype = DType::f32);
// The same between tensors that broadcast together, along a new first axis; gradients flow to them. Of their dtype unless one is given.
LAMINA_API Tensor linspace(const Operand& start, const Operand& stop, int64_t count, bool end, std::optional<DType> dtype);
// Coordinate grids, one per vector. `matrix_order`: axis i belongs to vector i (NumPy's indexing="ij"); otherwise the first two axes are
// swapped ("xy").
LAMINA_API std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors, bool matrix_order = false,
                                        CallSite at = std::source_location::current());

}  // namespace lamina
