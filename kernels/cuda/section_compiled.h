// Which of a section's two kernels a launch takes: the interpreter until the one that is compiled for this section is there, and for good
// when that does not compile.
#pragma once
#include <string>

#include "kernels/section/compiled_source.h"
#include "runtime/core/error.h"
#include "runtime/cuda/compiled_kernels.h"

namespace lamina::kernels::cuda {

enum class Wanted { interpreter, whichever, compiled };
// Of LAMINA_SECTION.
inline Wanted wanted_of(const std::string& text) {
  if (text.empty()) return Wanted::whichever;
  if (text == "interpret") return Wanted::interpreter;
  if (text == "compile") return Wanted::compiled;
  throw Error(ErrorKind::invalid_argument, {.what = cat("LAMINA_SECTION=", text, " is not a kernel of a section"),
                                            .where = "the environment",
                                            .why = "it is interpret or compile",
                                            .fix = "unset LAMINA_SECTION, or set it to one of them"});
}

// Asks for the compiled kernel, which the first request does not start to make. What is known of it afterwards is in d.compiled,
// d.interpreted and s.kernel_used. s.mutex is held; d's device is current.
inline void look_for_compiled(lamina::cuda::CompiledKernels& kernels, Wanted wanted, int architecture, const section::BlockSection& s,
                              section::BlockSection::OnDevice& d) {
  const auto give_up = [&](const std::string& why) {
    d.interpreted = true;
    s.kernel_used = cat("the interpreter: ", why);
    s.source.clear();
  };
  if (wanted == Wanted::interpreter) return give_up("LAMINA_SECTION=interpret");
  if (const std::string why = section::why_not_compiled(s.plan); !why.empty()) return give_up(why);
  const std::string name = section::compiled_name(s.plan);
  if (s.source.empty()) s.source = section::compiled_source(s.plan);
  const auto find = [&] {
    return kernels.find(d.stream.device, architecture, s.source, [&] {
      lamina::cuda::Source source{name, s.source, {}};
      for (const auto& [header, text] : section::section_headers()) source.headers.push_back({header, text});
      return source;
    });
  };
  cudaKernel_t kernel = find();
  if (!kernel && wanted == Wanted::compiled) {
    find();
    kernels.wait();
    kernel = find();
  }
  if (kernel) {
    d.compiled = reinterpret_cast<const void*>(kernel);
    s.kernel_used = cat("the compiled kernel ", name);
    s.source.clear();
  } else if (const std::string why = kernels.why_missing(s.source); !why.empty()) {
    give_up(why);
  } else {
    s.kernel_used = "the interpreter, until the compiled kernel is ready";
  }
}

}  // namespace lamina::kernels::cuda
