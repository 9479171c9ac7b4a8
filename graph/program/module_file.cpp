// The files of a saved Module, all in one directory:
//
//   program.json         functions, their graphs with the names of what they take and give, and which Variables and values each uses
//   graph_0.txt, ...     each graph, as ir::print writes it
//   weights.safetensors  the Variables by name, and the values that graphs use from outside
//   language.json        what the language layer keeps
//   checksums.json       CRC-32 of each of the texts; the weights have their own
//
// JSON keeps its keys in order and numbers come from the order of names, so that the same Module gives the same bytes.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "graph/frontend/device.h"
#include "graph/program/module.h"
#include "graph/program/tensor_file.h"
#include "runtime/io/checksum.h"

namespace lamina {
namespace {

using Json = nlohmann::json;  // sorted keys

constexpr const char* kFormat = "lamina program";
constexpr int kVersion = 1;
constexpr const char *kProgram = "program.json", *kWeights = "weights.safetensors", *kLanguage = "language.json",
                     *kChecksums = "checksums.json";
constexpr uint64_t kMostText = uint64_t{256} << 20;  // bytes of one file but the weights

uint32_t checksum(const std::string& text) { return io::crc32(std::as_bytes(std::span(text))); }
std::string graph_file(size_t number) { return cat("graph_", number, ".txt"); }

// --- writing ---

// What a program does with ranks depends on the job that traced it, and loading a file must not join one.
void require_no_collective(const ir::Graph& g, const std::string& name, ErrorKind kind) {
  for (const ir::Node& node : g.nodes())
    if (ir::has_collective(node))
      throw Error(kind, {.what = cat(name, ": its graph has collectives between the ranks of a job"),
                         .where = text(node.line),
                         .why = "a saved program runs in one process, and its graph would be for one number of ranks",
                         .fix = "save the model, or a function without collectives"});
}

class Writer {
 public:
  explicit Writer(const Module& module) : module_(module) {
    for (const auto& [name, v] : module.variables()) add_variable(name, v);
  }

  void write(const std::string& path) {
    Json functions = Json::object();
    for (const auto& [name, graphs] : module_.functions()) {
      Json& list = functions[name] = Json::array();
      for (const Module::Graph& graph : graphs) list.push_back(written(name, graph));
    }
    Json variables = Json::array();
    for (const auto& [name, v] : variables_)
      if (const std::string& first = name_of(v); first != name)
        variables.push_back({{"name", name}, {"same_as", first}});
      else
        variables.push_back({{"name", name}, {"own_name", v.name()}, {"trainable", v.trainable()}, {"stacked", v.models() > 0}});
    add(kProgram, Json{{"format", kFormat},
                       {"version", kVersion},
                       {"functions", functions},
                       {"signatures", module_.signatures()},
                       {"variables", variables}}
                      .dump(1));
    add(kLanguage, module_.language);
    io::require_only(path, [](const std::string& name) {
      return name == kProgram || name == kWeights || name == kLanguage || name == kChecksums ||
             (name.starts_with("graph_") && name.ends_with(".txt"));
    });
    io::Replacement made(path, true);
    write_tensors(made.file(kWeights), weights_);
    for (const auto& [name, text] : texts_) made.file(name).write(text);
    made.file(kChecksums).write(Json(checksums_).dump(1));
    made.commit();
  }

 private:
  Json written(const std::string& name, const Module::Graph& graph) {
    const ConcreteFunction& f = *graph.function;
    require_no_collective(f.graph(), name, ErrorKind::state);
    const std::string file = graph_file(graphs_++);
    add(file, ir::print(f.graph(), true));
    Json variables = Json::array(), captures = Json::array(), lengths = Json::array();
    const std::vector<int>& taken = f.argument_resources();
    const auto refuse = [&](const Variable& v, const std::string& why, const std::string& fix) {
      throw Error(ErrorKind::state, {.what = cat(name, ": the graph cannot be saved, because of the Variable '", v.name(), "'"),
                                     .where = "",
                                     .why = why,
                                     .fix = fix});
    };
    for (size_t i = 0; i < f.variables().size(); ++i) {
      const Variable& v = f.variables()[i];
      const bool is_argument = std::find(taken.begin(), taken.end(), int(i)) != taken.end();
      if (is_argument && !v.handle()->stand_in)
        refuse(v, "it is an argument and is used directly too, so that the graph is about this one only", "use it in one way");
      if (!is_argument && !(*v.handle()->type == f.graph().resources[i].type))
        refuse(v, "it is stacked, and the graph was traced inside of vmap", "call the function outside of vmap before it is saved");
      variables.push_back(is_argument ? Json() : Json(name_of(v)));
    }
    for (const Tensor& t : f.captures()) {
      if (t.is_symbolic())
        throw Error(ErrorKind::type, {.what = cat(name, ": the graph uses a value of a function that is being traced around it"),
                                      .where = "",
                                      .why = "that value exists in each call of the other function only",
                                      .fix = "pass it as an argument"});
      captures.push_back(name_of(t));
    }
    for (const Trace::Length& length : f.lengths())
      lengths.push_back({{"symbol", length.symbol}, {"node", length.count.node}, {"result", length.count.result}});
    return {{"graph", file},          {"name", f.name()},     {"arguments", graph.arguments}, {"outputs", graph.outputs},
            {"variables", variables}, {"captures", captures}, {"lengths", lengths},           {"variable_arguments", taken}};
  }

