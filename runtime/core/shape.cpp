#include "runtime/core/shape.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>
#include <unordered_map>

#include "runtime/core/error.h"
#include "runtime/core/mutex.h"

namespace lamina {
namespace {

// An expression in normal form: a sum of monomials, each a coefficient times sorted symbols. A quotient with a remainder becomes a symbol
// of its own, named by its text.
using Monomial = std::vector<std::string>;
using Polynomial = std::map<Monomial, int64_t>;

std::string print(const Polynomial& p) {
  std::string s;
  for (auto& [symbols, factor] : p) {
    std::string term;
    for (auto& name : symbols) term += (term.empty() ? "" : "*") + name;
    if (symbols.empty())
      term = std::to_string(factor);
    else if (factor != 1)
      term = std::to_string(factor) + "*" + term;
    s += (s.empty() || term[0] == '-' ? "" : "+") + term;
  }
  return s.empty() ? "0" : s;
}

struct SymbolTable {
  Mutex mutex;
  std::unordered_map<std::string, int64_t> codes;
  std::vector<std::pair<Polynomial, std::string>> entries;
};
SymbolTable& symbols() {
  static SymbolTable* t = new SymbolTable;
  return *t;
}

int64_t intern(const Polynomial& p) {
  SymbolTable& t = symbols();
  std::string key = print(p);
  std::lock_guard lock(t.mutex);
  auto [it, inserted] = t.codes.try_emplace(key, -1 - int64_t(t.entries.size()));
  if (inserted) t.entries.push_back({p, key});
  return it->second;
}

[[noreturn]] void too_large() {
  throw Error(ErrorKind::invalid_argument,
              {.what = "a dimension is too large", .where = "", .why = "it does not fit 63 bits", .fix = "use a smaller shape"});
}
int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) too_large();
  return r;
}
int64_t checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) too_large();
  return r;
}

Polynomial polynomial(Dim d) {
  if (d.known()) return d.code() == 0 ? Polynomial{} : Polynomial{{{}, d.code()}};
  SymbolTable& t = symbols();
  std::lock_guard lock(t.mutex);
  return t.entries.at(size_t(-1 - d.code())).first;
}

Polynomial add(const Polynomial& a, const Polynomial& b, int64_t sign) {
  Polynomial out = a;
  for (auto& [symbols, factor] : b) {
    int64_t& sum = out[symbols];
    sum = checked_add(sum, checked_mul(factor, sign));
    if (sum == 0) out.erase(symbols);
  }
  return out;
}

Polynomial multiply(const Polynomial& a, const Polynomial& b) {
  constexpr size_t kMostTerms = 4096;
  if (a.size() * b.size() > kMostTerms) too_large();
  Polynomial out;
  for (auto& [left, f] : a)
    for (auto& [right, g] : b) {
      Monomial symbols = left;
      symbols.insert(symbols.end(), right.begin(), right.end());
      std::sort(symbols.begin(), symbols.end());
      int64_t& sum = out[symbols];
      sum = checked_add(sum, checked_mul(f, g));
      if (sum == 0) out.erase(symbols);
    }
  return out;
}

// a / b if every monomial of a is divisible by the single monomial b.
std::optional<Polynomial> divide(const Polynomial& a, const Polynomial& b) {
  if (b.size() != 1) return std::nullopt;
  auto& [symbols, factor] = *b.begin();
  Polynomial out;
  for (auto& [left, f] : a) {
    Monomial rest;
    std::set_difference(left.begin(), left.end(), symbols.begin(), symbols.end(), std::back_inserter(rest));
    if ((factor == -1 && f == std::numeric_limits<int64_t>::min()) || f % factor != 0 || rest.size() + symbols.size() != left.size())
      return std::nullopt;
    out[rest] = f / factor;
  }
  return out;
}

Dim from(const Polynomial& p);

}  // namespace

void Dim::throw_negative(int64_t number) {
  throw Error(ErrorKind::invalid_argument, {.what = cat("the dimension ", number, " is negative"),
                                            .where = "",
                                            .why = "a length is 0 or more",
                                            .fix = "pass the length itself; only reshape takes -1"});
}

