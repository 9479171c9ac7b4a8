// print, check and check_numerics. Part of ops.h.
//
// print and check are host effects: they run on the CPU in program order, also in regions; a node with such a region counts as one too
// (ir::has_host_effect). Recomputation for a gradient leaves them out (ir::without_host_effects). Under vmap their values have model axes
// in front and the output names each model; in branches or loops where models diverge they are refused.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"
#include "runtime/core/host_text.h"

namespace lamina::ops {

// Formats: "{}" is the next value, "{{" and "}}" are braces.
struct PrintAttrs {
  std::string format;
  int64_t summarize = 3;  // elements shown at both ends of an axis; -1: all
  int64_t models = 0;     // number of leading model axes of every value
  int64_t stream = 1;     // 1: standard output, 2: standard error, others: `target`
  TextTargetRef target;   // not part of the text form: a graph that is parsed prints to standard output instead
  static constexpr auto fields = std::tuple{ir::field("format", &PrintAttrs::format), ir::field("summarize", &PrintAttrs::summarize),
                                            ir::field("models", &PrintAttrs::models), ir::field("stream", &PrintAttrs::stream)};
};
struct CheckAttrs {
  std::string message, why;  // `message` formats the first values, `why` the rest
  int64_t models = 0;
  static constexpr auto fields =
      std::tuple{ir::field("message", &CheckAttrs::message), ir::field("why", &CheckAttrs::why), ir::field("models", &CheckAttrs::models)};
};
struct NumericsAttrs {
  std::string message;
  static constexpr auto fields = std::tuple{ir::field("message", &NumericsAttrs::message)};
};

namespace def {
extern const ir::OpDef check, check_numerics, print;
}  // namespace def

// Writes the formatted values each time it runs. Under vmap one text per model.
void print(ir::Graph& g, std::vector<ir::Value> values, PrintAttrs attrs);
// An error of kind assertion at run time when an element of the condition (bool) is false.
void check(ir::Graph& g, ir::Value condition, std::vector<ir::Value> values, CheckAttrs attrs);
// Returns x; an error of kind invalid_argument when an element is NaN or infinite. Runs only if its result is needed.
ir::Value check_numerics(ir::Graph& g, ir::Value x, std::string message);

}  // namespace lamina::ops
