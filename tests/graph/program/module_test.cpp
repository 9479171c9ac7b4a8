// Modules leave and come back: the same bits, the same bytes, and an error for everything else that a folder may hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <pthread.h>

#include "graph/frontend/replay.h"
#include "graph/program/module.h"
#include "include/lamina/lamina.h"
#include "runtime/io/checksum.h"
#include "runtime/io/files.h"
#include "tests/graph/random_graph.h"
#include "tests/ops/op_case.h"
#include "tests/runtime/io/scratch.h"

namespace lamina {
namespace {

using io::Scratch;

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_text(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::map<std::string, std::string> files_of(const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) out[entry.path().filename()] = text_of(entry.path());
  return out;
}

template <class F>
ErrorKind kind_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.kind;
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::internal;
}

// A linear model that scores rows of any number and learns from them.
Module linear() {
  Module m;
  const Variable w(tensor({1, -2, 0.5}, {3, 1}), "w"), b(tensor({0.25}, {1}), "b", false);
  FunctionOptions of_rows{.name = "score", .argument_names = {"rows"}, .signature = {{{{any_length(), 3}, DType::f32, ""}}}};
  auto score = function([=](Tensor rows) { return matmul(rows, w) + b; }, of_rows);
  auto step = function(
      [=](Tensor x, Tensor y) {
        const Tensor loss = mean(square(matmul(x, w) + b - y));
        GradientTape unused;
        const Tensor error = matmul(x, w) + b - y;
        w.assign_sub(0.1 * matmul(transpose(x), error));
        return loss;
      },
      FunctionOptions{.name = "step", .argument_names = {"x", "y"}});
  m.add("w", w);
  m.add("b", b);
  m.add("score", score.concrete(ones({2, 3})));
  m.add("step", step.concrete(ones({4, 3}), ones({4, 1})), {"loss"});
  m.add_signature("serving_default", "score");
  return m;
}

TEST(Module, IsLoadedAsItWasSavedAndTrainsOn) {
  const Scratch scratch;
  const Module m = linear();
  m.save(scratch / "m");
  const Module loaded = Module::load(scratch / "m");
  EXPECT_EQ(loaded.str(), m.str());
  const Tensor x = tensor({1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 0, 1}, {4, 3}), y = ones({4, 1});
  for (int i = 0; i < 3; ++i) {
    const float before = m.call("step", {{"x", x}, {"y", y}}).at("loss").item<float>();
    EXPECT_EQ(loaded.call("step", {{"x", x}, {"y", y}}).at("loss").item<float>(), before);
    EXPECT_EQ(loaded.call("serving_default", {{"rows", x}}).at("output").to_vector<float>(),
              m.call("score", {{"rows", x}}).at("output").to_vector<float>());
  }
  EXPECT_EQ(loaded.variable("w").read().to_vector<float>(), m.variable("w").read().to_vector<float>());
  EXPECT_TRUE(loaded.variable("w").trainable());
  EXPECT_FALSE(loaded.variable("b").trainable());
  EXPECT_EQ(m.call("score", {{"rows", ones({7, 3})}}).at("output").shape(), (Shape{7, 1}));
}

TEST(Module, IsTheSameBytesWhenItIsSavedAgain) {
  const Scratch scratch;
  const Module m = linear();
  m.save(scratch / "1");
  m.save(scratch / "2");
  Module::load(scratch / "1").save(scratch / "3");
  EXPECT_EQ(files_of(scratch / "1"), files_of(scratch / "2"));
  EXPECT_EQ(files_of(scratch / "1"), files_of(scratch / "3"));
}

TEST(Module, SaysWhatItTakes) {
  const Module m = linear();
  EXPECT_EQ(kind_of([&] { m.call("score", {{"rows", ones({1, 2})}}); }), ErrorKind::signature);
  try {
    m.call("score", {{"rows", ones({1, 2})}});
  } catch (const Error& e) {  // a loaded function is never traced again
    EXPECT_EQ(e.parts.fix, "convert the tensor with astype or reshape, or save the program with another signature");
  }
  EXPECT_EQ(kind_of([&] { m.call("score", {{"row", ones({1, 3})}}); }), ErrorKind::signature);
  EXPECT_EQ(kind_of([&] { m.call("score", {}); }), ErrorKind::signature);
  EXPECT_EQ(kind_of([&] { m.call("scores", {}); }), ErrorKind::not_found);
  EXPECT_EQ(kind_of([&] { m.variable("v"); }), ErrorKind::not_found);
  Module other;
  other.add("w", m.variable("w"));
  EXPECT_EQ(kind_of([&] { other.add("w", m.variable("b")); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([&] { other.add_signature("s", "score"); }), ErrorKind::not_found);
}

TEST(Module, EveryChangedByteIsNoticed) {
  const Scratch scratch;
  linear().save(scratch / "m");
  int noticed = 0;
  for (const auto& [name, text] : files_of(scratch / "m")) {
    const std::string path = scratch / ("m/" + name);
    for (size_t i = 0; i < text.size(); ++i) {
      std::string bad = text;
      bad[i] = char(bad[i] ^ (1 << i % 8));
      write_text(path, bad);
      EXPECT_EQ(kind_of([&] { Module::load(scratch / "m"); }), ErrorKind::file) << name << ", byte " << i;
      ++noticed;
    }
    for (const size_t cut : {size_t(0), text.size() / 2, text.size() - 1}) {
      if (text.empty()) break;
      write_text(path, text.substr(0, cut));
      EXPECT_EQ(kind_of([&] { Module::load(scratch / "m"); }), ErrorKind::file) << name << " cut to " << cut;
    }
    std::filesystem::remove(path);
    EXPECT_EQ(kind_of([&] { Module::load(scratch / "m"); }), ErrorKind::file) << name;
    std::filesystem::create_symlink("/etc/hostname", path);
    EXPECT_EQ(kind_of([&] { Module::load(scratch / "m"); }), ErrorKind::file) << name << " is a link";
    std::filesystem::remove(path);
    write_text(path, text);
  }
  std::printf("%d changed bytes noticed\n", noticed);
  EXPECT_GT(noticed, 2000);
}

// With the checksums of what is there.
void load_with(const std::string& folder, const std::string& name, const std::string& text) {
  write_text(folder + "/" + name, text);
  std::string sums;
  for (const auto& [file, content] : files_of(folder))
    if (file != "checksums.json" && file != "weights.safetensors")
      sums += cat(sums.empty() ? "" : ",", "\n \"", file, "\": ", io::crc32(std::as_bytes(std::span(content))));
  write_text(folder + "/checksums.json", "{" + sums + "\n}");
  Module::load(folder);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(Module, HostileFilesAreErrors) {
  const Scratch scratch;
  linear().save(scratch / "m");
  const auto good = files_of(scratch / "m");
  const std::string program = good.at("program.json"), graph = good.at("graph_0.txt");
  std::vector<std::pair<std::string, std::string>> hostile;
  for (const char* text : {"", "{", "[]", "null", "1e999", "{\"format\": 3}", "\"lamina program\""})
    hostile.emplace_back("program.json", text);
  for (auto [from, to] : std::initializer_list<std::pair<const char*, const char*>>{
           {"\"version\": 1", "\"version\": 2"},
           {"\"version\": 1", "\"version\": \"1\""},
           {"\"version\": 1", "\"version\": 1.0"},
           {"\"version\": 1", "\"version\": 4294967297"},
           {"\"version\": 1", "\"version\": 1e300"},
           {"\"variable_arguments\": []", "\"variable_arguments\": [1e300]"},
           {"\"lengths\": []", "\"lengths\": [{\"symbol\": \"n\", \"node\": 18446744073709551615, \"result\": 0}]"},
           {"\"lamina program\"", "\"lamina\""},
           {"graph_0.txt", "graph_9.txt"},
           {"graph_0.txt", "../m/graph_0.txt"},
           {"graph_0.txt", "/etc/hostname"},
           {"\"rows\"", "\"rows\", \"more\""},
           {"\"rows\"", "7"},
           {"\"output\"", "\"output\", \"output\""},
           {"\"serving_default\": \"score\"", "\"serving_default\": \"nothing\""},
           {"\"stacked\": false", "\"stacked\": 0"},
           {"\"captures\": []", "\"captures\": [\"w\"]"},
           {"\"lengths\": []", "\"lengths\": [{\"symbol\": \"n\", \"node\": 99999999, \"result\": 0}]"},
           {"\"lengths\": []", "\"lengths\": [{\"symbol\": \"n\", \"node\": 0, \"result\": -1}]"},
           {"\"variable_arguments\": []", "\"variable_arguments\": [77]"},
           {"\"variable_arguments\": []", "\"variable_arguments\": [-5]"},
       })
    hostile.emplace_back("program.json", replaced(program, from, to));
  std::string deep(100'000, '[');
  hostile.emplace_back("program.json", deep);
  std::string nested = "return";
  for (int i = 0; i < 1000; ++i) nested = "%0 = while_loop() [\n" + nested + "\n]";
  for (const std::string& text :
       std::vector<std::string>{"",
                                "return %0",
                                "return",
                                "%0: f32[2] = nothing()\nreturn",
                                "%1: f32[2] = input() {name=\"x\"}\nreturn",
                                "%0: f32[2] = input(%0)\nreturn %0",
                                "%0: f32[99999999999999999999] = input()\nreturn %0",
                                "%0: f32[4611686018427387904,4611686018427387904] = input()\nreturn %0",
                                "%0: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] = input()\nreturn %0",
                                "resource 1 \"w\": f32[3,1]\nreturn",
                                "%0: f32[-3] = input()\nreturn %0",
                                "%0: f32[3] = read() {resource=9}\nreturn %0",
                                nested,
                                graph + "\nreturn",
                                graph.substr(0, graph.size() / 2),
                                replaced(graph, "matmul", "add"),
                                replaced(graph, "(%0, ", "(%77, "),
                                replaced(graph, "(%0, ", "(%0.5, "),
                                replaced(graph, "(%0, ", "("),
                                std::string(1000, '\0'),
                                replaced(graph, "f32[3,1]", "f32[4,1]")})
    hostile.emplace_back("graph_0.txt", text);
  for (const auto& [name, text] : hostile) {
    for (const auto& [file, content] : good) write_text(scratch / ("m/" + file), content);
    EXPECT_EQ(kind_of([&] { load_with(scratch / "m", name, text); }), ErrorKind::file) << name << ":\n" << text.substr(0, 300);
  }
  std::printf("%zu hostile files\n", hostile.size());
}

// Graphs as functions of one Module. Saved, loaded and run twice, each does what it did before, bit for bit.
class Kept {
 public:
  void add(const std::string& name, const tests::RandomGraph& g) {
    std::vector<Variable> variables;
    for (size_t r = 0; r < g.graph.resources.size(); ++r) {
      const auto value = g.resources.find(int(r));
      variables.emplace_back(to_tensor(value == g.resources.end() ? Reference(g.graph.resources[r].type) : value->second),
                             g.graph.resources[r].name);
      module_.add(cat(name, ".v", r), variables.back());
    }
    std::vector<Tensor> inputs;
    for (const Reference& t : g.inputs) inputs.push_back(to_tensor(t));
    auto program = function([&](std::vector<Tensor> in) { return replay(g.graph, in, variables); });
    Module::Graph added{program.concrete(inputs).shared_from_this(), {}, {}};
    for (size_t k = 0; k < inputs.size(); ++k) {
      added.arguments.push_back("x" + std::to_string(k));
      arguments_[name].emplace(added.arguments.back(), inputs[k]);
    }
    for (size_t k = 0; k < added.function->outputs().size(); ++k) added.outputs.push_back("y" + std::to_string(k));
    module_.add(name, added);
  }
  void check() {
    const Scratch scratch(Scratch::memory());
    module_.save(scratch / "m");
    const Module loaded = Module::load(scratch / "m");
    for (const auto& [name, graphs] : module_.functions()) {
      SCOPED_TRACE(name);
      EXPECT_EQ(ir::print(loaded.functions().at(name)[0].function->graph(), true), ir::print(graphs[0].function->graph(), true));
      for (int time = 0; time < 2; ++time) {
        const NamedTensors expected = module_.call(name, arguments_[name]), got = loaded.call(name, arguments_[name]);
        for (const auto& [result, t] : expected) EXPECT_EQ(bits(got.at(result)), bits(t)) << result;
      }
    }
    for (const auto& [name, v] : module_.variables()) EXPECT_EQ(bits(loaded.variable(name).read()), bits(v.read())) << name;
  }

 private:
  using Reference = tests::Tensor;
  static Tensor to_tensor(const Reference& t) {
    return Tensor(copy_from_host(default_device(), t.raw(), t.byte_count()), std::make_shared<const TensorType>(t.type));
  }
  static std::vector<std::byte> bits(const Tensor& t) {
    std::vector<std::byte> out(size_t(byte_size(t.type())));
    t.copy_to_host(out.data(), out.size());
    return out;
  }
  Module module_;
  std::map<std::string, NamedTensors> arguments_;
};

TEST(Module, KeepsRandomGraphs) {
  const int count = tests::random_graph_count(60);
  const uint64_t first = tests::random_graph_seed(70000);
  for (int i = 0; i < count && !HasFailure();) {
    Kept some;
    for (const int end = std::min(count, i + 20); i < end; ++i)
      some.add(cat("seed ", first + uint64_t(i)),
               tests::random_graph(
                   first + uint64_t(i),
                   {.least_nodes = 20, .most_nodes = 120, .gradients = i % 3 != 2, .empty_axes = i % 5 == 4, .collectives = false}));
    some.check();
  }
  std::printf("%d random graphs, seeds from %s\n", count, std::to_string(first).c_str());
}

TEST(Module, KeepsEveryOpInEveryDtype) {
  int count = 0;
  for (const auto& [name, make] : tests::cases_of_ops()) {
    Kept all;
    for (const tests::OpCase& c : make())
      for (DType dtype : c.dtypes) {
        tests::RandomGraph g;
        for (const tests::CaseInput& in : tests::inputs_as(c, dtype)) {
          g.graph.add_input(in.type);
          g.inputs.push_back(tests::random_tensor(in, 1));
        }
        const int node = g.graph.add(ir::find_op(name), c.attrs, g.graph.inputs, c.regions).node;
        for (int r = 0; r < int(g.graph[node].types.size()); ++r) g.graph.outputs.push_back({node, r});
        all.add(cat(name, ", case ", ++count, ", ", c.name, ", ", dtype), g);
      }
    all.check();
  }
  EXPECT_GE(count, 1000);
  std::printf("%d cases of %zu ops\n", count, tests::cases_of_ops().size());
}

// On a stack of 256 KiB.
TEST(Module, ReadsAChainOfAMillionNodesWithoutRecursion) {
  const int nodes = 999'990;
  std::string text = "%0: f32[2] = input() {name=\"x\"}\n";
  for (int i = 1; i < nodes; ++i) text += cat('%', i, ": f32[2] = neg(%", i - 1, ")\n");
  text += cat("return %", nodes - 1, '\n');
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  std::function<void()> work = [&] {
    const ir::Graph g = ir::parse(text);
    ir::verify(g);
    EXPECT_EQ(g.size(), nodes);
    EXPECT_EQ(ir::print(g), text);
  };
  pthread_t thread;
  ASSERT_EQ(pthread_create(
                &thread, &attributes,
                [](void* f) -> void* {
                  (*static_cast<std::function<void()>*>(f))();
                  return nullptr;
                },
                &work),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_EQ(
      kind_of([&] {
        ir::parse(replaced(text, "return",
                           "%999990: f32[2] = neg(%1)\n%999991: f32[2] = neg(%1)\n%999992: f32[2] = neg(%1)\n%999993: f32[2] = "
                           "neg(%1)\n%999994: f32[2] = neg(%1)\n%999995: f32[2] = neg(%1)\n%999996: f32[2] = neg(%1)\n%999997: f32[2] = "
                           "neg(%1)\n%999998: f32[2] = neg(%1)\n%999999: f32[2] = neg(%1)\n%1000000: f32[2] = neg(%1)\nreturn"));
      }),
      ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace lamina