namespace {
Dim from(const Polynomial& p) {
  if (p.empty()) return Dim(0);
  if (p.size() == 1 && p.begin()->first.empty() && p.begin()->second >= 0) return Dim(p.begin()->second);
  if (p.size() == 1 && p.begin()->first.empty())
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("a dimension would be ", p.begin()->second), .where = "", .why = "dimensions are not negative", .fix = ""});
  return Dim::of_code(intern(p));
}
}  // namespace

Dim Dim::symbol(std::string_view name) {
  auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  std::string_view rest = name.substr(!name.empty() && name[0] == '?' ? 1 : 0);
  if (rest.empty() || !std::all_of(rest.begin(), rest.end(), letter) ||
      (name[0] != '?' && std::isdigit(static_cast<unsigned char>(name[0]))))
    throw Error(ErrorKind::invalid_argument, {.what = cat("'", name, "' cannot name a dimension"),
                                              .where = "",
                                              .why = "a name is letters, digits and _, and begins with a letter",
                                              .fix = "choose another name"});
  return Dim::of_code(intern({{{std::string(name)}, 1}}));
}

Dim Dim::fresh(std::string_view stem) {
  static std::atomic<int64_t> next{0};
  return symbol(cat(stem, "_", next++));
}

Dim Dim::parse(std::string_view text) {
  constexpr size_t kMostText = 4096;
  Polynomial sum;  // not a Dim: "-1+n" begins below zero
  bool negative = text.starts_with('-');
  size_t i = negative ? 1 : 0;
  auto bad = [&]() -> Error {
    return Error(ErrorKind::invalid_argument, {.what = cat("'", text, "' is not a dimension"),
                                               .where = "",
                                               .why = "a dimension is a number, a name, or sums and products of them",
                                               .fix = ""});
  };
  if (text.size() > kMostText) throw bad();
  while (i < text.size()) {
    Polynomial term{{{}, 1}};  // not a Dim, which would be kept for ever
    for (bool more = true; more;) {
      size_t end = text.find_first_of("*+-", i);
      std::string_view word = text.substr(i, end == std::string_view::npos ? end : end - i);
      if (word.empty()) throw bad();
      if (std::isdigit(static_cast<unsigned char>(word[0]))) {
        int64_t number = 0;
        auto [stop, code] = std::from_chars(word.data(), word.data() + word.size(), number);
        if (code != std::errc() || stop != word.data() + word.size()) throw bad();
        term = multiply(term, polynomial(Dim(number)));
      } else {
        term = multiply(term, polynomial(symbol(word)));
      }
      more = end != std::string_view::npos && text[end] == '*';
      i = end == std::string_view::npos ? text.size() : more ? end + 1 : end;
      if (more && i >= text.size()) throw bad();
    }
    sum = add(sum, term, negative ? -1 : 1);
    if (i < text.size()) {
      negative = text[i] == '-';
      if (++i >= text.size()) throw bad();
    }
  }
  if (text.empty() || text == "-") throw bad();
  const Dim out = from(sum);
  if (out.known() && out.number() > kMostBytes)
    throw Error(ErrorKind::invalid_argument, {.what = cat("the dimension ", out, " is too large"),
                                              .where = "",
                                              .why = "no machine has memory for more than 2^47 bytes",
                                              .fix = "use a smaller shape"});
  return out;
}

bool Dim::is_slot() const { return !known() && text().find('?') != std::string::npos; }

int64_t Dim::number() const {
  if (!known())
    throw Error(ErrorKind::state, {.what = cat("the dimension ", text(), " is not known yet"),
                                   .where = "",
                                   .why = "the function was traced for any length here",
                                   .fix = "use an op that works for any length, or trace with a fixed shape"});
  return code_;
}

std::string Dim::text() const {
  if (known()) return std::to_string(code_);
  SymbolTable& t = symbols();
  std::lock_guard lock(t.mutex);
  return t.entries.at(size_t(-1 - code_)).second;
}

Dim operator+(Dim a, Dim b) {
  return a.known() && b.known() ? Dim(checked_add(a.code(), b.code())) : from(add(polynomial(a), polynomial(b), 1));
}
Dim operator-(Dim a, Dim b) { return from(add(polynomial(a), polynomial(b), -1)); }
Dim operator*(Dim a, Dim b) {
  return a.known() && b.known() ? Dim(checked_mul(a.code(), b.code())) : from(multiply(polynomial(a), polynomial(b)));
}
Dim operator/(Dim a, Dim b) {
  if (b == Dim(0))
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("the dimension ", a, " cannot be divided by 0"), .where = "", .why = "", .fix = ""});
  if (a.known() && b.known() && a.code() % b.code() == 0) return Dim(a.code() / b.code());
  if (auto q = divide(polynomial(a), polynomial(b))) return from(*q);
  throw Error(ErrorKind::invalid_argument,
              {.what = cat("the dimension ", a, " is not a multiple of ", b), .where = "", .why = "", .fix = ""});
}

