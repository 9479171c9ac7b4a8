// print, check and check_numerics: output and checks at run time. Eagerly they act at once. Traced, they are part of the graph and act
// whenever it runs, in program order with other effects, also in branches and loops. Under vmap there is one text per model. Recomputation
// for a gradient does not print again.
#pragma once
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/frontend/tensor.h"
#include "graph/frontend/variable.h"
#include "runtime/core/host_text.h"

namespace lamina {

struct PrintOptions {
  int64_t summarize = 3;  // elements shown at both ends of an axis; -1: all
  int64_t stream = int64_t(TextStream::out);
  TextTargetRef target = {};  // for a stream from new_text_stream()
};
// Writes the format; "{}" is the next value, "{{" and "}}" are braces.
LAMINA_API void print_format(const std::string& format, const std::vector<Tensor>& values, const PrintOptions& options = {},
                             CallSite at = std::source_location::current());
// The same as a string; values must be concrete.
LAMINA_API std::string format_text(const std::string& format, const std::vector<Tensor>& values, int64_t summarize = 3);
LAMINA_API std::string escaped_format(const std::string& text);

// Throws an Error of kind assertion when an element of the condition (bool) is false. The message may have placeholders ("{}") for the
// first values; the named values are listed too.
LAMINA_API void check(const Operand& condition, const std::string& message = "", const std::vector<Tensor>& values = {},
                      const std::vector<std::pair<std::string, Tensor>>& named = {});
// Returns x; an Error of kind invalid_argument when an element is NaN or infinite. Traced, it runs only if its result is needed.
LAMINA_API Tensor check_numerics(const Operand& x, const std::string& message = "");

// print("loss", cost, 3): the parts separated by spaces, then a newline, on standard output. Elements are printed with as few digits as
// read back exactly; the middle of long axes is left out.
template <class... T>
void print(const T&... parts) {
  std::string format;
  std::vector<Tensor> values;
  auto add = [&](const auto& part) {
    using P = std::decay_t<decltype(part)>;
    if (!format.empty()) format += ' ';
    if constexpr (std::is_same_v<P, Tensor>)
      values.push_back(part), format += "{}";
    else if constexpr (std::is_same_v<P, Variable>)
      values.push_back(part.read()), format += "{}";
    else if constexpr (std::is_convertible_v<P, std::string>)
      format += escaped_format(part);
    else
      format += escaped_format(cat(part));
  };
  (add(parts), ...);
  print_format(format + "\n", values, {}, CallSite());
}

}  // namespace lamina
