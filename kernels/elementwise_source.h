// An elementwise program as CUDA source, for NVRTC: what the interpreter of kernels/cuda/elementwise.cu does, with the program written out.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "kernels/elementwise.h"

namespace lamina::kernels {

// Where the elements of an operand are.
enum class Access : uint8_t {
  linear,    // in the order of the result
  repeated,  // one element for all
  strided,   // by strides over the axes of the result
};
struct ElementwiseLayout {
  std::vector<Access> in, out;
  int rank = 0;  // of the axes that strides are given for; 0 where nothing is strided
};

// What the kernel's last argument is where something is strided; the strides of inputs come first. In the source it has as many as there
// are.
struct ElementwiseSpace {
  long long shape[8] = {};
  long long strides[24][8] = {};
};

// "fused_add_relu": at most six operations by name.
LAMINA_API std::string elementwise_name(const ElementwiseCode& code);
// The kernel `name`, extern "C": a pointer for each input and output, the number of elements (long long), and where something is strided an
// ElementwiseSpace. It is to be launched with blocks of 256 threads. The source includes what shared_headers() has.
LAMINA_API std::string elementwise_source(const ElementwiseCode& code, const ElementwiseLayout& layout, const std::string& name);

// Parts of such sources: the type that a register of this dtype has, a constant of it, and what an instruction computes, of registers r0,
// r1, ...
LAMINA_API const char* computed_type(DType type);
LAMINA_API std::string constant_text(DType type, double value);
LAMINA_API std::string expression_text(const ElementwiseCode::Instruction& in);

// The files of kernels/shared by their names in #include, and their text.
LAMINA_API const std::vector<std::pair<std::string, std::string>>& shared_headers();

}  // namespace lamina::kernels
