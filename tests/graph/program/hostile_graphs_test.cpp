// Texts of graphs that were damaged in ways that keep them nearly right: each is refused with an Error, or is a graph that can be run.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdio>
#include <random>

#include "graph/frontend/concrete_function.h"
#include "graph/frontend/device.h"
#include "graph/frontend/factories.h"
#include "tests/graph/random_graph.h"

namespace lamina {
namespace {

using Random = std::mt19937_64;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1);
    out.push_back(text.substr(at, end + 1 - at));
    at = end + 1;
  }
  return out;
}

size_t below(Random& random, size_t n) { return n ? size_t(random() % n) : 0; }

// The words, numbers and signs of a text, which joined are the text.
std::vector<std::string> tokens_of(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
    if (is_word(text[at]))
      while (end < text.size() && is_word(text[end])) ++end;
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

std::string damaged(const std::string& text, const std::string& other, Random& random) {
  std::vector<std::string> parts = below(random, 3) == 0 ? lines_of(text) : tokens_of(text);
  const std::vector<std::string> foreign = lines_of(other);
  const int changes = 1 + int(below(random, 3));
  for (int change = 0; change < changes && !parts.empty(); ++change) {
    const size_t at = below(random, parts.size());
    static const char* const numbers[] = {
        "0", "1", "-1", "2", "7", "99", "2147483648", "9223372036854775807", "1e30", "nan", "18446744073709551616"};
    static const char* const dtypes[] = {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};
    switch (below(random, 9)) {
      case 0: parts.erase(parts.begin() + long(at)); break;
      case 1: parts.insert(parts.begin() + long(at), parts[below(random, parts.size())]); break;
      case 2: std::swap(parts[at], parts[below(random, parts.size())]); break;
      case 3: parts[at] = numbers[below(random, std::size(numbers))]; break;
      case 4: parts[at] = ir::all_ops()[below(random, ir::all_ops().size())]->name; break;
      case 5: parts[at] = dtypes[below(random, std::size(dtypes))]; break;
      case 6: parts.insert(parts.begin() + long(at), foreign[below(random, foreign.size())]); break;
      case 7:
        if (!parts[at].empty()) parts[at][below(random, parts[at].size())] = char(random());
        break;
      case 8: {
        // A number or word of the same kind from elsewhere: most often what is still a text of a graph.
        for (int tries = 0; tries < 50; ++tries) {
          const std::string& from = parts[below(random, parts.size())];
          if (std::isdigit(static_cast<unsigned char>(from[0])) == std::isdigit(static_cast<unsigned char>(parts[at][0])) &&
              from != parts[at]) {
            parts[at] = from;
            break;
          }
        }
        break;
      }
    }
  }
  std::string out;
  for (const std::string& part : parts) out += part;
  return out;
}

// Bytes of all values; what is larger than a test should take is not run.
double size_of_all(const ir::Graph& g) {
  double sum = 0;
  for (const ir::Node& node : g.nodes()) {
    for (const TensorType& t : node.types) {
      double bytes = double(size_of(t.dtype));
      for (const Dim d : t.shape) bytes *= d.known() ? double(d.number()) : 1e18;
      sum += bytes;
    }
    for (const ir::GraphRef& region : node.regions) sum += size_of_all(*region);
  }
  return sum;
}
bool has_op(const ir::Graph& g, std::string_view name) {
  for (const ir::Node& node : g.nodes()) {
    if (node.op->name == name) return true;
    for (const ir::GraphRef& region : node.regions)
      if (has_op(*region, name)) return true;
  }
  return false;
}

void run(ir::Graph g) {
  auto trace = std::make_shared<Trace>("hostile", Device{});
  const size_t arguments = g.inputs.size();
  std::vector<Tensor> inputs;
  for (const ir::Value v : g.inputs) inputs.push_back(zeros(g.type(v).shape, g.type(v).dtype));
  for (const ir::Resource& r : g.resources) trace->variables.emplace_back(Operand(zeros(r.type.shape, r.type.dtype), CallSite()), r.name);
  trace->graph = std::move(g);
  auto f = std::make_shared<ConcreteFunction>(trace, "hostile", arguments, std::vector<int>{}, nullptr, 0.0);
  for (const Tensor& t : f->call(inputs))
    if (t.size() > 0) t.to(Device{}).data();
}

TEST(HostileGraphs, AreRefusedOrRun) {
  const int count = tests::random_graph_count(1500, 60'000);
  const uint64_t first = tests::random_graph_seed(90000);
  int refused = 0, read = 0, ran = 0, failed = 0;
  std::string text, other;
  for (int i = 0; i < count; ++i) {
    const uint64_t seed = first + uint64_t(i);
    if (i % 50 == 0) {
      const tests::RandomGraphOptions small{.least_nodes = 5, .most_nodes = 25, .gradients = i % 100 == 0};
      text = ir::print(tests::random_graph(seed, small).graph, true);
      other = ir::print(tests::random_graph(seed + 1'000'000, small).graph, true);
    }
    Random random(seed);
    const std::string bad = damaged(text, other, random);
    SCOPED_TRACE("seed " + std::to_string(seed));
    try {
      ir::Graph g = ir::parse(bad);
      ir::verify(g);
      ++read;
      if (size_of_all(g) > 64e6 || has_op(g, "while_loop")) continue;  // a loop may have no end
      EXPECT_EQ(ir::print(ir::parse(ir::print(g, true)), true), ir::print(g, true));
      try {
        run(std::move(g));
        ++ran;
      } catch (const Error& error) {
        EXPECT_NE(error.kind, ErrorKind::internal) << error.what() << "\n" << bad;
        ++failed;
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  std::printf("%d damaged texts from seed %s: %d refused, %d are graphs, of which %d ran and %d gave an error\n", count,
              std::to_string(first).c_str(), refused, read, ran, failed);
  EXPECT_GT(refused, 0);
  EXPECT_GT(ran, 0);
}

TEST(HostileGraphs, LengthsOfManyTermsAreRefusedAtOnce) {
  std::string product = "a", sum = "a0", wide = "%0: f32[";
  for (int i = 1; i < 8000; ++i) product += "*a";
  for (int i = 1; i < 20000; ++i) sum += cat("+a", i);
  for (int axis = 0; axis < 8; ++axis) {
    for (int i = 0; i < 10; ++i) wide += cat(i ? "+" : axis ? "," : "", 'a', axis, '_', i);
  }
  for (const std::string& text : {"%0: f32[" + product + "] = input()\nreturn %0", "%0: f32[" + sum + "] = input()\nreturn %0",
                                  wide + "] = input()\n%1: f32[1] = reshape(%0) {shape=[1]}\nreturn %1"})
    EXPECT_THROW(ir::parse(text), Error);
}

}  // namespace
}  // namespace lamina
