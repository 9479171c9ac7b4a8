#include "runtime/core/type.h"

#include <iterator>

#include "runtime/core/error.h"
#include "runtime/core/view.h"

namespace lamina {

std::string text(const TensorType& type) { return cat(name(type.dtype), '[', text(type.shape), ']'); }

TensorType parse_type(std::string_view s) {
  size_t open = s.find('[');
  if (open == std::string_view::npos || s.back() != ']')
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("'", s, "' is not a tensor type"), .where = "", .why = "a type is written like f32[2,n]", .fix = ""});
  TensorType type{parse_dtype(s.substr(0, open)), {}};
  std::string_view dims = s.substr(open + 1, s.size() - open - 2);
  while (!dims.empty()) {
    size_t comma = dims.find(',');
    type.shape.push_back(Dim::parse(dims.substr(0, comma)));
    dims = comma == std::string_view::npos ? std::string_view() : dims.substr(comma + 1);
  }
  return type;
}

int64_t byte_size(const TensorType& type) {
  if (!size_of(type.dtype))
    throw Error(ErrorKind::type, {.what = cat("DType(", int(type.dtype), ") is no dtype"),
                                  .where = "",
                                  .why = cat("there are DType(0) to DType(", std::size(kDTypes) - 1, ")"),
                                  .fix = "write a name, such as lm::dtype::f32"});
  return (size_of(type.shape) * Dim(int64_t(size_of(type.dtype)))).number();
}

View contiguous_view(void* data, const TensorType& type) {
  if (type.rank() > kMaxRank)
    throw Error(ErrorKind::invalid_argument, {.what = cat("a tensor of ", type.rank(), " dimensions is not supported"),
                                              .where = "",
                                              .why = cat("at most ", kMaxRank, " are"),
                                              .fix = "reshape it"});
  View v;
  v.data = data, v.dtype = type.dtype, v.rank = int32_t(type.rank());
  int64_t stride = 1;
  for (int i = v.rank - 1; i >= 0; --i) {
    v.shape[i] = type.shape[size_t(i)].number();
    v.strides[i] = stride;
    stride *= v.shape[i];
  }
  return v;
}

bool is_contiguous(const View& v) {
  int64_t stride = 1;
  for (int i = v.rank - 1; i >= 0; --i) {
    if (v.shape[i] != 1 && v.strides[i] != stride) return false;
    stride *= v.shape[i];
  }
  return true;
}

}  // namespace lamina
