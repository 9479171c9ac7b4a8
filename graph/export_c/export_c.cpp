#include "graph/export_c/export_c.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "graph/export_c/program.h"
#include "graph/export_c/scalar_functions.h"
#include "graph/ir/rewriter.h"
#include "runtime/io/safetensors.h"

namespace lamina {
namespace {

using namespace c_text;

struct StateVariable {
  Variable variable;
  std::string name;  // the user's
  std::string c_name;
  int64_t place = 0;  // in its type's array
  Tensor value;
};

// A name as C's: what is no letter or digit is an underscore.
std::string c_identifier(const std::string& name, const std::string& otherwise) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (out.empty()) out = otherwise;
  if (std::isdigit(static_cast<unsigned char>(out[0]))) out.insert(0, "_");
  return out;
}
// Words of C and C++, whose programs include the header, and names that C's headers and the generated functions have.
bool is_reserved(const std::string& name) {
  static const std::set<std::string>& words = *new std::set<std::string>{
      "s", "l", "t", "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float",
      "for", "goto", "if", "inline", "int", "long", "main", "register", "restrict", "return", "short", "signed", "sizeof", "static",
      "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while",
      // C23 and C++
      "alignas", "alignof", "and", "and_eq", "asm", "bitand", "bitor", "bool", "catch", "char16_t", "char32_t", "char8_t", "class",
      "co_await", "co_return", "co_yield", "compl", "concept", "const_cast", "consteval", "constexpr", "constinit", "decltype", "delete",
      "dynamic_cast", "explicit", "export", "false", "friend", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
      "operator", "or", "or_eq", "private", "protected", "public", "reinterpret_cast", "requires", "static_assert", "static_cast",
      "template", "this", "thread_local", "throw", "true", "try", "typeid", "typename", "typeof", "using", "virtual", "wchar_t", "xor",
      "xor_eq",
      // of headers and compilers
      "I", "NULL", "assert", "complex", "errno", "imaginary", "linux", "offsetof", "size_t", "stderr", "stdin", "stdout", "unix",
      "INFINITY", "NAN", "sin", "cos", "tan", "exp", "log", "pow", "sqrt", "floor", "ceil", "round", "trunc", "erf", "gamma", "signal",
      "memcpy", "memset"};
  return words.count(name) != 0 || name.ends_with("_t");
}
std::string unlike(std::string name, std::set<std::string>& taken) {
  if (is_reserved(name)) name += "_";
  std::string out = name;
  for (int i = 2; !taken.insert(out).second; ++i) out = cat(name, "_", i);
  return out;
}

[[noreturn]] void refuse(const std::string& what, const std::string& why, const std::string& fix) {
  throw Error(ErrorKind::invalid_argument, {.what = cat("export_c: ", what), .where = "", .why = why, .fix = fix});
}

void require_c_type(DType dtype, const std::string& what) {
  if (is_half(dtype)) refuse(what, "C99 has no such type", "use float32");
  if (is_complex(dtype)) refuse(what, "the file holds integers and real numbers", "use the parts of complex numbers: lm.as_real(x)");
}

// The graph with all on the CPU, wherever it was traced for.
ir::Graph without_devices(const ir::Graph& g) {
  ir::Rewriter to(g);
  for (int i = 0; i < g.size(); ++i) {
    ir::Node node = g[i];
    node.device.reset();
    for (ir::GraphRef& region : node.regions) region = std::make_shared<const ir::Graph>(without_devices(*region));
    to.copy(i, node);
  }
  return to.finish();
}

struct ExportedC {
  std::string header, source;
};

class Exporter {
 public:
  Exporter(std::span<const ExportedFunction> functions, const ExportOptions& options) : functions_(functions), options_(options) {
    if (functions.empty()) refuse("there is no function", "C code is made of traced functions", "pass at least one");
    if (options.name.empty() || options.name != c_identifier(options.name, "") || is_reserved(options.name))
      refuse(cat("'", options.name, "' is no name in C"), "it begins the names of functions",
             "pass name= of letters, digits and underscores that is no word of C");
    for (const ExportedFunction& f : functions) collect_variables(*f.function);
  }

  ExportedC run() {
    for (const ExportedFunction& f : functions_) function(f);
    return {header(), source()};
  }
  const std::vector<StateVariable>& variables() const { return variables_; }

 private:
  std::string own(const std::string& name) const { return cat(options_.name, "_", name); }