Dim substitute(Dim d, const DimBindings& bindings) {
  if (d.known()) return d;
  Polynomial sum;  // not a Dim: "-1+n" begins below zero
  for (auto& [symbols, factor] : polynomial(d)) {
    Polynomial term{{{}, factor}};
    for (auto& name : symbols) {
      auto it = bindings.find(name);
      term = multiply(term, polynomial(it == bindings.end() ? Dim::symbol(name) : Dim::of_code(it->second)));
    }
    sum = add(sum, term, 1);
  }
  return from(sum);
}

bool match(Dim pattern, int64_t length, DimBindings& bindings) {
  Dim known = substitute(pattern, bindings);
  if (known.known()) return known.number() == length;
  Polynomial p = polynomial(known);
  // Only a single symbol (times a number, plus a number) can be solved for.
  int64_t constant = 0, factor = 0;
  std::string name;
  for (auto& [symbols, f] : p) {
    if (symbols.empty())
      constant = f;
    else if (symbols.size() == 1 && name.empty())
      name = symbols[0], factor = f;
    else
      return true;  // checked when its symbols are bound elsewhere
  }
  int64_t product;  // of the factor and the symbol
  if (name.empty() || factor == 0 || __builtin_sub_overflow(length, constant, &product)) return false;
  if (product % factor != 0 || product / factor < 0) return false;
  bindings[name] = product / factor;
  return true;
}

bool match(Dim pattern, Dim length, DimBindings& bindings) {
  if (length.known()) return match(pattern, length.number(), bindings);
  const Dim now = substitute(pattern, bindings);
  if (now == length) return true;
  const bool lone =
      !pattern.known() && now == pattern && pattern.text().find_first_of("*+-") == std::string::npos && !bindings.contains(pattern.text());
  if (lone) bindings[pattern.text()] = length.code();
  return lone;
}

bool known(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](Dim d) { return d.known(); });
}

std::string text(const Shape& shape) {
  std::string s;
  for (Dim d : shape) s += (s.empty() ? "" : ",") + d.text();
  return s;
}

Dim size_of(const Shape& shape) {
  Dim n(1);
  if (std::find(shape.begin(), shape.end(), Dim(0)) != shape.end()) return Dim(0);
  for (Dim d : shape) n = n * d;
  return n;
}

std::vector<int64_t> numbers(const Shape& shape) {
  std::vector<int64_t> out;
  for (Dim d : shape) out.push_back(d.number());
  return out;
}

Shape substitute(const Shape& shape, const DimBindings& bindings) {
  Shape out;
  for (Dim d : shape) out.push_back(substitute(d, bindings));
  return out;
}

Shape broadcast(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {  // counted from the end
    Dim x = i < a.size() ? a[a.size() - 1 - i] : Dim(1), y = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    if (!(x == y) && !(x == Dim(1)) && !(y == Dim(1)))
      throw Error(ErrorKind::invalid_argument,
                  {.what = cat("the shapes [", text(a), "] and [", text(b), "] do not broadcast"),
                   .where = "",
                   .why = cat("dimension ", out.size() - 1 - i, " is ", x, " and ", y, "; they must be equal, or one of them 1"),
                   .fix = "reshape one of them"});
    out[out.size() - 1 - i] = x == Dim(1) ? y : x;
  }
  return out;
}

int normalize_axis(const char* op, int64_t axis, size_t rank) {
  int64_t r = int64_t(rank);
  if (axis < -r || axis >= r)
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": axis ", axis, " is out of range"),
                                              .where = "argument 'axis'",
                                              .why = cat("the input has ", r, r == 1 ? " dimension" : " dimensions"),
                                              .fix = r ? cat("pass an axis from ", -r, " to ", r - 1) : "a scalar has no axis"});
  return int(axis < 0 ? axis + r : axis);
}

}  // namespace lamina