  // Of a Variable that graphs use and no name leads to: its own, numbered.
  const std::string& name_of(const Variable& v) {
    if (const auto known = first_names_.find(v.handle().get()); known != first_names_.end()) return known->second;
    const std::string own = cat("outside/", v.name().empty() ? "variable" : v.name());
    std::string name = own;
    for (int n = 2; variables_.contains(name); ++n) name = cat(own, '_', n);
    add_variable(name, v);
    return first_names_.at(v.handle().get());
  }
  // The first name of a Variable has its value, the others refer to it.
  void add_variable(const std::string& name, const Variable& v) {
    variables_.emplace(name, v);
    if (first_names_.emplace(v.handle().get(), name).second) add_weight(name, v.read());
  }
  std::string name_of(const Tensor& t) {
    for (const auto& [known, name] : constants_)
      if (known.same(t)) return name;
    const std::string name = cat("constant/", constants_.size());
    constants_.emplace_back(t, name);
    add_weight(name, t);
    return name;
  }
  void add_weight(const std::string& name, Tensor value) {
    if (!weights_.tensors.emplace(name, std::move(value)).second)
      throw Error(ErrorKind::invalid_argument, {.what = cat("two values would be saved as '", name, "'"),
                                                .where = "",
                                                .why = "a file of tensors has each name once",
                                                .fix = "rename the Variable"});
  }
  void add(const std::string& file, std::string text) {
    checksums_[file] = checksum(text);
    texts_.emplace_back(file, std::move(text));
  }

  const Module& module_;
  std::map<std::string, Variable> variables_;
  std::map<const void*, std::string> first_names_;  // of each Variable, by its handle
  std::vector<std::pair<Tensor, std::string>> constants_;
  TensorFile weights_;
  std::vector<std::pair<std::string, std::string>> texts_;
  std::map<std::string, uint32_t> checksums_;
  size_t graphs_ = 0;
};

// --- reading ---

// A number that JSON has as a whole number and that T can hold; its own conversion takes any number.
template <class T>
T whole(const Json& json) {
  constexpr int64_t most = std::numeric_limits<T>::max(), least = std::numeric_limits<T>::min();
  const bool fits = json.is_number_unsigned() ? json.get<uint64_t>() <= uint64_t(most)
                                              : json.is_number_integer() && json.get<int64_t>() >= least && json.get<int64_t>() <= most;
  if (!fits)
    throw Error(ErrorKind::invalid_argument, {.what = "a whole number is expected",
                                              .where = "",
                                              .why = cat("there is ", json.is_number() ? json.dump() : json.type_name()),
                                              .fix = ""});
  return T(json.get<int64_t>());
}

class Reader {
 public:
  explicit Reader(const std::string& path) : directory_(path, "load") {}

  Module read() {
    const std::string text = directory_.file(kChecksums).text(kMostText);
    parsed(kChecksums, text, [&](const Json& json) {
      for (const auto& [name, sum] : json.get<std::map<std::string, Json>>()) checksums_[name] = whole<uint32_t>(sum);
      if (text != Json(checksums_).dump(1)) damaged(kChecksums, "it was not written by Lamina");
    });
    parsed(kProgram, checked(kProgram), [&](const Json& json) {
      if (json.at("format") != kFormat) damaged(kProgram, "it is not the file of a saved program");
      if (const int version = whole<int>(json.at("version")); version != kVersion)
        throw Error(ErrorKind::file, {.what = cat("load: the program is of version ", version, " of the format"),
                                      .where = where(kProgram),
                                      .why = cat("this Lamina reads version ", kVersion),
                                      .fix = "use the Lamina that saved it, or a newer one"});
      weights_ = read_tensors(directory_.file(kWeights)).tensors;
      for (const Json& one : json.at("variables")) add_variable(one);
      for (const auto& [name, graphs] : json.at("functions").items())
        for (const Json& one : graphs) module_.add(name, graph(one));
      for (const auto& [name, function] : json.at("signatures").items()) module_.add_signature(name, function.get<std::string>());
    });
    module_.language = checked(kLanguage);
    return std::move(module_);
  }

 private:
  std::string where(const std::string& file) const { return cat("file '", directory_.path(), "/", file, "'"); }
  [[noreturn]] void damaged(const std::string& file, const std::string& why) const {
    throw Error(ErrorKind::file,
                {.what = "load: the saved program is damaged", .where = where(file), .why = why, .fix = "copy or save it again"});
  }