  void collect_variables(ConcreteFunction& f) {
    for (const Variable& v : f.variables()) {
      require_c_type(v.dtype(), cat("the Variable '", v.name(), "' is ", numpy_name(v.dtype())));
      if (place_of(v)) continue;
      if (v.handle()->stand_in)
        refuse(cat(f.name(), " takes a Variable as an argument"), "the struct holds the Variables that a function has by itself",
               "let the function use the Variable without passing it");
      std::string name = v.name();
      for (const auto& [given, variable] : options_.variables)
        if (variable.same(v)) name = given;
      if (name.empty()) name = "variable";
      std::string different = name;
      for (int i = 2; !file_names_.insert(different).second; ++i) different = cat(name, "_", i);
      int64_t& size = shared_.state[v.dtype()];
      const int64_t elements = size_of(v.handle()->type->shape).number();
      variables_.push_back({v, different, unlike(c_identifier(different, "variable"), c_names_), size, v.read().to(Device{})});
      size += elements;
    }
  }
  const StateVariable* place_of(const Variable& v) const {
    const auto found = std::find_if(variables_.begin(), variables_.end(), [&](const StateVariable& s) { return s.variable.same(v); });
    return found == variables_.end() ? nullptr : &*found;
  }

  // The lengths of a function's open dimensions.
  DimBindings lengths_of(ConcreteFunction& f) const {
    DimBindings out;
    for (const TensorSpec& spec : f.inputs())
      for (Dim d : spec.shape) {
        if (d.known()) continue;
        const std::string symbol = cat(d);
        const auto found = options_.lengths.find(symbol);
        if (found == options_.lengths.end())
          refuse(cat(f.name(), " takes ", spec.str(), ", of open length"),
                 "the C code's memory is of a size that is known when it is compiled",
                 cat("trace it with a fixed shape, or name the dimension and pass lengths={\"", symbol, "\": 32}"));
        out[symbol] = found->second;
      }
    return out;
  }

  void function(const ExportedFunction& f) {
    ConcreteFunction& concrete = *f.function;
    const DimBindings lengths = lengths_of(concrete);
    const ir::Graph g = without_devices(lengths.empty() ? concrete.optimized_graph()
                                                        : compile::optimized_for(concrete.graph(), concrete.optimized_graph(), lengths));
    const auto program = compile::compile(
        g, {.device = Device{}, .sections = false, .threads = 1, .streams = 1, .own_outputs = true, .writer = text_kernel});
    const std::vector<TensorSpec> inputs = concrete.inputs();
    Names names;
    std::set<std::string> taken;
    std::string parameters = cat(options_.name, " *s"), comment;
    Binding binding;
    const std::vector<Tensor>& captures = concrete.captures();
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      const TensorType& type = g.type(g.inputs[i]);
      require_c_type(type.dtype, cat(f.name, " takes ", text(type)));
      Pointer p{.base = Pointer::Base::input, .number = int(i), .dtype = type.dtype, .terms = {}};
      if (i >= inputs.size()) {
        const Tensor value = captures[i - inputs.size()].to(Device{});
        p = shared_.constant(type.dtype, value.data(), byte_size(type));
        names.inputs.emplace_back();
      } else {
        names.inputs.push_back(unlike(c_identifier(inputs[i].name, cat("x", i)), taken));
        parameters += cat(", const ", c_type(type.dtype), " *", names.inputs[i]);
        comment += cat(" *   ", names.inputs[i], ": ", text(type), "\n");
      }
      binding[{exec::StorageKind::input, int(i)}] = p;
    }
    for (size_t o = 0; o < g.outputs.size(); ++o) {
      const TensorType& type = g.type(g.outputs[o]);
      require_c_type(type.dtype, cat(f.name, " gives ", text(type)));
      names.outputs.push_back(unlike(g.outputs.size() == 1 ? "result" : cat("result", o), taken));
      parameters += cat(", ", c_type(type.dtype), " *", names.outputs[o]);
      comment += cat(" *   ", names.outputs[o], ": ", text(type), ", written\n");
      binding[{exec::StorageKind::output, int(o)}] = {.base = Pointer::Base::output, .number = int(o), .dtype = type.dtype, .terms = {}};
    }
    for (size_t v = 0; v < concrete.variables().size(); ++v) {
      const StateVariable& state = *place_of(concrete.variables()[v]);
      binding[{exec::StorageKind::variable, int(v)}] = {.dtype = state.variable.dtype(), .offset = state.place, .terms = {}};
    }
    const std::string prototype = cat("int ", own(f.name), "(", parameters, ")");
    prototypes_ += cat("/* ", f.name, "\n", comment, " */\n", prototype, ";\n\n");
    Code code;
    code("s->error = 0;");
    write_items(code, items_of(*program, binding, shared_), names, tables_);
    for (const auto* list : {&names.inputs, &names.outputs})
      for (const std::string& name : *list)
        if (!name.empty() && !has_word(code.text, name)) code("(void)", name, ";");
    code("return s->error;");
    bodies_ += cat(prototype, " {\n", code.text, "}\n\n");
  }

