// Error: the one exception type. Each error says what failed, where, why, and how to fix it.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/core/export.h"

namespace lamina {

// Python has one class per kind, which is also a subclass of the usual built-in exception.
enum class ErrorKind {
  invalid_argument,
  type,
  signature,
  state,
  assertion,
  index,
  not_found,
  conversion,
  retrace,
  out_of_memory,
  time_limit,
  device,
  collective,
  file,
  internal,
};

LAMINA_API const char* name(ErrorKind kind);

// Concatenates anything that has operator<<.
template <class... T>
std::string cat(const T&... parts) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // a failed allocation must throw, not truncate the text
  (out << ... << parts);
  return out.str();
}

class LAMINA_API Error : public std::runtime_error {
 public:
  struct Parts {
    std::string what, where, why, fix;
  };
  Error(ErrorKind kind, Parts parts);
  // The same error with a place in front, for callers that know more than the thrower.
  Error at(const std::string& where) const;
  const ErrorKind kind;
  const Parts parts;
};

// A violated invariant of Lamina: the text says that it is a bug.
[[noreturn]] LAMINA_API void internal_error(const std::string& what);

// The error for an unknown name; lists the known names, nearest first.
LAMINA_API Error unknown_name(const std::string& what_kind, const std::string& name, std::vector<std::string> existing);

[[noreturn]] LAMINA_API void throw_no_function(const char* what);
// The function that a caller passed. Throws invalid_argument when it is empty; `what` is what it was passed to.
template <class F>
const F& given(const F& function, const char* what) {
  if (!function) throw_no_function(what);
  return function;
}

}  // namespace lamina
