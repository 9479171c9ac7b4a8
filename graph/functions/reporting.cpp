#include "graph/functions/reporting.h"

#include <array>

#include "graph/frontend/copied_to.h"
#include "graph/frontend/eager.h"
#include "graph/frontend/trace.h"
#include "graph/functions/op_functions.h"
#include "graph/ops/ops.h"
#include "kernels/report.h"

namespace lamina {
namespace {

// The values in host memory, as views; `kept` owns them.
std::vector<View> views_of(const std::vector<Tensor>& values, std::vector<Tensor>& kept) {
  std::vector<View> out;
  for (const Tensor& t : values) {
    kept.push_back(copied_to(t, Device{}));
    out.push_back(contiguous_view(const_cast<void*>(kept.back().data()), t.type()));
  }
  return out;
}

}  // namespace

std::string escaped_format(const std::string& text) {
  std::string out;
  for (char c : text) {
    out += c;
    if (c == '{' || c == '}') out += c;
  }
  return out;
}

std::string format_text(const std::string& format, const std::vector<Tensor>& values, int64_t summarize) {
  std::vector<Tensor> kept;
  return kernels::filled(format, views_of(values, kept), summarize);
}

void print_format(const std::string& format, const std::vector<Tensor>& values, const PrintOptions& options, CallSite at) {
  if (options.summarize < -1)
    throw Error(ErrorKind::invalid_argument, {.what = cat("print: summarize is ", options.summarize),
                                              .where = text(at.line()),
                                              .why = "it is how many elements are shown at both ends of an axis",
                                              .fix = "pass 0 or more, or -1 for all"});
  if (!Trace::current()) return write_text(options.stream, options.target, format_text(format, values, options.summarize));
  apply(ops::def::print, ir::make_attrs(ops::PrintAttrs{format, options.summarize, 0, options.stream, options.target}), values, at);
}

void check(const Operand& condition, const std::string& message, const std::vector<Tensor>& values,
           const std::vector<std::pair<std::string, Tensor>>& named) {
  std::vector<Tensor> in{condition.resolve()};
  in.insert(in.end(), values.begin(), values.end());
  std::string why;
  for (auto& [name, value] : named) {
    why += cat(why.empty() ? "" : ", ", escaped_format(name), " = {}");
    in.push_back(value);
  }
  const std::string what = message.empty() ? "a check failed" : message;
  if (Trace::current()) {
    apply(ops::def::check, ir::make_attrs(ops::CheckAttrs{what, why, 0}), in, condition.at());
    return;
  }
  ops::def::check.infer({*ir::make_attrs(ops::CheckAttrs{}), std::array{in[0].type()}, {}});  // the condition is bool
  std::vector<Tensor> kept;
  const std::vector<View> views = views_of(in, kept);
  std::vector<const View*> all;
  for (const View& v : views) all.push_back(&v);
  Stream stream;
  try {
    kernels::cpu::check(stream, all, {}, {what, why, 0});
  } catch (const Error& e) {
    throw e.at(text(condition.at().line()));
  }
}

Tensor check_numerics(const Operand& x, const std::string& message) {
  return apply_one(ops::def::check_numerics, ir::make_attrs(ops::NumericsAttrs{message}), std::array{x.resolve()}, x.at());
}

}  // namespace lamina
