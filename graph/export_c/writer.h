// Writing C: names of types, numbers, and the body of one C function, which computes one instruction of a Program.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "runtime/core/error.h"
#include "runtime/core/view.h"

namespace lamina::c_text {

const char* c_type(DType dtype);  // "float"; a bool is an unsigned char
const char* suffix(DType dtype);  // "f32": of functions for this type
const char* member(DType dtype);  // of the struct: the same, but bool, which is a word of C++ and C23, is "b8"
// A number of this type as C's source text, exact.
std::string number(DType dtype, double value);
std::string number(DType dtype, const void* element);

bool has_word(const std::string& text, const std::string& word);  // as C reads words

// Lines with their indentation.
class Code {
 public:
  template <class... T>
  void operator()(const T&... parts) {
    line(cat(parts...));
  }
  void line(const std::string& text);  // "}" ends a block, "{" at the end begins one
  std::string text;

 private:
  int depth_ = 1;
};

// An operand as the function sees it: a pointer, and how the tensor lies behind it.
struct Operand {
  std::string name;
  View view;
  int64_t size() const { return view.size(); }
  DType dtype() const { return view.dtype; }
  std::string operator[](const std::string& index) const { return name + "[" + index + "]"; }
};

class Writer : public Code {
 public:
  std::vector<Operand> in, out;
  std::string scratch;  // the pointer to temporary memory, if the rule asked for it
  bool fails = false;   // the function returns 1 where the data are wrong

  // Loops over all elements of a shape, as few as its operands' strides allow; the last one runs along memory. at[i] is where operand i's
  // element lies. Strides have the shape's rank.
  struct Nest {
    std::vector<std::string> at;
    int loops = 0;
  };
  Nest loops(const std::vector<int64_t>& shape, const std::vector<std::vector<int64_t>>& strides);
  void close(const Nest& nest);
  // for (variable = 0; variable < count; ++variable) {
  void loop(const std::string& variable, int64_t count);
  void end() { line("}"); }
  void may_fail();  // from here on the text may set `bad`, where the data are wrong

 private:
  int nests_ = 0;
};

// The strides by which a view is read as a tensor of this shape, to which it broadcasts.
std::vector<int64_t> strides_for(const View& view, const std::vector<int64_t>& shape);
std::vector<int64_t> shape_of(const View& view);
std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape);
std::string index_text(std::span<const std::string> variables, std::span<const int64_t> strides);

}  // namespace lamina::c_text
