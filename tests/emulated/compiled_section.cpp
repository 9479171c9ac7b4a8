#include "tests/emulated/compiled_section.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "kernels/section/compiled_source.h"
#include "runtime/core/error.h"

namespace lamina::tests {
namespace {

namespace fs = std::filesystem;
using kernels::cuda::resident::Arguments;
using Kernel = void (*)(const Arguments*);

int launched = 0, asked = 0;
CompiledSections::Which which_launches = CompiledSections::Which::all;

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

// FNV-1a.
uint64_t hash(uint64_t h, const std::string& text) {
  for (unsigned char c : text) h = (h ^ c) * 1099511628211ull;
  return h;
}

// Of everything that the compiled kernel is made of.
uint64_t hash_of_headers() {
  static const uint64_t value = [] {
    uint64_t h = hash(14695981039346656037ull, LAMINA_HOST_COMPILER);
    for (const auto& [name, text] : section::section_headers()) h = hash(hash(h, name), text);
    for (const char* name : {"kernels/cuda/device_host.h", "kernels/section/table.h", "runtime/device/fault.h"})
      h = hash(h, read_file(fs::path(LAMINA_SOURCE_FOLDER) / name));
    return h;
  }();
  return value;
}

Kernel load(const section::BlockPlan& plan) {
  static std::map<std::string, Kernel> kernels;
  const std::string file = compile_for_host(plan);
  const auto [place, is_new] = kernels.try_emplace(file, nullptr);
  if (!is_new) return place->second;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) internal_error(dlerror());
  return place->second = reinterpret_cast<Kernel>(dlsym(library, "lamina_compiled_section"));
}

bool launch(Stream&, const kernels::cuda::LaunchShape& shape, const section::BlockSection& s, const Arguments& a) {
  if (which_launches == CompiledSections::Which::every_second && asked++ % 2 == 0) return false;
  const Kernel kernel = load(s.plan);
  ++launched;
  kernels::cuda::emulation::run(shape, [&] { kernel(&a); }, section::compiled_name(s.plan).c_str());
  return true;
}

}  // namespace

CompiledSections::CompiledSections(Which which) {
  which_launches = which, asked = 0;
  kernels::cuda::emulation::launch_compiled = launch;
}
CompiledSections::~CompiledSections() { kernels::cuda::emulation::launch_compiled = nullptr; }
int CompiledSections::launches() { return launched; }

std::string why_no_compiled_sections() {
  static const std::string why = [] {
    const std::string compiler = LAMINA_HOST_COMPILER, program = compiler.substr(0, compiler.find(' '));
    if (access(program.c_str(), X_OK) != 0) return cat(program, ", which made this program, is not here");
    if (!fs::exists(fs::path(LAMINA_SOURCE_FOLDER) / "kernels/cuda/section_kernel.h"))
      return cat("the sources are not in ", LAMINA_SOURCE_FOLDER);
    return std::string();
  }();
  return why;
}

std::string compile_for_host(const section::BlockPlan& plan) {
  const std::string source = section::compiled_source(plan), kernel = section::compiled_name(plan);
  const fs::path folder = LAMINA_HOST_SECTIONS;
  fs::create_directories(folder);
  std::ostringstream stem;
  stem << kernel.substr(0, 40) << '-' << std::hex << hash(hash_of_headers(), source);
  const fs::path library = folder / (stem.str() + ".so");
  if (fs::exists(library)) return library.string();
  const std::string own = cat(stem.str(), ".", getpid());  // several tests may run at once
  const fs::path text = folder / (stem.str() + ".cu"), part = folder / (own + ".so"), log = folder / (own + ".log"),
                 wrapper = folder / (own + ".cpp"), object = folder / (own + ".o");
  const fs::path text_part = folder / (own + ".cu");  // others see all of it
  std::ofstream(text_part) << source;
  fs::rename(text_part, text);
  std::ofstream(wrapper) << "#include \"" << text.string()
                         << "\"\nextern \"C\" [[gnu::visibility(\"default\")]] void lamina_compiled_section(const "
                            "lamina::kernels::cuda::resident::Arguments* a) { "
                         << kernel << "(*a); }\n";
  const int failed = std::system(cat("{ ", LAMINA_HOST_COMPILER, " -o ", object.string(), " ", wrapper.string(), " && ", LAMINA_HOST_LINKER,
                                     " -o ", part.string(), " ", object.string(), "; } > ", log.string(), " 2>&1")
                                     .c_str());
  const std::string said = read_file(log);
  for (const fs::path& made : {log, wrapper, object}) fs::remove(made);
  if (failed) internal_error(cat("the compiled source of a section does not compile: ", said.substr(0, 4000)));
  fs::rename(part, library);
  return library.string();
}

}  // namespace lamina::tests
