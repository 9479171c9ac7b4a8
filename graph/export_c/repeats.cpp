// Equal layers as one loop: the list of calls is searched for runs that differ in nothing but offsets.
#include <algorithm>
#include <limits>
#include <map>

#include "graph/export_c/program.h"

namespace lamina::c_text {
namespace {

using Offsets = std::vector<int64_t>;

// All of an item but its offsets, which are appended to a list.
std::string shape_of_item(const Item& item, Offsets& offsets) {
  std::string out = cat(int(item.kind), ' ', item.function, ' ', item.count, ' ', item.error, ' ', item.reverse, ' ', item.variable);
  for (const Pointer& p : item.arguments) {
    out += cat(';', int(p.base), ' ', p.number, ' ', int(p.dtype));
    for (const auto& [variable, step] : p.terms) out += cat(' ', variable, '*', step);
    offsets.push_back(p.offset);
  }
  for (int64_t s : item.slices) out += cat(',', s);
  for (const auto& part : item.parts) {
    out += '{';
    for (const Item& inner : part) out += shape_of_item(inner, offsets) + '|';
    out += '}';
  }
  return out;
}

class Listing {
 public:
  Listing(Code& code, const Names& names, Tables& tables) : code_(code), names_(names), tables_(tables) {}

  void list(const std::vector<Item>& items) {
    std::vector<int> shapes;
    std::vector<Offsets> offsets(items.size());
    std::map<std::string, int> numbers;
    for (size_t i = 0; i < items.size(); ++i)
      shapes.push_back(numbers.try_emplace(shape_of_item(items[i], offsets[i]), int(numbers.size())).first->second);
    for (size_t i = 0; i < items.size();) {
      const auto [period, times] = best_run(shapes, i);
      if (times == 1) {
        plain(items[i++]);
        continue;
      }
      loop(std::span(items).subspan(i, period), std::span(offsets).subspan(i, period * times), period, times);
      i += period * times;
    }
  }

 private:
  struct Run {
    size_t period = 1, times = 1;
  };
  // The run from here that saves most text; a run of two must save much.
  static Run best_run(const std::vector<int>& shapes, size_t begin) {
    constexpr size_t kLongest = 512, kWorth = 3;
    Run best;
    size_t saved = kWorth - 1;
    for (size_t period = 1; period <= std::min(kLongest, (shapes.size() - begin) / 2); ++period) {
      size_t equal = 0;
      while (begin + period + equal < shapes.size() && shapes[begin + equal] == shapes[begin + period + equal]) ++equal;
      const size_t times = equal / period + 1;
      if (times > 1 && (times - 1) * period > saved) best = {period, times}, saved = (times - 1) * period;
    }
    return best;
  }

  void loop(std::span<const Item> body, std::span<const Offsets> offsets, size_t period, size_t times) {
    std::vector<Offsets> columns;  // of the table
    std::vector<std::string> texts;
    for (size_t p = 0; p < period; ++p)
      for (size_t o = 0; o < offsets[p].size(); ++o) {
        Offsets values;
        for (size_t t = 0; t < times; ++t) values.push_back(offsets[t * period + p][o]);
        const int64_t step = values[1] - values[0];
        bool straight = true;
        for (size_t t = 1; t < times; ++t) straight = straight && values[t] - values[t - 1] == step;
        texts.push_back(straight ? line(values[0], step) : column(columns, values));
      }
    code_("for (ptrdiff_t l = 0; l < ", times, "; ++l) {");
    if (!columns.empty()) {
      const std::string name = cat("offsets_", ++tables_.made);
      bool wide = false;
      for (const Offsets& c : columns)
        for (int64_t v : c) wide = wide || v > std::numeric_limits<int32_t>::max();
      const char* type = wide ? "int64_t" : "int32_t";
      tables_.text += cat("static const ", type, " ", name, "[", times, "][", columns.size(), "] = {\n");
      for (size_t t = 0; t < times; ++t) {
        tables_.text += "  {";
        for (size_t c = 0; c < columns.size(); ++c) tables_.text += cat(c ? ", " : "", columns[c][t]);
        tables_.text += "},\n";
      }
      tables_.text += "};\n";
      code_("const ", type, " *t = ", name, "[l];");
    }
    Substituted replaced{&texts};
    for (const Item& item : body) item_text(item, &replaced);
    code_("}");
  }
  static std::string line(int64_t first, int64_t step) {
    if (step == 0) return cat(first);
    const std::string product = cat("l * ", std::abs(step));
    return first == 0 && step > 0 ? product : cat(first, step < 0 ? " - " : " + ", product);
  }
  static std::string column(std::vector<Offsets>& columns, const Offsets& values) {
    for (size_t c = 0; c < columns.size(); ++c) {
      const int64_t far = values[0] - columns[c][0];
      bool beside = true;
      for (size_t t = 0; t < values.size(); ++t) beside = beside && values[t] - columns[c][t] == far;
      if (beside) return cat("t[", c, "]", far == 0 ? "" : far < 0 ? " - " : " + ", far == 0 ? "" : cat(std::abs(far)));
    }
    columns.push_back(values);
    return cat("t[", columns.size() - 1, "]");
  }