  std::string header() const {
    const std::string guard = cat(own("h"));
    std::string out =
        cat("/* Made by Lamina. C99 and libm, no allocation; all memory is in the struct. Tensors lie in C order.\n",
            "   Functions give 0, or a code that ", own("error"), "() puts in words. Arguments must not overlap. */\n", "#ifndef ", guard,
            "\n#define ", guard, "\n#include <stddef.h>\n#include <stdint.h>\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    out += "typedef struct {\n";
    for (DType dtype : kDTypes) {
      const int64_t state = shared_.state.count(dtype) ? shared_.state.at(dtype) : 0;
      const int64_t scratch = shared_.scratch.count(dtype) ? shared_.scratch.at(dtype) : 0;
      if (state + scratch > 0)
        out += cat("  ", c_type(dtype), " ", member(dtype), "[", state + scratch, "]; /* ", state, " of Variables, ", scratch,
                   " temporary */\n");
    }
    out += cat("  int error; /* of the last call */\n} ", options_.name, ";\n\n");
    if (options_.weights_in_file)
      out += cat("/* Reads the Variables from the bytes of a safetensors file. 0, or a code. */\nint ", own("init"), "(", options_.name,
                 " *s, const void *file, size_t size);\n");
    else
      out += cat("/* Sets the Variables to what they were when this was exported. */\nvoid ", own("init"), "(", options_.name, " *s);\n");
    out += cat("/* What a code says, with the line of the program. */\nconst char *", own("error"), "(int code);\n\n", prototypes_);
    if (!variables_.empty()) out += "/* The Variables' elements in a struct. */\n";
    for (const StateVariable& v : variables_)
      out += cat("#define ", own(v.c_name), "(s) ((s)->", member(v.variable.dtype()), " + ", v.place, ") /* ", text(v.variable.type()),
                 " */\n");
    return out + "\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
  }

  static std::string array(const std::string& name, DType dtype, const void* data, int64_t count) {
    std::string out = cat("static const ", c_type(dtype), " ", name, "[", count, "] = {");
    for (int64_t i = 0; i < count; ++i) {
      if (i % 8 == 0) out += "\n ";
      out += " " + number(dtype, static_cast<const std::byte*>(data) + i * int64_t(size_of(dtype))) + ",";
    }
    return out + "\n};\n";
  }

  static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      if (c == '\n')
        out += "\\n";
      else if (static_cast<unsigned char>(c) < 32 || c == '?')
        out += cat("\\", (c >> 6) & 7, (c >> 3) & 7, c & 7);
      else
        out += c;
    }
    return out + '"';
  }

  std::string init_from_arrays() const {
    std::string out, body;
    for (const auto& [dtype, count] : shared_.state) {
      if (count == 0) continue;
      std::vector<std::byte> all(size_t(count) * size_of(dtype));
      for (const StateVariable& v : variables_)
        if (v.variable.dtype() == dtype && v.value.size())
          std::memcpy(all.data() + size_t(v.place) * size_of(dtype), v.value.data(), size_t(byte_size(v.value.type())));
      const std::string name = cat("start_", suffix(dtype));
      out += array(name, dtype, all.data(), count);
      body += cat("  memcpy(s->", member(dtype), ", ", name, ", sizeof ", name, ");\n");
    }
    return cat(out, "void ", own("init"), "(", options_.name, " *s) {\n", body, "  s->error = 0;\n}\n\n");
  }

