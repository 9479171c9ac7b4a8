// A graph as text, and back:
//
//   resource 0 "dense/kernel": f32[784,64]
//   %0: f32[20,784] = input() {name="x"}
//   %1: f32[784,64] = read()
//   %2: f32[20,64] = matmul(%0, %1)
//   %3 = assign(%1) {type=f32[784,64]}
//   return %2
//
// Attributes that have their default are not printed, nor a `type` that is the result's. A later result of %4 is %4.1; a region stands in
// brackets after its node, a device after an @, a scope after `in`.
#include <cctype>

#include "graph/ir/graph.h"

namespace lamina::ir {
namespace {

std::string value_text(Value v) { return cat('%', v.node, v.result ? cat('.', v.result) : ""); }

std::string values_text(const std::vector<Value>& values) {
  std::string s;
  for (Value v : values) s += (s.empty() ? "" : ", ") + value_text(v);
  return s;
}

void print(const Graph& g, bool scopes, const std::string& indent, std::string& out) {
  for (size_t i = 0; i < g.resources.size(); ++i)
    out += cat(indent, "resource ", i, ' ', attr_text(g.resources[i].name), ": ", g.resources[i].type, '\n');
  for (int i = 0; i < g.size(); ++i) {
    const Node& n = g[i];
    out += cat(indent, '%', i, n.types.empty() ? "" : ": ");
    for (size_t r = 0; r < n.types.size(); ++r) out += (r ? ", " : "") + text(n.types[r]);
    out += cat(" = ", n.op->name, '(', values_text(n.inputs), ')');
    std::string attrs;
    AttrText defaults = n.op->parse_attrs(n.op->name, {})->text(), own = n.attrs->text();
    for (size_t a = 0; a < own.size(); ++a) {
      auto& [key, value] = own[a];
      if (value == defaults[a].second && key != "type") continue;
      if (key == "type" && !n.types.empty() && value == text(n.types[0])) continue;
      attrs += cat(attrs.empty() ? "" : ", ", key, '=', value);
    }
    if (!attrs.empty()) out += " {" + attrs + "}";
    if (n.device) out += cat(" @", *n.device);
    if (scopes && !n.scope.empty()) out += cat(" in ", attr_text(n.scope));
    for (const GraphRef& region : n.regions) {
      out += " [\n";
      print(*region, scopes, indent + "  ", out);
      out += indent + "]";
    }
    out += '\n';
  }
  out += cat(indent, "return", g.outputs.empty() ? "" : " ", values_text(g.outputs), '\n');
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Graph graph(bool inner) {
    Graph g;
    std::vector<std::pair<int64_t, Value>> inputs;
    for (;;) {
      skip_space(true);
      if (at_end()) fail("the text ends without a return line");
      if (take_word("return")) {
        skip_space(false);
        while (peek() == '%') {
          g.outputs.push_back(value(g));
          skip_space(false);
          if (peek() == ',') ++pos_, skip_space(false);
        }
        break;
      }
      if (take_word("resource")) {
        skip_space(false);
        int64_t index = number();
        if (index != int64_t(g.resources.size())) fail(cat("resource ", g.resources.size(), " is expected here"));
        skip_space(false);
        Resource r;
        parse_attr(quoted(), r.name);
        expect(':');
        skip_space(false);
        r.type = parse_type(type_text());
        g.add_resource(std::move(r));
        continue;
      }
      node(g, inputs);
    }
    std::vector<Value> in(inputs.size());
    for (auto& [index, v] : inputs) {
      if (index < 0 || index >= int64_t(in.size()) || in[size_t(index)].valid())
        fail(cat("the inputs are not numbered 0 to ", inputs.size() - 1));
      in[size_t(index)] = v;
    }
    g.inputs = std::move(in);
    if (!inner) {
      skip_space(true);
      if (!at_end()) fail("there is text after the return line");
    }
    return g;
  }

 private:
  void node(Graph& g, std::vector<std::pair<int64_t, Value>>& inputs) {
    expect('%');
    if (number() != g.size()) fail(cat("%", g.size(), " is expected here"));
    if (++nodes_ > kMostNodes) fail(cat("there are more than ", kMostNodes, " nodes"));
    std::vector<TensorType> types;
    if (peek() == ':') {
      do {
        ++pos_;
        skip_space(false);
        types.push_back(parse_type(type_text()));
        skip_space(false);
      } while (peek() == ',');
    }
    skip_space(false);
    expect('=');
    skip_space(false);
    size_t start = pos_;
    while (!at_end() && (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '_')) ++pos_;
    const OpDef& op = find_op(text_.substr(start, pos_ - start));
    expect('(');
    std::vector<Value> in;
    while (peek() == '%') {
      in.push_back(value(g));
      if (peek() == ',') ++pos_, skip_space(false);
    }
    expect(')');
    skip_space(false);
    AttrText attrs;
    if (peek() == '{') attrs = attributes();
    bool has_type = false;
    for (auto& [key, v] : attrs) has_type = has_type || key == "type";
    if (!has_type && !types.empty())
      for (auto& [key, v] : op.parse_attrs(op.name, {})->text())
        if (key == "type") attrs.emplace_back("type", lamina::text(types[0]));
    skip_space(false);
    Graph::Place before = g.place;
    if (peek() == '@') {
      start = ++pos_;
      while (!at_end() && !std::isspace(static_cast<unsigned char>(peek()))) ++pos_;
      g.place.device = parse_device(text_.substr(start, pos_ - start));
      skip_space(false);
    }
    if (take_word("in ")) {
      parse_attr(quoted(), g.place.scope);
      skip_space(false);
    }
    std::vector<GraphRef> regions;
    while (peek() == '[') {
      ++pos_;
      if (++depth_ > 64) fail("regions are nested too deeply");
      regions.push_back(std::make_shared<Graph>(graph(true)));
      --depth_;
      skip_space(true);
      expect(']');
      skip_space(false);
    }
    AttrsRef parsed;
    Value v;
    try {
      parsed = op.parse_attrs(op.name, attrs);
      v = g.add(op, parsed, std::move(in), std::move(regions));
    } catch (const Error& error) {
      fail(error.parts.why.empty() ? error.parts.what : cat(error.parts.what, ": ", error.parts.why));
    }
    g.place = before;
    if (g[v].types != types) {
      std::string got;
      for (const TensorType& t : g[v].types) got += (got.empty() ? "" : ", ") + lamina::text(t);
      fail(cat("the written type of %", v.node, " is wrong: ", op.name, " gives ", got.empty() ? "nothing" : got));
    }
    if (const Literal* constant = constant_value(g, v); constant && constant->bytes) {
      constants_ += constant->bytes->size();
      if (constants_ > kMostConstants + 8 * text_.size())
        fail(cat("the constants take more than ", kMostConstants >> 20, " MiB beyond their text"));
    }
    if (op.name == std::string_view("input")) inputs.emplace_back(attrs_of<InputAttrs>(*parsed).index, v);
  }

  // {key=value, key=value}: a value ends at a comma or } outside of brackets and quotes.
  AttrText attributes() {
    AttrText out;
    expect('{');
    while (peek() != '}') {
      size_t start = pos_;
      while (!at_end() && peek() != '=' && peek() != '\n') ++pos_;
      std::string key(text_.substr(start, pos_ - start));
      expect('=');
      start = pos_;
      int depth = 0;
      for (bool quote = false; !at_end() && peek() != '\n'; ++pos_) {
        char c = peek();
        if (quote && c == '\\' && pos_ + 1 < text_.size())
          ++pos_;
        else if (c == '"')
          quote = !quote;
        else if (!quote && (c == '[' || c == '{'))
          ++depth;
        else if (!quote && depth && (c == ']' || c == '}'))
          --depth;
        else if (!quote && !depth && (c == ',' || c == '}'))
          break;
      }
      out.emplace_back(key, std::string(text_.substr(start, pos_ - start)));
      if (peek() == ',')
        ++pos_, skip_space(false);
      else if (peek() != '}')
        fail("the attributes do not end");
    }
    ++pos_;
    return out;
  }

  Value value(const Graph& g) {
    expect('%');
    Value v;
    v.node = int(number());
    if (peek() == '.') ++pos_, v.result = int(number());
    if (v.node >= g.size()) fail(cat("%", v.node, " is used before it is made"));
    if (v.result >= int(g[v.node].types.size())) fail(cat("%", v.node, " has no result ", v.result));
    return v;
  }
  int64_t number() {
    int64_t n = 0;
    size_t start = pos_;
    while (!at_end() && std::isdigit(static_cast<unsigned char>(peek())) && pos_ - start < 9) n = n * 10 + (text_[pos_++] - '0');
    if (pos_ == start) fail("a number is expected here");
    return n;
  }
  std::string_view quoted() {
    size_t start = pos_;
    expect('"');
    while (!at_end() && peek() != '"' && peek() != '\n') pos_ += peek() == '\\' ? 2 : 1;
    expect('"');
    return text_.substr(start, pos_ - start);
  }
  std::string_view type_text() {
    size_t end = text_.find(']', pos_);
    if (end == std::string_view::npos) fail("a type like f32[2] is expected here");
    std::string_view t = text_.substr(pos_, end + 1 - pos_);
    pos_ = end + 1;
    return t;
  }
  bool take_word(std::string_view word) {
    if (text_.substr(pos_, word.size()) != word) return false;
    pos_ += word.size();
    return true;
  }
  void skip_space(bool lines) {
    while (!at_end() && (peek() == ' ' || peek() == '\t' || (lines && (peek() == '\n' || peek() == '\r')))) ++pos_;
  }
  void expect(char c) {
    if (peek() != c) fail(cat("'", c, "' is expected here"));
    ++pos_;
  }
  bool at_end() const { return pos_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[pos_]; }
  [[noreturn]] void fail(const std::string& why) const {
    size_t at = std::min(pos_, text_.size()), begin = text_.rfind('\n', at ? at - 1 : 0), line = 1;
    begin = begin == std::string_view::npos ? 0 : begin + 1;
    for (size_t i = 0; i < at; ++i) line += text_[i] == '\n';
    const std::string_view shown = text_.substr(begin, std::min(text_.find('\n', at), text_.size()) - begin);
    throw Error(ErrorKind::invalid_argument,
                {.what = "this is not the text of a graph",
                 .where = cat("line ", line, ": ", shown.substr(0, kMostShown), shown.size() > kMostShown ? "..." : ""),
                 .why = why,
                 .fix = "correct the text"});
  }

  static constexpr int kMostNodes = 1'000'000;
  static constexpr size_t kMostShown = 1000;  // bytes of a line in an error
  static constexpr size_t kMostConstants = size_t{64} << 20;
  std::string_view text_;
  size_t pos_ = 0, constants_ = 0;
  int depth_ = 0, nodes_ = 0;
};

}  // namespace

std::string print(const Graph& g, bool scopes) {
  std::string out;
  print(g, scopes, "", out);
  return out;
}

Graph parse(std::string_view text) { return Parser(text).graph(false); }

}  // namespace lamina::ir
