#include "graph/program/module.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace lamina {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& why, const std::string& fix) {
  throw Error(ErrorKind::invalid_argument, {.what = what, .where = "", .why = why, .fix = fix});
}

template <class Map>
std::vector<std::string> keys_of(const Map& map) {
  std::vector<std::string> out;
  for (const auto& [name, value] : map) out.push_back(name);
  return out;
}

std::string in_words(const std::string& name, const Module::Graph& graph) {
  std::string out = name + "(";
  const std::vector<TensorSpec> inputs = graph.function->inputs(), outputs = graph.function->outputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    out += cat(i ? ", " : "", graph.arguments[i], ": ", TensorType{inputs[i].dtype, inputs[i].shape});
  out += ") -> ";
  for (size_t i = 0; i < outputs.size(); ++i)
    out += cat(i ? ", " : "", graph.outputs[i], ": ", TensorType{outputs[i].dtype, outputs[i].shape});
  return out;
}

// The arguments in the graph's order; throws signature unless there is one for each name and it fits.
std::vector<Tensor> in_order(const std::string& name, const Module::Graph& graph, const NamedTensors& arguments) {
  if (!graph.function->argument_resources().empty())
    refuse(cat(name, ": it takes Variables as arguments"), "tensors are passed by name", "save a function that keeps its Variables");
  std::vector<Tensor> out;
  for (const std::string& wanted : graph.arguments) {
    const auto found = arguments.find(wanted);
    if (found != arguments.end()) out.push_back(found->second);
  }
  if (out.size() != graph.arguments.size() || out.size() != arguments.size()) {
    std::string given;
    for (const std::string& key : keys_of(arguments)) given += (given.empty() ? "" : ", ") + key;
    throw Error(ErrorKind::signature, {.what = cat(name, ": the names of the arguments do not fit"),
                                       .where = "",
                                       .why = cat("it was given ", given.empty() ? "nothing" : given),
                                       .fix = cat("call ", in_words(name, graph))});
  }
  try {
    graph.function->check(out, {});
  } catch (const Error& error) {
    if (error.kind != ErrorKind::signature) throw;
    Error::Parts parts = error.parts;
    parts.fix = "convert the tensor with astype or reshape, or save the program with another signature";  // it is never traced again
    throw Error(error.kind, parts);
  }
  return out;
}

}  // namespace

void Module::add(const std::string& name, const Variable& variable) {
  const auto [at, added] = variables_.emplace(name, variable);
  if (!added && !at->second.same(variable)) refuse(cat("the name '", name, "' is another Variable's"), "", "give each a name of its own");
}

void Module::add(const std::string& function, Graph graph) {
  if (!graph.function) refuse(cat(function, ": it has no graph"), "the pointer is null", "pass what an lm::function's concrete() gives");
  const size_t arguments = graph.function->inputs().size(), outputs = graph.function->outputs().size();
  if (graph.arguments.size() != arguments || graph.outputs.size() != outputs)
    refuse(cat(function, ": ", graph.arguments.size(), " arguments and ", graph.outputs.size(), " outputs are named"),
           cat("the graph has ", arguments, " and ", outputs), "name each");
  for (const std::vector<std::string>* names : {&graph.arguments, &graph.outputs})
    if (const std::set<std::string> once(names->begin(), names->end()); once.size() != names->size())
      refuse(cat(function, ": two of its arguments or two of its outputs have one name"), "they are passed by name",
             "give each a name of its own: an argument by TensorSpec(..., name=...), an output by the key in a dict");
  functions_[function].push_back(std::move(graph));
}

void Module::add(const std::string& function, ConcreteFunction& graph, std::vector<std::string> outputs) {
  Graph added{graph.shared_from_this(), {}, std::move(outputs)};
  const std::vector<TensorSpec> inputs = graph.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) added.arguments.push_back(inputs[i].name.empty() ? cat("argument[", i, ']') : inputs[i].name);
  const size_t count = graph.outputs().size();
  if (added.outputs.empty())
    for (size_t i = 0; i < count; ++i) added.outputs.push_back(count == 1 ? "output" : cat("output[", i, ']'));
  add(function, std::move(added));
}

void Module::add_signature(const std::string& name, const std::string& function) {
  if (!functions_.contains(function)) throw unknown_name("function", function, keys_of(functions_));
  signatures_[name] = function;
}

Variable Module::variable(const std::string& name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end()) throw unknown_name("Variable", name, keys_of(variables_));
  return found->second;
}

NamedTensors Module::call(const std::string& name, const NamedTensors& arguments) const {
  auto found = functions_.find(name);
  if (found == functions_.end())
    if (const auto signature = signatures_.find(name); signature != signatures_.end()) found = functions_.find(signature->second);
  if (found == functions_.end()) {
    std::vector<std::string> names = keys_of(functions_), more = keys_of(signatures_);
    std::copy_if(more.begin(), more.end(), std::back_inserter(names), [&](const std::string& one) { return !functions_.contains(one); });
    throw unknown_name("function", name, std::move(names));
  }
  const std::vector<Graph>& graphs = found->second;
  const Graph* chosen = nullptr;
  std::vector<Tensor> tensors;
  for (const Graph& graph : graphs) {
    try {
      tensors = in_order(name, graph, arguments);
    } catch (const Error& error) {
      if (graphs.size() == 1 || error.kind != ErrorKind::signature) throw;
      continue;
    }
    chosen = &graph;
    break;
  }
  if (!chosen) {
    std::string known;
    for (const Graph& graph : graphs) known += cat(known.empty() ? "" : "; ", in_words(name, graph));
    throw Error(ErrorKind::signature, {.what = cat(name, ": none of its ", graphs.size(), " graphs takes these arguments"),
                                       .where = "",
                                       .why = cat("there are ", known),
                                       .fix = "pass what one of them takes, or save it with another signature"});
  }
  std::vector<Tensor> results = chosen->function->call_matched(tensors, {}, CallSite());
  NamedTensors out;
  for (size_t i = 0; i < results.size(); ++i) out.emplace(chosen->outputs[i], std::move(results[i]));
  return out;
}

std::string Module::str() const {
  std::string out;
  for (const auto& [name, function] : signatures_) out += cat("signature ", name, ": ", function, '\n');
  for (const auto& [name, graphs] : functions_)
    for (const Graph& graph : graphs) out += cat("function ", in_words(name, graph), '\n');
  for (const auto& [name, v] : variables_) out += cat("variable ", name, ": ", v.type(), v.trainable() ? "" : ", not trainable", '\n');
  return out;
}

}  // namespace lamina
