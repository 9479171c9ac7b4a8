// The most common error texts of the frontend, compared exactly with tests/errors/frontend.txt.
#include <gtest/gtest.h>

#include "graph/frontend/device.h"
#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/op_functions.h"
#include "tests/source_file.h"

namespace lamina {
namespace {

std::string text_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    std::string s = e.what();
    // Line numbers of this file change, so they are not part of the text.
    for (size_t at; (at = s.find("errors_test.cpp:")) != std::string::npos;) {
      size_t end = at + std::string("errors_test.cpp:").size();
      while (end < s.size() && isdigit(s[end])) ++end;
      s.replace(at, end - at, "FILE:LINE");
    }
    return s;
  }
  return "no error";
}

template <class F>
auto named(const char* name, F f) {
  return function(std::move(f), FunctionOptions{.name = name, .argument_names = {"x"}, .signature = {}, .trace_limit = 1});
}

TEST(Errors, OfTheFrontendMatchTheirTexts) {
  const std::vector<std::pair<const char*, std::function<void()>>> cases = {
      {"int tensor times float", [] { tensor({1, 2}, {2}, dtype::i32) * 1.5; }},
      {"two dtypes", [] { scalar_i(2) + scalar(2); }},
      {"a number that does not fit", [] { tensor({1}, {1}, dtype::u8) + 300; }},
      {"a value while tracing", [] { named("f", [](Tensor x) { return scalar((x * 2).item<float>()); })(ones({2})); }},
      {"a leaked value",
       [] {
         Tensor leaked;
         named("f", [&](Tensor x) { return leaked = x * 2; })(scalar(1));
         named("g", [&](Tensor x) { return x + leaked; })(scalar(1));
       }},
      {"a variable made on every call",
       [] {
         named("f", [](Tensor x) {
           Variable b(12.0, "b");
           return x + b;
         })(scalar(1));
       }},
      {"an initial value that is traced",
       [] {
         named("f", [](Tensor x) {
           Variable b(x * 2, "b");
           return x + b;
         })(scalar(1));
       }},
      {"a single-use tape",
       [] {
         Variable w(2.0);
         GradientTape tape;
         Tensor y = w * w;
         tape.gradient(y, w);
         tape.gradient(y, w);
       }},
      {"a signature", [] { function([](Tensor x) { return x; }, {{{any_length()}, dtype::i32, "x"}})(ones({2, 2})); }},
      {"the trace limit",
       [] {
         auto f = named("f", [](Tensor x) { return x; });
         f(ones({2}));
         f(ones({3}));
       }},
      {"an assigned shape", [] { Variable(zeros({2, 3}), "w").assign(zeros({3, 2})); }},
      {"an index", [] { index(ones({2, 3}), 2); }},
      {"item of several", [] { ones({2}).item<float>(); }},
      {"reshape", [] { reshape(ones({2, 3}), {4, -1}); }},
      {"an empty tensor", [] { Tensor() + 1; }},
      {"a device", [] { DeviceScope("tpu:0"); }},
  };
  std::string all;
  for (auto& [name, f] : cases) all += std::string("== ") + name + "\n" + text_of(f) + "\n";
  tests::expect_text_of_file(all, "tests/errors/frontend.txt");
}

}  // namespace
}  // namespace lamina