  // Each Variable's entry in the header is looked for as text: the format's writers leave out blanks.
  std::string init_from_file() {
    std::string table;
    for (const StateVariable& v : variables_) {
      static const std::map<DType, const char*>& names = *new std::map<DType, const char*>{
          {DType::boolean, "BOOL"}, {DType::u8, "U8"},   {DType::i8, "I8"},   {DType::i16, "I16"}, {DType::i32, "I32"}, {DType::i64, "I64"},
          {DType::f32, "F32"},      {DType::f64, "F64"}, {DType::u16, "U16"}, {DType::u32, "U32"}, {DType::u64, "U64"}};
      std::string shape;
      for (Dim d : v.value.type().shape) shape += cat(shape.empty() ? "" : ",", d.number());
      std::string escaped;
      for (char c : v.name) escaped += c == '"' || c == '\\' ? cat('\\', c) : std::string(1, c);
      const int code = shared_.error(cat("the file has no ", v.name, " of ", text(v.value.type())));
      table +=
          cat("  {",
              quoted(cat("\"", escaped, "\":{\"dtype\":\"", names.at(v.variable.dtype()), "\",\"shape\":[", shape, "],\"data_offsets\":[")),
              ", offsetof(", options_.name, ", ", member(v.variable.dtype()), ") + ", v.place, " * sizeof(", c_type(v.variable.dtype()),
              "), ", byte_size(v.value.type()), ", ", code, "},\n");
    }
    const int damaged = shared_.error("this is no safetensors file, or a part of one");
    if (table.empty()) table = "  {\"\", 0, 0, 0},\n";
    return cat(
        "static const struct {\n  const char *entry;\n  size_t place, bytes;\n  int code;\n} entries[] = {\n", table, "};\n\n", "int ",
        own("init"), "(", options_.name, " *s, const void *file, size_t size) {\n",
        R"(  const unsigned char *bytes = (const unsigned char *)file;
  uint64_t header = 0, begin, end;
  size_t e, at, i, length;
  s->error = 0;
  for (i = 0; i < 8 && size >= 8; ++i) header |= (uint64_t)bytes[i] << (8 * i);
  if (size < 8 || header > size - 8) return s->error = )",
        damaged, ";\n  for (e = 0; e < ", variables_.size(), R"(; ++e) {
    length = strlen(entries[e].entry);
    for (at = 8; at + length <= 8 + header && memcmp(bytes + at, entries[e].entry, length) != 0; ++at) {
    }
    if (at + length > 8 + header) return s->error = entries[e].code;
    begin = end = 0;
    for (at += length; at < 8 + header && bytes[at] >= '0' && bytes[at] <= '9' && begin <= size; ++at)
      begin = begin * 10 + (uint64_t)(bytes[at] - '0');
    for (++at; at < 8 + header && bytes[at] >= '0' && bytes[at] <= '9' && end <= size; ++at) end = end * 10 + (uint64_t)(bytes[at] - '0');
    if (begin > end || end > size - 8 - header || end - begin != entries[e].bytes) return s->error = )",
        damaged,
        ";\n    memcpy((unsigned char *)s + entries[e].place, bytes + 8 + header + begin, entries[e].bytes);\n  }\n  return 0;\n}\n\n");
  }

  std::string source() {
    std::string functions;
    for (const std::string& f : shared_.functions) functions += f + "\n";
    std::string constants;
    for (const auto& [dtype, bytes] : shared_.constants)
      if (!bytes.empty()) constants += array(cat("constants_", suffix(dtype)), dtype, bytes.data(), int64_t(bytes.size() / size_of(dtype)));
    const std::string init = options_.weights_in_file ? init_from_file() : init_from_arrays();
    std::string texts;
    for (const std::string& e : shared_.errors) texts += cat(", ", quoted(e));
    return cat("/* Made by Lamina; ", options_.name, ".h says what is here. */\n#include \"", options_.name,
               ".h\"\n\n#include <math.h>\n#include <string.h>\n\n", needed_functions(functions), constants, "\n", functions, tables_.text,
               "\n", bodies_, init, "const char *", own("error"), "(int code) {\n  static const char *const texts[] = {\"\"", texts,
               "};\n  return code > 0 && (size_t)code < sizeof texts / sizeof *texts ? texts[code] : \"\";\n}\n");
  }

  std::span<const ExportedFunction> functions_;
  const ExportOptions& options_;
  Shared shared_;
  std::vector<StateVariable> variables_;
  std::set<std::string> file_names_, c_names_{"init", "error", "h"};
  Tables tables_;
  std::string prototypes_, bodies_;
};

}  // namespace

void export_c(std::span<const ExportedFunction> functions, const std::string& folder, const ExportOptions& options) {
  Exporter exporter(functions, options);
  const ExportedC code = exporter.run();
  io::require_only(folder, [&](const std::string& name) {
    return name == options.name + ".c" || name == options.name + ".h" || name == options.name + ".safetensors";
  });
  io::Replacement made(folder, true);
  made.file(options.name + ".h").write(code.header);
  made.file(options.name + ".c").write(code.source);
  if (options.weights_in_file) {
    std::vector<io::NamedBytes> tensors;
    for (const auto& v : exporter.variables()) {
      const size_t size = size_t(byte_size(v.value.type()));
      tensors.push_back({v.name, v.value.type(), {size ? static_cast<const std::byte*>(v.value.data()) : nullptr, size}});
    }
    io::write_safetensors(made.file(options.name + ".safetensors"), std::move(tensors), {{"format", "lamina"}});
  }
  made.commit();
}

}  // namespace lamina
