#include "graph/program/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "graph/frontend/factories.h"
#include "graph/functions/random.h"
#include "graph/program/tensor_file.h"
#include "runtime/dist/collectives.h"
#include "runtime/dist/stop.h"
#include "runtime/dist/world.h"
#include "runtime/io/checksum.h"

namespace lamina {
namespace {

namespace dist = distributed;
namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kKey = "lamina.checkpoint";
constexpr int64_t kNewest = 1, kMostSteps = 999'999'999'999;
constexpr std::string_view kBegin = "step-", kEnd = ".safetensors";
constexpr size_t kDigits = 12;

// The step of a file's name.
std::optional<int64_t> step_of(const std::string& name) {
  if (name.size() != kBegin.size() + kDigits + kEnd.size() || !name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
  int64_t step = 0;
  for (const char c : std::string_view(name).substr(kBegin.size(), kDigits)) {
    if (c < '0' || c > '9') return std::nullopt;
    step = step * 10 + (c - '0');
  }
  return step;
}

std::string where(const std::string& path) { return cat("file '", path, "'"); }

Error unusable(const std::string& folder, const std::string& problem) {
  return Error(ErrorKind::file, {.what = "Checkpoint: the folder cannot be used: " + problem,
                                 .where = where(folder),
                                 .why = "checkpoints are files in it",
                                 .fix = "pass a folder that can be written"});
}

// The names in a folder; none when it is not there.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code problem;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem))
    out.push_back(at->path().filename().string());
  if (problem && problem != std::errc::no_such_file_or_directory) throw unusable(folder, problem.message());
  return out;
}

std::string text_from_rank_0(dist::Communicator& c, std::string text, const std::string& name) {
  int64_t length = int64_t(text.size());
  dist::broadcast(c, DType::i64, &length, 1, 0, {.tensor = name});
  text.resize(size_t(length));
  dist::broadcast(c, DType::u8, text.data(), length, 0, {.tensor = name});
  return text;
}

// What f() returns on rank 0, a text, on every rank; or its Error.
template <class F>
std::string on_rank_0(dist::Communicator& c, const std::string& name, F f) {
  if (c.size() == 1) return f();
  json said;
  if (c.rank() == 0) try {
      said["text"] = f();
    } catch (const Error& e) {
      said = {{"kind", int(e.kind)}, {"parts", {e.parts.what, e.parts.where, e.parts.why, e.parts.fix}}};
    }
  said = json::parse(text_from_rank_0(c, c.rank() == 0 ? said.dump(-1, ' ', false, json::error_handler_t::replace) : "", name));
  if (!said.contains("kind")) return said["text"];
  const auto parts = said["parts"].get<std::array<std::string, 4>>();
  throw Error(ErrorKind(said["kind"].get<int>()), {.what = parts[0], .where = parts[1], .why = parts[2], .fix = parts[3]});
}

std::span<const std::byte> bytes_of(const Tensor& on_host) {
  const size_t size = size_t(byte_size(on_host.type()));
  return {size ? static_cast<const std::byte*>(on_host.data()) : nullptr, size};
}

// Throws on every rank if the states are not the same on all.
void require_same(dist::Communicator& c, const std::map<std::string, Tensor>& tensors, const random::State& random,
                  const std::string& name) {
  if (c.size() == 1) return;
  std::vector<std::string> names{"the random generators"};
  std::vector<int64_t> own{int64_t(io::crc32(std::as_bytes(std::span(random))))};
  for (const auto& [key, tensor] : tensors) names.push_back(cat('\'', key, '\'')), own.push_back(io::crc32(bytes_of(tensor)));
  std::vector<int64_t> all(own.size() * size_t(c.size()));
  dist::all_gather(c, DType::i64, own.data(), all.data(), int64_t(own.size()), {.tensor = name});
  for (size_t i = 0; i < own.size(); ++i) {
    std::vector<int> others;
    for (int r = 1; r < c.size(); ++r)
      if (all[size_t(r) * own.size() + i] != all[i]) others.push_back(r);
    if (others.empty()) continue;
    std::string ranks;
    for (const int r : others) ranks += cat(ranks.empty() ? "" : ", ", r);
    throw Error(ErrorKind::collective,
                {.what = cat("Checkpoint.save: ", names[i], " differs between rank 0 and rank", others.size() > 1 ? "s " : " ", ranks),
                 .where = "",
                 .why = "one file is for all ranks, so all must have the same state",
                 .fix = "begin with the same seed on every rank, and update from sums over ranks: lm::distributed::data_parallel"});
  }
}

struct Saved {
  TensorFile file;
  random::State random{};
};
bool has_slots(const Saved& saved) {
  return std::any_of(saved.file.tensors.begin(), saved.file.tensors.end(),
                     [](const auto& t) { return t.first.starts_with("optimizer/0."); });
}
// Throws file for what is damaged; of a newer Lamina: sets `newer`.
Saved read_step(const std::string& path, int64_t step, bool& newer) {
  Saved out{load_tensors(path)};
  const auto bad = [&](const std::string& what) -> Error {
    return Error(ErrorKind::file, {.what = what, .where = where(path), .why = "", .fix = ""});
  };
  const auto found = out.file.metadata.find(kKey);
  if (found == out.file.metadata.end()) throw bad("it is no checkpoint");
  const json state = json::parse(found->second, nullptr, false);
  if (!state.is_object() || !state.contains("step") || state["step"] != step) throw bad("it is the file of another step");
  const json version = state.value("version", json(1));
  if (!version.is_number_integer() || version > kNewest) {
    newer = true;
    throw Error(ErrorKind::file, {.what = cat("Checkpoint: step ", step, " was saved by a newer Lamina"),
                                  .where = where(path),
                                  .why = cat("its format has version ", version.dump(), ", this Lamina knows ", kNewest),
                                  .fix = "use the Lamina that has written it, or remove the file to go on from an earlier step"});
  }
  const json random = state.value("random", json());
  if (!random.is_array() || random.size() != out.random.size()) throw bad("it has no state of the random generators");
  for (size_t i = 0; i < out.random.size(); ++i) {
    if (!random[i].is_number_integer()) throw bad("it has no state of the random generators");
    out.random[i] = random[i].get<int64_t>();
  }
  return out;
}

void require_fit(const Checkpoint::Variables& variables, const Saved& saved, const std::string& path) {
  const auto refuse = [&](ErrorKind kind, const std::string& what, const std::string& why) {
    throw Error(kind, {.what = "Checkpoint.restore: " + what, .where = where(path), .why = why, .fix = "restore into a model built alike"});
  };
  for (const auto& [name, variable] : variables) {
    const auto found = saved.file.tensors.find(name);
    if (found == saved.file.tensors.end())
      refuse(ErrorKind::not_found, cat("'", name, "' is not in the file"), cat("it holds ", saved.file.tensors.size(), " tensors"));
    if (!(found->second.type() == variable.type()))
      refuse(ErrorKind::invalid_argument, cat("'", name, "' is ", variable.type(), ", the file's is ", found->second.type()), "");
  }
  for (const auto& [name, tensor] : saved.file.tensors)
    if (!variables.contains(name)) refuse(ErrorKind::not_found, cat("there is no '", name, "'"), cat("the file holds a ", tensor.type()));
}

}  // namespace

Checkpoint::Checkpoint(std::string folder, std::function<Variables()> variables, std::function<void()> build, CheckpointOptions options)
    : folder_(std::move(folder)), variables_(std::move(variables)), build_(std::move(build)), options_(options) {
  if (options.keep < 1 || options.every < 1)
    throw Error(ErrorKind::invalid_argument, {.what = cat("Checkpoint: keep ", options.keep, " and every ", options.every),
                                              .where = "",
                                              .why = "both are positive: at least the last file stays, and every n-th step is written",
                                              .fix = "pass 1 or more"});
}

Checkpoint::~Checkpoint() {
  if (expects_stops_) dist::expect_stops(false);
}

std::string Checkpoint::last_part(const std::string& name) { return name.substr(name.rfind('/') + 1); }

Checkpoint::Variables Checkpoint::numbered(const std::string& prefix, const std::vector<Variable>& variables, size_t group) {
  Variables out;
  for (size_t i = 0; i < variables.size(); ++i) out.emplace(cat(prefix, i / group, '.', last_part(variables[i].name())), variables[i]);
  return out;
}

std::string Checkpoint::path(int64_t step) const {
  char name[64];
  std::snprintf(name, sizeof name, "step-%0*lld.safetensors", int(kDigits), static_cast<long long>(step));
  return (fs::path(folder_) / name).string();
}

std::vector<int64_t> Checkpoint::steps() const {
  std::vector<int64_t> out;
  for (const std::string& name : names_in(folder_))
    if (const std::optional<int64_t> step = step_of(name)) out.push_back(*step);
  std::sort(out.begin(), out.end());
  return out;
}

bool Checkpoint::save(int64_t step) {
  if (step < 0 || step > kMostSteps)
    throw Error(ErrorKind::invalid_argument, {.what = cat("Checkpoint.save: ", step, " is no step"),
                                              .where = "",
                                              .why = "it is a number from 0 to 999,999,999,999",
                                              .fix = "pass how many steps were done"});
  dist::Communicator& c = dist::current();
  if (!std::exchange(expects_stops_, true)) dist::expect_stops(true, c.rank() == 0);
  const std::string name = cat(folder_, ": checkpoint of step ", step);  // of a long text the end is kept
  const int stop = dist::end_of_step(c, {.tensor = name});
  if (step % options_.every != 0 && !stop) return false;
  const Variables variables = variables_();
  if (c.size() > 1) {
    std::map<std::string, Tensor> tensors;
    for (const auto& [key, variable] : variables) tensors.emplace(key, variable.read().to(Device{}));
    require_same(c, tensors, random::state(), name);
  }
  on_rank_0(c, name, [&] {
    write(step, variables);
    return "";
  });
  if (stop && c.rank() == 0)
    dist::say(
        cat("lamina: ", dist::signal_name(stop), ": step ", step, " is saved in '", folder_, "'; the program ends with status ", kStopped));
  return stop != 0;
}

void Checkpoint::write(int64_t step, const Variables& variables) {
  std::error_code problem;
  fs::create_directories(folder_, problem);
  if (problem) throw unusable(folder_, problem.message());
  for (const int64_t later : steps())
    if (later > step && !damaged_.contains(later))
      throw Error(ErrorKind::invalid_argument,
                  {.what = cat("Checkpoint.save: '", folder_, "' has step ", later, " already, which comes after ", step),
                   .where = "",
                   .why = "restore() takes the last step",
                   .fix = "call restore() first, or use another folder"});
  TensorFile content;
  for (const auto& [key, variable] : variables) content.tensors.emplace(key, variable.read());
  content.metadata[kKey] = json{{"step", step}, {"random", random::state()}, {"data", nullptr}}.dump();
  save_tensors(path(step), content);
  damaged_.erase(step);
  remove_old(step);
}

// Files that are not needed, and what killed saves left behind.
void Checkpoint::remove_old(int64_t step) {
  std::vector<int64_t> good;
  for (const int64_t s : steps())
    if (s <= step && !damaged_.contains(s)) good.push_back(s);
  const int64_t oldest = good[good.size() - std::min(good.size(), size_t(options_.keep))];
  for (const std::string& name : names_in(folder_)) {
    const std::optional<int64_t> s = step_of(name);
    const bool left_behind = !s && name.find(kBegin) != name.npos && name.find(kEnd) != name.npos;
    std::error_code ignored;
    if (left_behind || (s && (*s < oldest || damaged_.contains(*s)))) fs::remove(fs::path(folder_) / name, ignored);
  }
  damaged_.clear();
}

std::optional<int64_t> Checkpoint::restore() {
  dist::Communicator& c = dist::current();
  const std::string name = cat("checkpoint in ", folder_);
  Saved saved;
  const std::string found = on_rank_0(c, name, [&]() -> std::string {
    const std::vector<int64_t> all = steps();
    std::string reasons;
    for (auto step = all.rbegin(); step != all.rend(); ++step) {
      bool newer = false;
      try {
        saved = read_step(path(*step), *step, newer);
      } catch (const Error& e) {
        if (newer || e.kind != ErrorKind::file) throw;
        damaged_.insert(*step);
        reasons += cat(reasons.empty() ? "" : "; ", "step ", *step, ": ", e.parts.what);
        dist::say(cat("lamina: the checkpoint of step ", *step, " is left out: ", e.parts.what, " ('", path(*step), "')"));
        continue;
      }
      const bool slots = has_slots(saved);
      if (slots) build_();
      require_fit(variables_(), saved, path(*step));
      return cat(*step, slots ? " with slots" : "");
    }
    if (!all.empty())
      throw Error(ErrorKind::file, {.what = "Checkpoint.restore: no checkpoint is whole",
                                    .where = cat("folder '", folder_, "'"),
                                    .why = reasons,
                                    .fix = "put a whole one back, or use another folder to begin again"});
    return "";
  });
  if (found.empty()) return std::nullopt;
  const int64_t step = std::stoll(found);
  if (c.rank() != 0 && found.ends_with("slots")) build_();
  dist::broadcast(c, DType::i64, saved.random.data(), int64_t(saved.random.size()), 0, {.tensor = name});
  for (const auto& [key, variable] : variables_()) {
    if (c.size() == 1) {
      variable.assign(saved.file.tensors.at(key));
      continue;
    }
    std::vector<char> bytes(size_t(byte_size(variable.type())));
    if (c.rank() == 0 && !bytes.empty()) std::memcpy(bytes.data(), bytes_of(saved.file.tensors.at(key).to(Device{})).data(), bytes.size());
    dist::broadcast(c, DType::u8, bytes.data(), int64_t(bytes.size()), 0, {.tensor = cat(name, ": ", key)});
    variable.assign(constant(bytes.data(), variable.type()));
  }
  random::set_state(saved.random);
  return step;
}

}  // namespace lamina