  // Offsets as text, in the order of shape_of_item.
  struct Substituted {
    const std::vector<std::string>* texts;
    size_t next = 0;
  };

  void plain(const Item& item) { item_text(item, nullptr); }

  std::string pointer(const Pointer& p, Substituted* replaced) {
    std::string out = p.base == Pointer::Base::memory     ? cat("s->", member(p.dtype))
                      : p.base == Pointer::Base::constant ? cat("constants_", suffix(p.dtype))
                      : p.base == Pointer::Base::input    ? names_.inputs.at(size_t(p.number))
                                                          : names_.outputs.at(size_t(p.number));
    const std::string offset = replaced ? (*replaced->texts)[replaced->next++] : cat(p.offset);
    if (offset != "0") out += " + " + offset;
    for (const auto& [variable, step] : p.terms) out += cat(" + ", variable, " * ", step);
    return out;
  }

  void item_text(const Item& item, Substituted* replaced) {
    std::vector<std::string> arguments;
    for (const Pointer& p : item.arguments) arguments.push_back(pointer(p, replaced));
    auto part = [&](size_t number) {
      if (!replaced) return list(item.parts[number]);
      for (const Item& inner : item.parts[number]) item_text(inner, replaced);
    };
    switch (item.kind) {
      case Item::Kind::call: {
        std::string all;
        for (const std::string& a : arguments) all += (all.empty() ? "" : ", ") + a;
        if (item.error)
          code_("if (", item.function, "(", all, ")) s->error = ", item.error, ";");
        else
          code_(item.function, "(", all, ");");
        return;
      }
      case Item::Kind::copy:
        return code_("memmove(", arguments[0], ", ", arguments[1], ", ", item.count, " * sizeof(", item.function, "));");
      case Item::Kind::branch:
        code_("if (*(", arguments[0], ")) {");
        part(0);
        code_("} else {");
        part(1);
        return code_("}");
      case Item::Kind::while_loop:
        code_("{");
        code_("int64_t ", item.variable, " = 0;");
        code_("for (;", item.count < 0 ? "" : cat(" ", item.variable, " < ", item.count), "; ++", item.variable, ") {");
        part(0);
        code_("if (!*(", arguments[0], ")) break;");
        part(1);
        code_("}");
        code_("*(", arguments[1], ") = ", item.variable, ";");
        return code_("}");
      case Item::Kind::scan: {
        std::string count = cat(item.count);
        if (!item.slices.empty() || item.arguments.size() == 1) {
          const std::string given = cat("*(", arguments[0], ")");
          count = cat("(", given, " < 0 ? 0 : ", given, " < ", item.count, " ? ", given, " : ", item.count, ")");
          for (size_t i = 0; i < item.slices.size(); ++i)
            code_("memset(", arguments[i + 1], ", 0, ", item.count * item.slices[i], " * sizeof(", c_type(item.arguments[i + 1].dtype),
                  "));");
        }
        if (item.reverse)
          code_("for (ptrdiff_t ", item.variable, " = ", count, " - 1; ", item.variable, " >= 0; --", item.variable, ") {");
        else
          code_("for (ptrdiff_t ", item.variable, " = 0; ", item.variable, " < ", count, "; ++", item.variable, ") {");
        part(0);
        return code_("}");
      }
    }
  }

  Code& code_;
  const Names& names_;
  Tables& tables_;
};

}  // namespace

void write_items(Code& code, const std::vector<Item>& items, const Names& names, Tables& tables) {
  Listing(code, names, tables).list(items);
}

}  // namespace lamina::c_text