  std::string checked(const std::string& file) const {
    const auto known = checksums_.find(file);
    if (known == checksums_.end()) damaged(kChecksums, cat("it has no checksum of ", file));
    std::string text = directory_.file(file).text(kMostText);
    if (checksum(text) != known->second) damaged(file, "its bytes differ from their checksum");
    return text;
  }

  // Whatever the file holds in place of what belongs there is an error of kind file.
  template <class Use>
  void parsed(const std::string& file, const std::string& text, Use&& use) const {
    try {
      use(Json::parse(text));
    } catch (const Json::exception& error) {
      damaged(file, error.what());
    } catch (const Error& error) {
      if (error.kind == ErrorKind::file || error.kind == ErrorKind::out_of_memory) throw;
      damaged(file, error.parts.why.empty() ? error.parts.what : cat(error.parts.what, ": ", error.parts.why));
    }
  }

  Tensor weight(const std::string& name) const {
    const auto found = weights_.find(name);
    if (found == weights_.end()) damaged(kWeights, cat("there is no tensor '", name, "'"));
    return found->second;
  }

  void add_variable(const Json& one) {
    const std::string name = one.at("name");
    if (one.contains("same_as")) return module_.add(name, module_.variable(one.at("same_as").get<std::string>()));
    Variable v(weight(name), one.at("own_name").get<std::string>(), one.at("trainable").get<bool>());
    if (one.at("stacked").get<bool>()) v.stack();
    module_.add(name, v);
  }

  Module::Graph graph(const Json& one) {
    const std::string file = one.at("graph"), text = checked(file);
    if (!read_.insert(file).second) damaged(kProgram, cat("two graphs have the file ", file));
    const std::string name = one.at("name");
    auto trace = std::make_shared<Trace>(name, default_device());
    try {
      trace->graph = ir::parse(text);
      require_no_collective(trace->graph, "load", ErrorKind::file);
      ir::verify(trace->graph);
    } catch (const Error& error) {
      if (error.kind == ErrorKind::out_of_memory) throw;
      damaged(file,
              cat(error.parts.where, error.parts.where.empty() ? "" : ": ", error.parts.why.empty() ? error.parts.what : error.parts.why));
    }
    const ir::Graph& g = trace->graph;
    Module::Graph out{nullptr, one.at("arguments"), one.at("outputs")};
    std::vector<int> variable_arguments;
    for (const Json& argument : one.at("variable_arguments")) variable_arguments.push_back(whole<int>(argument));
    const auto check = [&](bool fits, const char* what) {
      if (!fits) damaged(kProgram, cat(file, ": ", what));
    };
    for (const Json& capture : one.at("captures")) trace->captures.push_back(weight(capture));
    const size_t arguments = out.arguments.size();
    check(arguments + trace->captures.size() == g.inputs.size(), "the number of its inputs is wrong");
    for (size_t i = 0; i < trace->captures.size(); ++i)
      check(trace->captures[i].type() == g.type(g.inputs[arguments + i]), "a value that it uses has another type");
    const Json& variables = one.at("variables");
    check(variables.size() == g.resources.size(), "the number of its Variables is wrong");
    for (size_t i = 0; i < variables.size(); ++i) {
      const ir::Resource& resource = g.resources[i];
      const bool is_argument = std::find(variable_arguments.begin(), variable_arguments.end(), int(i)) != variable_arguments.end();
      check(is_argument == variables[i].is_null(), "a Variable is an argument and is none");
      trace->variables.push_back(is_argument ? stand_in(resource) : module_.variable(variables[i]));
      check(*trace->variables.back().handle()->type == resource.type, "a Variable has another type");
    }
    for (const int resource : variable_arguments)
      check(resource >= -1 && resource < int(g.resources.size()), "it names a Variable that it does not have");
    for (const Json& length : one.at("lengths")) {
      const ir::Value v{whole<int>(length.at("node")), whole<int>(length.at("result"))};
      check(v.node >= 0 && v.node < g.size() && v.result >= 0 && size_t(v.result) < g[v].types.size() &&
                g.type(v) == TensorType{DType::i64, {}},
            "a length is no whole number");
      trace->lengths.push_back({length.at("symbol"), v});
    }
    out.function = std::make_shared<ConcreteFunction>(trace, name, arguments, variable_arguments, nullptr, 0.0);
    return out;
  }

  static Variable stand_in(const ir::Resource& resource) {
    return Variable::stand_in_for(Variable::uninitialized(resource.type, default_device(), resource.name, true));
  }

  io::InputDirectory directory_;
  std::map<std::string, uint32_t> checksums_;
  std::map<std::string, Tensor> weights_;
  std::set<std::string> read_;  // the graphs' files
  Module module_;
};

}  // namespace

void Module::save(const std::string& path) const { Writer(*this).write(path); }

Module Module::load(const std::string& path) { return Reader(path).read(); }

}  // namespace lamina
