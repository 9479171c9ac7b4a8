// lamina-run: a saved program on the command line, without Python.
//
//   lamina-run policy --list
//   lamina-run policy --signature score --input rows=x.npy --output output=y.npy
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "graph/program/module.h"
#include "graph/program/npy.h"
#include "runtime/core/limits.h"

namespace lm = lamina;

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

double microseconds_since(Clock::time_point start) { return std::chrono::duration<double, std::micro>(Clock::now() - start).count(); }

std::pair<std::string, std::string> name_and_path(const std::string& text, const char* option) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    throw lm::Error(lm::ErrorKind::invalid_argument,
                    {.what = lm::cat(option, " ", text), .where = "", .why = "", .fix = "write NAME=FILE.npy"});
  return {text.substr(0, at), text.substr(at + 1)};
}

Json listed(const lm::Module& m) {
  Json out = {{"signatures", m.signatures()}, {"functions", Json::object()}, {"variables", Json::object()}};
  for (const auto& [name, graphs] : m.functions())
    for (const lm::Module::Graph& graph : graphs) {
      Json one = {{"arguments", Json::object()}, {"outputs", Json::object()}};
      const std::vector<lm::TensorSpec> inputs = graph.function->inputs(), outputs = graph.function->outputs();
      for (size_t i = 0; i < inputs.size(); ++i)
        one["arguments"][graph.arguments[i]] = text(lm::TensorType{inputs[i].dtype, inputs[i].shape});
      for (size_t i = 0; i < outputs.size(); ++i)
        one["outputs"][graph.outputs[i]] = text(lm::TensorType{outputs[i].dtype, outputs[i].shape});
      out["functions"][name].push_back(one);
    }
  for (const auto& [name, v] : m.variables()) out["variables"][name] = text(v.type());
  return out;
}

struct Options {
  std::string model, signature, save;
  std::vector<std::string> inputs, outputs;
  bool list = false, json = false;
  int repeat = 1;
  lm::Limits::Amounts most;
};

int run(const Options& options) {
  const Clock::time_point start = Clock::now();
  const lm::Limits limits(options.most);
  lm::Module m = lm::Module::load(options.model);
  const double load_us = microseconds_since(start);
  if (options.list) {
    std::fputs(options.json ? (listed(m).dump(1) + "\n").c_str() : m.str().c_str(), stdout);
    return 0;
  }
  std::string function = options.signature;
  if (function.empty()) {
    if (m.functions().size() != 1)
      throw lm::Error(lm::ErrorKind::invalid_argument, {.what = lm::cat(options.model, " has ", m.functions().size(), " functions"),
                                                        .where = "",
                                                        .why = "",
                                                        .fix = "name one with --signature; --list shows them"});
    function = m.functions().begin()->first;
  }
  lm::NamedTensors arguments;
  for (const std::string& text : options.inputs) {
    const auto [name, path] = name_and_path(text, "--input");
    if (!arguments.emplace(name, lm::load_npy(path)).second)
      throw lm::Error(lm::ErrorKind::invalid_argument, {.what = lm::cat("--input ", name, " is given twice"),
                                                        .where = "",
                                                        .why = "an argument has one value",
                                                        .fix = "leave one of them out"});
  }
  std::vector<double> times;
  lm::NamedTensors results;
  for (int i = 0; i < options.repeat; ++i) {
    const Clock::time_point before = Clock::now();
    results = m.call(function, arguments);
    for (const auto& [name, tensor] : results)
      if (tensor.size() > 0) tensor.to(lm::Device{}).data();  // waits
    times.push_back(microseconds_since(before));
  }
  for (const std::string& text : options.outputs) {
    const auto [name, path] = name_and_path(text, "--output");
    const auto found = results.find(name);
    if (found == results.end()) {
      std::vector<std::string> names;
      for (const auto& [one, tensor] : results) names.push_back(one);
      throw lm::unknown_name("output", name, names);
    }
    lm::save_npy(path, found->second);
  }
  if (!options.save.empty()) m.save(options.save);
  const double first = times.front();
  std::sort(times.begin(), times.end());
  if (options.json) {
    Json out = {{"function", function},
                {"load_us", load_us},
                {"first_us", first},
                {"least_us", times.front()},
                {"median_us", times[times.size() / 2]},
                {"outputs", Json::object()}};
    for (const auto& [name, tensor] : results) out["outputs"][name] = text(tensor.type());
    std::printf("%s\n", out.dump(1).c_str());
    return 0;
  }
  for (const auto& [name, tensor] : results) std::printf("%s = %s\n", name.c_str(), tensor.str().c_str());
  if (options.repeat > 1)
    std::printf("loaded in %.0f us; the first call took %.0f us, the others at least %.1f us, half of them at most %.1f us\n", load_us,
                first, times.front(), times[times.size() / 2]);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Runs a program that lm.save or lm::Module::save wrote, without Python."};
  Options options;
  app.add_option("model", options.model, "the folder of the saved program")->required();
  app.add_flag("--list", options.list, "print its signatures, functions and Variables, and run nothing");
  app.add_option("-s,--signature", options.signature, "the function or signature to call; it may be left out where there is one function");
  app.add_option("-i,--input", options.inputs, "NAME=FILE.npy for each argument")->take_all();
  app.add_option("-o,--output", options.outputs, "NAME=FILE.npy for each result to write")->take_all();
  app.add_option("--save", options.save, "write the program with its changed Variables to this folder afterwards");
  app.add_option("--seconds", options.most.seconds, "stop when loading and all calls take longer")->check(CLI::NonNegativeNumber);
  app.add_option("--bytes", options.most.bytes, "stop instead of holding more memory")->check(CLI::NonNegativeNumber);
  app.add_option("--repeat", options.repeat, "call it so many times, and say how long it took")->check(CLI::Range(1, 1'000'000'000));
  app.add_flag("--json", options.json, "print JSON");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lamina-run: %s\n", error.what());
    return 1;
  }
}
