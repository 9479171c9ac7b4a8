#include "runtime/cuda/nvrtc.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "runtime/core/error.h"

namespace lamina::cuda {
namespace {

namespace fs = std::filesystem;

ErrorKind kind_of(int result) { return result == 1 ? ErrorKind::out_of_memory : ErrorKind::device; }  // NVRTC_ERROR_OUT_OF_MEMORY

void check(const NvrtcApi& api, int result, const std::string& doing) {
  if (result == 0) return;
  throw Error(kind_of(result),
              {.what = cat("cuda: cannot ", doing), .where = "NVRTC", .why = cat(api.error_text(result), " (", result, ")"), .fix = ""});
}

class Program {
 public:
  Program(const NvrtcApi& api, const Source& source, const std::string& file) : api_(api) {
    std::vector<const char*> names, texts;
    for (const Header& h : source.headers) names.push_back(h.name.c_str()), texts.push_back(h.text.c_str());
    check(api,
          api.create(&program_, source.text.c_str(), (file.empty() ? source.name + ".cu" : file).c_str(), int(names.size()), texts.data(),
                     names.data()),
          cat("begin to compile ", source.name));
  }
  ~Program() { api_.destroy(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  void* get() const { return program_; }
  std::string log() const {
    size_t bytes = 0;
    if (api_.log_size(program_, &bytes) != 0 || bytes < 2) return "";
    std::string text(bytes, '\0');
    if (api_.log(program_, text.data()) != 0) return "";
    text.resize(bytes - 1);
    return text;
  }

 private:
  const NvrtcApi& api_;
  void* program_ = nullptr;
};

// FNV-1a.
uint64_t hash(uint64_t h, const std::string& text) {
  for (unsigned char c : text) h = (h ^ c) * 1099511628211ull;
  return (h ^ 0xff) * 1099511628211ull;  // where one text ends
}
std::string hex(uint64_t v) {
  std::ostringstream out;
  out << std::hex << std::setw(16) << std::setfill('0') << v;
  return out.str();
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}
// An entry: the code behind its own hash.
std::string read_entry(const fs::path& path) {
  const std::string text = read_file(path);
  if (text.size() < 17 || text.substr(0, 16) != hex(hash(0, text.substr(16)))) return "";
  return text.substr(16);
}
// Other processes see all of it or nothing.
void write_file(const fs::path& path, const std::string& text) {
  const fs::path part = path.string() + cat(".", getpid());
  std::error_code ignored;
  {
    std::ofstream file(part, std::ios::binary);
    file << text;
    if (!file.flush()) return void(fs::remove(part, ignored));
  }
  fs::rename(part, path, ignored);
}

}  // namespace

NvrtcApi load_nvrtc(const Loader& loader) {
  const LibraryName& name = nvrtc_name();
  void* library = require_library(name, loader);
  NvrtcApi api{};
  require_symbol(name, loader, library, "nvrtcVersion", api.version);
  require_symbol(name, loader, library, "nvrtcCreateProgram", api.create);
  require_symbol(name, loader, library, "nvrtcDestroyProgram", api.destroy);
  require_symbol(name, loader, library, "nvrtcCompileProgram", api.compile);
  require_symbol(name, loader, library, "nvrtcGetProgramLogSize", api.log_size);
  require_symbol(name, loader, library, "nvrtcGetProgramLog", api.log);
  require_symbol(name, loader, library, "nvrtcGetCUBINSize", api.cubin_size);
  require_symbol(name, loader, library, "nvrtcGetCUBIN", api.cubin);
  require_symbol(name, loader, library, "nvrtcGetErrorString", api.error_text);
  return api;
}

const NvrtcApi& nvrtc_api() {
  static const NvrtcApi api = load_nvrtc(system_loader());  // a failure is tried again by the next call
  return api;
}

std::string compile_cubin(const NvrtcApi& api, const Source& source, int architecture, const std::string& file) {
  const Program program(api, source, file);
  const std::string target = cat("--gpu-architecture=sm_", architecture, architecture == 90 ? "a" : "");
  const char* options[] = {target.c_str(), "--std=c++20", "--fmad=false", "-lineinfo", "--device-as-default-execution-space"};
  if (const int result = api.compile(program.get(), int(std::size(options)), options); result != 0) {
    throw Error(kind_of(result),
                {.what = cat("cuda: the kernel ", source.name, " does not compile for ", target.substr(target.find('=') + 1)),
                 .where = "NVRTC",
                 .why = cat(api.error_text(result), ": ", program.log()),
                 .fix = ""});
  }
  size_t bytes = 0;
  check(api, api.cubin_size(program.get(), &bytes), cat("read the code of ", source.name));
  std::string code(bytes, '\0');
  check(api, api.cubin(program.get(), code.data()), cat("read the code of ", source.name));
  return code;
}

std::string cached_cubin(const NvrtcApi& api, const Source& source, int architecture, const std::string& folder) {
  if (folder.empty()) return compile_cubin(api, source, architecture);
  int major = 0, minor = 0;
  check(api, api.version(&major, &minor), "ask for NVRTC's version");
  uint64_t key = hash(hash(14695981039346656037ull, cat(major, ".", minor)), source.text);
  for (const Header& h : source.headers) key = hash(hash(key, h.name), h.text);
  const std::string stem = cat(source.name.substr(0, 80), "-", hex(key));
  const fs::path entry = fs::path(folder) / cat(stem, "-sm_", architecture, ".cubin");
  if (std::string code = read_entry(entry); !code.empty()) return code;
  const std::string text_path = (fs::path(folder) / (stem + ".cu")).string();
  std::error_code failed;
  fs::create_directories(folder, failed);
  // First the source, and once: its time of writing becomes a part of the code.
  if (!failed && read_file(text_path) != source.text) write_file(text_path, source.text);
  const std::string code = compile_cubin(api, source, architecture, text_path);
  if (!failed) write_file(entry, hex(hash(0, code)) + code);
  return code;
}

std::string cache_folder() {
  if (const char* own = std::getenv("LAMINA_CACHE")) return *own == '/' ? own : "";  // what is cached is code: never of a foreign folder
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/') return cat(cache, "/lamina");
  if (const char* home = std::getenv("HOME"); home && *home == '/') return cat(home, "/.cache/lamina");
  return "";
}

}  // namespace lamina::cuda
