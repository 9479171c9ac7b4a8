// Shapes beyond reshape and transpose: cutting, joining, repeating, padding, triangles and diagonals. All are made of views and a few ops,
// so that gradients and vmap follow. Names, defaults and errors are NumPy's unless a line says otherwise; an axis may be negative: from the
// back.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

#include "graph/functions/op_functions.h"

namespace lamina {

// --- cutting ---
// `sections` equal parts along an axis, whose length they must divide.
LAMINA_API std::vector<Tensor> split(const Operand& x, int64_t sections, int axis = 0);
// Parts of these lengths, which must add up to the axis's; one may be -1: it is what remains.
LAMINA_API std::vector<Tensor> split_sizes(const Operand& x, const std::vector<int64_t>& sizes, int axis = 0);
// The diagonal of the two axes as a new last one: element i is x[..., i, i + offset].
LAMINA_API Tensor diagonal(const Operand& x, int64_t offset = 0, int axis1 = 0, int axis2 = 1);

// --- order ---
LAMINA_API Tensor flip(const Operand& x, const AxesOrAll& axes = {});
// Elements move `shift` places along the axis; those that leave at the end come back in front. Without axes: of the flattened tensor.
LAMINA_API Tensor roll(const Operand& x, int64_t shift);
LAMINA_API Tensor roll(const Operand& x, const std::vector<int64_t>& shifts, const Axes& axes);
// New axes of length 1, which have these places in the result.
LAMINA_API Tensor expand_dims(const Operand& x, const Axes& axes);
LAMINA_API Tensor moveaxis(const Operand& x, const Axes& from, const Axes& to);
LAMINA_API Tensor swapaxes(const Operand& x, int a, int b);

// --- more elements ---
// x side by side repeats[i] times along axis i; with fewer repeats than axes they are those of the last axes, with more x gets axes in
// front.
LAMINA_API Tensor tile(const Operand& x, const std::vector<int64_t>& repeats);
// Each element `repeats` times along an axis: [a,b] twice -> [a,a,b,b].
LAMINA_API Tensor repeat(const Operand& x, int64_t repeats, int axis);
// Element i along the axis repeats[i] times.
LAMINA_API Tensor repeat(const Operand& x, const std::vector<int64_t>& repeats, int axis);
enum class PadMode : uint8_t {
  constant,
  edge,       // the element at the end again and again
  reflect,    // mirrored at the end, which is not repeated: b c | a b c | b a
  symmetric,  // mirrored behind the end: b a | a b c | c b
  wrap,       // from the other end: b c | a b c | a b
};
LAMINA_API PadMode parse_pad_mode(std::string_view name);  // throws not_found
// widths[i]: how many elements come before and after axis i. `value` is what mode constant fills with.
LAMINA_API Tensor pad(const Operand& x, const std::vector<std::pair<int64_t, int64_t>>& widths, PadMode mode = PadMode::constant,
                      const Operand& value = 0);

// --- matrices: of the last two axes ---
LAMINA_API Tensor tril(const Operand& x, int64_t diagonal = 0);  // zero where column > row + diagonal
LAMINA_API Tensor triu(const Operand& x, int64_t diagonal = 0);  // zero where column < row + diagonal
LAMINA_API Tensor eye(int64_t rows, int64_t columns = -1, int64_t diagonal = 0, DType dtype = DType::f32);  // columns -1: as many as rows
// A square matrix with the vector on a diagonal; of a matrix: its diagonal.
LAMINA_API Tensor diag(const Operand& x, int64_t diagonal = 0);

// --- factories ---
LAMINA_API Tensor full_like(const Operand& x, const Operand& value);
LAMINA_API Tensor full_like(const Operand& x, const Operand& value, DType dtype);
// count numbers from start to stop, both included; without the end, the last is one step before stop.
LAMINA_API Tensor linspace(double start, double stop, int64_t count = 50, bool end = true, DType dtype = DType::f32);
// One tensor per vector, all of the shape that they span. `matrix_order`: shape[i] is the length of vector i (NumPy's indexing="ij");
// otherwise the first two are exchanged ("xy").
LAMINA_API std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors, bool matrix_order = false,
                                        CallSite at = std::source_location::current());

}  // namespace lamina
