// lamina_fuzz_programs: the input is a saved program as one text, "== NAME" before each of its files, or the graph of a program's only
// function. Its checksums are made right and its weights are made from their types, so that damage reaches what reads behind them. A
// program that is accepted is saved, loaded again, and each of its graphs that is small is called and differentiated.
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "graph/frontend/device.h"
#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/program/module.h"
#include "graph/program/tensor_file.h"
#include "runtime/core/limits.h"
#include "runtime/io/checksum.h"
#include "tests/fuzz/harness.h"
#include "tests/graph/damage.h"

namespace lamina::fuzz {
namespace {

using Files = std::map<std::string, std::string>;
using tests::below;
using tests::Random;

constexpr const char* kWeights = "weights";  // a line "NAME: TYPE" for each
constexpr double kMostRunBytes = 1 << 18;    // of all values of a graph that is run
constexpr size_t kMostNodes = 200;

// A program with one function of all inputs and resources of a graph. Throws an Error for what is no graph.
Files program_of(const std::string& text) {
  const ir::Graph g = ir::parse(text);
  using Json = nlohmann::json;
  Json arguments = Json::array(), outputs = Json::array(), names = Json::array(), variables = Json::array();
  for (size_t i = 0; i < g.inputs.size(); ++i) arguments.push_back(cat("x", i));
  for (size_t i = 0; i < g.outputs.size(); ++i) outputs.push_back(cat("y", i));
  std::string weights;
  for (size_t i = 0; i < g.resources.size(); ++i) {
    const std::string name = cat("w", i);
    names.push_back(name);
    variables.push_back({{"name", name}, {"own_name", name}, {"trainable", i % 2 == 0}, {"stacked", false}});
    weights += cat(name, ": ", g.resources[i].type, '\n');
  }
  const Json graph = {{"graph", "graph_0.txt"},   {"name", "f"},
                      {"arguments", arguments},   {"outputs", outputs},
                      {"variables", names},       {"captures", Json::array()},
                      {"lengths", Json::array()}, {"variable_arguments", Json::array()}};
  const Json program = {{"format", "lamina program"},
                        {"version", 1},
                        {"functions", {{"f", Json::array({graph})}}},
                        {"signatures", {{"serving_default", "f"}}},
                        {"variables", variables}};
  return {{"graph_0.txt", text}, {"language.json", ""}, {"program.json", program.dump()}, {kWeights, weights}};
}

bool is_lone_graph(const std::string& text) { return !text.starts_with("== "); }

Files files_of(const std::string& text) {
  if (is_lone_graph(text)) return program_of(text);
  Files out;
  std::string* into = nullptr;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string line = text.substr(at, end - at);
    if (line.starts_with("== "))
      into = &out[line.substr(3, line.find_last_not_of('\n') - 2)];
    else if (into)
      *into += line;
    at = end;
  }
  return out;
}
std::string text_of(const Files& files) {
  std::string out;
  for (const auto& [name, text] : files) out += "== " + name + "\n" + text + (text.empty() || text.back() == '\n' ? "" : "\n");
  return out;
}

// Small numbers of both signs.
Tensor some_values(const TensorType& type) {
  return made_on_host(type, [&](std::span<std::byte> bytes) {
    with_dtype(type.dtype, [&]<class T>() {
      T* out = reinterpret_cast<T*>(bytes.data());
      for (size_t i = 0; i < bytes.size() / sizeof(T); ++i)
        if constexpr (std::is_same_v<T, bool>)
          out[i] = i % 3 == 0;
        else if constexpr (std::is_integral_v<T>)
          out[i] = T(i % 4);
        else
          out[i] = T(float(int(i % 7) - 2) * 0.25f);
    });
  });
}

std::map<std::string, TensorType> weights_of(const Files& files) {
  std::map<std::string, TensorType> out;
  const auto found = files.find(kWeights);
  if (found == files.end()) return out;
  for (size_t at = 0; at < found->second.size();) {
    const size_t end = std::min(found->second.find('\n', at), found->second.size());
    const std::string line = found->second.substr(at, end - at);
    if (const size_t colon = line.rfind(": "); colon != std::string::npos) {
      const TensorType type = parse_type(line.substr(colon + 2));
      if (known(type.shape) && double(byte_size(type)) < kMostRunBytes) out[line.substr(0, colon)] = type;
    }
    at = end + 1;
  }
  return out;
}

// The files in `folder`, with the checksums that they have.
void write_program(const Files& files, const std::string& folder) {
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  std::map<std::string, uint32_t> sums;
  for (const auto& [name, text] : files) {
    if (name == kWeights || name.empty() || name.size() > 100 || name.find_first_of("/\0", 0, 2) != std::string::npos || name[0] == '.')
      continue;
    write(folder + "/" + name, text);
    sums[name] = io::crc32(std::as_bytes(std::span(text)));
  }
  TensorFile weights;
  for (const auto& [name, type] : weights_of(files)) weights.tensors.emplace(name, some_values(type));
  save_tensors(folder + "/weights.safetensors", weights);
  write(folder + "/checksums.json", nlohmann::json(sums).dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) out[entry.path().filename()] = read(entry.path());
  return out;
}

double bytes_of(const ir::Graph& g) {
  double sum = 0;
  for (const ir::Node& node : g.nodes()) {
    for (const TensorType& t : node.types) {
      double bytes = double(size_of(t.dtype));
      for (const Dim d : t.shape) bytes *= d.known() ? double(d.number()) : 4;
      sum += bytes;
    }
    for (const ir::GraphRef& region : node.regions) sum += bytes_of(*region);
  }
  return sum;
}
size_t nodes_of(const ir::Graph& g) {
  size_t sum = size_t(g.size());
  for (const ir::Node& node : g.nodes())
    for (const ir::GraphRef& region : node.regions) sum += nodes_of(*region);
  return sum;
}

void wait_for(const std::vector<Tensor>& tensors) {
  for (const Tensor& t : tensors)
    if (t.defined() && t.size() > 0) t.to(Device{}).data();
}

void call(ConcreteFunction& f) {
  const ir::Graph& g = f.graph();
  if (nodes_of(g) > kMostNodes || bytes_of(g) > kMostRunBytes || !f.argument_resources().empty()) return;
  std::vector<Tensor> arguments;
  DimBindings lengths;
  for (const TensorSpec& spec : f.inputs()) {
    TensorType type{spec.dtype, spec.shape};
    for (Dim& d : type.shape)
      if (!d.known()) {
        if (d.text().find_first_of("*+-?") == std::string::npos) lengths.emplace(d.text(), 2 + int64_t(d.text().size() % 2));
        d = substitute(d, lengths);
        if (!d.known()) d = Dim(2);
      }
    if (double(byte_size(type)) > kMostRunBytes) return;
    arguments.push_back(some_values(type));
  }
  const Limits limits({.seconds = 0.5, .bytes = int64_t{1} << 28});
  if (!succeeds([&] { wait_for(f.call(arguments)); })) return;
  count("graphs run");
  const auto differentiated = [&] {
    GradientTape tape;
    std::vector<Source> sources;
    for (const Tensor& t : arguments)
      if (is_floating(t.dtype())) tape.watch(t), sources.emplace_back(t);
    for (const Variable& v : f.variables())
      if (is_floating(v.dtype())) tape.watch(v), sources.emplace_back(v);
    std::vector<Tensor> results;
    for (Tensor& t : f.call(arguments))
      if (is_floating(t.dtype())) results.push_back(std::move(t));
    if (!results.empty() && !sources.empty()) wait_for(tape.gradient(results, sources));
  };
  if (succeeds(differentiated)) count("graphs differentiated");
}

// Weights of the types that the graphs' resources have, so that changed resources are accepted.
void fit_weights(Files& files) {
  const nlohmann::json program = nlohmann::json::parse(files["program.json"], nullptr, false);
  std::map<std::string, TensorType> weights;
  try {
    weights = weights_of(files);
    for (const auto& graphs : program.at("functions"))
      for (const auto& one : graphs) {
        const ir::Graph g = ir::parse(files[one.at("graph")]);
        const auto& names = one.at("variables");
        for (size_t i = 0; i < names.size() && i < g.resources.size(); ++i)
          if (names[i].is_string()) weights[names[i]] = g.resources[i].type;
      }
  } catch (const std::exception&) {
    return;
  }
  std::string& text = files[kWeights];
  text.clear();
  for (const auto& [name, type] : weights) text += cat(name, ": ", type, '\n');
}

void change_graph(std::string& text, Random& random) {
  try {
    text = ir::print(tests::with_one_change(ir::parse(text), random), true);
  } catch (const Error&) {
    text = tests::with_one_token_changed(text, random);
  }
}

void change(Files& files, Random& random) {
  std::vector<std::string> graphs;
  for (const auto& [name, text] : files)
    if (name.starts_with("graph_")) graphs.push_back(name);
  const size_t kind = below(random, 10);
  if (kind < 7 && !graphs.empty()) {
    change_graph(files[graphs[below(random, graphs.size())]], random);
    if (below(random, 4)) fit_weights(files);
    return;
  }
  const char* const name = kind == 9 ? kWeights : "program.json";
  files[name] = tests::with_one_token_changed(files[name], random);
}

}  // namespace
}  // namespace lamina::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lamina;
  const std::string first = fuzz::scratch("first"), second = fuzz::scratch("second"), third = fuzz::scratch("third");
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (!fuzz::succeeds([&] { fuzz::write_program(fuzz::files_of(text), first); })) return -1;
  Module m;
  if (!fuzz::succeeds([&] { m = Module::load(first); })) return 0;
  fuzz::count("inputs accepted");
  m.str();
  if (!fuzz::succeeds([&] { m.save(second); })) fuzz::finding("a program that was loaded cannot be saved");
  if (!fuzz::succeeds([&] { Module::load(second).save(third); })) fuzz::finding("a program that was loaded and saved cannot be loaded");
  if (fuzz::contents(second) != fuzz::contents(third)) fuzz::finding("a program that was loaded is saved with other bytes");
  for (const auto& [name, graphs] : m.functions())
    for (const Module::Graph& graph : graphs) fuzz::call(*graph.function);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  using namespace lamina;
  tests::Random random(seed);
  if (tests::below(random, 8) == 0) return LLVMFuzzerMutate(data, size, most);
  std::string text(reinterpret_cast<const char*>(data), size);
  if (fuzz::is_lone_graph(text)) {
    fuzz::change_graph(text, random);
  } else {
    fuzz::Files files = fuzz::files_of(text);
    fuzz::change(files, random);
    text = fuzz::text_of(files);
  }
  if (text.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
